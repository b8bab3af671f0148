"""Operators: ``relax.op.*``, which ``R.*`` are too. Operators of networks are in `nn`."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from adjoint import ops
from adjoint.compat.tvm.relax.expr import Call, Expr, as_expr
from adjoint.compat.tvm.relax.op import nn
from adjoint.compat.tvm.relax.op.calls import axes, number, only, reduction, same
from adjoint.compat.uncovered import uncovered
from adjoint.errors import InvalidValueError
from adjoint.ir import Value, as_dtype

__all__ = [
    "abs", "acos", "acosh", "add", "argmax", "asin", "asinh", "astype", "atan", "atanh", "broadcast_to", "ceil",
    "clip", "concat", "cos", "cosh", "cumsum", "divide", "einsum", "equal", "erf", "exp", "expand_dims", "flatten",
    "flip", "floor", "full", "full_like", "gather_elements", "greater", "greater_equal", "isfinite", "isinf",
    "isnan", "less", "less_equal", "linear", "log", "logical_and", "logical_not", "logical_or", "matmul", "max",
    "maximum", "mean", "min", "minimum", "multiply", "negative", "nn", "not_equal", "one_hot", "ones", "ones_like",
    "permute_dims", "power", "prod", "reshape", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "split", "sqrt",
    "square", "squeeze", "stack", "std", "strided_slice", "subtract", "sum", "take", "tan", "tanh", "tril", "triu",
    "variance", "where", "zeros", "zeros_like",
]  # fmt: skip
__getattr__ = uncovered(__name__, {}, "adjoint.ops")

abs = same("abs", ops.abs)
acos = same("acos", ops.acos)
acosh = same("acosh", ops.acosh)
add = same("add", ops.add)
asin = same("asin", ops.asin)
asinh = same("asinh", ops.asinh)
atan = same("atan", ops.atan)
atanh = same("atanh", ops.atanh)
ceil = same("ceil", ops.ceil)
cos = same("cos", ops.cos)
cosh = same("cosh", ops.cosh)
divide = same("divide", ops.divide)
equal = same("equal", ops.equal)
erf = same("erf", ops.erf)
exp = same("exp", ops.exp)
floor = same("floor", ops.floor)
greater = same("greater", ops.greater)
greater_equal = same("greater_equal", ops.greater_equal)
isfinite = same("isfinite", ops.isfinite)
isinf = same("isinf", ops.isinf)
isnan = same("isnan", ops.isnan)
less = same("less", ops.less)
less_equal = same("less_equal", ops.less_equal)
log = same("log", ops.log)
logical_and = same("logical_and", ops.logical_and)
logical_not = same("logical_not", ops.logical_not)
logical_or = same("logical_or", ops.logical_or)
maximum = same("maximum", ops.maximum)
minimum = same("minimum", ops.minimum)
multiply = same("multiply", ops.multiply)
negative = same("negative", ops.negative)
not_equal = same("not_equal", ops.not_equal)
power = same("power", ops.power)
round = same("round", ops.round)
rsqrt = same("rsqrt", ops.rsqrt)
sigmoid = same("sigmoid", ops.sigmoid)
sign = same("sign", ops.sign)
sin = same("sin", ops.sin)
sinh = same("sinh", ops.sinh)
sqrt = same("sqrt", ops.sqrt)
square = same("square", ops.square)
subtract = same("subtract", ops.subtract)
tan = same("tan", ops.tan)
tanh = same("tanh", ops.tanh)
where = same("where", ops.where)
max = reduction("max", ops.max)
mean = reduction("mean", ops.mean)
min = reduction("min", ops.min)
prod = reduction("prod", ops.prod)
sum = reduction("sum", ops.sum)
variance = reduction("variance", ops.variance)


def std(x: Any, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Expr:
    """The standard deviation: the root of the mean squared distance from the mean."""
    made = lambda x, axis, keepdims: ops.sqrt(ops.variance(x, axis, 0, keepdims))  # noqa: E731
    return Call("std", made, (as_expr(x),), {"axis": axes(axis), "keepdims": keepdims})


def matmul(x1: Any, x2: Any, out_dtype: Any = None) -> Expr:
    """The product of matrices, or of batches of them."""
    only("matmul: out_dtype", out_dtype, None, "float32", "void", "")
    return Call("matmul", lambda a, b: ops.matmul(a, b), (as_expr(x1), as_expr(x2)), {})


def linear(data: Any, weight: Any, bias: Any = None, out_dtype: Any = None) -> Expr:
    """``data @ weight.T + bias``."""
    only("linear: out_dtype", out_dtype, None, "float32")

    def made(x: Value, w: Value, *b: Value) -> Value:
        found = ops.matmul(x, w, transpose_b=True)
        return found + b[0] if b else found

    return Call("linear", made, [as_expr(x) for x in (data, weight, bias) if x is not None], {})


def einsum(operands: Any, subscripts: str) -> Expr:
    """Sums of products, in Einstein's notation."""
    made = lambda *values, subscripts: ops.einsum(subscripts, *values)  # noqa: E731
    return Call("einsum", made, [as_expr(x) for x in operands], {"subscripts": subscripts})


def astype(x: Any, dtype: Any) -> Expr:
    """Conversion to a dtype."""
    return Call("astype", lambda x, dtype: ops.cast(x, as_dtype(dtype)), (as_expr(x),), {"dtype": str(dtype)})


def reshape(x: Any, shape: Sequence[int]) -> Expr:
    """Other sizes for the same elements; one of them may be -1."""
    return Call("reshape", lambda x, shape: ops.reshape(x, shape), (as_expr(x),), {"shape": tuple(shape)})


def flatten(x: Any) -> Expr:
    """All axes as one."""
    return Call("flatten", lambda x: ops.flatten(x), (as_expr(x),), {})


def permute_dims(x: Any, axes: Sequence[int] | None = None) -> Expr:
    """The axes in another order; in reverse by default."""
    value = as_expr(x)
    order = tuple(reversed(range(len(value.struct_info.shape)))) if axes is None else tuple(axes)
    return Call("permute_dims", lambda x, axes: ops.permute(x, axes), (value,), {"axes": order})


def expand_dims(x: Any, axis: int | Sequence[int]) -> Expr:
    """New axes of size 1."""
    return Call("expand_dims", lambda x, axis: ops.expand_dims(x, axis), (as_expr(x),), {"axis": axes(axis)})


def squeeze(x: Any, axis: int | Sequence[int] | None = None) -> Expr:
    """Without axes of size 1."""
    return Call("squeeze", lambda x, axis: ops.squeeze(x, axis), (as_expr(x),), {"axis": axes(axis)})


def broadcast_to(x: Any, shape: Sequence[int]) -> Expr:
    """Repeated along axes of size 1."""
    return Call("broadcast_to", lambda x, shape: ops.broadcast_to(x, shape), (as_expr(x),), {"shape": tuple(shape)})


def concat(tensors: Any, axis: int | None = 0) -> Expr:
    """Tensors joined along an axis."""
    parts = [as_expr(x) for x in tensors]
    return Call("concat", lambda parts, axis: ops.concat(*parts, axis=axis), (parts,), {"axis": axis})


def stack(tensors: Any, axis: int = 0) -> Expr:
    """Tensors joined along a new axis."""
    parts = [as_expr(x) for x in tensors]
    return Call("stack", lambda parts, axis: ops.stack(parts, axis), (parts,), {"axis": axis})


def split(x: Any, indices_or_sections: int | Sequence[int], axis: int = 0) -> Expr:
    """Parts along an axis: so many equal ones, or divided at indices."""
    value = as_expr(x)
    extent = value.struct_info.shape[axis]
    if isinstance(indices_or_sections, int):
        if indices_or_sections < 1 or extent % indices_or_sections:
            raise InvalidValueError(
                f"split: the number of sections must divide {extent}, got {indices_or_sections}; pass indices"
            )
        step = extent // indices_or_sections
        ends = list(range(0, extent + 1, step))
    else:
        ends = [0, *indices_or_sections, extent]

    def made(x: Value, ends: Sequence[int], axis: int) -> tuple[Value, ...]:
        return tuple(ops.slice_axis(x, axis, a, b) for a, b in pairwise(ends))

    return Call("split", made, (value,), {"ends": tuple(ends), "axis": axis})


def strided_slice(x: Any, axes: Any, begin: Any, end: Any, strides: Any = None, assume_inbound: bool = False) -> Expr:
    """Slices along axes."""
    del assume_inbound

    def made(x: Value, places: Sequence[tuple[int, ...]]) -> Value:
        for axis, first, last, step in places:
            start, stop, by = slice(first, last, step).indices(x.shape[axis])
            x = ops.slice_axis(x, axis, start, stop, by)
        return x

    steps = strides if strides is not None else [1] * len(axes)
    places = tuple((int(a), int(b), int(c), int(d)) for a, b, c, d in zip(axes, begin, end, steps, strict=True))
    return Call("strided_slice", made, (as_expr(x),), {"places": places})


def take(x: Any, indices: Any, axis: int | None = None, mode: str = "fast") -> Expr:
    """The rows, along an axis, with these indices."""
    only("take: mode", mode, "fast", "clip")
    table = as_expr(x)
    rank = len(table.struct_info.shape)
    along = 0 if axis is None and rank == 1 else axis
    if along is None or along % rank:
        raise InvalidValueError(f"take: the axis must be 0, got {axis}; transpose the table with R.permute_dims")
    return Call("take", lambda x, ids: ops.take(x, ids), (table, as_expr(indices)), {})


def gather_elements(data: Any, indices: Any, axis: int = 0) -> Expr:
    """Elements along an axis, one for each index."""
    made = lambda x, ids, axis: ops.gather(x, ids, axis)  # noqa: E731
    return Call("gather_elements", made, (as_expr(data), as_expr(indices)), {"axis": axis})


def one_hot(indices: Any, on_value: Any, off_value: Any, depth: int, axis: int = -1) -> Expr:
    """Rows with `on_value` at an index and `off_value` elsewhere."""
    ids = as_expr(indices)
    only("one_hot: axis", axis, -1, len(ids.struct_info.shape))
    on, off = number(on_value, "one_hot: on_value"), number(off_value, "one_hot: off_value")

    def made(ids: Value, depth: int, on: float, off: float) -> Value:
        return ops.one_hot(ids, depth) * (on - off) + off

    return Call("one_hot", made, (ids,), {"depth": depth, "on": on, "off": off})


def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Expr:
    """The index of the largest element."""
    made = lambda x, axis, keepdims: ops.argmax(x, axis, keepdims)  # noqa: E731
    return Call("argmax", made, (as_expr(x),), {"axis": axis, "keepdims": keepdims})


def cumsum(data: Any, axis: int | None = None, dtype: Any = None, exclusive: bool = False) -> Expr:
    """Sums of the elements up to each one."""
    only("cumsum: dtype", dtype, None)
    value = as_expr(data)
    value, along = (flatten(value), 0) if axis is None else (value, axis)
    made = lambda x, axis, exclusive: ops.cumsum(x, axis, exclusive)  # noqa: E731
    return Call("cumsum", made, (value,), {"axis": along, "exclusive": bool(exclusive)})


def clip(x: Any, min: Any, max: Any) -> Expr:
    """The elements limited to a range."""
    settings = {"low": number(min, "clip: min"), "high": number(max, "clip: max")}
    return Call("clip", lambda x, low, high: ops.clip(x, low, high), (as_expr(x),), settings)


def flip(data: Any, axis: int) -> Expr:
    """The elements along an axis in reverse."""
    return Call("flip", lambda x, axis: ops.flip(x, axis), (as_expr(data),), {"axis": axis})


def tril(x: Any, k: int = 0) -> Expr:
    """Zeros above a diagonal."""
    return Call("tril", lambda x, k: ops.tril(x, k), (as_expr(x),), {"k": k})


def triu(x: Any, k: int = 0) -> Expr:
    """Zeros below a diagonal."""
    return Call("triu", lambda x, k: ops.triu(x, k), (as_expr(x),), {"k": k})


def full(shape: Sequence[int], fill_value: Any, dtype: Any = "float32") -> Expr:
    """A tensor of one number."""
    settings = {
        "value": number(fill_value, "full: fill_value"),
        "shape": tuple(shape),
        "dtype": str(dtype or "float32"),
    }
    return Call("full", lambda value, shape, dtype: ops.full(value, shape, as_dtype(dtype)), (), settings)


def zeros(shape: Sequence[int], dtype: Any) -> Expr:
    """A tensor of zeros."""
    return full(shape, 0, dtype)


def ones(shape: Sequence[int], dtype: Any) -> Expr:
    """A tensor of ones."""
    return full(shape, 1, dtype)


def full_like(x: Any, fill_value: Any, dtype: Any = None) -> Expr:
    """A tensor of one number with the sizes of another."""
    info = as_expr(x).struct_info
    return full(info.shape, fill_value, dtype or info.dtype)


def zeros_like(x: Any, dtype: Any = None) -> Expr:
    """Zeros with the sizes of another tensor."""
    return full_like(x, 0, dtype)


def ones_like(x: Any, dtype: Any = None) -> Expr:
    """Ones with the sizes of another tensor."""
    return full_like(x, 1, dtype)
