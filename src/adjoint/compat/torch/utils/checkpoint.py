"""Less memory for more time, as ``torch.utils.checkpoint``."""

from collections.abc import Callable
from typing import Any

from adjoint.compat.uncovered import uncovered
from adjoint.func.checkpointing import checkpoint as checkpointed

__all__ = ["checkpoint"]


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,  # noqa: ARG001
    preserve_rng_state: bool = True,  # noqa: ARG001
    **kwargs: Any,
) -> Any:
    """Call a function whose derivative computes everything but its arguments again: `adjoint.checkpoint`.

    Parameters
    ----------
    function : callable
        A module, or a function of tensors.
    *args, **kwargs
        Its arguments.
    use_reentrant, preserve_rng_state
        Accepted, without an effect: what is computed again draws the same random numbers.
    """
    return checkpointed(function)(*args, **kwargs)


__getattr__ = uncovered(__name__, {"checkpoint_sequential": "call checkpoint for each part"}, "adjoint.checkpoint")
