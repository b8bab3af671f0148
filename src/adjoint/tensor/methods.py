"""Python's operators between tensors."""

from typing import Any

from adjoint.tensor import arithmetic, comparison, elementwise
from adjoint.tensor.elementwise_methods import ElementwiseMethods
from adjoint.tensor.in_place import InPlace
from adjoint.tensor.record import entry_of, record_binary, record_in_place, record_unary
from adjoint.tensor.reduction_methods import ReductionMethods
from adjoint.tensor.shape_methods import ShapeMethods

__all__ = ["Methods"]

_ADD, _SUB, _MUL, _DIV = (entry_of(f) for f in (arithmetic.add, arithmetic.sub, arithmetic.mul, arithmetic.div))
_NEG, _POW, _MATMUL = (entry_of(f) for f in (arithmetic.neg, arithmetic.pow, arithmetic.matmul))
_FLOOR_DIVIDE, _REMAINDER = entry_of(arithmetic.floor_divide), entry_of(arithmetic.remainder)
_ABS = entry_of(elementwise.abs)
_EQ, _NE, _LT = (entry_of(f) for f in (comparison.eq, comparison.ne, comparison.lt))
_LE, _GT, _GE = (entry_of(f) for f in (comparison.le, comparison.gt, comparison.ge))
_AND, _OR, _XOR = map(entry_of, (comparison.bitwise_and, comparison.bitwise_or, comparison.bitwise_xor))
_NOT = entry_of(comparison.bitwise_not)


class Methods(ElementwiseMethods, ReductionMethods, ShapeMethods, InPlace):
    """The part of `Tensor` that records operations."""

    #: NumPy's operators leave those with tensors to the tensors.
    __array_priority__ = 1000

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> Any:
        if other is None:
            return False
        return record_binary(_EQ, self, other)

    def __ne__(self, other: object) -> Any:
        if other is None:
            return True
        return record_binary(_NE, self, other)

    def __lt__(self, other: Any) -> Any:
        return record_binary(_LT, self, other)

    def __le__(self, other: Any) -> Any:
        return record_binary(_LE, self, other)

    def __gt__(self, other: Any) -> Any:
        return record_binary(_GT, self, other)

    def __ge__(self, other: Any) -> Any:
        return record_binary(_GE, self, other)

    def __and__(self, other: Any) -> Any:
        return record_binary(_AND, self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        return record_binary(_OR, self, other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Any:
        return record_binary(_XOR, self, other)

    __rxor__ = __xor__

    def __invert__(self) -> Any:
        return record_unary(_NOT, self)

    def __abs__(self) -> Any:
        return record_unary(_ABS, self)

    def __pos__(self) -> Any:
        return self

    def __floordiv__(self, other: Any) -> Any:
        return record_binary(_FLOOR_DIVIDE, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return record_binary(_FLOOR_DIVIDE, other, self)

    def __mod__(self, other: Any) -> Any:
        return record_binary(_REMAINDER, self, other)

    def __rmod__(self, other: Any) -> Any:
        return record_binary(_REMAINDER, other, self)

    def __ipow__(self, other: Any) -> Any:
        return record_in_place(_POW, self, other)

    def __iand__(self, other: Any) -> Any:
        return record_in_place(_AND, self, other)

    def __ior__(self, other: Any) -> Any:
        return record_in_place(_OR, self, other)

    def __contains__(self, other: Any) -> bool:
        return bool((self == other).any())

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
