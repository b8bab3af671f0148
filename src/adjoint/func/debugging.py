"""Looking into compiled functions: `debug_print`; and the control flow that is not there yet."""

from collections.abc import Callable
from typing import Any

from adjoint.errors import InvalidValueError, TypeRuleError, described
from adjoint.func.compiled import shown
from adjoint.func.tracing import Tracing
from adjoint.tensor.record import operands
from adjoint.tensor.tensor import Tensor
from adjoint.tensor.trace import state

__all__ = ["cond", "debug_print", "scan", "while_loop"]


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


def _missing(name: str, instead: str) -> Callable[..., Any]:
    def refused(*_args: Any, **_keywords: Any) -> Any:
        raise InvalidValueError(f"{name} is not part of adjoint yet, got a call of it; {instead}")

    refused.__name__ = name
    refused.__doc__ = f"Raises: `{name}` is not part of adjoint yet."
    return refused


cond = _missing("cond", "compute both values and choose with where")
scan = _missing("scan", "write a Python loop, which is unrolled")
while_loop = _missing("while_loop", "write a Python loop with a fixed number of iterations")
