"""Elements at positions."""

from typing import Any

import numpy as np

from adjoint.importers.onnx.graph import Node
from adjoint.importers.onnx.operators.base import Array, Rule, Table, as_tensor, axis_of, refuse, room
from adjoint.nn import functional
from adjoint.tensor import comparison, gathering, scattering

__all__ = ["INDEXING"]


def _gather(node: Node, x: Array, ids: Array) -> Array:
    """Parts along an axis; positions are those of a table of embeddings, or known."""
    rank = len(x.shape)
    axis = axis_of(node, node.attrs["axis"], rank)
    x = as_tensor(x)
    if not isinstance(ids, np.ndarray):
        return x[(*[slice(None)] * axis, ids)]
    size = x.shape[axis]
    if ids.size and not -size <= int(ids.min()) <= int(ids.max()) < size:
        raise refuse(node, f"must have positions in an axis of {size}", f"{ids.min()} to {ids.max()}")
    places = np.where(ids < 0, ids + size, ids).astype(np.int64)
    if not places.ndim:
        return x.select(axis, int(places))
    found = gathering.index_select(x, axis, as_tensor(places.reshape(-1)))
    return found.reshape((*x.shape[:axis], *places.shape, *x.shape[axis + 1 :]))


def _known_gather(node: Node, x: np.ndarray, ids: np.ndarray) -> np.ndarray:
    axis = axis_of(node, node.attrs["axis"], x.ndim)
    room(node, (ids.size, *(size for n, size in enumerate(x.shape) if n != axis)))
    return np.take(x, ids, axis)


def _wrapped(ids: Array, size: int) -> Array:
    """Positions counted from the end as positions from 0."""
    return comparison.where(ids < 0, ids + size, ids)


def _gather_elements(node: Node, x: Array, ids: Array) -> Array:
    axis = axis_of(node, node.attrs["axis"], len(x.shape))
    return gathering.gather(x, axis, _wrapped(ids, x.shape[axis]).to("i64"))


def _known_gather_elements(node: Node, x: np.ndarray, ids: np.ndarray) -> np.ndarray:
    return np.take_along_axis(x, ids, axis_of(node, node.attrs["axis"], x.ndim))


#: How scattered elements are combined, by the names of ONNX and of adjoint.
_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _scatter_elements(node: Node, x: Array, ids: Array, updates: Array) -> Array:
    axis = axis_of(node, node.attrs["axis"], len(x.shape))
    places = _wrapped(ids, x.shape[axis]).to("i64")
    reduction = node.attrs.get("reduction", "none")
    if reduction == "none":
        return gathering.scatter(x, axis, places, updates)
    return scattering.scatter_reduce(x, axis, places, updates, _REDUCTIONS[reduction])


def _coordinates(ids: Array, batch: int) -> tuple[Array, ...]:
    """The positions on each axis, where the first axes are counted by those of the positions."""
    shape = ids.shape[:-1]
    own = []
    for axis in range(batch):
        column = np.arange(shape[axis], dtype=np.int64).reshape([-1 if n == axis else 1 for n in range(len(shape))])
        own.append(as_tensor(np.broadcast_to(column, shape).copy()))
    return (*own, *(ids.select(-1, n) for n in range(ids.shape[-1])))


def _gather_nd(node: Node, x: Array, ids: Array) -> Array:
    return x[_coordinates(ids.to("i64"), node.attrs["batch_dims"])]


def _scatter_nd(node: Node, x: Array, ids: Array, updates: Array) -> Array:
    reduction = node.attrs.get("reduction", "none")
    if reduction not in ("none", "add"):
        raise refuse(node, "must replace elements or add to them", f"reduction={reduction!r}")
    return scattering.index_put(x, _coordinates(ids.to("i64"), 0), updates, reduction == "add")


def _known_scatter_nd(node: Node, x: np.ndarray, ids: np.ndarray, updates: np.ndarray) -> np.ndarray:
    if node.attrs.get("reduction", "none") != "none":
        raise refuse(node, "must replace elements of a constant", f"reduction={node.attrs['reduction']!r}")
    made = x.copy()
    made[tuple(np.moveaxis(ids, -1, 0))] = updates
    return made


def _one_hot(node: Node, ids: Array, depth: np.ndarray, values: np.ndarray) -> Array:
    if depth.size != 1 or values.shape != (2,):
        raise refuse(node, "must have one depth and two values", f"{list(depth.shape)} and {list(values.shape)}")
    count = int(depth.item())
    rank = len(ids.shape) + 1
    axis = axis_of(node, node.attrs["axis"], rank)
    chosen = functional.one_hot(_wrapped(ids.to("i64"), count), count).movedim(-1, axis).to("bool")
    off, on = as_tensor(values[0].reshape(())), as_tensor(values[1].reshape(()))
    return comparison.where(chosen, on, off).to(values.dtype)


def _nonzero(_node: Node, x: np.ndarray) -> Any:
    return np.array(np.nonzero(x), np.int64)


INDEXING: Table = {
    "Gather": Rule(_gather, fold=_known_gather),
    "GatherElements": Rule(_gather_elements, fold=_known_gather_elements),
    "GatherND": Rule(_gather_nd),
    "NonZero": Rule(_nonzero, known=frozenset({0}), fold=_nonzero),
    "OneHot": Rule(_one_hot, known=frozenset({1, 2})),
    "ScatterElements": Rule(_scatter_elements),
    "ScatterND": Rule(_scatter_nd, fold=_known_scatter_nd),
}
