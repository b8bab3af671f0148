"""What ``tensor.grad_fn`` shows: the name of the operation that made a tensor."""

from typing import Any

from adjoint.tensor.structure import Node

__all__ = ["GradientFunction"]


class GradientFunction:
    """The operation that made a tensor that gradients flow through, as ``<AddBackward>``; it can only be looked at.

    Parameters
    ----------
    node : Node
        The entry of the recorded program.
    """

    #: The operations before it are not shown: `adjoint.explain_recompiles` and graphs say more.
    next_functions: tuple[Any, ...] = ()

    def __init__(self, node: Node) -> None:
        key = node.key
        if key is None and node.parent is not None:  # one of several results
            key = node.parent.key
        first = key[0] if isinstance(key, tuple) else None
        words = str(getattr(first, "name", "recorded")).strip("_").split("_")
        self._name = "".join(word.capitalize() for word in words) + "Backward"

    def name(self) -> str:
        """The name of the operation, in PyTorch's manner."""
        return self._name

    def __repr__(self) -> str:
        return f"<{self._name}>"
