"""Random tensors: their distributions, their generators, and programs that draw other numbers every time they run."""

import numpy as np
import pytest

import adjoint as torch
from adjoint import Function, compile, ops, param
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.tensor.random import host_normal, host_uniform, next_key
from tests.tensor.comparing import message
from tests.tensor.making import compilations


@pytest.fixture(scope="module")
def drawn():
    """One program with a draw of every kind; its results as arrays."""
    torch.manual_seed(7)
    weights = torch.tensor([[1.0, 2.0, 0.0, 5.0], [0.0, 1.0, 0.0, 0.0]])
    tensors = {
        "rand": torch.rand(4000),
        "rand_like": torch.rand_like(torch.zeros(3, 5, dtype=torch.float64)),
        "randn": torch.randn((4000,), dtype=torch.float64),
        "randn_like": torch.randn_like(torch.zeros(2, 3)),
        "randint": torch.randint(3, 9, (4000,)),
        "randint from 0": torch.randint(3, (50,), dtype=torch.int32),
        "randint_like": torch.randint_like(torch.zeros(20), 4),
        "bernoulli": torch.bernoulli(torch.full((4000,), 0.3)),
        "normal": torch.normal(5.0, 0.5, size=(4000,)),
        "normal of tensors": torch.normal(torch.tensor([0.0, 100.0]), torch.tensor([1.0, 0.001])),
        "uniform_": torch.zeros(4000).uniform_(-2, 3),
        "normal_": torch.zeros(4000).normal_(1, 4),
        "bernoulli_": torch.zeros(4000).bernoulli_(0.8),
        "bernoulli_ of tensors": torch.zeros(2).bernoulli_(torch.tensor([0.0, 1.0])),
        "random_": torch.zeros(50, dtype=torch.int64).random_(2, 5),
        "exponential_": torch.zeros(4000).exponential_(2.0),
        "cauchy_": torch.zeros(4000).cauchy_(3.0, 0.5),
        "log_normal_": torch.zeros(4000).log_normal_(0.0, 0.5),
        "geometric_": torch.zeros(4000).geometric_(0.25),
        "poisson": torch.poisson(torch.full((4000,), 4.0)),
        "multinomial": torch.multinomial(weights, 2000, replacement=True),
        "multinomial without replacement": torch.multinomial(weights[0], 3),
    }
    for tensor in tensors.values():
        tensor.elements()
    return {name: tensor.numpy() for name, tensor in tensors.items()}


@pytest.mark.parametrize(
    ("name", "mean", "deviation"),
    [
        ("rand", 0.5, 1 / 12**0.5),
        ("randn", 0.0, 1.0),
        ("randint", 5.5, (35 / 12) ** 0.5),
        ("bernoulli", 0.3, 0.21**0.5),
        ("normal", 5.0, 0.5),
        ("uniform_", 0.5, 5 / 12**0.5),
        ("normal_", 1.0, 4.0),
        ("bernoulli_", 0.8, 0.4),
        ("exponential_", 0.5, 0.5),
        ("log_normal_", np.exp(0.125), np.exp(0.125) * np.expm1(0.25) ** 0.5),
        ("geometric_", 4.0, 12.0**0.5),
        ("poisson", 4.0, 2.0),
    ],
)
def test_means_and_deviations(drawn, name, mean, deviation):
    found = drawn[name].astype("f8")
    # Five standard errors of the mean; of the deviation, whose own deviation is at most twice as large for these.
    assert abs(found.mean() - mean) < 5 * deviation / 4000**0.5
    assert abs(found.std() - deviation) < 10 * deviation / 4000**0.5


def test_ranges_and_types(drawn):
    assert drawn["rand"].dtype == np.float32
    assert (drawn["rand"].min() >= 0, drawn["rand"].max() < 1) == (True, True)
    assert (drawn["rand_like"].dtype, drawn["rand_like"].shape) == (np.float64, (3, 5))
    assert drawn["randn_like"].shape == (2, 3)
    assert set(drawn["randint"]) == set(range(3, 9))
    assert (drawn["randint"].dtype, drawn["randint from 0"].dtype) == (np.int64, np.int32)
    assert set(drawn["randint from 0"]) == {0, 1, 2}
    assert (set(drawn["randint_like"]), drawn["randint_like"].dtype) == ({0, 1, 2, 3}, np.float32)
    assert (drawn["uniform_"].min() >= -2, drawn["uniform_"].max() < 3) == (True, True)
    assert set(drawn["random_"]) == {2, 3, 4}
    assert drawn["bernoulli_ of tensors"].tolist() == [0.0, 1.0]
    assert abs(drawn["normal of tensors"][1] - 100) < 0.01


def test_cauchy_numbers_have_quartiles_but_no_mean(drawn):
    # Five standard errors of a quartile of this density.
    np.testing.assert_allclose(np.quantile(drawn["cauchy_"], [0.25, 0.5, 0.75]), [2.5, 3.0, 3.5], atol=0.13)


def test_refusals_of_distributions():
    assert message(lambda: torch.zeros(2).geometric_(1.0)) == (
        "geometric_: p must be between 0 and 1, got 1.0; pass a probability"
    )
    assert message(lambda: torch.poisson(torch.zeros(2, dtype=torch.int64))) == (
        "poisson: the rates must have a float dtype, got i64[2]; convert them with float()"
    )
    assert message(lambda: torch.zeros(2, requires_grad=True).cauchy_()) == (
        "cauchy_: a leaf that requires a gradient cannot be changed in place, got f32[2]; do it within no_grad()"
    )


def test_multinomial(drawn):
    shares = np.bincount(drawn["multinomial"][0], minlength=4) / 2000
    assert shares[2] == 0
    assert np.abs(shares - [1 / 8, 2 / 8, 0, 5 / 8]).max() < 5 * 0.5 / 2000**0.5
    assert set(drawn["multinomial"][1]) == {1}
    assert sorted(drawn["multinomial without replacement"]) == [0, 1, 3]


def test_a_seed_repeats_the_numbers_and_a_program_draws_others_each_time():
    def program():
        return torch.rand(3).tolist()

    torch.manual_seed(5)
    with compilations() as compiled:
        first = [program() for _ in range(3)]
        assert compiled() <= 1
    torch.manual_seed(5)
    assert [program() for _ in range(3)] == first
    assert len({tuple(numbers) for numbers in first}) == 3
    torch.manual_seed(6)
    assert program() not in first


def test_generators_are_independent_and_can_be_continued():
    one, other = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
    first = torch.rand(2, generator=one).tolist()
    torch.rand(2)
    assert torch.rand(2, generator=other).tolist() == first
    state = one.get_state()
    second = torch.rand(2, generator=one).tolist()
    one.set_state(state)
    assert torch.rand(2, generator=one).tolist() == second != first


def test_keys_are_those_of_the_graph_functions():
    generator = torch.Generator().manual_seed(11)
    keys = [next_key(generator) for _ in range(2)]
    key = param("key", (2,), "u32")
    wanted = tuple(ops.random.fold_in(key, n) for n in range(2))
    expected = compile(Function("keys", (key,), wanted))(ops.random.key_array(11))
    assert [k.tolist() for k in keys] == [e.tolist() for e in expected]


def test_permutations():
    torch.manual_seed(0)
    first = torch.randperm(100)
    assert sorted(first.tolist()) == list(range(100))
    assert torch.randperm(100).tolist() != first.tolist()
    torch.manual_seed(0)
    assert torch.randperm(100).tolist() == first.tolist()


def test_arrays_drawn_on_the_host():
    generator = torch.Generator().manual_seed(1)
    large, small = (host_normal(shape, 1.0, 2.0, np.dtype("f4"), generator) for shape in ((70, 1000), (3,)))
    assert (large.shape, large.dtype) == ((70, 1000), np.float32)
    assert abs(large.mean() - 1) < 5 * 2 / 70000**0.5
    assert abs(large.std() - 2) < 10 * 2 / 70000**0.5
    again = host_normal((2, 2), 0.0, 1.0, np.dtype("f4"), torch.Generator().manual_seed(1))
    np.testing.assert_array_equal(again.reshape(-1) * 2 + 1, large.reshape(-1)[:4])
    assert not np.isin(small, large).any()
    uniform = host_uniform((1000,), -0.5, 0.25, np.dtype("f2"), generator)
    assert (uniform.dtype, uniform.min() >= -0.5, uniform.max() < 0.25) == (np.float16, True, True)
    assert host_normal((0, 2), 0.0, 1.0, np.dtype("f4")).shape == (0, 2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: torch.rand(2, dtype=torch.int64),
            TypeRuleError,
            "floats are drawn from this distribution, got the dtype i64; use randint or bernoulli",
        ),
        (
            lambda: torch.normal(0.0, 1.0),
            InvalidValueError,
            "normal: numbers as mean and std need a size, got none; pass size=(...)",
        ),
        (
            lambda: torch.multinomial(torch.ones(3), 4),
            InvalidValueError,
            "multinomial: the number of samples must be from 1 to 3 without replacement, got 4; pass replacement=True, "
            "or draw fewer",
        ),
        (
            lambda: torch.ones(3, requires_grad=True).normal_(),
            InvalidValueError,
            "a leaf that requires a gradient cannot be changed in place, got f32[3]; do it within no_grad()",
        ),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error) as raised:
        call()
    assert raised.value.message == message
