"""Shapes, and operators that only arrange elements."""

from collections.abc import Sequence
from math import ceil, prod
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.importers.onnx.graph import Node
from adjoint.importers.onnx.operators.base import (
    Array,
    Rule,
    Table,
    as_tensor,
    axes_of,
    axis_of,
    ints,
    permuted,
    plain,
    refuse,
    reshaped,
    room,
)
from adjoint.nn import functional
from adjoint.tensor import diagonals, joining, shapes

__all__ = ["SHAPES"]


def _new_shape(node: Node, old: Sequence[int], wanted: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that Reshape makes: 0 stands for the size of the same axis, -1 for what is left."""
    if not node.attrs.get("allowzero"):
        if any(size == 0 and n >= len(old) for n, size in enumerate(wanted)):
            raise refuse(node, "must keep axes that there are", f"{list(wanted)} for {list(old)}")
        wanted = tuple(old[n] if size == 0 else size for n, size in enumerate(wanted))
    if wanted.count(-1) == 1:
        others = prod(size for size in wanted if size != -1)
        left = prod(old) // others if others else 0
        wanted = tuple(left if size == -1 else size for size in wanted)
    if any(size < 0 for size in wanted) or prod(wanted) != prod(old):
        raise InvalidValueError(
            f"from_onnx: {node} must keep the number of elements, got {list(old)} to {list(wanted)}; if the model was "
            "exported for one size of batch, export it with a dynamic batch axis"
        )
    return wanted


def _with_shape(x: Array, shape: tuple[int, ...]) -> Array:
    return x.reshape(shape) if isinstance(x, np.ndarray) else reshaped(x, shape)


def _reshape(node: Node, x: Array, shape: np.ndarray) -> Array:
    return _with_shape(x, _new_shape(node, x.shape, ints(node, shape, "shape")))


def _transpose(node: Node, x: Array) -> Array:
    rank = len(x.shape)
    axes = axes_of(node, node.attrs.get("perm", tuple(range(rank))[::-1]), rank)
    if len(axes) != rank:
        raise refuse(node, "must permute all axes", list(axes), "export the model again")
    return x.transpose(axes) if isinstance(x, np.ndarray) else permuted(x, axes)


def _squeeze(node: Node, x: Array, axes: np.ndarray | None = None) -> Array:
    old = x.shape
    gone = (
        [n for n, size in enumerate(old) if size == 1]
        if axes is None
        else axes_of(node, ints(node, axes, "axes"), len(old))
    )
    if any(old[n] != 1 for n in gone):
        raise refuse(node, "must remove axes of size 1", f"{list(gone)} of {list(old)}")
    return _with_shape(x, tuple(size for n, size in enumerate(old) if n not in gone))


def _unsqueeze(node: Node, x: Array, axes: np.ndarray) -> Array:
    given = ints(node, axes, "axes")
    rank = len(x.shape) + len(given)
    new = axes_of(node, given, rank)
    sizes = iter(x.shape)
    return _with_shape(x, tuple(1 if n in new else next(sizes) for n in range(rank)))


def _flatten(node: Node, x: Array) -> Array:
    axis, rank = node.attrs["axis"], len(x.shape)
    if not -rank <= axis <= rank:
        raise refuse(node, f"must have an axis of its input, which has {rank}", axis)
    at = axis + rank if axis < 0 else axis
    return _with_shape(x, (prod(x.shape[:at]), prod(x.shape[at:])))


def _expanded(node: Node, old: Sequence[int], shape: np.ndarray) -> tuple[int, ...]:
    """The shape that both shapes broadcast to."""
    return np.broadcast_shapes(tuple(old), ints(node, shape, "shape"))


def _expand(node: Node, x: Array, shape: np.ndarray) -> Array:
    return shapes.broadcast_to(x, _expanded(node, x.shape, shape))


def _known_expand(node: Node, x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    wanted = ints(node, shape, "shape")
    room(node, wanted)
    return np.broadcast_to(x, room(node, _expanded(node, x.shape, shape)))


def _concat(node: Node, *xs: Array) -> Array:
    axis = axis_of(node, node.attrs["axis"], len(xs[0].shape))
    return joining.cat([as_tensor(x) for x in xs], axis)


def _known_concat(node: Node, *xs: np.ndarray) -> np.ndarray:
    room(node, (sum(x.size for x in xs),))
    return np.concatenate(xs, axis_of(node, node.attrs["axis"], xs[0].ndim))


def _split(node: Node, x: Array, split: np.ndarray | None = None) -> tuple[Array, ...]:
    axis = axis_of(node, node.attrs["axis"], len(x.shape))
    size = x.shape[axis]
    if split is not None:
        sizes = ints(node, split, "sizes")
    else:
        parts = node.attrs.get("num_outputs", len(node.outputs))
        each = ceil(size / max(parts, 1))
        sizes = (*[each] * (parts - 1), size - each * (parts - 1))
    if sum(sizes) != size or any(n < 0 for n in sizes) or len(sizes) < len(node.outputs):
        raise refuse(node, f"must have parts that add up to {size}", list(sizes), "export the model again")
    if isinstance(x, np.ndarray):
        return tuple(np.split(x, np.cumsum(sizes)[:-1], axis))
    return tuple(shapes.split_with_sizes(x, sizes, axis))


def _split_to_sequence(node: Node, x: Array, split: np.ndarray | None = None) -> list[Array]:
    """Parts as a list, which only SequenceAt takes elements from."""
    axis, keep = axis_of(node, node.attrs["axis"], len(x.shape)), split is not None or bool(node.attrs["keepdims"])
    size = x.shape[axis]
    if split is not None and split.ndim == 0:
        each = int(split.item())
        sizes = [min(each, size - n) for n in range(0, size, each)]
    else:
        sizes = [1] * size if split is None else list(ints(node, split, "sizes"))
    if sum(sizes) != size or any(n < 0 for n in sizes):
        raise refuse(node, f"must have parts that add up to {size}", sizes, "export the model again")
    parts = shapes.split_with_sizes(as_tensor(x), sizes, axis)
    return list(parts) if keep else [part.squeeze(axis) for part in parts]


def _sequence_at(_node: Node, parts: list[Array], position: np.ndarray) -> Array:
    return parts[int(position.item())]


def _slice(
    node: Node,
    x: Array,
    starts: np.ndarray,
    ends: np.ndarray,
    axes: np.ndarray | None = None,
    steps: np.ndarray | None = None,
) -> Array:
    rank = len(x.shape)
    begin, end = ints(node, starts, "starts"), ints(node, ends, "ends")
    along = axes_of(node, range(len(begin)) if axes is None else ints(node, axes, "axes"), rank)
    by = (1,) * len(begin) if steps is None else ints(node, steps, "steps")
    if not len(begin) == len(end) == len(along) == len(by) or 0 in by:
        raise refuse(node, "must have a start, an end and a step other than 0 for each axis", list(by))
    key = [slice(None)] * rank
    turned = []
    for axis, first, last, step in zip(along, begin, end, by, strict=True):
        places = range(*slice(first, _open_end(last, step), step).indices(x.shape[axis]))
        if step < 0 and not isinstance(x, np.ndarray):  # tensors are sliced forwards, and turned around
            places = places[::-1]
            turned.append(axis)
        key[axis] = slice(places.start, places.stop, places.step) if len(places) else slice(0, 0)
        if isinstance(x, np.ndarray) and step < 0 and len(places):
            key[axis] = slice(first, _open_end(last, step), step)
    y = x[tuple(key)]
    return y.flip(turned) if turned else y


def _open_end(last: int, step: int) -> int | None:
    """The end as Python writes it: what is far below 0 includes the first element when going backwards."""
    return None if step < 0 and last <= -(1 << 31) else last


def _tile(node: Node, x: Array, repeats: np.ndarray) -> Array:
    times = ints(node, repeats, "repeats")
    if isinstance(x, np.ndarray):
        room(node, tuple(n * max(size, 1) for n, size in zip(times, x.shape, strict=True)))
        return np.tile(x, times)
    return joining.tile(x, times)


#: The modes of Pad that adjoint has, and their names there.
_MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}


def _pad(
    node: Node, x: Array, pads: np.ndarray, value: np.ndarray | None = None, axes: np.ndarray | None = None
) -> Array:
    rank = len(x.shape)
    amounts = ints(node, pads, "pads")
    along = axes_of(node, range(rank) if axes is None else ints(node, axes, "axes"), rank)
    if len(amounts) != 2 * len(along):
        raise refuse(node, "must have two amounts for each axis", list(amounts))
    both = {axis: (amounts[n], amounts[n + len(along)]) for n, axis in enumerate(along)}
    padded = [axis for axis in range(rank) if both.get(axis, (0, 0)) != (0, 0)]
    if not padded:
        return x
    flat = [n for axis in reversed(range(padded[0], rank)) for n in both.get(axis, (0, 0))]
    mode = _MODES[node.attrs["mode"]]
    if mode == "constant":
        return functional.pad(x, flat, "constant", 0 if value is None else value.item())
    return functional.pad(x, flat, mode)


def _shape(node: Node, x: Array) -> np.ndarray:
    return np.array(x.shape[node.attrs.get("start", 0) : node.attrs.get("end")], np.int64)


def _constant(node: Node) -> np.ndarray:
    found = {name: value for name, value in node.attrs.items() if name.startswith("value")}
    if len(found) != 1:
        raise refuse(node, "must have one value", sorted(found) or "none", "export the model again")
    name, value = next(iter(found.items()))
    if name == "value":
        return np.asarray(value)
    if name.startswith("value_string"):
        raise refuse(node, "must be numbers", "strings")
    return np.array(value, np.float32 if "float" in name else np.int64)


def _constant_of_shape(node: Node, shape: np.ndarray) -> np.ndarray:
    value = node.attrs.get("value", np.zeros(1, np.float32))
    return np.full(room(node, ints(node, shape, "shape")), value.reshape(-1)[0], value.dtype)


def _range(node: Node, start: np.ndarray, limit: np.ndarray, step: np.ndarray) -> np.ndarray:
    room(node, (max(0, ceil((limit.item() - start.item()) / step.item())),))
    return np.arange(start.item(), limit.item(), step.item(), dtype=start.dtype)


def _trilu(node: Node, x: Array, k: np.ndarray | None = None) -> Array:
    diagonal = 0 if k is None else int(k.item())
    return (diagonals.triu if node.attrs["upper"] else diagonals.tril)(x, diagonal)


def _known_trilu(node: Node, x: np.ndarray, k: np.ndarray | None = None) -> np.ndarray:
    return (np.triu if node.attrs["upper"] else np.tril)(x, 0 if k is None else int(k.item()))


def _depth_to_space(node: Node, x: Array) -> Array:
    n, channels, high, wide = x.shape
    block = node.attrs["blocksize"]
    each = channels // block**2
    if node.attrs["mode"] == "CRD":
        return functional.pixel_shuffle(x, block)
    parts = x.reshape((n, block, block, each, high, wide)).permute((0, 3, 4, 1, 5, 2))
    return parts.reshape((n, each, high * block, wide * block))


def _space_to_depth(node: Node, x: Array) -> Array:
    n, channels, high, wide = x.shape
    block = node.attrs["blocksize"]
    if node.attrs.get("mode") == "CRD":
        return functional.pixel_unshuffle(x, block)
    parts = x.reshape((n, channels, high // block, block, wide // block, block)).permute((0, 3, 5, 1, 2, 4))
    return parts.reshape((n, channels * block**2, high // block, wide // block))


def _both(function: Any, known: tuple[int, ...] = ()) -> Rule:
    """The rule of a function for tensors and arrays alike."""
    return Rule(function, known=frozenset(known), fold=function)


def _only_known(function: Any, inputs: int) -> Rule:
    """The rule of a function whose inputs must all be known."""
    return Rule(function, known=frozenset(range(inputs)), fold=function)


SHAPES: Table = {
    "Concat": Rule(_concat, fold=_known_concat),
    "Constant": _only_known(_constant, 0),
    "ConstantOfShape": _only_known(_constant_of_shape, 1),
    "DepthToSpace": Rule(_depth_to_space),
    "Expand": Rule(_expand, known=frozenset({1}), fold=_known_expand),
    "Flatten": _both(_flatten),
    "Pad": Rule(_pad, known=frozenset({1, 2, 3})),
    "Range": _only_known(_range, 3),
    "Reshape": _both(_reshape, (1,)),
    "SequenceAt": Rule(_sequence_at, known=frozenset({1})),
    "Shape": _both(_shape),
    "Size": plain(lambda x: np.array(prod(x.shape), np.int64), lambda x: np.array(x.size, np.int64)),
    "Slice": _both(_slice, (1, 2, 3, 4)),
    "SpaceToDepth": Rule(_space_to_depth),
    "Split": _both(_split, (1,)),
    "SplitToSequence": Rule(_split_to_sequence, known=frozenset({1})),
    "Squeeze": _both(_squeeze, (1,)),
    "Tile": _both(_tile, (1,)),
    "Transpose": _both(_transpose),
    "Trilu": Rule(_trilu, known=frozenset({1}), fold=_known_trilu),
    "Unsqueeze": _both(_unsqueeze, (1,)),
}
