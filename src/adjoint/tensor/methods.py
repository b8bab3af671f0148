"""The methods of tensors that are operations: each records a function of this package."""

from typing import Any

from adjoint.tensor import arithmetic
from adjoint.tensor.record import entry_of, record_binary, record_in_place, record_unary
from adjoint.tensor.trace import Recorded

__all__ = ["Methods"]

_ADD, _SUB, _MUL, _DIV = (entry_of(f) for f in (arithmetic.add, arithmetic.sub, arithmetic.mul, arithmetic.div))
_NEG, _POW, _MATMUL = (entry_of(f) for f in (arithmetic.neg, arithmetic.pow, arithmetic.matmul))


class Methods(Recorded):
    """The part of `Tensor` that records operations."""

    def __add__(self, other: Any) -> Any:
        return record_binary(_ADD, self, other)

    def __radd__(self, other: Any) -> Any:
        return record_binary(_ADD, self, other)

    def __iadd__(self, other: Any) -> Any:
        return record_in_place(_ADD, self, other)

    def __sub__(self, other: Any) -> Any:
        return record_binary(_SUB, self, other)

    def __rsub__(self, other: Any) -> Any:
        return record_binary(_SUB, other, self)

    def __isub__(self, other: Any) -> Any:
        return record_in_place(_SUB, self, other)

    def __mul__(self, other: Any) -> Any:
        return record_binary(_MUL, self, other)

    def __rmul__(self, other: Any) -> Any:
        return record_binary(_MUL, self, other)

    def __imul__(self, other: Any) -> Any:
        return record_in_place(_MUL, self, other)

    def __truediv__(self, other: Any) -> Any:
        return record_binary(_DIV, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return record_binary(_DIV, other, self)

    def __itruediv__(self, other: Any) -> Any:
        return record_in_place(_DIV, self, other)

    def __pow__(self, other: Any) -> Any:
        return record_binary(_POW, self, other)

    def __rpow__(self, other: Any) -> Any:
        return record_binary(_POW, other, self)

    def __matmul__(self, other: Any) -> Any:
        return record_binary(_MATMUL, self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return record_binary(_MATMUL, other, self)

    def __neg__(self) -> Any:
        return record_unary(_NEG, self)
