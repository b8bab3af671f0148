"""The gradients of attention with recomputed weights: the formulas of Dao et al., "FlashAttention", 2022.

With the cotangent ``ct[t, e]`` of the result and ``delta[t] = sum over e of ct[t, e] * result[t, e]``::

    slopes[t, s] = weights[t, s] * (sum over e of ct[t, e] * v[s, e] - delta[t])
    dq[t, d]     = scale * sum over s of slopes[t, s] * k[s, d]
    dk[s, d]     = scale * sum over t of slopes[t, s] * q[t, d]
    dv[s, e]     = sum over t of weights[t, s] * ct[t, e]

Their own derivatives are composed of ordinary operators, which do store T times S elements.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from adjoint.ir.value import Value
from adjoint.ops.arithmetic import add, multiply, negative, subtract
from adjoint.ops.attention_base import AttentionOperator, causal_span, exponential, product, scores, weights_of
from adjoint.ops.base import Builder, Coordinate, Index, Operand, Sample, Scalar
from adjoint.ops.contract import matmul
from adjoint.ops.rules import rounded
from adjoint.ops.shape import expand_dims, sum

__all__ = ["AttentionKeyGradient", "AttentionQueryGradient", "AttentionValueGradient"]


@dataclass(frozen=True, slots=True)
class _ScoreGradient(AttentionOperator):
    """What the gradients of queries and keys have in common."""

    flops: ClassVar[float] = 6.0
    takes: ClassVar[tuple[tuple[str, str], ...]] = (
        ("q", "TD"),
        ("k", "SD"),
        ("v", "SE"),
        ("logsum", "T"),
        ("delta", "T"),
        ("ct", "TE"),
    )

    def _slopes(
        self, q: np.ndarray, k: np.ndarray, v: np.ndarray, logsum: np.ndarray, delta: np.ndarray, ct: np.ndarray
    ) -> np.ndarray:
        """The scaled gradients of the scores, ``[.., T, S]``, in NumPy."""
        weights: np.ndarray = np.exp(scores(q, k, self.scale, self.causal) - logsum[..., None])
        change: np.ndarray = np.matmul(ct, np.swapaxes(v, -1, -2)) - delta[..., None]
        slopes: np.ndarray = weights * change * q.dtype.type(self.scale)
        return slopes

    def _slope(self, k: Builder, dots: Sequence[Scalar], logsum: Scalar, delta: Scalar) -> Scalar:
        """A single slope, from the dot products of query and key and of cotangent and value."""
        score, change = dots
        weight = exponential(k, self, score, logsum)
        scaled = k.call("mul", k.call("sub", change, delta), k.const(self.scale, k.dtype(score)))
        return k.call("mul", weight, scaled)

    def _through_slopes(
        self, h: Value, q: Value, k: Value, v: Value, logsum: Value, delta: Value, ct: Value
    ) -> tuple[Value, tuple[Value, ...]]:
        """The scaled slopes, and the cotangents of all operands given `h`, the cotangent of the slopes."""
        weights = weights_of(self, q, k, logsum)
        change = subtract(matmul(ct, v, transpose_b=True), expand_dims(delta, -1))
        slopes = multiply(weights, change)
        to_change = multiply(h, weights)
        to_q, to_k, to_logsum = _through_scores(self, multiply(h, slopes), q, k)
        to_v, to_ct = matmul(to_change, ct, transpose_a=True), matmul(to_change, v)
        return multiply(slopes, self.scale), (to_q, to_k, to_v, to_logsum, negative(sum(to_change, -1)), to_ct)

    @classmethod
    def samples(cls) -> list[Sample]:
        """The same as for attention."""
        return [*cls.cases(), *cls.bad()]


@dataclass(frozen=True, slots=True)
class AttentionQueryGradient(_ScoreGradient):
    """The gradient of the queries; operands ``q, k, v, logsum, delta, ct``."""

    name: ClassVar[str] = "attention_query_gradient"
    gives: ClassVar[str] = "TD"

    def reference(self, *inputs: np.ndarray) -> np.ndarray:
        """The formula."""
        return rounded(lambda *xs: np.matmul(self._slopes(*xs), xs[1]), *inputs)

    def vjp(self, ct: Value, out: Value, *inputs: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """Composed of ordinary operators, with T times S elements."""
        h = multiply(matmul(ct, inputs[1], transpose_b=True), self.scale)
        slopes, (to_q, to_k, *others) = self._through_slopes(h, *inputs)
        return to_q, add(to_k, matmul(slopes, ct, transpose_a=True)), *others

    def lower(self, k: Builder, index: Index, *inputs: Operand) -> Scalar:
        """The rows are queries; keys are streamed."""
        q, keys, v, logsum, delta, ct = inputs
        *batch, t, d = index
        row = (*batch, t)

        def weight(n: Coordinate, dots: Sequence[Scalar]) -> Scalar:  # noqa: ARG001
            return self._slope(k, dots, logsum(row), delta(row))

        count = keys.type.shape[-2]
        dots = [product(row, q, keys), product(row, ct, v)]
        return k.fused_attention(
            "sum", count, dots, weight, lambda n: keys((*batch, n, d)), causal_span(self, t, count, "T")
        )


@dataclass(frozen=True, slots=True)
class AttentionKeyGradient(_ScoreGradient):
    """The gradient of the keys; operands ``q, k, v, logsum, delta, ct``."""

    name: ClassVar[str] = "attention_key_gradient"
    gives: ClassVar[str] = "SD"

    def reference(self, *inputs: np.ndarray) -> np.ndarray:
        """The formula."""
        return rounded(lambda *xs: np.matmul(np.swapaxes(self._slopes(*xs), -1, -2), xs[0]), *inputs)

    def vjp(self, ct: Value, out: Value, *inputs: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """Composed of ordinary operators, with T times S elements."""
        h = multiply(matmul(inputs[0], ct, transpose_b=True), self.scale)
        slopes, (to_q, *others) = self._through_slopes(h, *inputs)
        return add(to_q, matmul(slopes, ct)), *others

    def lower(self, k: Builder, index: Index, *inputs: Operand) -> Scalar:
        """The rows are keys; queries are streamed."""
        q, keys, v, logsum, delta, ct = inputs
        *batch, s, d = index
        row = (*batch, s)

        def weight(n: Coordinate, dots: Sequence[Scalar]) -> Scalar:
            return self._slope(k, dots, logsum((*batch, n)), delta((*batch, n)))

        count = q.type.shape[-2]
        dots = [product(row, keys, q), product(row, v, ct)]
        return k.fused_attention(
            "sum", count, dots, weight, lambda n: q((*batch, n, d)), causal_span(self, s, count, "S")
        )


@dataclass(frozen=True, slots=True)
class AttentionValueGradient(AttentionOperator):
    """The gradient of the values; operands ``q, k, logsum, ct``."""

    name: ClassVar[str] = "attention_value_gradient"
    flops: ClassVar[float] = 4.0
    takes: ClassVar[tuple[tuple[str, str], ...]] = (("q", "TD"), ("k", "SD"), ("logsum", "T"), ("ct", "TE"))
    gives: ClassVar[str] = "SE"

    def reference(self, *inputs: np.ndarray) -> np.ndarray:
        """The formula."""

        def made(q: np.ndarray, k: np.ndarray, logsum: np.ndarray, ct: np.ndarray) -> np.ndarray:
            weights = np.exp(scores(q, k, self.scale, self.causal) - logsum[..., None])
            total: np.ndarray = np.matmul(np.swapaxes(weights, -1, -2), ct)
            return total

        return rounded(made, *inputs)

    def vjp(self, ct: Value, out: Value, *inputs: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """Composed of ordinary operators, with T times S elements."""
        q, k, logsum, change = inputs
        weights = weights_of(self, q, k, logsum)
        to_scores = multiply(matmul(change, ct, transpose_b=True), weights)
        return *_through_scores(self, to_scores, q, k), matmul(weights, ct)

    def lower(self, k: Builder, index: Index, *inputs: Operand) -> Scalar:
        """The rows are keys; queries are streamed."""
        q, keys, logsum, ct = inputs
        *batch, s, e = index

        def weight(n: Coordinate, dots: Sequence[Scalar]) -> Scalar:
            return exponential(k, self, dots[0], logsum((*batch, n)))

        count = q.type.shape[-2]
        span = causal_span(self, s, count, "S")
        return k.fused_attention(
            "sum", count, [product((*batch, s), keys, q)], weight, lambda n: ct((*batch, n, e)), span
        )

    @classmethod
    def samples(cls) -> list[Sample]:
        """The same as for attention."""
        return [*cls.cases(), *cls.bad()]


def _through_scores(op: AttentionOperator, h: Value, q: Value, k: Value) -> tuple[Value, Value, Value]:
    """Cotangents of queries, keys and `logsum`, given that of the scores minus `logsum`."""
    scaled = multiply(h, op.scale)
    return matmul(scaled, k), matmul(scaled, q, transpose_a=True), negative(sum(h, -1))
