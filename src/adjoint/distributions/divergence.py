"""The divergence of Kullback and Leibler between two distributions of a kind."""

from collections.abc import Callable
from typing import Any

from adjoint import ops
from adjoint.distributions.base import Distribution, digamma, log_gamma
from adjoint.distributions.continuous import Beta, Exponential, Gamma, Laplace, Normal, Uniform
from adjoint.distributions.discrete import Bernoulli, Categorical
from adjoint.distributions.of_gamma import Chi2, Dirichlet
from adjoint.errors import TypeRuleError
from adjoint.tensor.record import operation

__all__ = ["kl_divergence"]


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """The mean of ``log(p(x)) - log(q(x))`` for x of `p`: the divergence of Kullback and Leibler (1951).

    Parameters
    ----------
    p, q : Distribution
        Two distributions of the same class.

    Returns
    -------
    Tensor
        One number for each distribution of a batch.

    Raises
    ------
    TypeRuleError
        If there is no formula for the pair.
    """
    rule = _RULES.get(type(p))
    if rule is None or type(p) is not type(q):
        raise TypeRuleError(
            f"kl_divergence: two distributions of the same class are compared, got {type(p).__name__} and "
            f"{type(q).__name__}; estimate (p.log_prob(x) - q.log_prob(x)).mean() for x = p.sample(...)"
        )
    return rule(p, q)


def _normal(p: Normal, q: Normal) -> Any:
    ratio = (p.scale / q.scale) ** 2
    return (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log()) / 2


@operation
def _weighted(p: Any, logs: Any, others: Any) -> Any:
    """``p * (logs - others)``, which is 0 where p is."""
    return ops.where(ops.greater(p, 0.0), ops.multiply(p, ops.subtract(logs, others)), 0.0)


def _bernoulli(p: Bernoulli, q: Bernoulli) -> Any:
    # log(p) is the log-probability of 1, and that of the other case is that of 0.
    one, zero = p.probs * 0 + 1, p.probs * 0
    first = _weighted(p.probs, p.log_prob(one), q.log_prob(one))
    return first + _weighted(1 - p.probs, p.log_prob(zero), q.log_prob(zero))


def _categorical(p: Categorical, q: Categorical) -> Any:
    return _weighted(p.probs, p.logits, q.logits).sum(-1)


@operation
def _outside(p_low: Any, p_high: Any, q_low: Any, q_high: Any, value: Any) -> Any:
    """Infinity where the first range is not inside the second."""
    outside = ops.logical_or(ops.less(p_low, q_low), ops.greater(p_high, q_high))
    return ops.where(outside, float("inf"), value)


def _uniform(p: Uniform, q: Uniform) -> Any:
    return _outside(p.low, p.high, q.low, q.high, ((q.high - q.low) / (p.high - p.low)).log())


def _exponential(p: Exponential, q: Exponential) -> Any:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


def _laplace(p: Laplace, q: Laplace) -> Any:
    ratio, gap = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + gap / q.scale + ratio * (-gap / p.scale).exp() - 1


def _gamma(p: Gamma, q: Gamma) -> Any:
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log()
        + log_gamma(b)
        - log_gamma(a)
        + (a - b) * digamma(a)
        + (q.rate - p.rate) * (a / p.rate)
    )


def _beta(p: Beta, q: Beta) -> Any:
    a, b, c, d = p.concentration1, p.concentration0, q.concentration1, q.concentration0
    mixed = (a - c) * digamma(a) + (b - d) * digamma(b) + (c + d - a - b) * digamma(a + b)
    return q.log_normalizer() - p.log_normalizer() + mixed


def _dirichlet(p: Dirichlet, q: Dirichlet) -> Any:
    a, b = p.concentration, q.concentration
    gap = ((a - b) * (digamma(a) - digamma(a.sum(-1, keepdim=True)))).sum(-1)
    return q.log_normalizer() - p.log_normalizer() + gap


_RULES: dict[type, Callable[[Any, Any], Any]] = {
    Normal: _normal,
    Bernoulli: _bernoulli,
    Categorical: _categorical,
    Uniform: _uniform,
    Exponential: _exponential,
    Laplace: _laplace,
    Gamma: _gamma,
    Chi2: _gamma,
    Beta: _beta,
    Dirichlet: _dirichlet,
}
