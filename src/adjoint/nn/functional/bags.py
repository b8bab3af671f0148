"""Sums, means and maxima of bags of rows of a table."""

from typing import Any

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import DTYPES, Value, is_integer
from adjoint.nn.functional.recording import Array, recorded

__all__ = ["embedding_bag"]

_I64 = DTYPES["i64"]


@recorded
def embedding_bag(
    input: Array,
    weight: Array,
    offsets: Array | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Array | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Array:
    """The sum, mean or maximum of the rows of each bag; zeros for an empty bag.

    Parameters
    ----------
    input : Tensor
        Integers: one bag per row, ``[bags, n]``, or all bags one after another, ``[n]``.
    weight : Tensor
        The table, ``[rows, size]``.
    offsets : Tensor, optional
        Where each bag begins in an input of one axis: ascending, the first one 0.
    max_norm, norm_type, scale_grad_by_freq, sparse
        None, 2.0, False and False, the only choices that are supported.
    mode : {"mean", "sum", "max"}, default "mean"
        How rows are combined; rows that are the maximum share its gradient equally.
    per_sample_weights : Tensor, optional
        Factors of the rows, of the shape of `input`; for sums only.
    include_last_offset : bool, default False
        Whether the last offset is the end of the last bag, instead of the start of another one.
    padding_idx : int, optional
        A row that is left out of all bags.

    Returns
    -------
    Tensor
        ``[bags, size]``.

    Raises
    ------
    InvalidValueError, TypeRuleError
        If a setting is not supported, or shapes and dtypes do not fit.
    """
    _check_settings(mode, max_norm, norm_type, scale_grad_by_freq, sparse, per_sample_weights)
    _check_types(input, weight, offsets, per_sample_weights)
    count, rows = input.type.size, ops.embedding(weight, ops.reshape(input, (input.type.size,)))
    if offsets is None:
        bags, size = input.shape
        ids = ops.reshape(ops.iota((bags, size), 0), (count,))
    else:
        bags = offsets.shape[0] - include_last_offset
        starts = ops.cast(offsets, _I64)
        # An empty bag starts where the next one does: a row belongs to the last bag that starts before it.
        ids = ops.searchsorted(starts, ops.iota((count,), 0), True) - 1
    if padding_idx is not None:
        is_padding = ops.equal(ops.cast(ops.reshape(input, (count,)), _I64), padding_idx % weight.shape[0])
        ids = ops.where(is_padding, -1, ids)
        rows = ops.where(ops.expand_dims(is_padding, 1), ops.stop_gradient(rows), rows)
    if per_sample_weights is not None:
        factors = ops.reshape(per_sample_weights, (count, 1))
        if padding_idx is not None:
            factors = ops.where(ops.expand_dims(is_padding, 1), ops.stop_gradient(factors), factors)
        rows = ops.multiply(rows, factors)
    if mode == "sum":
        return ops.segment_sum(rows, ids, bags)
    if mode == "mean":
        return ops.segment_mean(rows, ids, bags)
    filled = ops.scatter_add(ids, ops.full(1, ids.shape, _I64), bags) if count else ops.full(0, (bags,), _I64)
    full = ops.broadcast_to(ops.expand_dims(ops.greater(filled, 0), 1), (bags, weight.shape[1]))
    return ops.where(full, ops.segment_max(rows, ids, bags), 0.0)


def _check_settings(mode: str, max_norm: Any, norm_type: Any, by_frequency: Any, sparse: Any, weights: Any) -> None:
    if mode not in ("mean", "sum", "max"):
        raise InvalidValueError(f"embedding_bag: mode must be 'mean', 'sum' or 'max', got {mode!r}; choose one")
    if max_norm is not None or norm_type != 2.0 or by_frequency or sparse:
        raise InvalidValueError(
            "embedding_bag: max_norm, norm_type, scale_grad_by_freq and sparse must be None, 2.0, False and False, the "
            f"only choices that are supported, got {max_norm}, {norm_type}, {by_frequency} and {sparse}; omit them"
        )
    if weights is not None and mode != "sum":
        raise InvalidValueError(f"embedding_bag: per_sample_weights are for sums, got mode {mode!r}; use mode='sum'")


def _check_types(input: Value, weight: Value, offsets: Value | None, weights: Value | None) -> None:
    if not is_integer(input.dtype) or len(weight.shape) != 2:
        raise TypeRuleError(
            f"embedding_bag: the input must hold integers and the table have two axes, got {input.type} and "
            f"{weight.type}; convert or reshape one"
        )
    if len(input.shape) != (1 if offsets is not None else 2) or (offsets is not None and len(offsets.shape) != 1):
        raise TypeRuleError(
            "embedding_bag: the input must be [bags, n], or [n] with a vector of offsets, got "
            f"{input.type} {'without offsets' if offsets is None else f'and offsets {offsets.type}'}; reshape it"
        )
    if weights is not None and weights.shape != input.shape:
        raise TypeRuleError(
            f"embedding_bag: per_sample_weights must have the shape of the input, got {weights.type} and {input.type}; "
            "reshape them"
        )
