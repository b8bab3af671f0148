"""Functions of tensors under TensorFlow's names: ``tf.*`` and ``tf.math.*``."""

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

import adjoint
from adjoint.compat.tensorflow.variables import tensor_of
from adjoint.compat.uncovered import uncovered
from adjoint.errors import InvalidValueError
from adjoint.ir import as_dtype
from adjoint.tensor.tensor import Tensor

__all__ = [
    "abs", "acos", "add", "add_n", "argmax", "argmin", "argsort", "asin", "atan", "boolean_mask", "broadcast_to",
    "cast", "ceil", "clip_by_global_norm", "clip_by_norm", "clip_by_value", "concat", "constant",
    "convert_to_tensor", "cos", "cosh", "cumsum", "divide", "einsum", "equal", "erf", "exp", "expand_dims", "eye",
    "fill", "floor", "gather", "global_norm", "greater", "greater_equal", "identity", "less", "less_equal", "linspace",
    "log", "log1p", "logical_and", "logical_not", "logical_or", "matmul", "maximum", "minimum", "multiply", "negative",
    "norm", "not_equal", "one_hot", "ones", "ones_like", "pad", "pow", "range", "rank", "reduce_all", "reduce_any",
    "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_std", "reduce_sum",
    "reduce_variance", "repeat", "reshape", "reverse", "roll", "round", "rsqrt", "shape", "sigmoid", "sign", "sin",
    "sinh", "size", "slice", "softplus", "sort", "split", "sqrt", "square", "squared_difference", "squeeze", "stack",
    "subtract", "tan", "tanh", "tensordot", "tile", "transpose", "unstack", "where", "zeros", "zeros_like",
]  # fmt: skip
__getattr__ = uncovered(__name__, {}, "adjoint")

_Axis = int | Sequence[int] | None

#: Its functions take graph values too, which these do not.
_native: Any = adjoint


def _t(x: Any, like: Any = None) -> Tensor:
    return tensor_of(x, like.dtype if isinstance(like, Tensor) and not isinstance(x, Tensor) else None)


def _pair(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Two operands; numbers take the dtype of the other."""
    return (_t(x, y), _t(y, x))


def _axes(axis: _Axis) -> Any:
    return tuple(axis) if isinstance(axis, list) else axis


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str | None = None) -> Any:
    """A tensor with these elements."""
    del name
    made = tensor_of(value, dtype)
    if shape is None:
        return made
    return made.reshape(tuple(shape)) if made.numel() > 1 else made.reshape(()).expand(tuple(shape)).clone()


def convert_to_tensor(value: Any, dtype: Any = None, dtype_hint: Any = None, name: str | None = None) -> Tensor:
    """A tensor with these elements."""
    del dtype_hint, name
    return tensor_of(value, dtype)


def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """Conversion to a dtype."""
    del name
    return _t(x).to(as_dtype(dtype))


def zeros(shape: Any, dtype: Any = "float32", name: str | None = None) -> Any:
    """Zeros."""
    del name
    return adjoint.zeros(_shape(shape), dtype=as_dtype(dtype))


def ones(shape: Any, dtype: Any = "float32", name: str | None = None) -> Any:
    """Ones."""
    del name
    return adjoint.ones(_shape(shape), dtype=as_dtype(dtype))


def fill(dims: Any, value: Any, name: str | None = None) -> Any:
    """A tensor of one number."""
    del name
    return constant(value, shape=_shape(dims))


def eye(num_rows: int, num_columns: int | None = None, dtype: Any = "float32") -> Any:
    """The identity matrix."""
    return adjoint.eye(num_rows, num_rows if num_columns is None else num_columns, dtype=as_dtype(dtype))


def range(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str | None = None) -> Tensor:
    """Numbers from `start` to before `limit`."""
    del name
    first, end = (0, start) if limit is None else (start, limit)
    return tensor_of(np.arange(first, end, delta).tolist(), dtype)


def linspace(start: float, stop: float, num: int) -> Any:
    """Numbers with equal distances, both ends among them."""
    return adjoint.linspace(start, stop, num)


def zeros_like(input: Any, dtype: Any = None) -> Any:
    """Zeros with the sizes of a tensor."""
    made = adjoint.zeros_like(_t(input))
    return made if dtype is None else made.to(as_dtype(dtype))


def ones_like(input: Any, dtype: Any = None) -> Any:
    """Ones with the sizes of a tensor."""
    made = adjoint.ones_like(_t(input))
    return made if dtype is None else made.to(as_dtype(dtype))


def _shape(shape: Any) -> tuple[int, ...]:
    if isinstance(shape, int | np.integer):
        return (int(shape),)
    return tuple(int(n) for n in (shape.tolist() if isinstance(shape, Tensor) else shape))


def _unary(name: str) -> Any:
    native = getattr(adjoint, name)

    def operator(x: Any, name: str | None = None) -> Tensor:
        del name
        found: Tensor = native(_t(x))
        return found

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"As `adjoint.{name}`."
    return operator


def _binary(name: str, native_name: str) -> Any:
    native = getattr(adjoint, native_name)

    def operator(x: Any, y: Any, name: str | None = None) -> Tensor:
        del name
        found: Tensor = native(*_pair(x, y))
        return found

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"As `adjoint.{native_name}`."
    return operator


abs, acos, asin, atan = _unary("abs"), _unary("acos"), _unary("asin"), _unary("atan")
ceil, cos, cosh, erf, exp, floor = (_unary(n) for n in ("ceil", "cos", "cosh", "erf", "exp", "floor"))
log, log1p, negative, round = _unary("log"), _unary("log1p"), _unary("neg"), _unary("round")
rsqrt, sigmoid, sign, sin, sinh = (_unary(n) for n in ("rsqrt", "sigmoid", "sign", "sin", "sinh"))
sqrt, square, tan, tanh = _unary("sqrt"), _unary("square"), _unary("tan"), _unary("tanh")
logical_not = _unary("logical_not")
add, subtract, multiply = _binary("add", "add"), _binary("subtract", "sub"), _binary("multiply", "mul")
divide, pow, maximum = _binary("divide", "true_divide"), _binary("pow", "pow"), _binary("maximum", "maximum")
minimum, equal, not_equal = _binary("minimum", "minimum"), _binary("equal", "eq"), _binary("not_equal", "ne")
less, less_equal, greater = _binary("less", "lt"), _binary("less_equal", "le"), _binary("greater", "gt")
greater_equal = _binary("greater_equal", "ge")
logical_and, logical_or = _binary("logical_and", "logical_and"), _binary("logical_or", "logical_or")


def softplus(features: Any) -> Any:
    """``log(1 + exp(x))``."""
    return adjoint.nn.functional.softplus(_t(features))


def squared_difference(x: Any, y: Any) -> Any:
    """``(x - y)**2``."""
    a, b = _pair(x, y)
    return (a - b) ** 2


def add_n(inputs: Sequence[Any]) -> Tensor:
    """The sum of several tensors."""
    total = _t(inputs[0])
    for one in inputs[1:]:
        total = total + _t(one)
    return total


def identity(input: Any) -> Any:
    """The same elements as another tensor."""
    return _t(input).clone()


def _reduction(name: str, method: str, **settings: Any) -> Any:
    def operator(input_tensor: Any, axis: _Axis = None, keepdims: bool = False, name: str | None = None) -> Tensor:
        del name
        x = _t(input_tensor)
        axes = tuple(builtins.range(x.ndim)) if axis is None else _axes(axis)
        if axes == ():
            return x
        found: Tensor = getattr(x, method)(axes, keepdim=keepdims, **settings)
        return found

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"As `Tensor.{method}`."
    return operator


reduce_sum, reduce_mean = _reduction("reduce_sum", "sum"), _reduction("reduce_mean", "mean")
reduce_max, reduce_min = _reduction("reduce_max", "amax"), _reduction("reduce_min", "amin")
reduce_std = _reduction("reduce_std", "std", correction=0)
reduce_variance = _reduction("reduce_variance", "var", correction=0)
reduce_logsumexp = _reduction("reduce_logsumexp", "logsumexp")


def reduce_prod(input_tensor: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """The product of the elements."""
    x = _t(input_tensor)
    return x.prod() if axis is None else x.prod(axis, keepdim=keepdims)


def reduce_all(input_tensor: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """Whether all elements are true."""
    x = _t(input_tensor)
    return x.all() if axis is None else x.all(axis, keepdim=keepdims)


def reduce_any(input_tensor: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """Whether any element is true."""
    x = _t(input_tensor)
    return x.any() if axis is None else x.any(axis, keepdim=keepdims)


def argmax(input: Any, axis: int = 0, output_type: Any = "int64") -> Any:
    """The index of the largest element along an axis; the first axis by default, as in TensorFlow."""
    return _t(input).argmax(axis).to(as_dtype(output_type))


def argmin(input: Any, axis: int = 0, output_type: Any = "int64") -> Any:
    """The index of the smallest element along an axis; the first axis by default, as in TensorFlow."""
    return _t(input).argmin(axis).to(as_dtype(output_type))


def argsort(values: Any, axis: int = -1, direction: str = "ASCENDING") -> Any:
    """The indices that sort along an axis."""
    return _t(values).argsort(axis, descending=direction == "DESCENDING")


def sort(values: Any, axis: int = -1, direction: str = "ASCENDING") -> Any:
    """The elements in order along an axis."""
    return _t(values).sort(axis, descending=direction == "DESCENDING")[0]


def matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, name: str | None = None) -> Any:
    """The product of matrices."""
    del name
    x, y = _pair(a, b)
    return _native.matmul(x.transpose(-1, -2) if transpose_a else x, y.transpose(-1, -2) if transpose_b else y)


def tensordot(a: Any, b: Any, axes: Any) -> Any:
    """Sums of products over axes of both."""
    return _native.tensordot(*_pair(a, b), axes)


def einsum(equation: str, *inputs: Any) -> Any:
    """Sums of products, in Einstein's notation."""
    return adjoint.einsum(equation, *map(_t, inputs))


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Any:
    """Other sizes for the same elements."""
    del name
    return _t(tensor).reshape(_shape(shape))


def transpose(a: Any, perm: Sequence[int] | None = None, name: str | None = None) -> Any:
    """The axes in another order; in reverse by default."""
    del name
    x = _t(a)
    return x.permute(tuple(reversed(builtins.range(x.ndim))) if perm is None else tuple(perm))


def expand_dims(input: Any, axis: int) -> Any:
    """A new axis of size 1."""
    return _t(input).unsqueeze(axis)


def squeeze(input: Any, axis: _Axis = None) -> Any:
    """Without axes of size 1."""
    x = _t(input)
    return x.squeeze() if axis is None else x.squeeze(_axes(axis))


def concat(values: Sequence[Any], axis: int, name: str | None = None) -> Any:
    """Tensors joined along an axis."""
    del name
    return adjoint.cat([_t(one) for one in values], axis)


def stack(values: Sequence[Any], axis: int = 0, name: str | None = None) -> Any:
    """Tensors joined along a new axis."""
    del name
    return adjoint.stack([_t(one) for one in values], axis)


def unstack(value: Any, num: int | None = None, axis: int = 0) -> list[Tensor]:
    """The parts along an axis."""
    del num
    return list(_t(value).unbind(axis))


def split(value: Any, num_or_size_splits: Any, axis: int = 0) -> list[Tensor]:
    """Parts along an axis: so many equal ones, or of these sizes."""
    x = _t(value)
    if isinstance(num_or_size_splits, int):
        if x.shape[axis] % num_or_size_splits:
            raise InvalidValueError(
                f"split: the number of parts must divide {x.shape[axis]}, got {num_or_size_splits}; pass sizes"
            )
        return list(x.split(x.shape[axis] // num_or_size_splits, axis))
    return list(x.split(list(num_or_size_splits), axis))


def slice(input_: Any, begin: Sequence[int], size: Sequence[int]) -> Any:
    """A part with these first positions and sizes; -1 for all that remain."""
    places = tuple(
        builtins.slice(first, None if count == -1 else first + count) for first, count in zip(begin, size, strict=True)
    )
    return _t(input_)[places]


def gather(params: Any, indices: Any, axis: int = 0, batch_dims: int = 0) -> Any:
    """The parts along an axis with these indices."""
    if batch_dims:
        raise InvalidValueError(f"gather: batch_dims must be 0, got {batch_dims}; use take_along_dim of adjoint")
    x, ids = _t(params), _t(indices).to(as_dtype("int64"))
    found = x.index_select(axis, ids.reshape((-1,)))
    at = axis % x.ndim
    return found.reshape((*x.shape[:at], *ids.shape, *x.shape[at + 1 :]))


def boolean_mask(tensor: Any, mask: Any) -> Any:
    """The rows where a mask is true; their number must be known, so it is read."""
    return _t(tensor)[_t(mask)]


def one_hot(
    indices: Any, depth: int, on_value: float = 1.0, off_value: float = 0.0, axis: int = -1, dtype: Any = "float32"
) -> Any:
    """Rows with `on_value` at an index and `off_value` elsewhere."""
    found = adjoint.nn.functional.one_hot(_t(indices).to(as_dtype("int64")), depth).to(as_dtype(dtype))
    found = found if (on_value, off_value) == (1.0, 0.0) else found * (on_value - off_value) + off_value
    return found if axis in (-1, found.ndim - 1) else found.movedim(-1, axis)


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """Elements of `x` where a condition holds, and of `y` elsewhere."""
    if x is None or y is None:
        raise InvalidValueError("where takes two alternatives, got a condition alone; use boolean_mask")
    return adjoint.where(_t(condition), *_pair(x, y))


def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any) -> Any:
    """The elements limited to a range."""
    return _t(t).clamp(clip_value_min, clip_value_max)


def clip_by_norm(t: Any, clip_norm: float) -> Any:
    """The tensor times the factor that limits its norm."""
    x = _t(t)
    return x * (clip_norm / _native.maximum(global_norm([x]), tensor_of(clip_norm, x.dtype)))


def global_norm(t_list: Sequence[Any]) -> Any:
    """The norm of several tensors together."""
    return add_n([(one * one).sum() for one in t_list if one is not None]).sqrt()


def clip_by_global_norm(t_list: Sequence[Any], clip_norm: float, use_norm: Any = None) -> tuple[list[Any], Tensor]:
    """The tensors times the factor that limits the norm of all together, and that norm."""
    norm_now = global_norm(t_list) if use_norm is None else _t(use_norm)
    factor = clip_norm / _native.maximum(norm_now, tensor_of(clip_norm, norm_now.dtype))
    return [None if one is None else one * factor for one in t_list], norm_now


def norm(tensor: Any, ord: Any = "euclidean", axis: Any = None, keepdims: bool = False) -> Any:
    """The Euclidean norm."""
    if ord not in ("euclidean", 2):
        raise InvalidValueError(f"norm: ord must be 'euclidean', got {ord!r}; use adjoint.linalg.norm")
    return reduce_sum(square(tensor), axis, keepdims).sqrt()


def cumsum(x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Any:
    """Sums of the elements up to each one."""
    value = _t(x)
    value = value.flip(axis) if reverse else value
    found = value.cumsum(axis)
    found = found - value if exclusive else found
    return found.flip(axis) if reverse else found


def reverse(tensor: Any, axis: Sequence[int]) -> Any:
    """The elements along axes in reverse."""
    return _t(tensor).flip(tuple(axis))


def roll(input: Any, shift: Any, axis: Any) -> Any:
    """The elements moved along an axis, around its end."""
    return _t(input).roll(shift, axis)


def tile(input: Any, multiples: Any) -> Any:
    """Copies side by side."""
    return _t(input).tile(_shape(multiples))


def repeat(input: Any, repeats: int, axis: int | None = None) -> Any:
    """Each element several times."""
    x = _t(input)
    return x.reshape((-1,)).repeat_interleave(repeats) if axis is None else x.repeat_interleave(repeats, axis)


def pad(tensor: Any, paddings: Any, mode: str = "CONSTANT", constant_values: float = 0) -> Any:
    """Padding: for each axis the number before it and the number after it."""
    pairs = np.asarray(paddings).tolist()
    flat = [n for pair in reversed(pairs) for n in pair]
    names = {"CONSTANT": "constant", "REFLECT": "reflect"}
    if mode not in names:
        raise InvalidValueError(f"pad: mode must be CONSTANT or REFLECT, got {mode!r}; pad with tf.concat")
    settings = {"value": constant_values} if mode == "CONSTANT" else {}
    return adjoint.nn.functional.pad(_t(tensor), flat, names[mode], **settings)


def broadcast_to(input: Any, shape: Any) -> Any:
    """Repeated along axes of size 1."""
    return _t(input).expand(_shape(shape))


def shape(input: Any) -> Tensor:
    """The sizes, as a tensor."""
    return tensor_of(list(_t(input).shape), "int32")


def size(input: Any) -> Tensor:
    """The number of elements, as a tensor."""
    return tensor_of(_t(input).numel(), "int32")


def rank(input: Any) -> Tensor:
    """The number of axes, as a tensor."""
    return tensor_of(_t(input).ndim, "int32")
