"""The gradients of attention with recomputed weights: the formulas of Dao et al., "FlashAttention", 2022.

With the cotangent ``ct[t, e]`` of the result and ``delta[t] = sum over e of ct[t, e] * result[t, e]``::

    slopes[t, s] = weights[t, s] * (sum over e of ct[t, e] * v[s, e] - delta[t])
    dq[t, d]     = scale * sum over s of slopes[t, s] * k[s, d]
    dk[s, d]     = scale * sum over t of slopes[t, s] * q[t, d]
    dv[s, e]     = sum over t of weights[t, s] * ct[t, e]

Their own derivatives are composed of ordinary operators, which do store T times S elements.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

import numpy as np

from adjoint.ir.types import is_float
from adjoint.ir.value import Value
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import add, multiply, negative, subtract
from adjoint.ops.attention_base import AttentionOperator, causal_span, exponential, product, scores, weights, weights_of
from adjoint.ops.attention_dropout import factor_at, factors, with_factors
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

    def _slopes(self, *inputs: np.ndarray) -> np.ndarray:
        """The scaled gradients of the scores, ``[.., T, S]``, in NumPy."""
        (q, k, v, logsum, delta, ct), mask, keys = self.parts(inputs)
        shares = weights(scores(q, k, self.scale, self.causal, mask), logsum)
        to_weights = np.matmul(ct, np.swapaxes(v, -1, -2)) * factors(self.dropout, keys, shares)
        change: np.ndarray = to_weights - delta[..., None]
        slopes: np.ndarray = shares * change * q.dtype.type(self.scale)
        return slopes

    def _slope(
        self,
        k: Builder,
        dots: Sequence[Scalar],
        logsum: Scalar,
        delta: Scalar,
        mask: Callable[[], Scalar],
        factor: Callable[[], Scalar],
    ) -> Scalar:
        """A single slope, from the dot products of query and key and of cotangent and value."""
        score, change = dots
        if self.dropout:
            change = k.call("mul", change, factor())
        weight = exponential(k, self, score, logsum, mask)
        scaled = k.call("mul", k.call("sub", change, delta), k.const(self.scale, k.dtype(score)))
        return k.call("mul", weight, scaled)

    def _through_slopes(self, h: Value, *inputs: Value) -> tuple[Value, tuple[Value | None, ...]]:
        """The scaled slopes, and the cotangents of all operands given `h`, the cotangent of the slopes."""
        (q, k, v, logsum, delta, ct), mask, keys = self.parts(inputs)
        shares = weights_of(self, q, k, logsum, mask)
        to_weights = with_factors(self.dropout, keys, matmul(ct, v, transpose_b=True))
        slopes = multiply(shares, subtract(to_weights, expand_dims(delta, -1)))
        to_change, to_scores = multiply(h, shares), multiply(h, slopes)
        to_q, to_k, to_logsum = _through_scores(self, to_scores, q, k)
        to_product = with_factors(self.dropout, keys, to_change)
        to_v, to_ct = matmul(to_product, ct, transpose_a=True), matmul(to_product, v)
        others = _to_others(mask, keys, to_scores)
        found = (to_q, to_k, to_v, to_logsum, negative(sum(to_change, -1)), to_ct, *others)
        return multiply(slopes, self.scale), found

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
        return to_q, _sum(to_k, matmul(slopes, ct, transpose_a=True)), *others

    def lower(self, k: Builder, index: Index, *inputs: Operand) -> Scalar:
        """The rows are queries; keys are streamed."""
        (q, keys, v, logsum, delta, ct), mask, seed = self.parts(inputs)
        *batch, t, d = index
        row = (*batch, t)

        def weight(n: Coordinate, dots: Sequence[Scalar]) -> Scalar:
            at = (*row, n)
            factor = partial(factor_at, k, self.dropout, seed, shape, at, q.type.dtype)
            return self._slope(k, dots, logsum(row), delta(row), lambda: mask(at), factor)

        count = keys.type.shape[-2]
        shape = (*q.type.shape[:-1], count)
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
        return _sum(to_q, matmul(slopes, ct)), *others

    def lower(self, k: Builder, index: Index, *inputs: Operand) -> Scalar:
        """The rows are keys; queries are streamed."""
        (q, keys, v, logsum, delta, ct), mask, seed = self.parts(inputs)
        *batch, s, d = index
        row = (*batch, s)

        def weight(n: Coordinate, dots: Sequence[Scalar]) -> Scalar:
            at = (*batch, n)
            factor = partial(factor_at, k, self.dropout, seed, shape, (*at, s), q.type.dtype)
            return self._slope(k, dots, logsum(at), delta(at), lambda: mask((*at, s)), factor)

        count = q.type.shape[-2]
        shape = (*q.type.shape[:-1], keys.type.shape[-2])
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

        def made(*xs: np.ndarray) -> np.ndarray:
            (q, k, logsum, ct), mask, keys = self.parts(xs)
            shares = weights(scores(q, k, self.scale, self.causal, mask), logsum)
            kept = shares * factors(self.dropout, keys, shares)
            total: np.ndarray = np.matmul(np.swapaxes(kept, -1, -2), ct)
            return total

        return rounded(made, *inputs)

    def vjp(self, ct: Value, out: Value, *inputs: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """Composed of ordinary operators, with T times S elements."""
        (q, k, logsum, change), mask, keys = self.parts(inputs)
        shares = with_factors(self.dropout, keys, weights_of(self, q, k, logsum, mask))
        to_scores = multiply(matmul(change, ct, transpose_b=True), shares)
        return *_through_scores(self, to_scores, q, k), matmul(shares, ct), *_to_others(mask, keys, to_scores)

    def lower(self, k: Builder, index: Index, *inputs: Operand) -> Scalar:
        """The rows are keys; queries are streamed."""
        (q, keys, logsum, ct), mask, seed = self.parts(inputs)
        *batch, s, e = index

        def weight(n: Coordinate, dots: Sequence[Scalar]) -> Scalar:
            at = (*batch, n)
            made = exponential(k, self, dots[0], logsum(at), lambda: mask((*at, s)))
            if seed is None:
                return made
            return k.call("mul", made, factor_at(k, self.dropout, seed, shape, (*at, s), q.type.dtype))

        count = q.type.shape[-2]
        shape = (*q.type.shape[:-1], keys.type.shape[-2])
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


def _to_others(mask: Value | None, keys: Value | None, to_scores: Value) -> tuple[Value | None, ...]:
    """The cotangents of the mask and of the key, if there are any, given that of the scores."""
    own = () if mask is None else (to_scores if is_float(mask.dtype) else None,)
    return own if keys is None else (*own, None)


def _sum(x: Value | None, y: Value) -> Value:
    return y if x is None else add(x, y)
