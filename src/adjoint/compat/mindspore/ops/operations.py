"""`mindspore.ops.operations`: operators as objects, ``P.MatMul(transpose_b=True)(x, y)``."""

from collections.abc import Callable
from typing import Any

from adjoint.compat.mindspore.nn import layers, loss
from adjoint.compat.mindspore.ops import function as f
from adjoint.compat.uncovered import uncovered
from adjoint.nn import functional

#: Operators without settings, with the functions that they are.
_PLAIN = {
    "Abs": "abs", "Add": "add", "Assign": "assign", "AssignAdd": "assign_add", "AssignSub": "assign_sub",
    "Atan2": "atan2", "Cast": "cast", "Ceil": "ceil", "Cos": "cos", "DType": "dtype", "Depend": "depend", "Div": "div",
    "Equal": "equal", "Erf": "erf", "Exp": "exp", "ExpandDims": "expand_dims", "Expm1": "expm1", "Fill": "fill",
    "Floor": "floor", "FloorDiv": "floor_divide", "Gather": "gather", "GatherV2": "gather", "GeLU": "gelu",
    "Greater": "greater", "GreaterEqual": "greater_equal", "IsFinite": "isfinite", "Less": "less",
    "LessEqual": "less_equal", "Log": "log", "Log1p": "log1p", "LogicalAnd": "logical_and",
    "LogicalNot": "logical_not", "LogicalOr": "logical_or", "Maximum": "maximum", "Minimum": "minimum", "Mul": "mul",
    "Neg": "neg", "NotEqual": "not_equal", "OnesLike": "ones_like", "Ones": "ones", "Pow": "pow", "Rank": "rank",
    "ReLU": "relu", "ReLU6": "relu6", "RealDiv": "div", "Reciprocal": "reciprocal", "Reshape": "reshape",
    "Round": "round", "Rsqrt": "rsqrt", "Select": "select", "Shape": "shape", "Sigmoid": "sigmoid", "Sign": "sign",
    "Sin": "sin", "Size": "size", "Softplus": "softplus", "Sqrt": "sqrt", "Square": "square", "Sub": "sub",
    "Tanh": "tanh", "TensorAdd": "add", "Tile": "tile", "Transpose": "transpose", "Zeros": "zeros",
    "ZerosLike": "zeros_like",
}  # fmt: skip

__all__ = [
    "ArgMaxWithValue",
    "Argmax",
    "BatchMatMul",
    "BiasAdd",
    "Concat",
    "Conv2D",
    "CumSum",
    "Dropout",
    "Eye",
    "Flatten",
    "L2Loss",
    "LogSoftmax",
    "MatMul",
    "MaxPool",
    "OneHot",
    "Primitive",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "Softmax",
    "SoftmaxCrossEntropyWithLogits",
    "SparseSoftmaxCrossEntropyWithLogits",
    "Split",
    "Squeeze",
    "Stack",
]


class Primitive:
    """Base class of operators: made with settings, called with tensors."""

    def __call__(self, *args: Any) -> Any:
        """The operator's result."""
        return type(self).function(*args)  # type: ignore[attr-defined]


def _plain(name: str, function: Callable[..., Any]) -> Any:
    body = {"function": staticmethod(function), "__doc__": f"`ops.{name}` as an object.", "__module__": __name__}
    return type(name, (Primitive,), body)


for _name, _function in _PLAIN.items():
    globals()[_name] = _plain(_name, getattr(f, _function))
    __all__ += [_name]


class MatMul(Primitive):
    """``MatMul(transpose_a=False, transpose_b=False)``."""

    def __init__(self, transpose_a: bool = False, transpose_b: bool = False) -> None:
        self.transpose_a, self.transpose_b = transpose_a, transpose_b

    def __call__(self, x: Any, y: Any) -> Any:
        """The product of matrices."""
        return (x.swapaxes(-1, -2) if self.transpose_a else x) @ (y.swapaxes(-1, -2) if self.transpose_b else y)


class BatchMatMul(MatMul):
    """``BatchMatMul(transpose_a=False, transpose_b=False)``."""


class _Reduction(Primitive):
    """Reductions: made with `keep_dims`, called with axes, of which () are all."""

    reduce: Callable[..., Any]

    def __init__(self, keep_dims: bool = False) -> None:
        self.keep_dims = keep_dims

    def __call__(self, x: Any, axis: Any = ()) -> Any:
        """The reduction over the axes."""
        axes = tuple(range(x.ndim)) if axis is None or axis == () else axis
        return type(self).reduce(x, axes, self.keep_dims)


class ReduceSum(_Reduction):
    """``ReduceSum(keep_dims=False)``."""

    reduce = staticmethod(f.sum)


class ReduceMean(_Reduction):
    """``ReduceMean(keep_dims=False)``."""

    reduce = staticmethod(f.mean)


class ReduceMax(_Reduction):
    """``ReduceMax(keep_dims=False)``."""

    reduce = staticmethod(lambda x, axes, keep: x.amax(axes, keep))


class ReduceMin(_Reduction):
    """``ReduceMin(keep_dims=False)``."""

    reduce = staticmethod(lambda x, axes, keep: x.amin(axes, keep))


class ReduceProd(Primitive):
    """``ReduceProd(keep_dims=False)``, over one axis or all."""

    def __init__(self, keep_dims: bool = False) -> None:
        self.keep_dims = keep_dims

    def __call__(self, x: Any, axis: Any = ()) -> Any:
        """The product."""
        return f.prod(x, None if axis == () else axis, self.keep_dims)


class _WithAxis(Primitive):
    """Operators that are made with an axis."""

    apply: Callable[..., Any]
    default = -1

    def __init__(self, axis: Any = None) -> None:
        self.axis = self.default if axis is None else axis

    def __call__(self, x: Any) -> Any:
        """The operator along its axis."""
        return type(self).apply(x, self.axis)


class Softmax(_WithAxis):
    """``Softmax(axis=-1)``."""

    apply = staticmethod(f.softmax)


class LogSoftmax(_WithAxis):
    """``LogSoftmax(axis=-1)``."""

    apply = staticmethod(f.log_softmax)


class Argmax(_WithAxis):
    """``Argmax(axis=-1)``: int32."""

    apply = staticmethod(lambda x, axis: f.argmax(x, axis).int())


class Concat(_WithAxis):
    """``Concat(axis=0)``."""

    default = 0
    apply = staticmethod(f.concat)


class Stack(_WithAxis):
    """``Stack(axis=0)``."""

    default = 0
    apply = staticmethod(lambda xs, axis: f.stack(list(xs), axis))


class Squeeze(Primitive):
    """``Squeeze(axis=())``."""

    def __init__(self, axis: Any = ()) -> None:
        self.axis = axis

    def __call__(self, x: Any) -> Any:
        """The tensor without axes of size 1."""
        return x.squeeze() if self.axis == () else x.squeeze(self.axis)


class Split(Primitive):
    """``Split(axis=0, output_num=1)``."""

    def __init__(self, axis: int = 0, output_num: int = 1) -> None:
        self.axis, self.output_num = axis, output_num

    def __call__(self, x: Any) -> Any:
        """Equal parts."""
        return f.split(x, x.shape[self.axis] // self.output_num, self.axis)


class ArgMaxWithValue(Primitive):
    """``ArgMaxWithValue(axis=0, keep_dims=False)``: the places, then the largest elements."""

    def __init__(self, axis: int = 0, keep_dims: bool = False) -> None:
        self.axis, self.keep_dims = axis, keep_dims

    def __call__(self, x: Any) -> Any:
        """Places and elements."""
        values, places = f.max(x, self.axis, self.keep_dims)
        return places, values


class CumSum(Primitive):
    """``CumSum()``."""

    def __call__(self, x: Any, axis: int) -> Any:
        """Sums of the elements so far."""
        return f.cumsum(x, axis)


class OneHot(Primitive):
    """``OneHot(axis=-1)``."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def __call__(self, indices: Any, depth: int, on_value: Any, off_value: Any) -> Any:
        """The `on_value` at each index."""
        return f.one_hot(indices, depth, on_value, off_value, self.axis)


class BiasAdd(Primitive):
    """``BiasAdd()``: a bias of the channels."""

    def __call__(self, x: Any, bias: Any) -> Any:
        """The sum."""
        return x + bias.reshape(-1, *(1,) * (x.ndim - 2))


class Flatten(Primitive):
    """``Flatten()``: all axes but the first as one."""

    def __call__(self, x: Any) -> Any:
        """The matrix."""
        return x.flatten(1)


class Dropout(Primitive):
    """``Dropout(keep_prob=0.5)``: the result and the mask."""

    def __init__(self, keep_prob: float = 0.5) -> None:
        self.keep_prob = keep_prob

    def __call__(self, x: Any) -> Any:
        """The result, and where it was kept."""
        mask = functional.dropout(f.ones_like(x), 1 - self.keep_prob, True)
        return x * mask, mask


class Eye(Primitive):
    """``Eye()``."""

    def __call__(self, n: int, m: int, t: Any) -> Any:
        """The identity matrix."""
        return f.eye(n, m, dtype=t)


class L2Loss(Primitive):
    """``L2Loss()``: half the sum of squares."""

    def __call__(self, x: Any) -> Any:
        """The loss."""
        return (x * x).sum() / 2


class SoftmaxCrossEntropyWithLogits(Primitive):
    """``SoftmaxCrossEntropyWithLogits()``: the losses of rows, and their gradients."""

    def __call__(self, logits: Any, labels: Any) -> Any:
        """Losses and gradients."""
        return loss.SoftmaxCrossEntropyWithLogits()(logits, labels), f.softmax(logits) - labels


class SparseSoftmaxCrossEntropyWithLogits(Primitive):
    """``SparseSoftmaxCrossEntropyWithLogits()``: the mean loss of classes."""

    def __call__(self, logits: Any, labels: Any) -> Any:
        """The loss."""
        return functional.cross_entropy(logits, labels)


class Conv2D(Primitive):
    """``Conv2D(out_channel, kernel_size, mode=1, pad_mode="valid", pad=0, stride=1, dilation=1, group=1)``."""

    def __init__(
        self, out_channel: int, kernel_size: Any, mode: int = 1, pad_mode: str = "valid", pad: Any = 0,  # noqa: ARG002
        stride: Any = 1, dilation: Any = 1, group: int = 1,
    ) -> None:  # fmt: skip
        self.settings = (stride, pad_mode, pad, dilation, group)

    def __call__(self, x: Any, weight: Any) -> Any:
        """The convolution."""
        return f.conv2d(x, weight, None, *self.settings)


class MaxPool(Primitive):
    """``MaxPool(kernel_size=1, strides=1, pad_mode="valid")``."""

    def __init__(self, kernel_size: Any = 1, strides: Any = 1, pad_mode: str = "valid") -> None:
        self.layer = layers.MaxPool2d(kernel_size, strides, pad_mode)

    def __call__(self, x: Any) -> Any:
        """The largest elements of windows."""
        return self.layer.construct(x)


__getattr__ = uncovered(__name__, {}, "adjoint.ops")
