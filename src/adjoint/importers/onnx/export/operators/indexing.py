"""Elements at positions, and order."""

from typing import Any

import numpy as np

from adjoint.importers.onnx.export.emitter import Emitter, Rule
from adjoint.ir import DTYPES, Value

__all__ = ["INDEXING"]


def _ids(e: Emitter, value: Value) -> str:
    """Positions in a dtype that ONNX takes them in."""
    name = e.of(value)
    return name if value.dtype in (DTYPES["i32"], DTYPES["i64"]) else e.cast(name, DTYPES["i64"])


def _one_hot(e: Emitter, value: Value) -> str:
    op: Any = value.op
    ids = e.node("Unsqueeze", e.cast(e.of(value.inputs[0]), DTYPES["i64"]), e.ints([-1]))
    return e.cast(e.node("Equal", ids, e.constant(np.arange(op.depth, dtype=np.int64))), value.dtype)


def _take(e: Emitter, value: Value) -> str:
    table, ids = value.inputs
    return e.node("Gather", e.of(table), _ids(e, ids), axis=0)


def _take_along(e: Emitter, value: Value) -> str:
    x, ids = value.inputs
    last = e.ints([-1])
    found = e.node("GatherElements", e.of(x), e.node("Unsqueeze", _ids(e, ids), last), axis=len(ids.shape))
    return e.node("Squeeze", found, last)


def _gather(e: Emitter, value: Value) -> str:
    x, ids = value.inputs
    return e.node("GatherElements", e.of(x), _ids(e, ids), axis=len(ids.shape) - 1)


#: How elements and updates are combined, by the names of adjoint and of ONNX.
_COMBINATIONS = {"set": "none", "add": "add", "prod": "mul", "amax": "max", "amin": "min"}


def _scatter(e: Emitter, value: Value) -> str:
    op: Any = value.op
    x, ids, updates = value.inputs
    return e.node(
        "ScatterElements",
        e.of(x),
        _ids(e, ids),
        e.of(updates),
        axis=len(ids.shape) - 1,
        reduction=_COMBINATIONS[op.reduce],
    )


def _scatter_add(e: Emitter, value: Value) -> str:
    ids, updates = value.inputs
    zeros = e.node("Expand", e.scalar(0, value.dtype), e.shape(value))
    places = e.node("Unsqueeze", e.cast(e.of(ids), DTYPES["i64"]), e.ints([-1]))
    return e.node("ScatterND", zeros, places, e.of(updates), reduction="add")


def _argsort(e: Emitter, value: Value) -> str:
    op: Any = value.op
    x = value.inputs[0]
    values, places = e.fresh("sorted"), e.fresh("places")
    count = e.ints([x.shape[-1]])
    node = e.onnx.helper.make_node(
        "TopK", (e.of(x), count), (values, places), name=places, axis=-1, largest=int(op.descending), sorted=1
    )
    e.nodes.append(node)
    return places


INDEXING: dict[str, Rule] = {
    "argsort": _argsort,
    "gather": _gather,
    "one_hot": _one_hot,
    "scatter": _scatter,
    "scatter_add": _scatter_add,
    "take": _take,
    "take_along_last": _take_along,
}
