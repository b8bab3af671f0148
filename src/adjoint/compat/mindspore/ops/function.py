"""`mindspore.ops.function`: functions of tensors with MindSpore's names and arguments."""

from collections.abc import Sequence
from typing import Any

import adjoint as aj
from adjoint.compat.mindspore.common.tensor import Tensor
from adjoint.compat.uncovered import uncovered
from adjoint.errors import TypeRuleError
from adjoint.func.derivatives import stop_gradient
from adjoint.ir import as_dtype
from adjoint.nn import functional
from adjoint.tensor.tensor import Tensor as Native

#: Those that MindSpore and adjoint call the same, with the same arguments.
_SAME = [
    "abs",
    "acos",
    "acosh",
    "add",
    "allclose",
    "arange",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bmm",
    "broadcast_to",
    "ceil",
    "cholesky",
    "clamp",
    "cos",
    "cosh",
    "cumprod",
    "diag",
    "einsum",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "expm1",
    "flip",
    "floor",
    "fmod",
    "full",
    "full_like",
    "greater",
    "greater_equal",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "lerp",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsumexp",
    "masked_fill",
    "masked_select",
    "matmul",
    "maximum",
    "minimum",
    "mm",
    "mul",
    "nan_to_num",
    "narrow",
    "ne",
    "neg",
    "not_equal",
    "ones_like",
    "outer",
    "pow",
    "reciprocal",
    "relu",
    "repeat_interleave",
    "reshape",
    "roll",
    "round",
    "rsqrt",
    "searchsorted",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "sub",
    "swapaxes",
    "tan",
    "tanh",
    "tensordot",
    "tile",
    "topk",
    "trace",
    "tril",
    "triu",
    "trunc",
    "unbind",
    "where",
    "xlogy",
    "zeros_like",
]

__all__ = [
    "argmax",
    "argmin",
    "argsort",
    "assign",
    "assign_add",
    "assign_sub",
    "avg_pool2d",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cast",
    "concat",
    "conv2d",
    "cross_entropy",
    "cumsum",
    "depend",
    "div",
    "dropout",
    "dtype",
    "equal",
    "expand_dims",
    "eye",
    "fill",
    "flatten",
    "floor_divide",
    "gather",
    "gelu",
    "l1_loss",
    "leaky_relu",
    "log_softmax",
    "max",
    "max_pool2d",
    "mean",
    "meshgrid",
    "min",
    "mse_loss",
    "nll_loss",
    "norm",
    "one_hot",
    "ones",
    "prod",
    "rank",
    "relu6",
    "select",
    "shape",
    "silu",
    "size",
    "smooth_l1_loss",
    "softmax",
    "softplus",
    "sort",
    "split",
    "squeeze",
    "stack",
    "standard_normal",
    "std",
    "stop_gradient",
    "sum",
    "tensor_add",
    "transpose",
    "uniform",
    "var",
    "zeros",
]

for _name in _SAME:
    _found = getattr(aj, _name, None)
    if _found is not None:
        globals()[_name] = _found
        __all__ += [_name]

gelu, silu, relu6, softplus = functional.gelu, functional.silu, functional.relu6, functional.softplus
mse_loss, l1_loss, nll_loss, cross_entropy = (
    functional.mse_loss,
    functional.l1_loss,
    functional.nll_loss,
    functional.cross_entropy,
)


def cast(input: Any, dtype: Any) -> Any:
    """A tensor of another type."""
    return input.to(as_dtype(dtype))


def dtype(input_x: Any) -> Any:
    """The type of the elements."""
    return input_x.dtype


def shape(input_x: Any) -> tuple[int, ...]:
    """The shape."""
    return tuple(input_x.shape)


def rank(input_x: Any) -> int:
    """The number of axes."""
    return int(input_x.ndim)


def size(input_x: Any) -> int:
    """The number of elements."""
    return int(input_x.numel())


def _axes(axis: Any) -> Any:
    """Axes as adjoint takes them; () and None are all."""
    return None if axis is None or axis == () else axis


def sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """``sum(input, dim=None, keepdim=False)``."""
    return aj.sum(input, _axes(dim), keepdim, dtype=dtype)


def mean(x: Any, axis: Any = None, keep_dims: bool = False) -> Any:
    """``mean(x, axis=None, keep_dims=False)``."""
    return aj.mean(x, _axes(axis), keep_dims)


def prod(input: Any, axis: Any = None, keep_dims: bool = False) -> Any:
    """``prod(input, axis=None, keep_dims=False)``."""
    return aj.prod(input) if axis is None else aj.prod(input, axis, keep_dims)


def max(input: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """``max(input, axis=None, keepdims=False)``: the largest elements and where they are; 0 without an axis."""
    if axis is None:
        return aj.max(input), Tensor(0)
    found = aj.max(input, axis, keepdims)
    return found[0], found[1]


def min(input: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """``min(input, axis=None, keepdims=False)``: the smallest elements and where they are; 0 without an axis."""
    if axis is None:
        return aj.min(input), Tensor(0)
    found = aj.min(input, axis, keepdims)
    return found[0], found[1]


def argmax(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """``argmax(input, dim=None, keepdim=False)``."""
    return aj.argmax(input, dim, keepdim)


def argmin(input: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """``argmin(input, axis=None, keepdims=False)``."""
    return aj.argmin(input, axis, keepdims)


def cumsum(x: Any, axis: int, dtype: Any = None) -> Any:
    """``cumsum(x, axis)``."""
    return x.cumsum(axis, dtype=dtype)


def norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False) -> Any:
    """``norm(A, ord=None, dim=None)``."""
    return A.norm(2 if ord is None else ord, dim, keepdim)


def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """``div(input, other)``."""
    return aj.div(input, other, rounding_mode=rounding_mode)


def tensor_add(input: Any, other: Any) -> Any:
    """The sum of two tensors."""
    return input + other


def floor_divide(input: Any, other: Any) -> Any:
    """The quotient, rounded down."""
    return aj.floor_divide(input, other)


def concat(tensors: Sequence[Any], axis: int = 0) -> Any:
    """``concat(tensors, axis=0)``."""
    return aj.cat(list(tensors), axis)


def split(tensor: Any, split_size_or_sections: Any, axis: int = 0) -> Any:
    """``split(tensor, split_size_or_sections, axis=0)``."""
    return aj.split(tensor, split_size_or_sections, axis)


def transpose(input: Any, input_perm: Sequence[int]) -> Any:
    """``transpose(input, input_perm)``: the axes in another order."""
    return input.permute(tuple(input_perm))


def expand_dims(input_x: Any, axis: int) -> Any:
    """``expand_dims(input_x, axis)``."""
    return input_x.unsqueeze(axis)


def gather(input_params: Any, input_indices: Any, axis: int, batch_dims: int = 0) -> Any:
    """``gather(input_params, input_indices, axis)``: the slices at indices along an axis.

    Raises
    ------
    TypeRuleError
        If `batch_dims` is given.
    """
    if batch_dims:
        raise TypeRuleError(f"gather: batch_dims must be 0, got {batch_dims}; use adjoint.vmap")
    ids: Any = input_indices if isinstance(input_indices, Native) else Tensor(input_indices)
    taken = aj.index_select(input_params, axis, ids.reshape(-1))
    axis %= input_params.ndim
    return taken.reshape((*input_params.shape[:axis], *ids.shape, *input_params.shape[axis + 1 :]))


def one_hot(indices: Any, depth: int, on_value: Any = 1, off_value: Any = 0, axis: int = -1) -> Any:
    """``one_hot(indices, depth, on_value=1, off_value=0, axis=-1)``."""
    on, off = (v if isinstance(v, Native) else Tensor(v) for v in (on_value, off_value))
    made = aj.where(functional.one_hot(indices, depth) == 1, on, off)
    return made if axis in (-1, made.ndim - 1) else made.movedim(-1, axis)


def fill(type: Any, shape: Any, value: Any) -> Any:
    """``fill(type, shape, value)``."""
    return aj.full(tuple(shape), value, dtype=type)


def select(condition: Any, input: Any, other: Any) -> Any:
    """``select(condition, input, other)``."""
    return aj.where(condition, input, other)


def softmax(input: Any, axis: int = -1, *, dtype: Any = None) -> Any:
    """``softmax(input, axis=-1)``."""
    return functional.softmax(input if dtype is None else cast(input, dtype), axis)


def log_softmax(logits: Any, axis: int = -1) -> Any:
    """``log_softmax(logits, axis=-1)``."""
    return functional.log_softmax(logits, axis)


def leaky_relu(input: Any, alpha: float = 0.2) -> Any:
    """``leaky_relu(input, alpha=0.2)``."""
    return functional.leaky_relu(input, alpha)


def dropout(input: Any, p: float = 0.5, training: bool = True, seed: int | None = None) -> Any:  # noqa: ARG001
    """``dropout(input, p=0.5, training=True)``."""
    return functional.dropout(input, p, training)


def smooth_l1_loss(input: Any, target: Any, beta: float = 1.0, reduction: str = "none") -> Any:
    """``smooth_l1_loss(input, target, beta=1.0, reduction="none")``."""
    return functional.smooth_l1_loss(input, target, reduction=reduction, beta=beta)


def binary_cross_entropy(logits: Any, labels: Any, weight: Any = None, reduction: str = "mean") -> Any:
    """``binary_cross_entropy(logits, labels, weight=None, reduction="mean")``."""
    return functional.binary_cross_entropy(logits, labels, weight, reduction=reduction)


def binary_cross_entropy_with_logits(
    logits: Any, label: Any, weight: Any = None, pos_weight: Any = None, reduction: str = "mean"
) -> Any:
    """``binary_cross_entropy_with_logits(logits, label, weight=None, pos_weight=None, reduction="mean")``."""
    return functional.binary_cross_entropy_with_logits(
        logits, label, weight, reduction=reduction, pos_weight=pos_weight
    )


def conv2d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, pad_mode: str = "valid", padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Any:  # fmt: skip
    """``conv2d(input, weight, bias=None, stride=1, pad_mode="valid", padding=0, dilation=1, groups=1)``."""
    chosen = "same" if pad_mode == "same" else 0 if pad_mode == "valid" else padding
    return functional.conv2d(input, weight, bias, stride, chosen, dilation, groups)


def max_pool2d(x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1) -> Any:
    """``max_pool2d(x, kernel_size, stride=None, padding=0)``."""
    return functional.max_pool2d(x, kernel_size, stride, padding, dilation)


def avg_pool2d(input_x: Any, kernel_size: Any = 1, stride: Any = 1, padding: Any = 0) -> Any:
    """``avg_pool2d(input_x, kernel_size=1, stride=1, padding=0)``."""
    return functional.avg_pool2d(input_x, kernel_size, stride, padding)


def standard_normal(shape: Sequence[int], seed: int | None = None) -> Any:  # noqa: ARG001
    """Normally distributed numbers."""
    return aj.randn(*shape)


def uniform(shape: Sequence[int], minval: Any, maxval: Any, seed: int | None = None, dtype: Any = None) -> Any:  # noqa: ARG001
    """Uniformly distributed numbers."""
    made = aj.rand(*shape) * (maxval - minval) + minval
    return made if dtype is None else cast(made, dtype)


def ones(shape: int | Sequence[int], dtype: Any = None) -> Any:
    """``ones(shape, dtype=None)``."""
    return aj.ones((shape,) if isinstance(shape, int) else tuple(shape), dtype=dtype)


def zeros(shape: int | Sequence[int], dtype: Any = None) -> Any:
    """``zeros(shape, dtype=None)``."""
    return aj.zeros((shape,) if isinstance(shape, int) else tuple(shape), dtype=dtype)


def eye(n: int, m: int | None = None, dtype: Any = None) -> Any:
    """``eye(n, m=None, dtype=None)``."""
    return aj.eye(n, n if m is None else m, dtype=dtype)


def equal(input: Any, other: Any) -> Any:
    """Where the elements are equal."""
    return aj.eq(input, other)


def flatten(input: Any, order: str = "C", *, start_dim: int = 1, end_dim: int = -1) -> Any:  # noqa: ARG001
    """``flatten(input, start_dim=1, end_dim=-1)``."""
    return input.flatten(start_dim, end_dim)


def squeeze(input: Any, axis: Any = None) -> Any:
    """``squeeze(input, axis=None)``."""
    return input.squeeze() if axis is None else input.squeeze(axis)


def stack(tensors: Sequence[Any], axis: int = 0) -> Any:
    """``stack(tensors, axis=0)``."""
    return aj.stack(list(tensors), axis)


def std(input: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
    """``std(input, axis=None, ddof=0, keepdims=False)``."""
    return input.std(_axes(axis), correction=int(ddof), keepdim=keepdims)


def var(input: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
    """``var(input, axis=None, ddof=0, keepdims=False)``."""
    return input.var(_axes(axis), correction=int(ddof), keepdim=keepdims)


def sort(input_x: Any, axis: int = -1, descending: bool = False) -> Any:
    """``sort(input_x, axis=-1, descending=False)``: the elements in order, and where they were."""
    return tuple(input_x.sort(axis, descending))


def argsort(input: Any, axis: int = -1, descending: bool = False) -> Any:
    """``argsort(input, axis=-1, descending=False)``."""
    return input.argsort(axis, descending)


def meshgrid(*inputs: Any, indexing: str = "xy") -> Any:
    """``meshgrid(*inputs, indexing="xy")``."""
    return aj.meshgrid(*inputs, indexing=indexing)


def depend(value: Any, expr: Any) -> Any:  # noqa: ARG001
    """The value: what `expr` did is part of the step in any case."""
    return value


def assign(variable: Any, value: Any) -> Any:
    """Copy elements into a parameter; returns it."""
    with aj.no_grad():
        return variable.copy_(value)


def assign_add(variable: Any, value: Any) -> Any:
    """Add to a parameter in place; returns it."""
    with aj.no_grad():
        return variable.add_(value)


def assign_sub(variable: Any, value: Any) -> Any:
    """Subtract from a parameter in place; returns it."""
    with aj.no_grad():
        return variable.sub_(value)


__getattr__ = uncovered(__name__, {}, "adjoint (adjoint.matmul)")
