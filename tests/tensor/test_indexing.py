"""``x[key]`` and ``x[key] = value`` against NumPy, random keys, refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjoint as torch
from adjoint.tensor.trace import Trace, fresh_trace, state
from tests.tensor.comparing import check, message
from tests.tensor.making import compilations

X = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
KEYS = [
    np.s_[0],
    np.s_[-1, 2],
    np.s_[..., 1],
    np.s_[:, None, 1:, ::2],
    np.s_[1:1],
    np.s_[[0, 1, 1]],
    np.s_[:, [2, 0], [1, -3]],
    np.s_[[[0], [1]], [0, 2]],
    np.s_[[0, 1], :, [1, 3]],
    np.s_[:, [True, False, True]],
    np.s_[X > 10],
    np.s_[1, X[0] > 3],
]


def test_reading_as_in_numpy():
    x = torch.tensor(X)
    check(*((x[key], X[key]) for key in KEYS))
    check((x[torch.tensor([1, -2])], X[[1, -2]]), (x[torch.tensor(1)], X[1]), (x[:, torch.tensor([0]) + 1], X[:, [1]]))
    # A number beside a tensor selects first, unlike in NumPy.
    assert x[0, :, torch.tensor([1, 2])].shape == (3, 2)


def test_writing_as_in_numpy():
    pairs = []
    for key in KEYS:
        wanted, x = X.copy(), torch.tensor(X)
        values = -np.arange(1.0, 1 + wanted[key].size, dtype=np.float32).reshape(wanted[key].shape)
        wanted[key] = values
        x[key] = torch.tensor(values)
        number, y = X.copy(), torch.tensor(X)
        number[key] = 7
        y[key] = 7
        pairs += [(x, wanted), (y, number)]
    check(*pairs)


def test_writing_arrays_and_numbers_of_numpy():
    x = torch.zeros(3, dtype=torch.int64)
    x[1:] = np.array([5, 6])
    x[0] = np.int64(2**40 + 1)
    assert x.tolist() == [2**40 + 1, 5, 6]


def test_of_several_values_for_one_element_the_last_counts():
    x = torch.zeros(3)
    x[torch.tensor([1, 1, 0])] = torch.tensor([5.0, 6.0, 7.0])
    assert x.tolist() == [7, 6, 0]


def test_gradients_flow_through_reading_and_writing():
    x = torch.tensor(X, requires_grad=True)
    y = x * 2
    y[0, 1] = x[1, 2] * 3
    (y[:, [0, 1, 1]].sum() + y[x > 20].sum()).backward()
    wanted = np.zeros_like(X)
    wanted[:, 0] += 2
    wanted[1, 1] += 4
    wanted[1, 2] += 6  # written to y[0, 1], which is read twice
    wanted[X > 20] += 2
    check((x.grad, wanted))


def test_a_mask_in_a_traced_function():
    inner = Trace(fresh_trace().node, True)
    x = torch.tensor(X[0])
    inner.outer, state.trace = state.trace, inner
    try:
        y = x * 1
        y[y > 3] = 0.0  # the elements decide nothing about shapes
        assert message(lambda: y[y > 3]) == (
            "a mask selects a number of elements that depends on data, which a traced function cannot have, got "
            "bool[3,4]; use where(mask, x, other)"
        )
    finally:
        fresh_trace().outer = None


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        (2, "indexing: index 2 is out of range for axis 0 of f32[2,3,4]; use -2 to 1"),
        ([5], "indexing: positions must be from -2 to 1, got 5; correct them"),
        (np.s_[::-1], "indexing: the step of a slice must be positive, got -1 for f32[2,3,4]; use flip"),
        (True, "indexing: a single bool is not an index, got True for f32[2,3,4]; use None for a new axis"),
        (
            "a",
            "indexing: a str is not an index, got it for f32[2,3,4]; use integers, slices, ..., None, integer tensors, "
            "or bool tensors",
        ),
        ((0, 0, 0, 0), "indexing: there must be at most one index per axis, got 4 for f32[2,3,4]; remove some"),
        ((..., ...), "indexing: a key may contain one ..., got 2 for f32[2,3,4]; remove the others"),
        (
            [True, False, True],
            "indexing: a mask must have the shape of the axes that it selects from, got bool[3] at axis 0 of "
            "f32[2,3,4]; reshape one of them",
        ),
        (
            np.array([0.5]),
            "indexing: a tensor of positions must have an integer dtype, got f64[1] for f32[2,3,4]; use integers, "
            "slices, ..., None, integer tensors, or bool tensors",
        ),
    ],
)
def test_refusals(key, sentence):
    x = torch.tensor(X)
    assert message(lambda: x[key]) == sentence


_PART = st.one_of(
    st.none(),
    st.integers(-2, 1),
    st.builds(slice, st.none() | st.integers(-5, 5), st.none() | st.integers(-5, 5), st.none() | st.integers(1, 3)),
)


@settings(max_examples=4, deadline=None)
@given(st.lists(st.lists(_PART, max_size=3).map(tuple), min_size=4, max_size=4))
def test_random_keys(keys):
    pairs = []
    for key in keys:
        wanted, x = X.copy(), torch.tensor(X)
        pairs.append((x[key] * 1, X[key]))
        wanted[key] += 100
        x[key] += 100
        pairs.append((x, wanted))
    check(*pairs)


def test_parts_at_places_that_vary_are_taken_without_compiling():
    data = torch.arange(100, 200)

    def batch(start):
        return torch.stack([data[n : n + 3] for n in range(start, start + 4)]).tolist()

    assert batch(0)[3] == [103, 104, 105]
    assert batch(1)[0] == [101, 102, 103]
    with compilations() as compiled:
        for start in range(2, 20):
            assert batch(start) == [[100 + n, 101 + n, 102 + n] for n in range(start, start + 4)]
        assert compiled() == 0
    for n in range(3):
        part = data[n : n + 2]
        part += 1000
    assert data[:5].tolist() == [1100, 2101, 2102, 1103, 104]


def test_parts_at_places_that_vary_may_come_again():
    data = torch.arange(20)
    starts = np.random.default_rng(0).integers(0, 3, (20, 4)).tolist()

    def batch(starts, size):
        return torch.stack([data[n : n + size] for n in starts]).tolist()

    for size in (2, 15):  # small parts are copied at once, others when they have varied
        batch([0, 1, 2, 0], size)
        batch([1, 1, 0, 0], size)
        with compilations() as compiled:
            for places in starts:
                assert batch(places, size) == [list(range(n, n + size)) for n in places]
            assert compiled() == 0


def test_what_does_not_exist_is_an_index_error():
    x = torch.zeros(2, 3)
    for call in (lambda: x[2], lambda: x[[5]], lambda: x.sum(2), lambda: torch.nn.Sequential()[0]):
        with pytest.raises(IndexError):
            call()
