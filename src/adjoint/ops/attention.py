"""Scaled dot-product attention: composed of ordinary operators if it is small, otherwise of tiled operators.

The tiled operators are `Attention` and, for its gradients, `AttentionLogSum` and those in
`adjoint.ops.attention_gradients`. docs/design/attention.md has the measurements behind the thresholds.
"""

from collections.abc import Sequence
from math import prod, sqrt
from typing import ClassVar

import numpy as np

from adjoint import costs
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.types import DTYPES, is_float
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import multiply, subtract
from adjoint.ops.attention_base import (
    AttentionOperator,
    causal_span,
    causally_masked,
    masked,
    masked_score,
    product,
    scores,
    weights,
    weights_of,
)
from adjoint.ops.attention_dropout import factor_at, factors, with_factors
from adjoint.ops.attention_gradients import AttentionKeyGradient, AttentionQueryGradient, AttentionValueGradient
from adjoint.ops.base import Builder, Coordinate, Index, Operand, Sample, Scalar
from adjoint.ops.composites import dropout, softmax
from adjoint.ops.contract import matmul
from adjoint.ops.convert import stop_gradient
from adjoint.ops.logic import greater, where
from adjoint.ops.random_keys import as_key, is_number
from adjoint.ops.reduce import max
from adjoint.ops.rules import require_float, rounded
from adjoint.ops.shape import broadcast_to, expand_dims, sum

__all__ = ["Attention", "AttentionLogSum", "scaled_dot_product_attention", "softmax_of_scores"]


@dataclass(frozen=True, slots=True)
class Attention(AttentionOperator):
    """``softmax(scores) @ v``; operands ``q, k, v``."""

    name: ClassVar[str] = "attention"
    flops: ClassVar[float] = 4.0
    takes: ClassVar[tuple[tuple[str, str], ...]] = (("q", "TD"), ("k", "SD"), ("v", "SE"))
    gives: ClassVar[str] = "TE"

    def reference(self, *inputs: np.ndarray) -> np.ndarray:
        """The formula, relative to the maximum score of each row."""

        def made(*xs: np.ndarray) -> np.ndarray:
            (q, k, v), mask, keys = self.parts(xs)
            scored = scores(q, k, self.scale, self.causal, mask)
            exponentials = weights(scored, np.max(scored, -1))
            total = np.sum(exponentials, -1, keepdims=True)
            kept = exponentials * factors(self.dropout, keys, exponentials)
            mean: np.ndarray = np.matmul(kept, v) / np.where(total == 0, total.dtype.type(1), total)
            return mean

        return rounded(made, *inputs)

    def vjp(self, ct: Value, out: Value, *inputs: Value) -> tuple[Value | None, ...]:
        """One operator per operand; they share the logarithm of the sums of exponentials."""
        (q, k, v), mask, keys = self.parts(inputs)
        logsum = apply(AttentionLogSum(*self.without_dropout()), q, k, *(() if mask is None else (mask,)))
        last = inputs[3:]
        delta = sum(multiply(ct, out), -1)
        found = (
            apply(AttentionQueryGradient(*self.settings()), q, k, v, logsum, delta, ct, *last),
            apply(AttentionKeyGradient(*self.settings()), q, k, v, logsum, delta, ct, *last),
            apply(AttentionValueGradient(*self.settings()), q, k, logsum, ct, *last),
        )
        others: list[Value | None] = [None for _ in last]
        if mask is not None and is_float(mask.dtype):
            # The gradient of a mask has T times S elements like itself.
            to_weights = with_factors(self.dropout, keys, matmul(ct, v, transpose_b=True))
            change = subtract(to_weights, expand_dims(delta, -1))
            others[0] = multiply(weights_of(self, q, k, logsum, mask), change)
        return *found, *others

    def lower(self, k: Builder, index: Index, *inputs: Operand) -> Scalar:
        """The rows are queries; keys and values are streamed."""
        (q, keys, values), mask, seed = self.parts(inputs)
        *batch, t, e = index
        count = keys.type.shape[-2]
        shape = (*q.type.shape[:-1], count)

        def score(n: Coordinate, dots: Sequence[Scalar]) -> Scalar:
            return masked_score(k, self, dots[0], lambda: mask((*batch, t, n)))

        def value(n: Coordinate) -> Scalar:
            return values((*batch, n, e))

        def factor(n: Coordinate) -> Scalar:
            return factor_at(k, self.dropout, seed, shape, (*batch, t, n), q.type.dtype)

        dots = [product((*batch, t), q, keys)]
        span = causal_span(self, t, count, "T")
        return k.fused_attention("softmax", count, dots, score, value, span, None if seed is None else factor)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Sizes that are no multiple of a vector, causal or not; scores of very different magnitude."""
        far = tuple(100 * x for x in cls.arrays((2,), 20, 90, 4, 3))
        return [*cls.cases(), Sample(cls(1.0), far, gradient=False), *cls.bad()]


@dataclass(frozen=True, slots=True)
class AttentionLogSum(AttentionOperator):
    """For each row, the logarithm of the sum of the exponentials of its scores; operands ``q, k``."""

    name: ClassVar[str] = "attention_log_sum"
    drops: ClassVar[bool] = False
    flops: ClassVar[float] = 2.0
    takes: ClassVar[tuple[tuple[str, str], ...]] = (("q", "TD"), ("k", "SD"))
    gives: ClassVar[str] = "T"

    def reference(self, *inputs: np.ndarray) -> np.ndarray:
        """The formula, relative to the maximum score of each row."""

        def made(*xs: np.ndarray) -> np.ndarray:
            (q, k), mask, _ = self.parts(xs)
            scored = scores(q, k, self.scale, self.causal, mask)
            top = np.max(scored, -1)
            with np.errstate(divide="ignore"):  # a query that attends to no key
                total: np.ndarray = top + np.log(np.sum(weights(scored, top), -1))
            return total

        return rounded(made, *inputs)

    def vjp(self, ct: Value, out: Value, *inputs: Value) -> tuple[Value | None, ...]:
        """The weights times the keys, which is attention to them, and times the queries, as for a value gradient."""
        (q, k), mask, _ = self.parts(inputs)
        last = () if mask is None else (mask,)
        each = multiply(expand_dims(ct, -1), self.scale)
        seen = apply(Attention(*self.settings()), q, k, k, *last)
        to_keys = apply(AttentionValueGradient(*self.settings()), q, k, out, multiply(each, q), *last)
        if mask is None:
            return multiply(each, seen), to_keys
        to_mask = multiply(weights_of(self, q, k, out, mask), expand_dims(ct, -1)) if is_float(mask.dtype) else None
        return multiply(each, seen), to_keys, to_mask

    def lower(self, k: Builder, index: Index, *inputs: Operand) -> Scalar:
        """The rows are queries; keys are streamed."""
        (q, keys), mask, _ = self.parts(inputs)
        count = keys.type.shape[-2]

        def score(n: Coordinate, dots: Sequence[Scalar]) -> Scalar:
            return masked_score(k, self, dots[0], lambda: mask((*index, n)))

        span = causal_span(self, index[-1], count, "T")
        return k.fused_attention("log_sum_exp", count, [product(index, q, keys)], score, None, span)

    @classmethod
    def samples(cls) -> list[Sample]:
        """The same as for attention."""
        far = tuple(100 * x for x in cls.arrays((2,), 20, 90, 4, 3))
        return [*cls.cases(), Sample(cls(1.0), far, gradient=False), *cls.bad()]


def scaled_dot_product_attention(
    q: Value,
    k: Value,
    v: Value,
    causal: bool = False,
    scale: float | None = None,
    mask: Value | None = None,
    dropout_rate: float = 0.0,
    key: Value | None = None,
) -> Value:
    """``softmax(q @ k.T * scale) @ v`` (Vaswani et al., 2017, formula 1), like PyTorch's function of that name.

    Parameters
    ----------
    q : Value
        Queries, float, shape ``[..., T, D]``.
    k, v : Value
        Keys ``[..., S, D]`` and values ``[..., S, E]``; leading axes broadcast.
    causal : bool, default False
        Query t attends to keys 0 to t only.
    scale : float, optional
        Default: ``1 / sqrt(D)``.
    mask : Value, optional
        Broadcasts to ``[..., T, S]``: bool, True where a query attends to a key, or of the dtype of `q` and added to
        the scores. A query that attends to no key gets zeros. The gradient of a mask has T times S elements.
    dropout_rate : float, default 0.0
        Probability with which a weight is dropped, as by `dropout` of the weights; not stored for long sequences.
    key : Value, optional
        The key of the dropout, u32[2].

    Returns
    -------
    Value
        Shape ``[..., T, E]``.

    Raises
    ------
    TypeRuleError
        If shapes or dtypes do not match.
    InvalidValueError
        If the scale is not a number, or there is no key for dropout.
    """
    name = "scaled_dot_product_attention"
    for what, value in (("q", q), ("k", k), ("v", v)):
        require_float(name, value)
        if len(value.shape) < 2 or 0 in value.shape[-2:]:
            raise TypeRuleError(
                f"{name}: {what} must have the shape [..., T, D] with nonzero sizes, got {value.type}; reshape it"
            )
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise TypeRuleError(
            f"{name}: q and k must agree in the last axis, and k and v in the number of rows, got {q.type}, {k.type} "
            f"and {v.type}; transpose one of them?"
        )
    if scale is None:
        scale = 1.0 / sqrt(q.shape[-1])
    elif isinstance(scale, bool) or not isinstance(scale, int | float):
        raise InvalidValueError(f"{name}: scale must be a number or None, got {scale!r}; omit it for 1/sqrt(D)")
    batch = _batch(q, k, v)
    drops = _checked_rate(dropout_rate, key)
    if mask is not None:
        mask = _checked_mask(mask, q, (*batch, q.shape[-2], k.shape[-2]))
    scores_of_head = q.shape[-2] * k.shape[-2]
    if not costs.stores_scores(
        scores_of_head,
        nbytes=scores_of_head * prod(batch) * q.dtype.itemsize,
        head=q.shape[-1] if q.shape[-1] > v.shape[-1] else v.shape[-1],
        causal=causal,
    ):
        whole = [broadcast_to(x, (*batch, *x.shape[-2:])) for x in (q, k, v)]
        if mask is not None:
            whole.append(broadcast_to(mask, (*batch, q.shape[-2], k.shape[-2])))
        if drops:
            whole.append(as_key(name, key))
        return apply(Attention(float(scale), causal, mask is not None, drops), *whole)
    # Scale the product rather than the queries: this happens in registers, where the product is stored.
    scored = multiply(matmul(q, k, transpose_b=True), scale)
    shares = softmax_of_scores(scored, mask, causal)
    return matmul(dropout(shares, key, drops) if key is not None and drops else shares, v)


def _checked_rate(rate: float, key: Value | None) -> float:
    """The rate; raises unless it is one, and there is a key if it is not 0."""
    name = "scaled_dot_product_attention"
    if not is_number(rate) or not 0 <= rate <= 1:
        raise InvalidValueError(f"{name}: dropout_rate must be from 0 to 1, got {rate!r}; pass a probability")
    if rate and key is None:
        raise InvalidValueError(f"{name}: dropout needs a key, got none with dropout_rate={rate!r}; pass key")
    return float(rate)


def softmax_of_scores(scored: Value, mask: Value | None, causal: bool) -> Value:
    """The attention weights, stored: those of a query that attends to no key are zeros."""
    if mask is None:
        return softmax(causally_masked(scored) if causal else scored)
    hidden = masked(scored, mask, causal)
    some = greater(max(stop_gradient(hidden), -1, keepdims=True), float("-inf"))
    return where(some, softmax(where(some, hidden, 0.0)), 0.0)


def _checked_mask(mask: Value, q: Value, shape: tuple[int, ...]) -> Value:
    """A mask with as many axes as the scores at most, to which it must broadcast."""
    fits = mask.dtype in (DTYPES["bool"], q.dtype) and len(mask.shape) <= len(shape)
    if not fits or any(a not in (1, b) for a, b in zip(mask.shape[::-1], shape[::-1], strict=False)):
        raise TypeRuleError(
            "scaled_dot_product_attention: the mask must be bool or of the dtype of q and broadcast to "
            f"{q.type.with_shape(shape)}, got {mask.type}; reshape or cast it"
        )
    return mask


def _batch(*inputs: Value) -> tuple[int, ...]:
    """The common broadcast batch shape of all operands; raises if there is none."""
    try:
        return np.broadcast_shapes(*(x.shape[:-2] for x in inputs))
    except ValueError:
        raise TypeRuleError(
            "scaled_dot_product_attention: batch axes must be equal or 1, got "
            f"{', '.join(str(x.type) for x in inputs)}; reshape some of them"
        ) from None
