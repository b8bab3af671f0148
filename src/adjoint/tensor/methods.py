"""Python's operators between tensors."""

from typing import Any

from adjoint.tensor import arithmetic, comparison, elementwise
from adjoint.tensor.autocasting import contexts, mode
from adjoint.tensor.elementwise_methods import ElementwiseMethods
from adjoint.tensor.in_place import InPlace
from adjoint.tensor.math_methods import MathMethods
from adjoint.tensor.more_in_place import MoreInPlace
from adjoint.tensor.record import entry_of, infix, infix_reflected, record_binary, record_in_place, record_unary
from adjoint.tensor.reduction_methods import ReductionMethods
from adjoint.tensor.selection_methods import SelectionMethods
from adjoint.tensor.shape_methods import ShapeMethods

__all__ = ["Methods"]

_ADD, _SUB, _MUL, _DIV = (entry_of(f) for f in (arithmetic.add, arithmetic.sub, arithmetic.mul, arithmetic.div))
_NEG, _POW, _MATMUL = (entry_of(f) for f in (arithmetic.neg, arithmetic.pow, arithmetic.matmul))
_matmul: Any = arithmetic.matmul
_FLOOR_DIVIDE, _REMAINDER = entry_of(arithmetic.floor_divide), entry_of(arithmetic.remainder)
_ABS = entry_of(elementwise.abs)
_EQ, _NE, _LT = (entry_of(f) for f in (comparison.eq, comparison.ne, comparison.lt))
_LE, _GT, _GE = (entry_of(f) for f in (comparison.le, comparison.gt, comparison.ge))
_AND, _OR, _XOR = map(entry_of, (comparison.bitwise_and, comparison.bitwise_or, comparison.bitwise_xor))
_NOT = entry_of(comparison.bitwise_not)

_equal, _not_equal = infix(_EQ), infix(_NE)


def _product(x: Any, y: Any) -> Any:
    """The matrix product, within contexts of `adjoint.autocast` in their dtype."""
    return record_binary(_MATMUL, x, y) if mode.dtype is None else _matmul(x, y)


class Methods(ElementwiseMethods, MathMethods, ReductionMethods, ShapeMethods, SelectionMethods, InPlace, MoreInPlace):
    """The part of `Tensor` that records operations."""

    #: NumPy's operators leave those with tensors to the tensors.
    __array_priority__ = 1000

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> Any:
        if other is None:
            return False
        return _equal(self, other)

    def __ne__(self, other: object) -> Any:
        if other is None:
            return True
        return _not_equal(self, other)

    __lt__ = infix(_LT)
    __le__ = infix(_LE)
    __gt__ = infix(_GT)
    __ge__ = infix(_GE)
    __and__ = infix(_AND)
    __rand__ = __and__
    __or__ = infix(_OR)
    __ror__ = __or__
    __xor__ = infix(_XOR)
    __rxor__ = __xor__

    def __invert__(self) -> Any:
        return record_unary(_NOT, self)

    def __abs__(self) -> Any:
        return record_unary(_ABS, self)

    def __pos__(self) -> Any:
        return self

    __floordiv__ = infix(_FLOOR_DIVIDE)
    __rfloordiv__ = infix_reflected(_FLOOR_DIVIDE)
    __mod__ = infix(_REMAINDER)
    __rmod__ = infix_reflected(_REMAINDER)

    def __ipow__(self, other: Any) -> Any:
        return record_in_place(_POW, self, other)

    def __iand__(self, other: Any) -> Any:
        return record_in_place(_AND, self, other)

    def __ior__(self, other: Any) -> Any:
        return record_in_place(_OR, self, other)

    def __contains__(self, other: Any) -> bool:
        return bool((self == other).any())

    __add__ = infix(_ADD)
    __radd__ = infix(_ADD)

    def __iadd__(self, other: Any) -> Any:
        return record_in_place(_ADD, self, other)

    __sub__ = infix(_SUB)
    __rsub__ = infix_reflected(_SUB)

    def __isub__(self, other: Any) -> Any:
        return record_in_place(_SUB, self, other)

    __mul__ = infix(_MUL)
    __rmul__ = infix(_MUL)

    def __imul__(self, other: Any) -> Any:
        return record_in_place(_MUL, self, other)

    __truediv__ = infix(_DIV)
    __rtruediv__ = infix_reflected(_DIV)

    def __itruediv__(self, other: Any) -> Any:
        return record_in_place(_DIV, self, other)

    __pow__ = infix(_POW)
    __rpow__ = infix_reflected(_POW)

    __matmul__ = infix(_MATMUL, contexts, _product)

    def __rmatmul__(self, other: Any) -> Any:
        return _product(other, self)

    def __neg__(self) -> Any:
        return record_unary(_NEG, self)
