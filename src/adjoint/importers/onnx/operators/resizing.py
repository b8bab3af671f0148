"""Resizing of images and reading at positions."""

from math import floor
from typing import Any

import numpy as np

from adjoint.importers.onnx.graph import Node
from adjoint.importers.onnx.operators.base import Array, Rule, Table, as_tensor, axes_of, ints, refuse, room
from adjoint.nn import functional
from adjoint.tensor import arithmetic, gathering

__all__ = ["RESIZING"]

#: Places in the input of the elements ``i`` of a result, given sizes and scale, by `coordinate_transformation_mode`.
_PLACES: dict[str, Any] = {
    "half_pixel": lambda i, _old, _new, scale: (i + 0.5) / scale - 0.5,
    "pytorch_half_pixel": lambda i, _old, new, scale: (i + 0.5) / scale - 0.5 if new > 1 else i * 0.0,
    "align_corners": lambda i, old, _new, scale: i * (old - 1) / (old * scale - 1) if old * scale != 1 else i * 0.0,
    "asymmetric": lambda i, _old, _new, scale: i / scale,
}

#: How places are rounded to elements.
_NEAREST: dict[str, Any] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _matrix(places: np.ndarray, size: int, mode: str, a: float, exclude: bool) -> np.ndarray:
    """The weights of the elements of an axis in each element of the result."""
    begin = np.floor(places)
    part = (places - begin)[:, None]
    if mode == "linear":
        offsets, weights = np.array([0, 1]), np.concatenate([1 - part, part], 1)
    else:  # R. Keys, "Cubic convolution interpolation for digital image processing", 1981
        offsets = np.array([-1, 0, 1, 2])
        d = np.abs(part - offsets)
        near = (a + 2) * d**3 - (a + 3) * d**2 + 1
        far = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
        weights = np.where(d <= 1, near, np.where(d < 2, far, 0.0))
    at = begin[:, None] + offsets
    if exclude:
        weights = np.where((at >= 0) & (at < size), weights, 0.0)
        weights = weights / weights.sum(1, keepdims=True)
    made = np.zeros((len(places), size))
    np.add.at(made, (np.arange(len(places))[:, None], np.clip(at, 0, size - 1).astype(int)), weights)
    return made


def _resize(node: Node, x: Array, roi: Any = None, scales: Any = None, sizes: Any = None) -> Array:  # noqa: ARG001
    attrs, rank = node.attrs, len(x.shape)
    how = attrs["coordinate_transformation_mode"]
    if how not in _PLACES or attrs.get("antialias") or attrs.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise refuse(node, "must resize whole images without antialiasing", f"{how}, or one of these settings")
    axes = axes_of(node, attrs.get("axes", range(rank)), rank)
    if sizes is not None and sizes.size:
        wanted = ints(node, sizes, "sizes")
        factors = [new / x.shape[axis] for axis, new in zip(axes, wanted, strict=True)]
    elif scales is not None and scales.size == len(axes):
        factors = [float(scale) for scale in scales]
        wanted = tuple(floor(x.shape[axis] * scale) for axis, scale in zip(axes, factors, strict=True))
    else:
        raise refuse(node, "must have sizes or a scale for each axis", "neither", "export the model again")
    same = _as_interpolation(node, x, dict(zip(axes, wanted, strict=True)), dict(zip(axes, factors, strict=True)))
    if same is not None:
        return same
    for axis, new, scale in zip(axes, wanted, factors, strict=True):
        room(node, (new, x.shape[axis]))
        if new != x.shape[axis] or scale != 1.0:
            x = _along(node, x, axis, new, scale)
    return x


def _as_interpolation(node: Node, x: Array, wanted: dict[int, int], factors: dict[int, float]) -> Array | None:
    """The function `interpolate` if it computes the same, which knows more ways to do so; None if it does not."""
    how = node.attrs["coordinate_transformation_mode"]
    changed = [axis for axis, scale in factors.items() if scale != 1.0]
    exact = all(factors[axis] * x.shape[axis] == wanted[axis] for axis in changed)
    if len(x.shape) != 4 or not set(changed) <= {2, 3} or not exact:
        return None
    size = [wanted.get(axis, x.shape[axis]) for axis in (2, 3)]
    if node.attrs["mode"] == "linear" and how in ("half_pixel", "align_corners"):
        return functional.interpolate(x, size, mode="bilinear", align_corners=how == "align_corners")
    if node.attrs["mode"] == "nearest" and how == "asymmetric" and node.attrs["nearest_mode"] == "floor":
        return functional.interpolate(x, size, mode="nearest")
    return None


def _along(node: Node, x: Array, axis: int, new: int, scale: float) -> Array:
    attrs, old = node.attrs, x.shape[axis]
    places = _PLACES[attrs["coordinate_transformation_mode"]](np.arange(new, dtype=np.float64), old, new, scale)
    if attrs["mode"] == "nearest":
        at = np.clip(_NEAREST[attrs["nearest_mode"]](places), 0, old - 1).astype(np.int64)
        return gathering.index_select(x, axis, as_tensor(at))
    weights = _matrix(places, old, attrs["mode"], attrs["cubic_coeff_a"], bool(attrs["exclude_outside"]))
    made: Any = arithmetic.matmul(x.movedim(axis, -1), as_tensor(weights.T.astype(x.dtype)))
    return made.movedim(-1, axis)


#: The modes of GridSample by their names in old and new versions.
_GRID_MODES = {
    "linear": "bilinear",
    "bilinear": "bilinear",
    "nearest": "nearest",
    "cubic": "bicubic",
    "bicubic": "bicubic",
}


def _grid_sample(node: Node, x: Array, grid: Array) -> Array:
    mode = _GRID_MODES[node.attrs["mode"]]
    return functional.grid_sample(x, grid, mode, node.attrs["padding_mode"], bool(node.attrs["align_corners"]))


RESIZING: Table = {
    "GridSample": Rule(_grid_sample),
    "Resize": Rule(_resize, known=frozenset({1, 2, 3})),
}
