"""Connectionist temporal classification: the likelihood of a sequence of labels over all its alignments."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import Value, is_integer
from adjoint.lazy_dataclass import dataclass
from adjoint.losses.base import Loss, check_predictions, check_reduction, reduced
from adjoint.tensor.making import from_array

__all__ = ["CTCLoss", "ctc", "lengths_as_tensors"]

_NAME = "ctc_loss"
_NEVER = float("-inf")
_SEQUENCES = (list, tuple, np.ndarray, int)


def ctc(
    predictions: Value,
    targets: Value,
    input_lengths: Value | np.ndarray | Sequence[int],
    target_lengths: Value | np.ndarray | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
    longest: int | None = None,
) -> Value:
    """The negative log-likelihood of sequences of labels, summed over all alignments with the steps of the input.

    An alignment has a label or a blank at each step. Leaving out repetitions, and then blanks, gives the target. The
    sum is computed by the forward variables of A. Graves et al., "Connectionist temporal classification: labelling
    unsegmented sequence data with recurrent neural networks", 2006, section 4.1, in logarithms, as a loop in the
    compiled program.

    The gradient with respect to `predictions` is that of this formula: minus the probability that an alignment has the
    class at the step. PyTorch adds the probability of the class, which after a `log_softmax` changes nothing. A target
    without an alignment has a loss of infinity and a gradient of zeros; PyTorch's is NaN without `zero_infinity`.

    Parameters
    ----------
    predictions : Value
        Logarithms of probabilities, as `ops.log_softmax` computes them: float, ``[T, N, C]`` or ``[T, C]``. 16-bit
        floats are computed in f32.
    targets : Value
        Class indices, any integer dtype: ``[N, S]``, of which each row begins with its target; or all targets one after
        the other, ``[sum of target_lengths]``. ``[S]`` for one sequence. They must not be `blank`.
    input_lengths : Value, numpy.ndarray or sequence of int
        The number of steps of each sequence, at most T: ``[N]``, or a scalar or ``[1]`` for one sequence.
    target_lengths : Value, numpy.ndarray or sequence of int
        The number of labels of each target.
    blank : int, default 0
        The class that stands for no label.
    reduction : {"mean", "sum", "none"}, default "mean"
        "mean" divides each loss by the length of its target (at least 1) before averaging.
    zero_infinity : bool, default False
        Whether the loss of a target without an alignment is 0 instead of infinity, as where a target has more labels
        and repetitions than its input has steps.
    longest : int, optional
        The length of the longest target, if targets are one after the other. Default: that of `target_lengths`, or if
        that is a Value, the number of all labels, for which time and memory are needed then.

    Returns
    -------
    Value
        A scalar, or with "none" ``[N]``.

    Raises
    ------
    TypeRuleError
        If shapes or dtypes do not match.
    InvalidValueError
        If `blank` is not a class, or a length is out of range.
    """
    check_reduction(_NAME, reduction)
    check_predictions(_NAME, predictions)
    single = len(predictions.shape) == 2
    logs = ops.expand_dims(predictions, 1) if single else predictions
    if len(logs.shape) != 3:
        raise TypeRuleError(f"{_NAME}: predictions must be [T, N, C] or [T, C], got {predictions.type}; reshape them")
    steps, batch, classes = logs.shape
    if isinstance(blank, bool) or not isinstance(blank, int) or not 0 <= blank < classes:
        raise InvalidValueError(f"{_NAME}: blank must be a class from 0 to {classes - 1}, got {blank!r}; correct it")
    _check_targets(targets, predictions)
    inputs = _lengths("input_lengths", input_lengths, batch, steps)
    most = targets.shape[1] if len(targets.shape) == 2 else None
    if most is None and not isinstance(target_lengths, Value):
        longest = _check_sum(target_lengths, targets, single)
    counts = _lengths("target_lengths", target_lengths, batch, most)
    dtype = logs.dtype
    if dtype.itemsize == 2:
        logs = ops.cast(logs, "f32")
    labels = _padded(targets, counts, blank, longest)
    losses = _log_likelihoods(logs, _states(labels, blank), inputs, counts, blank)
    losses = ops.negative(losses)
    if zero_infinity:
        losses = ops.where(ops.equal(losses, float("inf")), 0.0, losses)
    if reduction == "mean":
        losses = ops.divide(losses, ops.cast(ops.maximum(counts, 1), losses.dtype))
    made = ops.cast(reduced(losses, reduction), dtype)
    return ops.reshape(made, ()) if single and reduction == "none" else made


def _check_targets(targets: Value, predictions: Value) -> None:
    allowed = [1] if len(predictions.shape) == 2 else [1, 2]
    if (
        not is_integer(targets.dtype)
        or len(targets.shape) not in allowed
        or (len(targets.shape) == 2 and targets.shape[0] != predictions.shape[1])
    ):
        rows = f"[{predictions.shape[1]}, S] or [all labels]" if len(allowed) > 1 else "[S]"
        raise TypeRuleError(
            f"{_NAME}: targets must be integers of shape {rows} for predictions {predictions.type}, got "
            f"{targets.type}; reshape or cast them"
        )


def _lengths(name: str, given: Any, batch: int, most: int | None) -> Value:
    """Lengths as i64[N]."""
    if not isinstance(given, Value):
        given = ops.constant(_known(name, given, most))
    if not is_integer(given.dtype) or given.shape not in ([(batch,), ()] if batch == 1 else [(batch,)]):
        raise TypeRuleError(
            f"{_NAME}: {name} must be integers, one for each of {batch} sequences, got {given.type}; pass i64[{batch}]"
        )
    return ops.reshape(ops.cast(given, "i64"), (batch,))


def _known(name: str, given: Any, most: int | None) -> np.ndarray:
    """Lengths that are numbers; raises unless they are in range."""
    known = np.atleast_1d(np.asarray(given, np.int64))
    if known.size and (known.min() < 0 or (most is not None and known.max() > most)):
        allowed = f"from 0 to {most}" if most is not None else "at least 0"
        raise InvalidValueError(f"{_NAME}: {name} must be {allowed}, got {known.tolist()}; correct them")
    return known


def _check_sum(lengths: Any, targets: Value, single: bool) -> int:
    """The length of the longest of the targets that are one after the other; raises unless these are all."""
    known = np.atleast_1d(np.asarray(lengths, np.int64))
    total = int(known.sum())
    if total > targets.shape[0] or (total != targets.shape[0] and not single):
        raise InvalidValueError(
            f"{_NAME}: target_lengths must add up to the number of targets, {targets.shape[0]}, got {known.tolist()}; "
            "correct them, or pass targets of shape [N, S]"
        )
    return int(known.max(initial=0))


def _padded(targets: Value, counts: Value, blank: int, longest: int | None) -> Value:
    """The targets, i64[N, S], with blanks after the last label of each."""
    batch, wide = counts.shape[0], ops.cast(targets, "i64")
    if len(targets.shape) == 1:
        size = targets.shape[0] if longest is None else min(longest, targets.shape[0])
        if size:
            starts = ops.subtract(ops.cumsum(counts, 0), counts)
            wide = ops.take(wide, ops.add(ops.expand_dims(starts, 1), ops.iota((batch, size), 1, "i64")))
        else:
            wide = ops.full(blank, (batch, 0), "i64")
    present = ops.less(ops.iota(wide.shape, 1, "i64"), ops.expand_dims(counts, 1))
    return ops.where(present, wide, blank)


def _states(labels: Value, blank: int) -> Value:
    """The classes of the states, i64[N, 2 * S + 1]: a blank before and after each label."""
    batch, size = labels.shape
    blanks = ops.full(blank, (batch, size, 1), "i64")
    pairs = ops.reshape(ops.concat(blanks, ops.expand_dims(labels, 2), axis=2), (batch, 2 * size))
    return ops.concat(pairs, ops.full(blank, (batch, 1), "i64"), axis=1)


def _log_likelihoods(logs: Value, states: Value, inputs: Value, counts: Value, blank: int) -> Value:
    """The logarithm of the probability of each target, ``[N]``, minus infinity where it has no alignment."""
    steps, batch, _ = logs.shape
    size = states.shape[1]
    emitted = ops.gather(logs, ops.broadcast_to(states, (steps, batch, size)), 2)
    # A label may follow another one without a blank between them if they differ.
    before = _shifted(states, 2, blank)
    skips = ops.logical_and(ops.not_equal(states, blank), ops.not_equal(states, before))
    counted = ops.less(ops.iota((steps, batch), 0, "i64"), ops.broadcast_to(inputs, (steps, batch)))

    def step(alpha: Value, row: tuple[Value, Value]) -> tuple[Value, None]:
        reached = [alpha, _shifted(alpha, 1, _NEVER), ops.where(skips, _shifted(alpha, 2, _NEVER), _NEVER)]
        return ops.where(ops.expand_dims(row[1], 1), ops.add(_log_sum(reached), row[0]), alpha), None

    # Before the first step all alignments are at the first blank, from where they reach it or the first label.
    start = ops.equal(ops.iota((batch, size), 1, "i32"), 0)
    initial = ops.where(start, ops.full(0.0, (batch, size), logs.dtype), _NEVER)
    last, _ = ops.scan(step, initial, (emitted, counted))
    # Alignments end at the last label or at the blank after it.
    place, end = ops.iota((batch, size), 1, "i64"), ops.expand_dims(ops.multiply(counts, 2), 1)
    ends = ops.logical_or(ops.equal(place, end), ops.equal(place, ops.subtract(end, 1)))
    kept = ops.where(ends, last, _NEVER)
    top = ops.stop_gradient(ops.max(kept, -1))
    some = ops.greater(top, _NEVER)
    base = ops.where(some, top, 0.0)
    total = ops.sum(ops.exp(ops.subtract(kept, ops.expand_dims(base, 1))), -1)
    return ops.where(some, ops.add(base, ops.log(ops.where(some, total, 1.0))), _NEVER)


def _shifted(x: Value, by: int, fill: float) -> Value:
    """For each state the one `by` places before it, `fill` where there is none."""
    size = x.shape[1]
    kept = ops.slice_axis(x, 1, 0, max(size - by, 0))
    return ops.pad(kept, (0, min(by, size)), (0, 0), fill)


def _log_sum(terms: Sequence[Value]) -> Value:
    """The logarithm of a sum, given logarithms, with a gradient of zeros where all are minus infinity."""
    top = terms[0]
    for term in terms[1:]:
        top = ops.maximum(top, term)
    top = ops.stop_gradient(top)
    some = ops.greater(top, _NEVER)
    base = ops.where(some, top, 0.0)
    total = ops.exp(ops.subtract(terms[0], base))
    for term in terms[1:]:
        total = ops.add(total, ops.exp(ops.subtract(term, base)))
    return ops.where(some, ops.add(base, ops.log(ops.where(some, total, 1.0))), _NEVER)


def lengths_as_tensors(predictions: Any, targets: Any, input_lengths: Any, target_lengths: Any) -> tuple[Any, ...]:
    """The tensors of the loss, with Python's lengths as tensors, and the length of the longest target if it is needed.

    Lengths as tensors are data of a recorded program, so that other ones do not need another program.
    """
    longest = None
    if isinstance(target_lengths, _SEQUENCES):
        if len(targets.shape) == 1:
            longest = _check_sum(target_lengths, targets, len(predictions.shape) == 2)
        most = targets.shape[1] if len(targets.shape) == 2 else None
        target_lengths = from_array(_known("target_lengths", target_lengths, most))
    if isinstance(input_lengths, _SEQUENCES):
        input_lengths = from_array(_known("input_lengths", input_lengths, predictions.shape[0]))
    return predictions, targets, input_lengths, target_lengths, longest


@dataclass(frozen=True)
class CTCLoss(Loss):
    """`ctc` with its settings.

    The arguments are predictions, targets, `input_lengths` and `target_lengths`. Called with tensors, lengths may be
    tensors or sequences of integers.

    Parameters
    ----------
    blank : int, default 0
        The class that stands for no label.
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `ctc`.
    zero_infinity : bool, default False
        Whether the loss of a target without an alignment is 0.
    """

    name: ClassVar[str] = _NAME
    arg_names: ClassVar[tuple[str, ...]] = ("predictions", "targets", "input_lengths", "target_lengths")
    prepare: ClassVar[Any] = staticmethod(lengths_as_tensors)
    blank: int = 0
    reduction: str = "mean"
    zero_infinity: bool = False

    def __post_init__(self) -> None:
        check_reduction(self.name, self.reduction)

    def __call__(self, *args: Any) -> Any:
        """``ctc(predictions, targets, input_lengths, target_lengths)``."""
        given, longest = args[:4], (args[4] if len(args) > 4 else None)
        self.check_count(len(given))
        return ctc(given[0], given[1], given[2], given[3], self.blank, self.reduction, self.zero_infinity, longest)
