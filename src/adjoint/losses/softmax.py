"""Whether a value is the result of a softmax, which the cross-entropy would compute again."""

from adjoint.errors import warn
from adjoint.ir import Value
from adjoint.ops.arithmetic import Divide, Subtract
from adjoint.ops.centred import SumExp
from adjoint.ops.convert import Cast
from adjoint.ops.shape import BroadcastTo, ReduceSum, Reshape
from adjoint.ops.transcendental import Exp, Log

__all__ = ["is_softmax", "warn_softmax"]


def warn_softmax(predictions: Value, axis: int) -> None:
    """Warn if predictions that should be logits are the result of a softmax over an axis."""
    if is_softmax(predictions, axis):
        warn("CrossEntropyLoss takes logits, got the result of a softmax; remove the softmax", predictions.line)


def is_softmax(value: Value, axis: int) -> bool:
    """Whether a value is a softmax over this axis (counted from the start) alone.

    Two forms are found, also in another dtype and, over the last axis, in another shape: that of `adjoint.ops.softmax`,
    ``exp(x - max - log(sum_exp(x, max)))``, and exponentials divided by their sum. The logarithm of a softmax is
    neither, and needs no warning: the cross-entropy of log-probabilities is that of the logits.
    """
    while isinstance(value.op, Cast | Reshape):
        (before,) = value.inputs
        if before.shape != value.shape:
            # Only the last axis is known to be the same axis in another shape.
            if axis != len(value.shape) - 1 or not before.shape or before.shape[-1] != value.shape[-1]:
                return False
            axis = len(before.shape) - 1
        value = before
    if isinstance(value.op, Exp):
        return _is_log_softmax(value.inputs[0], axis)
    if isinstance(value.op, Divide):
        exponentials, total = value.inputs[0], _spread(value.inputs[1])
        return (
            isinstance(exponentials.op, Exp)
            and isinstance(total.op, ReduceSum)
            and total.op.axes == (axis,)
            and _same(_spread(total.inputs[0]), exponentials)
        )
    return False


def _is_log_softmax(value: Value, axis: int) -> bool:
    """Whether a value is ``x - max - log(sum_exp(x, max))``, as `adjoint.ops.log_softmax` computes it."""
    if not isinstance(value.op, Subtract) or not isinstance(value.inputs[0].op, Subtract):
        return False
    log = _spread(value.inputs[1])
    total = log.inputs[0] if isinstance(log.op, Log) else log
    return isinstance(total.op, SumExp) and total.op.axes == (axis,) and total.inputs[0] is value.inputs[0].inputs[0]


def _spread(value: Value) -> Value:
    """The value without the operators that repeat its elements along other axes or convert them."""
    while isinstance(value.op, BroadcastTo | Cast | Reshape):
        (value,) = value.inputs
    return value


def _same(a: Value, b: Value) -> bool:
    """Whether two values are computed in the same way from the same ones; a model may write one expression twice."""
    pairs, seen = [(a, b)], set()
    while pairs:
        a, b = pairs.pop()
        if a is b or (a, b) in seen:
            continue
        if not a.inputs or a.op.key() != b.op.key() or len(a.inputs) != len(b.inputs):
            return False
        seen.add((a, b))
        pairs.extend(zip(a.inputs, b.inputs, strict=True))
    return True
