"""What an object needs before it can be used in a traced function, such as tensors whose sizes are those of a batch."""

from collections.abc import Callable

from adjoint.errors import TypeRuleError
from adjoint.tensor.trace import state

__all__ = ["UnpreparedError", "prepare"]


class UnpreparedError(TypeRuleError):
    """A traced function uses an object that has to be prepared first; `jit` does so, and traces again.

    Parameters
    ----------
    message : str
        What a user reads where no function of `jit` is traced.
    make : callable
        Prepares the object; called outside of the traced function.
    """

    def __init__(self, message: str, make: Callable[[], object]) -> None:
        super().__init__(message)
        self.make = make


def prepare(owner: str, make: Callable[[], object]) -> None:
    """Change an object once, before it is used for the first time, even if that happens in a traced function.

    Parameters
    ----------
    owner : str
        The object, for the message.
    make : callable
        Changes it, so that `prepare` is not called for it again.

    Raises
    ------
    UnpreparedError
        If a function is being traced, which must not change objects.
    """
    if state.trace.outer is None:
        make()
        return
    raise UnpreparedError(
        f"{owner} takes sizes from the first batch, which a traced function cannot store, got a first batch in one; "
        "give the sizes to its constructor, or call it once outside of the function",
        make,
    )
