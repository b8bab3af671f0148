"""Functions that select, add and write elements by tensors of positions along an axis."""

from typing import Any

import numpy as np

from adjoint import ops
from adjoint.errors import TypeRuleError
from adjoint.ir import DTYPES, Value, dtype_name
from adjoint.ops.axes import axis_of
from adjoint.ops.gathering import last_axis
from adjoint.tensor.arithmetic import times
from adjoint.tensor.comparison import truth
from adjoint.tensor.indexing import add_rows, getitem, positions_in
from adjoint.tensor.indexing import nonzero as positions_of
from adjoint.tensor.joining import stack
from adjoint.tensor.making import from_array
from adjoint.tensor.promotion import promoted
from adjoint.tensor.record import operation
from adjoint.tensor.scalar_axes import accepts_scalars, as_vector
from adjoint.tensor.shapes import expand, reshape

__all__ = [
    "argwhere",
    "bincount",
    "gather",
    "index_add",
    "index_select",
    "masked_fill",
    "masked_select",
    "nonzero",
    "scatter",
    "scatter_add",
    "take",
    "take_along_dim",
]

_I64 = DTYPES["i64"]


def _axis(name: str, x: Any, dim: int) -> int:
    return axis_of(name, dim, len(x.shape))


@operation
def _nothing(input: Value, shape: tuple[int, ...]) -> Value:
    return ops.reshape(ops.slice(ops.reshape(input, (input.type.size,)), (0,), (0,)), shape)


@operation
def _gathered(input: Value, dim: int, index: Value) -> Value:
    if (
        index.shape[dim] == 1
        and input.shape[dim]
        and index.shape == tuple(1 if n == dim else size for n, size in enumerate(input.shape))
    ):
        found = ops.take_along_last(last_axis(input, dim), ops.squeeze(index, dim))
        return ops.expand_dims(found, dim)
    return ops.gather(_corner(input, dim, index), index, dim)


def _corner(x: Value, dim: int, index: Value) -> Value:
    """The part of a tensor that an index, which may be smaller, refers to."""
    stops = [size if n == dim else index.shape[n] for n, size in enumerate(x.shape)]
    return ops.slice(x, (0,) * len(stops), stops)


def checked_index(name: str, x: Any, dim: int, index: Any) -> tuple[int, Any]:
    at = _axis(name, x, dim)
    if index.dtype.kind not in "iu":
        given = f"{dtype_name(index.dtype)}{list(index.shape)}"
        raise TypeRuleError(f"{name}: the index must have an integer dtype, got {given}; convert it with long()")
    fits = len(index.shape) == len(x.shape) and all(
        n == at or a <= b for n, (a, b) in enumerate(zip(index.shape, x.shape, strict=False))
    )
    if not fits:
        raise TypeRuleError(
            f"{name}: the index must have as many axes as the tensor, and be no larger except along dim, got shapes "
            f"{tuple(index.shape)} and {tuple(x.shape)} with dim {dim}; index with [] for other selections"
        )
    return at, positions_in(name, index, x.shape[at])


def gather(input: Any, dim: int, index: Any) -> Any:
    """Elements at positions along an axis: for ``dim=1``, ``result[i, j] = input[i, index[i, j]]``.

    Parameters
    ----------
    input : Tensor
        Any tensor with axes.
    dim : int
        The axis.
    index : Tensor
        Integers, with as many axes as `input`, and no larger except along `dim`. The result has its shape. Elements
        that have been computed are checked when this is called; a position that is computed by the program and out of
        range selects another element.
    """
    if 0 in index.shape:
        axis_of("gather", dim, max(len(input.shape), 1))
        return _nothing(input, tuple(index.shape))
    if not input.shape:
        return reshape(gather(as_vector(input), dim, as_vector(index)), tuple(index.shape))
    at, ids = checked_index("gather", input, dim, index)
    return _gathered(input, at, ids)


def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Any:
    """`gather` whose operands are broadcast except along the axis; without one, of the flattened tensors."""
    if dim is None:
        return gather(reshape(input, (-1,)), 0, reshape(indices, (-1,)))
    at = _axis("take_along_dim", input, dim)
    shape = list(
        np.broadcast_shapes(*(tuple(1 if n == at else m for n, m in enumerate(x.shape)) for x in (input, indices)))
    )
    wide = [expand(x, tuple(x.shape[at] if n == at else m for n, m in enumerate(shape))) for x in (input, indices)]
    return gather(wide[0], at, wide[1])


def take(input: Any, index: Any) -> Any:
    """Elements at positions in the flattened tensor."""
    flat = reshape(input, (-1,))
    return getitem(flat, index)


@accepts_scalars()
def index_select(input: Any, dim: int, index: Any) -> Any:
    """Parts at positions along an axis; `index` is a vector."""
    return getitem(input, (*(slice(None),) * _axis("index_select", input, dim), as_vector(index)))


@operation
def _combined(input: Value, dim: int, index: Value, src: Any, reduce: str) -> Value:
    """The elements at positions along an axis replaced by others, or combined with them."""
    if isinstance(src, Value) and src.shape:
        part = ops.slice(src, (0,) * len(src.shape), index.shape)
    else:
        given = src if isinstance(src, Value) else ops.full(promoted(input, src, dtype=input.dtype)[1], (), input.dtype)
        part = ops.broadcast_to(ops.cast(given, input.dtype), index.shape)
    if not index.type.size:
        return input
    corner = _corner(input, dim, index)
    if reduce != "set" and input.dtype.kind == "b":
        # A sum is true where any term is, a product where all factors are.
        wide = (ops.cast(x, DTYPES["u8"]) for x in (corner, part))
        found = ops.scatter(next(wide), index, next(wide), dim, "amax" if reduce == "add" else "amin")
        return in_front(input, ops.cast(found, input.dtype))
    return in_front(input, ops.scatter(corner, index, part, dim, reduce))


def in_front(x: Value, part: Value) -> Value:
    """`x` with the elements at the start of all axes replaced by a part, which may be all of it."""
    for axis in reversed(range(len(x.shape))):
        if part.shape[axis] == x.shape[axis]:
            continue
        rest = ops.slice_axis(x, axis, part.shape[axis], x.shape[axis])
        for n in range(axis):
            rest = ops.slice_axis(rest, n, 0, part.shape[n])
        part = ops.concat([part, rest], axis=axis)
    return part


@accepts_scalars("index", "src")
def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Any:
    """`input` with elements added at positions along an axis: for ``dim=1``, ``result[i, index[i, j]] += src[i, j]``.

    Parameters
    ----------
    input : Tensor
        Any tensor with axes.
    dim : int
        The axis.
    index : Tensor
        Integers; parameters as in `gather`.
    src : Tensor
        Of the dtype of `input`, and at least as large as `index`.
    """
    at, ids = checked_index("scatter_add", input, dim, index)
    return _combined(input, at, ids, src, "add")


@accepts_scalars("index", "src")
def scatter(input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Any:
    """`input` with elements replaced at positions along an axis: for ``dim=1``, ``result[i, index[i, j]] = src[i, j]``.

    Of several elements for one position, the last one counts. Parameters as in `scatter_add`; `src` may be a number,
    and with ``reduce="add"`` or ``"multiply"`` elements are combined instead.
    """
    given = value if src is None else src
    ways = {None: "set", "add": "add", "multiply": "prod"}
    if reduce not in ways:
        raise TypeRuleError(f"scatter: reduce must be None, 'add' or 'multiply', got {reduce!r}; use scatter_reduce")
    at, ids = checked_index("scatter", input, dim, index)
    return _combined(input, at, ids, given, ways[reduce])


@operation
def _rows_added(input: Value, dim: int, index: Value, source: Value, alpha: float) -> Value:
    order = [dim, *(n for n in range(len(input.shape)) if n != dim)]
    rows = ops.permute(source, order)
    new = add_rows(ops.permute(input, order), index, rows if alpha == 1 else times(rows, alpha))
    return ops.permute(new, [order.index(n) for n in range(len(order))])


@accepts_scalars("source")
def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Any:
    """`input` with ``alpha * source`` added to the parts at positions along an axis; `index` is a vector."""
    at = _axis("index_add", input, dim)
    return _rows_added(input, at, positions_in("index_add", index, input.shape[at]), source, alpha)


@operation
def masked_fill(input: Value, mask: Value, value: Any) -> Value:
    """`input` with a value where a bool mask, which broadcasts, is true."""
    x, new = promoted(input, value, dtype=input.dtype)
    return ops.where(truth(mask), new, x)


def masked_select(input: Any, mask: Any) -> Any:
    """The elements where a mask is true, as a vector: reads the mask."""
    try:
        shape = np.broadcast_shapes(tuple(input.shape), tuple(mask.shape), (1,))
    except ValueError:
        raise TypeRuleError(
            f"masked_select: the mask must broadcast with the input, got {tuple(mask.shape)} for {tuple(input.shape)}; "
            "reshape it"
        ) from None
    return getitem(expand(input, shape), expand(mask, shape))


def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """The positions of the elements that are not zero, one row each, or as one tensor per axis: reads the tensor."""
    found = positions_of(input)
    if as_tuple:
        return found
    return stack(found, 1) if input.shape else from_array(np.zeros((found[0].shape[0], 0), np.int64))


def argwhere(input: Any) -> Any:
    """The positions of the elements that are not zero, one row each: reads the tensor."""
    return nonzero(input)


@operation
def _counted(input: Value, weights: Any, count: int) -> Value:
    ones = ops.full_like(ops.cast(input, _I64), 1) if weights is None else weights
    if weights is not None and weights.dtype != DTYPES["f32"]:
        ones = ops.cast(weights, DTYPES["f64"])
    return ops.scatter_add(input, ones, count)


def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each number from 0 on occurs, or the sum of its weights: reads the tensor.

    The sums of weights are f32 if the weights are, otherwise f64.
    """
    array = input.elements().array
    if array.dtype.kind not in "iu" or (array.size and array.min() < 0):
        raise TypeRuleError(
            f"bincount: elements must be integers of at least 0, got {dtype_name(array.dtype)}; convert them first"
        )
    count = max(int(array.max()) + 1 if array.size else 0, minlength)
    if not array.size:
        return from_array(np.zeros(count, np.int64 if weights is None else np.float64))
    return _counted(input, weights, count)
