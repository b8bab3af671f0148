"""The methods of graph values, named as in NumPy and PyTorch. Each is a function of `adjoint.ops`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from adjoint.ir.syntax import Operand, Syntax, operation

if TYPE_CHECKING:  # value.py imports this module, because `Value` derives from its class
    from adjoint.ir.value import Value

__all__ = ["Methods"]


def _numbers(given: tuple[int | Sequence[int], ...]) -> Sequence[int]:
    """Integers that were passed one by one or as one sequence."""
    if len(given) == 1 and not hasattr(given[0], "__index__"):
        return given[0]
    return given  # type: ignore[return-value]


class Methods(Syntax):
    """The part of `Value` that offers operators as methods and properties."""

    __slots__ = ()

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.type.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        size: int = self.type.size
        return size

    @property
    def T(self) -> "Value":  # noqa: N802
        """The tensor with its axes reversed, as in NumPy: `adjoint.ops.transpose`."""
        return operation("transpose")(self)

    @property
    def mT(self) -> "Value":  # noqa: N802
        """The tensor with its last two axes exchanged: the transpose of each matrix of a batch."""
        return operation("swapaxes")(self, -2, -1)

    def sum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> "Value":
        """The sum over axes; default: all axes. See `adjoint.ops.sum`."""
        return operation("sum")(self, axis, keepdims)

    def mean(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> "Value":
        """The mean over axes, of floats; default: all axes. See `adjoint.ops.mean`."""
        return operation("mean")(self, axis, keepdims)

    def max(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> "Value":
        """The maximum over axes; default: all axes. See `adjoint.ops.max`."""
        return operation("max")(self, axis, keepdims)

    def min(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> "Value":
        """The minimum over axes; default: all axes. See `adjoint.ops.min`."""
        return operation("min")(self, axis, keepdims)

    def prod(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> "Value":
        """The product over axes; default: all axes. See `adjoint.ops.prod`."""
        return operation("prod")(self, axis, keepdims)

    def var(self, axis: int | Sequence[int] | None = None, correction: float = 0, keepdims: bool = False) -> "Value":
        """The variance over axes: the sum of squares divided by ``n - correction``. See `adjoint.ops.variance`.

        The default, ``correction=0``, is NumPy's and that of batch and layer norm; PyTorch's ``var`` uses 1.
        """
        return operation("variance")(self, axis, correction, keepdims)

    def all(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> "Value":
        """Whether all elements along axes are true, that is not 0; default: along all axes. See `adjoint.ops.all`."""
        return operation("all")(self, axis, keepdims)

    def any(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> "Value":
        """Whether any element along axes is true, that is not 0; default: along all axes. See `adjoint.ops.any`."""
        return operation("any")(self, axis, keepdims)

    def cumsum(self, axis: int, exclusive: bool = False, reverse: bool = False) -> "Value":
        """The running sum along an axis. See `adjoint.ops.cumsum`."""
        return operation("cumsum")(self, axis, exclusive, reverse)

    def cumprod(self, axis: int, exclusive: bool = False, reverse: bool = False) -> "Value":
        """The running product along an axis. See `adjoint.ops.cumprod`."""
        return operation("cumprod")(self, axis, exclusive, reverse)

    def round(self, decimals: int = 0) -> "Value":
        """Floats rounded to a number of decimals, halves to the even neighbour. See `adjoint.ops.round`."""
        return operation("round")(self, decimals)

    def norm(self, p: float = 2.0, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> "Value":
        """The p-norm over axes, of floats; default: over all axes. See `adjoint.ops.norm`."""
        return operation("norm")(self, p, axis, keepdims)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> "Value":
        """The i64 coordinate of the first maximum; default: in the flattened tensor. See `adjoint.ops.argmax`."""
        return operation("argmax")(self, axis, keepdims)

    def reshape(self, *shape: int | Sequence[int]) -> "Value":
        """The same elements in another shape, given as numbers or as one sequence; one size may be -1."""
        return operation("reshape")(self, _numbers(shape))

    def flatten(self, start: int = 0) -> "Value":
        """The axes from `start` to the last merged into one. See `adjoint.ops.flatten`."""
        return operation("flatten")(self, start)

    def permute(self, *axes: int | Sequence[int]) -> "Value":
        """The axes in another order, given as numbers or as one sequence. See `adjoint.ops.permute`."""
        return operation("permute")(self, _numbers(axes))

    def transpose(self, *axes: int | Sequence[int]) -> "Value":
        """The axes in another order.

        Without arguments, the axes are reversed. Two numbers are two axes to exchange, as in PyTorch. Otherwise the
        arguments are the order of all axes, as in NumPy: three or more numbers, or one sequence.
        """
        if len(axes) == 2:
            return operation("swapaxes")(self, *axes)
        return operation("permute")(self, _numbers(axes)) if axes else operation("transpose")(self)

    def swapaxes(self, axis1: int, axis2: int) -> "Value":
        """The tensor with two axes exchanged. See `adjoint.ops.swapaxes`."""
        return operation("swapaxes")(self, axis1, axis2)

    def squeeze(self, axis: int | Sequence[int] | None = None) -> "Value":
        """The tensor without axes of size 1; default: without all of them. See `adjoint.ops.squeeze`."""
        return operation("squeeze")(self, axis)

    def expand_dims(self, axis: int | Sequence[int]) -> "Value":
        """The tensor with new axes of size 1 at these positions, as in NumPy. See `adjoint.ops.expand_dims`."""
        return operation("expand_dims")(self, axis)

    def unsqueeze(self, axis: int) -> "Value":
        """`expand_dims` under PyTorch's name."""
        return operation("expand_dims")(self, axis)

    def broadcast_to(self, *shape: int | Sequence[int]) -> "Value":
        """The tensor repeated along new axes and axes of size 1. See `adjoint.ops.broadcast_to`."""
        return operation("broadcast_to")(self, _numbers(shape))

    def flip(self, axis: int | Sequence[int] | None = None) -> "Value":
        """The elements in reverse order along axes; default: along all of them."""
        return operation("flip")(self, axis)

    def cast(self, dtype: object) -> "Value":
        """The tensor in another dtype, such as ``"f32"``. See `adjoint.ops.cast` for rounding and saturation."""
        return operation("cast")(self, dtype)

    def astype(self, dtype: object) -> "Value":
        """`cast` under NumPy's name."""
        return operation("cast")(self, dtype)

    def exp(self) -> "Value":
        """The exponential, of floats."""
        return operation("exp")(self)

    def log(self) -> "Value":
        """The natural logarithm, of floats."""
        return operation("log")(self)

    def sqrt(self) -> "Value":
        """The square root, of floats."""
        return operation("sqrt")(self)

    def rsqrt(self) -> "Value":
        """``1 / sqrt(self)``, of floats."""
        return operation("rsqrt")(self)

    def square(self) -> "Value":
        """``self * self``."""
        return operation("square")(self)

    def abs(self) -> "Value":
        """The absolute value."""
        return operation("abs")(self)

    def tanh(self) -> "Value":
        """The hyperbolic tangent, of floats."""
        return operation("tanh")(self)

    def sigmoid(self) -> "Value":
        """``1 / (1 + exp(-self))``, of floats."""
        return operation("sigmoid")(self)

    def relu(self) -> "Value":
        """``max(self, 0)``."""
        return operation("relu")(self)

    def clip(self, low: float, high: float) -> "Value":
        """Floats clamped to ``[low, high]``. See `adjoint.ops.clip`."""
        return operation("clip")(self, low, high)

    def softmax(self, axis: int | Sequence[int] | None = -1) -> "Value":
        """``exp(self) / sum(exp(self))`` along an axis; None means all axes. See `adjoint.ops.softmax`."""
        return operation("softmax")(self, axis)

    def log_softmax(self, axis: int | Sequence[int] | None = -1) -> "Value":
        """The logarithm of `softmax` along an axis; None means all axes. See `adjoint.ops.log_softmax`."""
        return operation("log_softmax")(self, axis)

    def matmul(self, other: Operand) -> "Value":
        """The matrix product ``self @ other``. See `adjoint.ops.matmul`."""
        return operation("matmul")(self, other)
