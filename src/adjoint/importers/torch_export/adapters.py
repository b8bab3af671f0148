"""ATen operators whose arguments differ from those of adjoint's functions: arithmetic, shapes, creation, indexing."""

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from adjoint import linalg
from adjoint.nn import functional as F  # noqa: N812
from adjoint.tensor.arithmetic import add, maximum, minimum, sub
from adjoint.tensor.arithmetic import pow as pow_
from adjoint.tensor.arranging import block_diag, tensor_split
from adjoint.tensor.comparison import where
from adjoint.tensor.creation import arange, full, ones, zeros, zeros_like
from adjoint.tensor.diagonals import meshgrid
from adjoint.tensor.elementwise import expm1, log_softmax, softmax
from adjoint.tensor.gathering import gather, scatter
from adjoint.tensor.linear_algebra import einsum
from adjoint.tensor.random import bernoulli, rand, rand_like, randn
from adjoint.tensor.reductions import std, std_mean, var, var_mean
from adjoint.tensor.shapes import broadcast_tensors, chunk, transpose

__all__ = ["ADAPTERS"]


def _cast(x: Any, dtype: Any = None, copy: bool = False, **_: Any) -> Any:
    return x.to(dtype, copy=copy) if dtype is not None else x.to(copy=copy)


def _like(make: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes a tensor of given sizes in the dtype of another."""

    def made(x: Any, size: Sequence[int], *value: Any, dtype: Any = None) -> Any:
        return make(tuple(size), *value, dtype=x.dtype if dtype is None else dtype)

    return made


def _filled(make: Callable[..., Any]) -> Callable[..., Any]:
    return lambda size, dtype=None: make(tuple(size), dtype=dtype)


def _slice(x: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    return x[(slice(None),) * (dim % len(x.shape)) + (slice(start, end, step),)]


def _index(x: Any, indices: Sequence[Any]) -> Any:
    return x[tuple(slice(None) if one is None else one for one in indices)]


def _index_put(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    return _index_put_(x.clone(), indices, values, accumulate)


def _index_put_(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    if accumulate:
        return x.index_put_(tuple(_positions(x, indices)), values, accumulate=True)
    x[tuple(slice(None) if one is None else one for one in indices)] = values
    return x


def _positions(x: Any, indices: Sequence[Any]) -> list[Any]:
    """Indices with those of whole axes, None, as positions that broadcast with the others, as the values do."""
    whole = [axis for axis, one in enumerate(indices) if one is None]
    if not whole:
        return list(indices)
    given = list(broadcast_tensors(*(one for one in indices if one is not None)))
    rank, places = given[0].dim(), [axis for axis, one in enumerate(indices) if one is not None]
    # The axes of the indices are at the first of their places; in front, if there are others between them.
    together = places[-1] - places[0] == len(places) - 1
    before = sum(axis < places[0] for axis in whole) if together else 0
    found: list[Any] = []
    for axis, one in enumerate(indices):
        if one is None:
            number = whole.index(axis)
            place = number if number < before else number + rank
            sizes = [1] * (len(whole) + rank)
            sizes[place] = x.shape[axis]
            found.append(arange(x.shape[axis]).reshape(tuple(sizes)))
        else:
            index = given.pop(0)
            found.append(index.reshape((1,) * before + tuple(index.shape) + (1,) * (len(whole) - before)))
    return found


def _add(x: Any, other: Any, alpha: Any = 1) -> Any:
    return add(x, other, alpha=alpha)


def _sub(x: Any, other: Any, alpha: Any = 1) -> Any:
    return sub(x, other, alpha=alpha)


def _rsub(x: Any, other: Any, alpha: Any = 1) -> Any:
    return other - (x if alpha == 1 else x * alpha)


def _elu(x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    if input_scale != 1:
        return where(x > 0, x * scale, expm1(x * input_scale) * (alpha * scale))
    made = F.elu(x, alpha)
    return made if scale == 1 else made * scale


def _moments(function: Callable[..., Any]) -> Callable[..., Any]:
    """Of a standard deviation or variance of all elements."""
    return lambda x, unbiased=True: function(x, correction=int(unbiased))


def _corrected(function: Callable[..., Any]) -> Callable[..., Any]:
    def made(x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
        axes = tuple(dim) if isinstance(dim, list) and dim else (None if isinstance(dim, list) else dim)
        return function(x, dim=axes, correction=1 if correction is None else correction, keepdim=keepdim)

    return made


def _norm(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    return linalg.vector_norm(x, ord, tuple(dim) if isinstance(dim, list) else dim, keepdim, dtype=dtype)


def _squeezed(x: Any, dims: Sequence[int] = ()) -> Any:
    return x.squeeze(tuple(dims))


def _sum_to(x: Any, size: Sequence[int]) -> Any:
    extra = len(x.shape) - len(size)
    axes = (*range(extra), *(n + extra for n, one in enumerate(size) if one == 1 and x.shape[n + extra] != 1))
    return (x.sum(axes, keepdim=True) if axes else x).reshape(tuple(size))


def _bernoulli(x: Any, p: float = 0.5) -> Any:
    return bernoulli(full(tuple(x.shape), p, dtype=x.dtype))


#: Python's operators, on sizes and numbers.
_PYTHON = {
    f"py.{name}": getattr(operator, name)
    for name in ("add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "neg", "getitem", "index")
} | {f"py.{name}": getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "not_")}

ADAPTERS: dict[str, Callable[..., Any]] = {
    **_PYTHON,
    "py.ceil": math.ceil,
    "py.floor": math.floor,
    "py.trunc": math.trunc,
    "py.sym_max": max,
    "py.sym_min": min,
    "py.sym_float": float,
    "py.sym_int": int,
    "py.sym_not": operator.not_,
    "py.sym_ite": lambda condition, a, b: a if condition else b,
    "py.sym_sum": sum,
    "py.gathered": lambda *values: values,
    "sym_size.int": lambda x, dim: x.shape[dim],
    "sym_numel.default": lambda x: x.numel(),
    "add.Scalar": _add,
    "sub.Scalar": _sub,
    "subtract.Scalar": _sub,
    "rsub.Scalar": _rsub,
    "__rpow__.Scalar": lambda x, other: pow_(other, x),
    "min.other": minimum,
    "max.other": maximum,
    "std.default": _moments(std),
    "std.dim": lambda x, dim, unbiased=True, keepdim=False: _corrected(std)(
        x, dim, correction=int(unbiased), keepdim=keepdim
    ),
    "std.correction": _corrected(std),
    "var.default": _moments(var),
    "var.dim": lambda x, dim, unbiased=True, keepdim=False: _corrected(var)(
        x, dim, correction=int(unbiased), keepdim=keepdim
    ),
    "var.correction": _corrected(var),
    "std_mean.correction": _corrected(std_mean),
    "var_mean.correction": _corrected(var_mean),
    "norm.Scalar": lambda x, p=2: _norm(x, p),
    "elu.default": _elu,
    "log_sigmoid.default": F.logsigmoid,
    "_softmax.default": lambda x, dim, _half: softmax(x, dim),
    "_log_softmax.default": lambda x, dim, _half: log_softmax(x, dim),
    "einsum.default": lambda equation, tensors, path=None: einsum(equation, *tensors),  # noqa: ARG005
    "linalg_svd.default": lambda x, full=True, driver=None: linalg.svd(x, full),  # noqa: ARG005
    "linalg_svdvals.default": lambda x, driver=None: linalg.svdvals(x),  # noqa: ARG005
    # Dtypes and copies.
    "to.dtype": lambda x, dtype, non_blocking=False, copy=False: _cast(x, dtype, copy),  # noqa: ARG005
    "to.device": lambda x, device, dtype, non_blocking=False, copy=False: _cast(x, dtype, copy),  # noqa: ARG005
    "to.dtype_layout": _cast,
    "to.other": lambda x, other, non_blocking=False, copy=False: _cast(x, other.dtype, copy),  # noqa: ARG005
    "_to_copy.default": lambda x, dtype=None, **_: _cast(x, dtype, True),
    "lift_fresh_copy.default": lambda x: x.clone(),
    "lift_fresh.default": lambda x: x,
    "alias.default": lambda x: x,
    "detach_.default": lambda x: x.detach(),
    "contiguous.default": lambda x, **_: x,
    "copy.default": lambda x, source, _=False: zeros_like(x).copy_(source),
    "copy_.default": lambda x, source, _=False: x.copy_(source),
    "fill_.Scalar": lambda x, value: x.fill_(value),
    "fill_.Tensor": lambda x, value: x.copy_(value.expand(tuple(x.shape))),
    "zero_.default": lambda x: x.zero_(),
    "bernoulli.p": _bernoulli,
    "bernoulli_.float": lambda x, p=0.5: x.copy_(_bernoulli(x, p)),
    "uniform_.default": lambda x, low=0.0, high=1.0: x.copy_(rand_like(x) * (high - low) + low),
    # Creation.
    "arange.default": lambda end, dtype=None: arange(end, dtype=dtype),
    "arange.start": lambda start, end, dtype=None: arange(start, end, dtype=dtype),
    "arange.start_step": lambda start, end, step=1, dtype=None: arange(start, end, step, dtype=dtype),
    "full.default": lambda size, value, dtype=None: full(tuple(size), value, dtype=dtype),
    "zeros.default": _filled(zeros),
    "ones.default": _filled(ones),
    "empty.memory_format": _filled(zeros),
    "rand.default": _filled(rand),
    "randn.default": _filled(randn),
    "new_full.default": _like(full),
    "new_zeros.default": _like(zeros),
    "new_ones.default": _like(ones),
    "new_empty.default": _like(zeros),
    "one_hot.default": F.one_hot,
    # Shapes.
    "view.default": lambda x, size: x.reshape(tuple(size)),
    "_unsafe_view.default": lambda x, size: x.reshape(tuple(size)),
    "expand.default": lambda x, size, implicit=False: x.expand(tuple(size)),  # noqa: ARG005
    "broadcast_to.default": lambda x, size: x.expand(tuple(size)),
    "repeat.default": lambda x, repeats: x.repeat(tuple(repeats)),
    "squeeze.dims": _squeezed,
    "sum_to_size.default": _sum_to,
    "unsafe_split.Tensor": lambda x, size, dim=0: x.split(size, dim),
    "unsafe_chunk.default": chunk,
    "meshgrid.default": lambda tensors: meshgrid(*tensors),
    "meshgrid.indexing": lambda tensors, indexing: meshgrid(*tensors, indexing=indexing),
    "tensor_split.sections": tensor_split,
    "tensor_split.indices": tensor_split,
    "block_diag.default": lambda tensors: block_diag(*tensors),
    "broadcast_tensors.default": lambda tensors: list(broadcast_tensors(*tensors)),
    "mT.default": lambda x: x.transpose(-2, -1),
    "numpy_T.default": lambda x: x.permute(tuple(range(x.dim() - 1, -1, -1))),
    "swapaxes.default": transpose,
    # Positions.
    "slice.Tensor": _slice,
    "index.Tensor": _index,
    "index_put.default": _index_put,
    "index_put_.default": _index_put_,
    "gather.default": lambda x, dim, index, sparse_grad=False: gather(x, dim, index),  # noqa: ARG005
    "scatter.value": lambda x, dim, index, value: scatter(x, dim, index, value=value),
    "masked_fill.Tensor": lambda x, mask, value: where(mask, value.to(x.dtype), x),
}
