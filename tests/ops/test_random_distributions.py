"""Distributions made of uniform and normal numbers, against their distribution functions."""

from math import atan, erf, exp, lgamma, log, pi, sqrt

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import CompileOptions, compile
from adjoint.errors import AdjointError
from adjoint.ir import Function, param
from adjoint.testing import interpret
from tests.ops.test_random import KOLMOGOROV, distance

random = ops.random
MANY = 1 << 13
KEY = random.key_array(11)
RATES = (0.0, 0.5, 6.0, 12.0, 700.0)
LOGITS = np.array([log(0.1), -np.inf, log(0.2), log(0.7)], np.float32)


def phi(x):
    return (1 + erf(x / sqrt(2))) / 2


def truncated(low, high):
    return lambda x: (phi(x) - phi(low)) / (phi(high) - phi(low))


#: For each continuous distribution: how it is drawn from a key, and its distribution function.
CONTINUOUS = {
    "exponential": (lambda key: random.exponential(key, MANY), lambda x: 1 - exp(-x)),
    "exponential f64": (lambda key: random.exponential(key, MANY, "f64"), lambda x: 1 - exp(-x)),
    "gumbel": (lambda key: random.gumbel(key, MANY), lambda x: exp(-exp(-x))),
    "laplace": (lambda key: random.laplace(key, MANY), lambda x: 0.5 * exp(x) if x < 0 else 1 - 0.5 * exp(-x)),
    "cauchy": (lambda key: random.cauchy(key, MANY), lambda x: 0.5 + atan(x) / pi),
    "lognormal": (lambda key: random.lognormal(key, 0.5, MANY), lambda x: phi(2 * log(x))),
    "truncated_normal": (lambda key: random.truncated_normal(key, -1.0, 2.0, MANY), truncated(-1, 2)),
    "truncated_normal f64": (lambda key: random.truncated_normal(key, 0.5, 5.0, MANY, "f64"), truncated(0.5, 5)),
    "gamma 0.5": (lambda key: random.gamma(key, 0.5, MANY), lambda x: erf(sqrt(x))),
    "gamma 1": (lambda key: random.gamma(key, 1.0, MANY), lambda x: 1 - exp(-x)),
    "gamma 3 f64": (
        lambda key: random.gamma(key, 3.0, MANY, "f64"),
        lambda x: 1 - exp(-x) * (1 + x + x * x / 2),
    ),
    "beta": (lambda key: random.beta(key, 2.0, 3.0, MANY), lambda x: 6 * x**2 - 8 * x**3 + 3 * x**4),
    "dirichlet": (
        lambda key: random.dirichlet(key, np.array([1.0, 2.0, 3.0]), MANY)[:, 0],
        lambda x: 1 - (1 - x) ** 5,
    ),
}
#: For each discrete distribution: how it is drawn, and the probability of a number.
DISCRETE = {
    "geometric": (lambda key: random.geometric(key, 0.3, MANY), lambda k: 0.3 * 0.7 ** (k - 1) if k else 0.0),
    "categorical": (
        lambda key: random.categorical(key, ops.constant(LOGITS), shape=MANY),
        lambda k: [0.1, 0.0, 0.2, 0.7][k] if k < 4 else 0.0,
    ),
} | {
    f"poisson {rate}": (
        lambda key, rate=rate: random.poisson(key, rate, MANY),
        lambda k, rate=rate: exp(k * log(rate) - rate - lgamma(k + 1)) if rate else float(k == 0),
    )
    for rate in RATES
}


@pytest.fixture(scope="module")
def drawn():
    key = param("key", (2,), "u32")
    draws = CONTINUOUS | DISCRETE
    function = Function("draws", (key,), tuple(draw(key) for draw, _ in draws.values()))
    run = compile(function, options=CompileOptions(threads=1, cache=False))
    return dict(zip(draws, run(KEY), strict=True))


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions(drawn, name):
    cdf = np.vectorize(CONTINUOUS[name][1])
    assert np.isfinite(drawn[name]).all()
    assert distance(drawn[name], cdf) < KOLMOGOROV
    assert distance(drawn[name] * 1.2, lambda x: np.clip(cdf(x), 0, 1)) > KOLMOGOROV, "another distribution is seen"


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distributions(drawn, name):
    """The statistic is never larger than that of a continuous distribution with these steps."""
    found = drawn[name].astype(np.int64)
    values = np.arange(found.max() + 2)
    expected = np.cumsum([DISCRETE[name][1](int(k)) for k in values])
    counted = np.searchsorted(np.sort(found), values, side="right") / MANY
    assert np.abs(counted - expected).max() * sqrt(MANY) < KOLMOGOROV
    assert found.min() >= (1 if name == "geometric" else 0)


def test_the_same_key_gives_the_same_numbers_and_parameters_may_be_tensors():
    key, a = param("key", (2,), "u32"), param("a", (2, 1))
    function = Function("f", (key, a), (random.gamma(key, a, (2, 3)), random.poisson(key, a, (2, 3))))
    run = compile(function, options=CompileOptions(threads=2, cache=False))
    given = np.array([[0.5], [20.0]], np.float32)
    for compiled, specified in zip(run(KEY, given), interpret(function, KEY, given), strict=True):
        np.testing.assert_allclose(compiled, specified, rtol=1e-4)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (
            lambda key: random.exponential(key, 3, "i32"),
            "exponential: the dtype must be float, got i32; use f32, or randint",
        ),
        (
            lambda key: random.gamma(key, "a"),
            "gamma: a parameter must be a number or a tensor, got 'a'; pass one",
        ),
        (
            lambda key: random.gamma(key, param("a", (2,), "f64")),
            "gamma: a parameter must be f32, got f64[2]; cast it",
        ),
        (
            lambda key: random.gamma(key, param("a", (2,)), (3,)),
            "gamma: a parameter must broadcast to what is drawn, got f32[2] for the shape [3]; pass the shape of the "
            "result",
        ),
        (
            lambda key: random.categorical(key, param("a", (2, 0))),
            "categorical: there must be a class, got f32[2,0]; pass logits of at least one",
        ),
        (
            lambda key: random.categorical(key, param("a", (2, 3)), shape=(2, 4)),
            "categorical: the shape must end with that of the logits without the classes, [2], got [2, 4]; prepend "
            "axes only",
        ),
    ],
)
def test_what_is_refused(build, expected):
    with pytest.raises(AdjointError) as error:
        build(param("key", (2,), "u32"))
    assert error.value.message == expected
