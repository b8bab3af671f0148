"""Methods of tensors that change them in place.

A tensor changed in place gets the result of an operation as its new value, which the program computes into the old
memory where nobody else needs that. Tensors that share its elements change with it (`adjoint.tensor.aliases`).
"""

from typing import Any, Self

from adjoint.ir import Value
from adjoint.tensor import arithmetic, elementwise, gathering, indexing
from adjoint.tensor.record import entry_of, record_in_place
from adjoint.tensor.structure import Operation
from adjoint.tensor.trace import Recorded

__all__ = ["InPlace"]

_COPY, _MASKED_FILL = entry_of(indexing.copy_), entry_of(gathering.masked_fill)
_ABS = entry_of(elementwise.abs)
_ADD = entry_of(arithmetic.add)
_ADDCDIV = entry_of(arithmetic.addcdiv)
_ADDCMUL = entry_of(arithmetic.addcmul)
_CEIL = entry_of(elementwise.ceil)
_CLAMP = entry_of(arithmetic.clamp)
_COS = entry_of(elementwise.cos)
_DIV = entry_of(arithmetic.div)
_ERF = entry_of(elementwise.erf)
_EXP = entry_of(elementwise.exp)
_EXPM1 = entry_of(elementwise.expm1)
_FLOOR = entry_of(elementwise.floor)
_FLOOR_DIVIDE = entry_of(arithmetic.floor_divide)
_FMOD = entry_of(arithmetic.fmod)
_FRAC = entry_of(elementwise.frac)
_LERP = entry_of(arithmetic.lerp)
_LOG = entry_of(elementwise.log)
_LOG1P = entry_of(elementwise.log1p)
_LOG2 = entry_of(elementwise.log2)
_MUL = entry_of(arithmetic.mul)
_NEG = entry_of(arithmetic.neg)
_POW = entry_of(arithmetic.pow)
_RECIPROCAL = entry_of(elementwise.reciprocal)
_RELU = entry_of(elementwise.relu)
_REMAINDER = entry_of(arithmetic.remainder)
_ROUND = entry_of(elementwise.round)
_RSQRT = entry_of(elementwise.rsqrt)
_SIGMOID = entry_of(elementwise.sigmoid)
_SIGN = entry_of(elementwise.sign)
_SIN = entry_of(elementwise.sin)
_SQRT = entry_of(elementwise.sqrt)
_SQUARE = entry_of(elementwise.square)
_SUB = entry_of(arithmetic.sub)
_TAN = entry_of(elementwise.tan)
_TANH = entry_of(elementwise.tanh)
_TRUNC = entry_of(elementwise.trunc)


def _result(_old: Value, new: Value) -> Value:
    return new


_RESULT = Operation(_result)


class InPlace(Recorded):
    """The part of `Tensor` that changes it. Each method returns the tensor."""

    def abs_(self) -> Self:
        """`abs` in place."""
        record_in_place(_ABS, self)
        return self

    def ceil_(self) -> Self:
        """`ceil` in place."""
        record_in_place(_CEIL, self)
        return self

    def cos_(self) -> Self:
        """`cos` in place."""
        record_in_place(_COS, self)
        return self

    def erf_(self) -> Self:
        """`erf` in place."""
        record_in_place(_ERF, self)
        return self

    def exp_(self) -> Self:
        """`exp` in place."""
        record_in_place(_EXP, self)
        return self

    def expm1_(self) -> Self:
        """`expm1` in place."""
        record_in_place(_EXPM1, self)
        return self

    def floor_(self) -> Self:
        """`floor` in place."""
        record_in_place(_FLOOR, self)
        return self

    def frac_(self) -> Self:
        """`frac` in place."""
        record_in_place(_FRAC, self)
        return self

    def log_(self) -> Self:
        """`log` in place."""
        record_in_place(_LOG, self)
        return self

    def log1p_(self) -> Self:
        """`log1p` in place."""
        record_in_place(_LOG1P, self)
        return self

    def log2_(self) -> Self:
        """`log2` in place."""
        record_in_place(_LOG2, self)
        return self

    def reciprocal_(self) -> Self:
        """`reciprocal` in place."""
        record_in_place(_RECIPROCAL, self)
        return self

    def relu_(self) -> Self:
        """`relu` in place."""
        record_in_place(_RELU, self)
        return self

    def rsqrt_(self) -> Self:
        """`rsqrt` in place."""
        record_in_place(_RSQRT, self)
        return self

    def sigmoid_(self) -> Self:
        """`sigmoid` in place."""
        record_in_place(_SIGMOID, self)
        return self

    def sign_(self) -> Self:
        """`sign` in place."""
        record_in_place(_SIGN, self)
        return self

    def sin_(self) -> Self:
        """`sin` in place."""
        record_in_place(_SIN, self)
        return self

    def sqrt_(self) -> Self:
        """`sqrt` in place."""
        record_in_place(_SQRT, self)
        return self

    def square_(self) -> Self:
        """`square` in place."""
        record_in_place(_SQUARE, self)
        return self

    def tan_(self) -> Self:
        """`tan` in place."""
        record_in_place(_TAN, self)
        return self

    def tanh_(self) -> Self:
        """`tanh` in place."""
        record_in_place(_TANH, self)
        return self

    def trunc_(self) -> Self:
        """`trunc` in place."""
        record_in_place(_TRUNC, self)
        return self

    def round_(self, *, decimals: int = 0) -> Self:
        """`round` in place."""
        record_in_place(_ROUND, self, decimals=decimals)
        return self

    def neg_(self) -> Self:
        """`neg` in place."""
        record_in_place(_NEG, self)
        return self

    def add_(self, other: Any, *, alpha: float = 1) -> Self:
        """`add` in place."""
        record_in_place(_ADD, self, other, **({} if alpha == 1 else {"alpha": alpha}))
        return self

    def sub_(self, other: Any, *, alpha: float = 1) -> Self:
        """`sub` in place."""
        record_in_place(_SUB, self, other, **({} if alpha == 1 else {"alpha": alpha}))
        return self

    def mul_(self, other: Any) -> Self:
        """`mul` in place."""
        record_in_place(_MUL, self, other)
        return self

    def floor_divide_(self, other: Any) -> Self:
        """`floor_divide` in place."""
        record_in_place(_FLOOR_DIVIDE, self, other)
        return self

    def remainder_(self, other: Any) -> Self:
        """`remainder` in place."""
        record_in_place(_REMAINDER, self, other)
        return self

    def fmod_(self, other: Any) -> Self:
        """`fmod` in place."""
        record_in_place(_FMOD, self, other)
        return self

    def div_(self, other: Any, *, rounding_mode: str | None = None) -> Self:
        """`div` in place."""
        record_in_place(_DIV, self, other, **({} if rounding_mode is None else {"rounding_mode": rounding_mode}))
        return self

    def pow_(self, exponent: Any) -> Self:
        """`pow` in place."""
        record_in_place(_POW, self, exponent)
        return self

    def clamp_(self, min: Any = None, max: Any = None) -> Self:
        """`clamp` in place."""
        record_in_place(_CLAMP, self, min, max)
        return self

    def clamp_min_(self, min: Any) -> Self:
        """`clamp` in place, with a lower limit only."""
        record_in_place(_CLAMP, self, min, None)
        return self

    def clamp_max_(self, max: Any) -> Self:
        """`clamp` in place, with an upper limit only."""
        record_in_place(_CLAMP, self, None, max)
        return self

    def lerp_(self, end: Any, weight: Any) -> Self:
        """`lerp` in place."""
        record_in_place(_LERP, self, end, weight)
        return self

    def addcmul_(self, tensor1: Any, tensor2: Any, *, value: float = 1) -> Self:
        """`addcmul` in place."""
        record_in_place(_ADDCMUL, self, tensor1, tensor2, value=value)
        return self

    def addcdiv_(self, tensor1: Any, tensor2: Any, *, value: float = 1) -> Self:
        """`addcdiv` in place."""
        record_in_place(_ADDCDIV, self, tensor1, tensor2, value=value)
        return self

    def copy_(self, src: Any, non_blocking: bool = False) -> Self:  # noqa: ARG002
        """Take the elements of another tensor, broadcast and converted to this dtype."""
        record_in_place(_COPY, self, src)
        return self

    def fill_(self, value: Any) -> Self:
        """Set all elements to a number."""
        record_in_place(_COPY, self, value)
        return self

    def zero_(self) -> Self:
        """Set all elements to 0."""
        record_in_place(_COPY, self, 0)
        return self

    def masked_fill_(self, mask: Any, value: Any) -> Self:
        """`masked_fill` in place."""
        record_in_place(_MASKED_FILL, self, mask, value)
        return self

    def scatter_(self, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: Any = None) -> Self:
        """`scatter` in place."""
        record_in_place(_RESULT, self, gathering.scatter(self, dim, index, src, value=value, reduce=reduce))
        return self

    def scatter_add_(self, dim: int, index: Any, src: Any) -> Self:
        """`scatter_add` in place."""
        record_in_place(_RESULT, self, gathering.scatter_add(self, dim, index, src))
        return self

    def index_add_(self, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Self:
        """`index_add` in place."""
        record_in_place(_RESULT, self, gathering.index_add(self, dim, index, source, alpha=alpha))
        return self
