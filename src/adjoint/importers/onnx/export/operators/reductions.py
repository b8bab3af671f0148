"""Reductions, and what is computed relative to a centre of each row."""

from typing import Any

from adjoint.importers.onnx.export.emitter import Emitter, Rule
from adjoint.ir import DTYPES, Value

__all__ = ["REDUCTIONS"]


def _reduction(op: str) -> Rule:
    def emit(e: Emitter, value: Value) -> str:
        made: Any = value.op
        x = e.of(value.inputs[0])
        if not made.axes:
            return x
        return e.node(op, x, e.ints(made.axes), keepdims=int(made.keepdims))

    return emit


def _argmax(e: Emitter, value: Value) -> str:
    op: Any = value.op
    return e.node("ArgMax", e.of(value.inputs[0]), axis=op.axis, keepdims=0)


def _row(e: Emitter, value: Value, number: int) -> str:
    """An operand with one element per row, ready to broadcast."""
    op: Any = value.op
    name = e.of(value.inputs[number])
    return e.node("Unsqueeze", name, e.ints(op.axes)) if op.axes else name


def _summed(e: Emitter, value: Value, name: str) -> str:
    op: Any = value.op
    return e.node("ReduceSum", name, e.ints(op.axes), keepdims=0) if op.axes else name


def _centred_squares(e: Emitter, value: Value) -> str:
    difference = e.node("Sub", e.of(value.inputs[0]), _row(e, value, 1))
    return _summed(e, value, e.node("Mul", difference, difference))


def _sum_exp(e: Emitter, value: Value) -> str:
    return _summed(e, value, e.node("Exp", e.node("Sub", e.of(value.inputs[0]), _row(e, value, 1))))


def _normalize(e: Emitter, value: Value) -> str:
    return e.node("Mul", e.node("Sub", e.of(value.inputs[0]), _row(e, value, 1)), _row(e, value, 2))


def _cumsum(e: Emitter, value: Value) -> str:
    op: Any = value.op
    axis = e.scalar(op.axis, DTYPES["i64"])
    return e.node("CumSum", e.of(value.inputs[0]), axis, exclusive=int(op.exclusive), reverse=int(op.reverse))


REDUCTIONS: dict[str, Rule] = {
    "argmax": _argmax,
    "centred_squares": _centred_squares,
    "cumsum": _cumsum,
    "max": _reduction("ReduceMax"),
    "min": _reduction("ReduceMin"),
    "normalize": _normalize,
    "prod": _reduction("ReduceProd"),
    "sum": _reduction("ReduceSum"),
    "sum_exp": _sum_exp,
}
