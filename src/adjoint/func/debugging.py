"""Looking into compiled functions: `debug_print`."""

from adjoint.errors import InvalidValueError, TypeRuleError, described
from adjoint.func.compiled import shown
from adjoint.func.tracing import Tracing
from adjoint.tensor.record import operands
from adjoint.tensor.tensor import Tensor
from adjoint.tensor.trace import state

__all__ = ["debug_print"]


def debug_print(text: str, *tensors: Tensor) -> None:
    """Print tensors, also in every call of a compiled function, after it has run.

    Parameters
    ----------
    text : str
        A format string with a replacement field for each tensor, as for `str.format`: ``"loss {:.3f}"``. A tensor with
        a single element is formatted as a number, others as arrays.
    *tensors : Tensor
        What to print.

    Raises
    ------
    TypeRuleError
        If `text` is no string, or something else is no tensor.
    InvalidValueError
        Inside `vmap` or `checkpoint`, whose functions are calculated for many examples at once, or twice.
    """
    if not isinstance(text, str):
        raise TypeRuleError(f"debug_print takes a format string first, got {described(text)}; write '{{}}'")
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise TypeRuleError(f"debug_print takes tensors, got {described(tensor)}; put it into the format string")
    trace = state.trace
    if isinstance(trace, Tracing):
        if not trace.lifts:
            raise InvalidValueError(
                "debug_print can be used in compiled functions, got a call inside vmap or checkpoint; return the "
                "tensor and print it outside"
            )
        trace.prints.append((text, operands(tensors)[1]))
        return
    print(text.format(*[shown(tensor.elements().array) for tensor in tensors]))
