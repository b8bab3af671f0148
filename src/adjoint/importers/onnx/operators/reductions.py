"""Reductions, cumulative sums, and order along an axis."""

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.importers.onnx.graph import Node
from adjoint.importers.onnx.operators.base import Array, Rule, Table, axes_of, axis_of, ints, refuse
from adjoint.tensor import cumulative, elementwise, ordering, reductions

__all__ = ["REDUCTIONS"]


def _reduced_axes(node: Node, rank: int, axes: np.ndarray | None) -> tuple[int, ...]:
    """The axes, from an input or, in old versions, an attribute; all if there are none."""
    given = ints(node, axes, "axes") if axes is not None else node.attrs.get("axes", ())
    if given:
        return axes_of(node, given, rank)
    return () if node.attrs.get("noop_with_empty_axes") else tuple(range(rank))


def _reduction(function: Callable[..., Any], before: Any = None, after: Any = None, fold: Any = None) -> Rule:
    """The rule of ``after(reduction of before(x))``."""

    def computed(node: Node, x: Array, axes: np.ndarray | None = None) -> Array:
        chosen = _reduced_axes(node, len(x.shape), axes)
        x = x if before is None else before(x)
        y = function(x, chosen, bool(node.attrs["keepdims"])) if chosen else x
        return y if after is None else after(y)

    def folded(node: Node, x: np.ndarray, axes: np.ndarray | None = None) -> Any:
        return fold(x, axis=_reduced_axes(node, x.ndim, axes), keepdims=bool(node.attrs["keepdims"])).astype(x.dtype)

    return Rule(computed, known=frozenset({1}), fold=None if fold is None else folded)


def _sum(x: Array, axes: tuple[int, ...], keep: bool) -> Array:
    return reductions.sum(x, axes, keep, dtype=x.dtype)


def _product(x: Array, axes: tuple[int, ...], keep: bool) -> Array:
    for axis in sorted(axes, reverse=True):
        x = reductions.prod(x, axis, keep, dtype=x.dtype)
    return x


def _extreme(function: Callable[..., Any]) -> Callable[..., Any]:
    def computed(x: Array, axes: tuple[int, ...], keep: bool) -> Array:
        if x.dtype == np.bool_:
            return function(x.to("u8"), axes, keep).to("bool")
        return function(x, axes, keep)

    return computed


def _arg(function: Callable[..., Any]) -> Rule:
    def computed(node: Node, x: Array) -> Array:
        axis, keep = axis_of(node, node.attrs["axis"], len(x.shape)), bool(node.attrs["keepdims"])
        if not node.attrs["select_last_index"]:
            return function(x, axis, keep)
        return x.shape[axis] - 1 - function(x.flip(axis), axis, keep)

    return Rule(computed)


def _cumulate(function: Callable[..., Any]) -> Rule:
    def computed(node: Node, x: Array, axis: np.ndarray) -> Array:
        if axis.size != 1:
            raise refuse(node, "must have one axis", list(axis.shape), "export the model again")
        along = axis_of(node, int(axis.item()), len(x.shape))
        settings = {name: bool(node.attrs[name]) for name in ("exclusive", "reverse")}
        return function(x, along, dtype=x.dtype, **settings)

    return Rule(computed, known=frozenset({1}))


def _top_k(node: Node, x: Array, k: np.ndarray) -> Any:
    axis = axis_of(node, node.attrs["axis"], len(x.shape))
    found = ordering.topk(x, int(k.item()), axis, bool(node.attrs["largest"]))
    return found[0], found[1]


REDUCTIONS: Table = {
    "ArgMax": _arg(reductions.argmax),
    "ArgMin": _arg(reductions.argmin),
    "CumProd": _cumulate(cumulative.cumprod),
    "CumSum": _cumulate(cumulative.cumsum),
    "ReduceL1": _reduction(_sum, before=elementwise.abs),
    "ReduceL2": _reduction(_sum, before=elementwise.square, after=elementwise.sqrt),
    "ReduceLogSum": _reduction(_sum, after=elementwise.log),
    "ReduceLogSumExp": _reduction(reductions.logsumexp),
    "ReduceMax": _reduction(_extreme(reductions.amax), fold=np.max),
    "ReduceMean": _reduction(reductions.mean, fold=np.mean),
    "ReduceMin": _reduction(_extreme(reductions.amin), fold=np.min),
    "ReduceProd": _reduction(_product, fold=np.prod),
    "ReduceSum": _reduction(_sum, fold=np.sum),
    "ReduceSumSquare": _reduction(_sum, before=elementwise.square),
    "TopK": Rule(_top_k, known=frozenset({1})),
}
