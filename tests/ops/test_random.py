"""Distributions against their definitions: exact ranges, distribution functions, moments, and integer arithmetic."""

from math import erf, erfc, sqrt

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import CompileOptions, compile
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import DTYPES, Function, param
from adjoint.ops.threefry import RandomBits
from adjoint.testing.interpreter import interpret
from adjoint.transforms import gradient, vectorize
from tests.ops.running import run

random = ops.random
KEY = random.key_array(2024)
ONE = 1 << 16
#: Kolmogorov's statistic, D times the root of the number of samples, exceeds this with probability 2e-4.
KOLMOGOROV = 2.15


def distance(samples, cdf):
    """Kolmogorov and Smirnov's statistic: the largest distance of the distribution functions, scaled."""
    ordered = np.sort(np.asarray(samples, np.float64).ravel())
    expected, n = cdf(ordered), len(ordered)
    steps = np.arange(n + 1) / n
    return max((expected - steps[:-1]).max(), (steps[1:] - expected).max()) * sqrt(n)


def gaussian(x):
    return np.vectorize(lambda z: erfc(-z / sqrt(2)) / 2)(x)


def words(shape, width=64):
    return RandomBits(shape, width).reference(KEY)


@pytest.mark.parametrize(("dtype", "digits"), [("f16", 11), ("bf16", 8), ("f32", 24), ("f64", 53)])
def test_uniform_numbers_are_the_upper_bits(dtype, digits):
    found = run(lambda key: random.uniform(key, (100, 41), dtype), KEY)
    assert found.dtype == DTYPES[dtype]
    drawn = words((100, 41), 64 if digits > 32 else 32) >> np.uint64(64 - digits if digits > 32 else 32 - digits)
    np.testing.assert_array_equal(found.astype(np.float64), drawn.astype(np.float64) / 2.0**digits)
    assert found.max() < 1


def test_uniform_numbers_are_even():
    assert distance(run(lambda key: random.uniform(key, ONE), KEY), lambda x: x) < KOLMOGOROV
    assert distance(run(lambda key: random.uniform(key, ONE, "f64"), KEY), lambda x: x) < KOLMOGOROV
    shifted = run(lambda key: random.uniform(key, ONE, low=-3.0, high=5.0), KEY)
    assert distance(shifted, lambda x: (x + 3) / 8) < KOLMOGOROV
    assert distance(shifted, lambda x: (x + 3.1) / 8.1) > KOLMOGOROV, "another distribution is seen"


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (1.0, 1.0078125), (-3.0, -2.0)])
def test_uniform_numbers_stay_below_the_upper_bound(dtype, low, high):
    """Sums are rounded to even, so half of an ulp below the bound they would reach it."""
    found = run(lambda key: random.uniform(key, 5000, dtype, low, high), KEY).astype(np.float64)
    assert found.min() >= low
    assert found.max() < high


def test_bounds_may_be_values_with_a_gradient():
    low, high = np.array([[0.0], [5.0]], np.float32), np.array([1.0, 2.0, 3.0], np.float32) + 6
    found = run(lambda a, b: random.uniform(ops.constant(KEY), (2, 3), low=a, high=b), low, high)
    unit = words((2, 3), 24) / 2.0**24
    np.testing.assert_allclose(found, low + unit * (high - low), rtol=1e-6)
    by_array = run(lambda key: random.uniform(key, (2, 3), low=low, high=high), KEY)
    np.testing.assert_array_equal(by_array, found)
    a, b = param("a", (2, 1)), param("b", (3,))
    total = Function("f", (a, b), (ops.sum(random.uniform(ops.constant(KEY), (2, 3), low=a, high=b)),))
    _, by_low, by_high = interpret(gradient(total, ["a", "b"]), low, high)
    np.testing.assert_allclose(by_low, (1 - unit).sum(1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(by_high, unit.sum(0), rtol=1e-6)


def test_normal_numbers_are_the_exact_transform_of_their_bits():
    key = param("key", (2,), "u32")
    draw = Function(
        "f", (key,), (random.normal(key, 4000), random.normal(key, 4000, "f64"), random.normal(key, 9, "f16"))
    )
    single, double, half = compile(draw, options=CompileOptions(threads=1))(KEY)
    wide = np.longdouble
    turn = 2 * np.arccos(wide(-1))
    high, low = words((4000,)) >> np.uint64(32), words((4000,)).astype(np.uint32)
    u = (high.astype(np.float32) + np.float32(1)) / np.float32(2**32)
    want = np.sqrt(-2 * np.log(u.astype(wide))) * np.cos(low.astype(wide) / 2**32 * turn)
    np.testing.assert_allclose(single, want.astype(np.float64), rtol=0, atol=2e-6)
    np.testing.assert_array_equal(half, np.asarray(single)[:9].astype(np.float16))
    keys = run(random.split, KEY)
    first, second = (RandomBits((4000,), 53).reference(k).astype(wide) / wide(2) ** 53 for k in keys)
    exact = np.sqrt(-2 * np.log(first + wide(2) ** -53)) * np.cos((second - wide(0.5)) * turn)
    np.testing.assert_allclose(double, exact.astype(np.float64), rtol=0, atol=4e-15)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_normal_numbers_are_distributed_normally(dtype):
    found = run(lambda key: random.normal(key, ONE, dtype), KEY).astype(np.float64)
    assert distance(found, gaussian) < KOLMOGOROV
    assert distance(found * 1.06, gaussian) > KOLMOGOROV, "another distribution is seen"
    # Standard errors of the first four moments of a normal distribution: variances 1, 2, 15 and 96.
    for power, (mean, variance) in enumerate([(0, 1), (1, 2), (0, 15), (3, 96)], 1):
        assert abs((found**power).mean() - mean) < 4 * sqrt(variance / ONE), power


def test_normal_numbers_have_tails():
    """Of a million numbers as many are beyond 3, 4 and 4.5 standard deviations as there should be."""
    found = np.abs(run(lambda key: random.normal(key, 1 << 20), KEY))
    for limit in (3.0, 4.0, 4.5):
        expected = (1 << 20) * (1 - erf(limit / sqrt(2)))
        assert abs((found > limit).sum() - expected) < 4 * sqrt(expected), limit


def test_truth_has_the_probability():
    share = run(lambda key: random.bernoulli(key, 0.3, ONE), KEY).mean()
    assert abs(share - 0.3) < 4 * sqrt(0.3 * 0.7 / ONE)
    p = np.array([0.0, 0.25, 1.0], np.float32)
    each = run(lambda key, p: random.bernoulli(key, p, (ONE, 3)), KEY, p).mean(0)
    assert each[0] == 0
    assert abs(each[1] - 0.25) < 4 * sqrt(0.25 * 0.75 / ONE)
    assert each[2] == 1
    assert run(lambda key: random.bernoulli(key, np.array([0.0, 1.0])), KEY).tolist() == [False, True]
    for dtype in ("f64", "bf16"):
        q = np.array([0.0, 1.0], DTYPES[dtype])
        assert run(random.bernoulli, KEY, q).tolist() == [False, True]
    assert run(random.bernoulli, KEY).shape == ()


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        *[(0, 10, "i64"), (-3, 4, "i8"), (0, 256, "u8"), (5, 6, "i32"), (0, 2**32 - 1, "u32"), (0, 2**32, "i64")],
        *[(-(2**63), 2**63, "i64"), (0, 2**64, "u64"), (-7, 2**40, "i64")],
    ],
)
def test_integers_are_the_exact_share_of_the_bits(low, high, dtype):
    found = run(lambda key: random.randint(key, 500, low, high, dtype), KEY)
    assert found.dtype == DTYPES[dtype]
    assert found.tolist() == [low + int(word) * (high - low) // 2**64 for word in words((500,))]


def test_bounds_of_integers_may_be_values():
    low, high = np.array([[-5], [2**40]], np.int64), np.array([7, 2**41, -5], np.int64)
    found = run(lambda a, b: random.randint(ops.constant(KEY), (2, 3), a, b), low, high)
    spans = np.maximum(high - low, 0).astype(object)
    want = low.astype(object) + words((2, 3)).astype(object) * spans // 2**64
    assert found.tolist() == want.tolist()
    assert run(lambda key: random.randint(key, (2, 3), low, high), KEY).tolist() == want.tolist()
    assert run(lambda b: random.randint(ops.constant(KEY), 4, 3, b, "u8"), np.uint8(4)).tolist() == [3] * 4


def test_bits_of_every_width():
    found = {dtype: run(lambda key, d=dtype: random.bits(key, 50, d), KEY) for dtype in ("u8", "u16", "u32", "u64")}
    assert found["u64"].tolist() == words((50,)).tolist()
    for dtype, size in (("u8", 256), ("u16", 2**16), ("u32", 2**32)):
        assert found[dtype].dtype == DTYPES[dtype]
        assert found[dtype].tolist() == [int(word) % size for word in words((50,), 32)]


def test_permutations_are_those_of_sorting():
    for count in (0, 1, 2, 100):
        found = run(lambda key, n=count: random.permutation(key, n), KEY)
        assert found.dtype == np.int64
        assert sorted(found.tolist()) == list(range(count))
        assert found.tolist() == random.permutation_array(KEY, count).tolist()
    rows = np.arange(14.0, dtype=np.float32).reshape(7, 2)
    np.testing.assert_array_equal(run(random.permutation, KEY, rows), rows[random.permutation_array(KEY, 7)])
    assert run(random.permutation, KEY, rows[:0]).shape == (0, 2)


def test_equal_bits_keep_their_order(monkeypatch):
    drawn = np.array([3, 1, 3, 0, 1], np.uint32)
    monkeypatch.setattr(RandomBits, "reference", lambda *_: drawn)
    want = [3, 1, 4, 0, 2]
    assert run(lambda key: random.permutation(key, 5), KEY).tolist() == want
    assert random.permutation_array(KEY, 5).tolist() == want


def test_every_permutation_is_as_likely():
    keys = run(lambda key: random.split(key, 6000), KEY)
    found = run(lambda keys: random.permutation(keys, 3), keys)
    _, counts = np.unique(found, axis=0, return_counts=True)
    assert len(counts) == 6
    # Chi-squared of five degrees of freedom exceeds 20.5 with probability 0.001.
    assert ((counts - 1000) ** 2 / 1000).sum() < 20.5


def test_keys_may_have_leading_axes():
    keys = run(lambda key: random.split(key, (2, 3)), KEY)
    for draw in (
        lambda key: random.normal(key, (4,)),
        lambda key: random.normal(key, (4,), "f64"),
        lambda key: random.uniform(key, (4,), low=-1.0, high=1.0),
        lambda key: random.randint(key, (4,), 0, 10),
        lambda key: random.permutation(key, 4),
    ):
        together = run(draw, keys)
        assert together.shape == (2, 3, 4)
        np.testing.assert_array_equal(together[1, 2], run(draw, keys[1, 2]))


def test_a_mapped_key_draws_for_each_row_and_another_draws_once():
    """As in JAX: what does not depend on a mapped operand is the same for all rows."""
    x, key = param("x", (50,)), param("key", (2,), "u32")
    function = Function("f", (x, key), (ops.dropout(x, key),))
    keys = run(lambda key: random.split(key, 3), KEY)
    rows = np.ones((3, 50), np.float32)
    (each,) = interpret(vectorize(function, [None, 0], 3), rows[0], keys)
    (alike,) = interpret(vectorize(function, [0, None], 3), rows, KEY)
    for row, own in zip(each, keys, strict=True):
        np.testing.assert_array_equal(row, interpret(function, rows[0], own)[0])
    np.testing.assert_array_equal(alike, np.stack(interpret(function, rows[0], KEY) * 3))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda key: random.bits(key, 3, "i32"), "bits: the dtype must be unsigned, got i32; use u32, or randint"),
        (lambda key: random.uniform(key, 3, "i32"), "uniform: the dtype must be float, got i32; use f32, or randint"),
        (lambda key: random.normal(key, 3, "u8"), "normal: the dtype must be float, got u8; use f32, or randint"),
        (
            lambda key: random.uniform(key, 3, low=1.0, high=1.0),
            "uniform: low must be below high, and both finite numbers, got 1.0 and 1.0; exchange them?",
        ),
        (
            lambda key: random.uniform(key, 3, low="0"),
            "uniform: low must be below high, and both finite numbers, got '0' and 1.0; exchange them?",
        ),
        (
            lambda key: random.uniform(key, 3, low=-3e38, high=3e38),
            "uniform: high - low must be finite in f32, got -3e+38 and 3e+38; draw from a smaller range and multiply",
        ),
        (
            lambda key: random.uniform(key, 3, low=param("x", (), "f64")),
            "uniform: a bound must be f32, got f64[]; cast it",
        ),
        (
            lambda key: random.uniform(key, 3, low=param("x", (4,))),
            "uniform: a parameter must broadcast to what is drawn, got f32[4] for the shape [3]; pass the shape of the "
            "result",
        ),
        (lambda key: random.bernoulli(key, 1.5), "bernoulli: p must be from 0 to 1, got 1.5; pass a probability"),
        (
            lambda key: random.bernoulli(key, param("x", (3,), "i32")),
            "bernoulli: the dtype must be float, got i32[3]; cast to a float such as f32 first",
        ),
        (
            lambda key: random.randint(key, 3, 5, 5),
            "randint: low must be below high, got 5 and 5; exchange them?",
        ),
        (
            lambda key: random.randint(key, 3, 0, 2.5),
            "randint: a bound must be an integer, got 2.5; pass one such as 10",
        ),
        (
            lambda key: random.randint(key, 3, 0, param("x", ())),
            "randint: a bound must be an integer, got f32[]; cast it to i64",
        ),
        (
            lambda key: random.randint(key, 3, 0, 300, "u8"),
            "randint: u8 holds 0 to 255, got 299; use a wider dtype",
        ),
        (
            lambda key: random.randint(key, 3, 0, 3, "f32"),
            "randint: the dtype must be an integer, got f32; use i64, or uniform",
        ),
        (
            lambda key: random.permutation(key, 2**16 + 1),
            "permutation: the number of elements must be an integer from 0 to 65536, got 65537; permutation_array "
            "takes any number of them, outside of graphs",
        ),
        (
            lambda key: random.permutation(key, param("x", ())),
            "permutation: a tensor must have an axis, got f32[]; pass its size or reshape it",
        ),
        (
            lambda _: random.permutation_array([1, 2], 3),
            "permutation_array: a key must be an array of two uint32, got int64[2]; make one with key_array(seed)",
        ),
    ],
)
def test_what_is_refused(build, message):
    with pytest.raises((InvalidValueError, TypeRuleError)) as refusal:
        build(param("key", (2,), "u32"))
    assert refusal.value.message == message
