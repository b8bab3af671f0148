"""Methods of tensors that are functions of elements."""

from typing import Any

from adjoint.tensor import arithmetic, comparison, elementwise, gathering
from adjoint.tensor.record import entry_of, record, record_binary, record_unary
from adjoint.tensor.trace import Recorded

__all__ = ["ElementwiseMethods"]

_ABS = entry_of(elementwise.abs)
_CEIL = entry_of(elementwise.ceil)
_COS = entry_of(elementwise.cos)
_COSH = entry_of(elementwise.cosh)
_DEG2RAD = entry_of(elementwise.deg2rad)
_ERF = entry_of(elementwise.erf)
_ERFC = entry_of(elementwise.erfc)
_EXP = entry_of(elementwise.exp)
_EXP2 = entry_of(elementwise.exp2)
_EXPM1 = entry_of(elementwise.expm1)
_FLOOR = entry_of(elementwise.floor)
_FRAC = entry_of(elementwise.frac)
_LOG = entry_of(elementwise.log)
_LOG1P = entry_of(elementwise.log1p)
_LOG2 = entry_of(elementwise.log2)
_LOG10 = entry_of(elementwise.log10)
_RAD2DEG = entry_of(elementwise.rad2deg)
_RECIPROCAL = entry_of(elementwise.reciprocal)
_RELU = entry_of(elementwise.relu)
_RSQRT = entry_of(elementwise.rsqrt)
_SIGMOID = entry_of(elementwise.sigmoid)
_SIGN = entry_of(elementwise.sign)
_SIN = entry_of(elementwise.sin)
_SINH = entry_of(elementwise.sinh)
_SQRT = entry_of(elementwise.sqrt)
_SQUARE = entry_of(elementwise.square)
_TAN = entry_of(elementwise.tan)
_TANH = entry_of(elementwise.tanh)
_TRUNC = entry_of(elementwise.trunc)
_ISNAN = entry_of(comparison.isnan)
_ISINF = entry_of(comparison.isinf)
_ISFINITE = entry_of(comparison.isfinite)
_LOGICAL_NOT = entry_of(comparison.logical_not)
_MUL = entry_of(arithmetic.mul)
_POW = entry_of(arithmetic.pow)
_FLOOR_DIVIDE = entry_of(arithmetic.floor_divide)
_FMOD = entry_of(arithmetic.fmod)
_REMAINDER = entry_of(arithmetic.remainder)
_MAXIMUM = entry_of(arithmetic.maximum)
_MINIMUM = entry_of(arithmetic.minimum)
_FLOAT_POWER = entry_of(arithmetic.float_power)
_EQ = entry_of(comparison.eq)
_NE = entry_of(comparison.ne)
_LT = entry_of(comparison.lt)
_LE = entry_of(comparison.le)
_GT = entry_of(comparison.gt)
_GE = entry_of(comparison.ge)
_LOGICAL_AND = entry_of(comparison.logical_and)
_LOGICAL_OR = entry_of(comparison.logical_or)
_LOGICAL_XOR = entry_of(comparison.logical_xor)
_ADD = entry_of(arithmetic.add)
_ADDCDIV = entry_of(arithmetic.addcdiv)
_ADDCMUL = entry_of(arithmetic.addcmul)
_CLAMP = entry_of(arithmetic.clamp)
_DIV = entry_of(arithmetic.div)
_LERP = entry_of(arithmetic.lerp)
_NEG = entry_of(arithmetic.neg)
_SUB = entry_of(arithmetic.sub)
_ISCLOSE = entry_of(comparison.isclose)
_LOG_SOFTMAX = entry_of(elementwise.log_softmax)
_LOGIT = entry_of(elementwise.logit)
_NAN_TO_NUM = entry_of(elementwise.nan_to_num)
_ROUND = entry_of(elementwise.round)
_SOFTMAX = entry_of(elementwise.softmax)
_MASKED_FILL = entry_of(gathering.masked_fill)


class ElementwiseMethods(Recorded):
    """The part of `Tensor` with functions of elements."""

    def abs(self) -> Any:
        """See `adjoint.abs`."""
        return record_unary(_ABS, self)

    def absolute(self) -> Any:
        """See `adjoint.absolute`."""
        return record_unary(_ABS, self)

    def ceil(self) -> Any:
        """See `adjoint.ceil`."""
        return record_unary(_CEIL, self)

    def cos(self) -> Any:
        """See `adjoint.cos`."""
        return record_unary(_COS, self)

    def cosh(self) -> Any:
        """See `adjoint.cosh`."""
        return record_unary(_COSH, self)

    def deg2rad(self) -> Any:
        """See `adjoint.deg2rad`."""
        return record_unary(_DEG2RAD, self)

    def erf(self) -> Any:
        """See `adjoint.erf`."""
        return record_unary(_ERF, self)

    def erfc(self) -> Any:
        """See `adjoint.erfc`."""
        return record_unary(_ERFC, self)

    def exp(self) -> Any:
        """See `adjoint.exp`."""
        return record_unary(_EXP, self)

    def exp2(self) -> Any:
        """See `adjoint.exp2`."""
        return record_unary(_EXP2, self)

    def expm1(self) -> Any:
        """See `adjoint.expm1`."""
        return record_unary(_EXPM1, self)

    def floor(self) -> Any:
        """See `adjoint.floor`."""
        return record_unary(_FLOOR, self)

    def frac(self) -> Any:
        """See `adjoint.frac`."""
        return record_unary(_FRAC, self)

    def isfinite(self) -> Any:
        """See `adjoint.isfinite`."""
        return record_unary(_ISFINITE, self)

    def isinf(self) -> Any:
        """See `adjoint.isinf`."""
        return record_unary(_ISINF, self)

    def isnan(self) -> Any:
        """See `adjoint.isnan`."""
        return record_unary(_ISNAN, self)

    def log(self) -> Any:
        """See `adjoint.log`."""
        return record_unary(_LOG, self)

    def log10(self) -> Any:
        """See `adjoint.log10`."""
        return record_unary(_LOG10, self)

    def log1p(self) -> Any:
        """See `adjoint.log1p`."""
        return record_unary(_LOG1P, self)

    def log2(self) -> Any:
        """See `adjoint.log2`."""
        return record_unary(_LOG2, self)

    def logical_not(self) -> Any:
        """See `adjoint.logical_not`."""
        return record_unary(_LOGICAL_NOT, self)

    def rad2deg(self) -> Any:
        """See `adjoint.rad2deg`."""
        return record_unary(_RAD2DEG, self)

    def reciprocal(self) -> Any:
        """See `adjoint.reciprocal`."""
        return record_unary(_RECIPROCAL, self)

    def relu(self) -> Any:
        """See `adjoint.relu`."""
        return record_unary(_RELU, self)

    def rsqrt(self) -> Any:
        """See `adjoint.rsqrt`."""
        return record_unary(_RSQRT, self)

    def sigmoid(self) -> Any:
        """See `adjoint.sigmoid`."""
        return record_unary(_SIGMOID, self)

    def sign(self) -> Any:
        """See `adjoint.sign`."""
        return record_unary(_SIGN, self)

    def sin(self) -> Any:
        """See `adjoint.sin`."""
        return record_unary(_SIN, self)

    def sinh(self) -> Any:
        """See `adjoint.sinh`."""
        return record_unary(_SINH, self)

    def sqrt(self) -> Any:
        """See `adjoint.sqrt`."""
        return record_unary(_SQRT, self)

    def square(self) -> Any:
        """See `adjoint.square`."""
        return record_unary(_SQUARE, self)

    def tan(self) -> Any:
        """See `adjoint.tan`."""
        return record_unary(_TAN, self)

    def tanh(self) -> Any:
        """See `adjoint.tanh`."""
        return record_unary(_TANH, self)

    def trunc(self) -> Any:
        """See `adjoint.trunc`."""
        return record_unary(_TRUNC, self)

    def mul(self, other: Any) -> Any:
        """See `adjoint.mul`."""
        return record_binary(_MUL, self, other)

    def pow(self, exponent: Any) -> Any:
        """See `adjoint.pow`."""
        return record_binary(_POW, self, exponent)

    def floor_divide(self, other: Any) -> Any:
        """See `adjoint.floor_divide`."""
        return record_binary(_FLOOR_DIVIDE, self, other)

    def fmod(self, other: Any) -> Any:
        """See `adjoint.fmod`."""
        return record_binary(_FMOD, self, other)

    def remainder(self, other: Any) -> Any:
        """See `adjoint.remainder`."""
        return record_binary(_REMAINDER, self, other)

    def maximum(self, other: Any) -> Any:
        """See `adjoint.maximum`."""
        return record_binary(_MAXIMUM, self, other)

    def minimum(self, other: Any) -> Any:
        """See `adjoint.minimum`."""
        return record_binary(_MINIMUM, self, other)

    def float_power(self, exponent: Any) -> Any:
        """See `adjoint.float_power`."""
        return record_binary(_FLOAT_POWER, self, exponent)

    def eq(self, other: Any) -> Any:
        """See `adjoint.eq`."""
        return record_binary(_EQ, self, other)

    def ne(self, other: Any) -> Any:
        """See `adjoint.ne`."""
        return record_binary(_NE, self, other)

    def lt(self, other: Any) -> Any:
        """See `adjoint.lt`."""
        return record_binary(_LT, self, other)

    def le(self, other: Any) -> Any:
        """See `adjoint.le`."""
        return record_binary(_LE, self, other)

    def gt(self, other: Any) -> Any:
        """See `adjoint.gt`."""
        return record_binary(_GT, self, other)

    def ge(self, other: Any) -> Any:
        """See `adjoint.ge`."""
        return record_binary(_GE, self, other)

    def logical_and(self, other: Any) -> Any:
        """See `adjoint.logical_and`."""
        return record_binary(_LOGICAL_AND, self, other)

    def logical_or(self, other: Any) -> Any:
        """See `adjoint.logical_or`."""
        return record_binary(_LOGICAL_OR, self, other)

    def logical_xor(self, other: Any) -> Any:
        """See `adjoint.logical_xor`."""
        return record_binary(_LOGICAL_XOR, self, other)

    def multiply(self, other: Any) -> Any:
        """See `adjoint.mul`."""
        return record_binary(_MUL, self, other)

    def not_equal(self, other: Any) -> Any:
        """See `adjoint.ne`."""
        return record_binary(_NE, self, other)

    def less(self, other: Any) -> Any:
        """See `adjoint.lt`."""
        return record_binary(_LT, self, other)

    def less_equal(self, other: Any) -> Any:
        """See `adjoint.le`."""
        return record_binary(_LE, self, other)

    def greater(self, other: Any) -> Any:
        """See `adjoint.gt`."""
        return record_binary(_GT, self, other)

    def greater_equal(self, other: Any) -> Any:
        """See `adjoint.ge`."""
        return record_binary(_GE, self, other)

    def add(self, other: Any, *, alpha: float = 1) -> Any:
        """See `adjoint.add`."""
        return record(_ADD, (self, other)) if alpha == 1 else record(_ADD, (self, other), {"alpha": alpha})

    def sub(self, other: Any, *, alpha: float = 1) -> Any:
        """See `adjoint.sub`."""
        return record(_SUB, (self, other)) if alpha == 1 else record(_SUB, (self, other), {"alpha": alpha})

    def div(self, other: Any, *, rounding_mode: str | None = None) -> Any:
        """See `adjoint.div`."""
        return record(_DIV, (self, other), {"rounding_mode": rounding_mode})

    def neg(self) -> Any:
        """See `adjoint.neg`."""
        return record(_NEG, (self,))

    def lerp(self, end: Any, weight: Any) -> Any:
        """See `adjoint.lerp`."""
        return record(_LERP, (self, end, weight))

    def addcmul(self, tensor1: Any, tensor2: Any, *, value: float = 1) -> Any:
        """See `adjoint.addcmul`."""
        return record(_ADDCMUL, (self, tensor1, tensor2), {"value": value})

    def addcdiv(self, tensor1: Any, tensor2: Any, *, value: float = 1) -> Any:
        """See `adjoint.addcdiv`."""
        return record(_ADDCDIV, (self, tensor1, tensor2), {"value": value})

    def clamp(self, min: Any = None, max: Any = None) -> Any:
        """See `adjoint.clamp`."""
        return record(_CLAMP, (self, min, max))

    def clamp_min(self, min: Any) -> Any:
        """`clamp` with a lower limit only."""
        return record(_CLAMP, (self, min, None))

    def clamp_max(self, max: Any) -> Any:
        """`clamp` with an upper limit only."""
        return record(_CLAMP, (self, None, max))

    def clip(self, min: Any = None, max: Any = None) -> Any:
        """See `adjoint.clamp`."""
        return record(_CLAMP, (self, min, max))

    def round(self, *, decimals: int = 0) -> Any:
        """See `adjoint.round`."""
        return record(_ROUND, (self,), {"decimals": decimals})

    def nan_to_num(self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Any:
        """See `adjoint.nan_to_num`."""
        return record(_NAN_TO_NUM, (self, nan, posinf, neginf))

    def logit(self, eps: float | None = None) -> Any:
        """See `adjoint.logit`."""
        return record(_LOGIT, (self, eps))

    def softmax(self, dim: int | None = None, *, dtype: Any = None) -> Any:
        """See `adjoint.softmax`."""
        return record(_SOFTMAX, (self, dim), {"dtype": dtype})

    def log_softmax(self, dim: int | None = None, *, dtype: Any = None) -> Any:
        """See `adjoint.log_softmax`."""
        return record(_LOG_SOFTMAX, (self, dim), {"dtype": dtype})

    def isclose(self, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
        """See `adjoint.isclose`."""
        return record(_ISCLOSE, (self, other, rtol, atol, equal_nan))

    def allclose(self, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
        """Whether all elements are close (`adjoint.isclose`), as a Python bool: reads them."""
        return comparison.allclose(self, other, rtol, atol, equal_nan)

    def equal(self, other: Any) -> bool:
        """See `adjoint.equal`."""
        return comparison.equal(self, other)

    def where(self, condition: Any, other: Any) -> Any:
        """These elements where the condition holds, otherwise `other`."""
        return comparison.where(condition, self, other)

    def masked_fill(self, mask: Any, value: Any) -> Any:
        """See `adjoint.masked_fill`."""
        return record(_MASKED_FILL, (self, mask, value))
