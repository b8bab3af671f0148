"""Index algebra against Python's integers."""

import itertools
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjoint.kernel.index import Dynamic, Index, Quotient, Remainder, Var, as_index, flatten, is_injective, unflatten


def value(index, env):
    def atom(a):
        if isinstance(a, Var):
            return env[a]
        if isinstance(a, Quotient):
            return value(a.of, env) // a.by
        assert isinstance(a, Remainder)
        return value(a.of, env) % a.by

    return index.constant + sum(c * atom(a) for a, c in index.terms)


@st.composite
def programs(draw):
    """Variables and a list of steps that build an index and an integer side by side."""
    extents = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    steps = draw(
        st.lists(st.tuples(st.sampled_from("+-*/%v"), st.integers(1, 12), st.integers(0, 2)), min_size=1, max_size=6)
    )
    return extents, steps


@given(programs())
def test_algebra_agrees_with_integers_everywhere(program):
    extents, steps = program
    variables = [Var(f"v{n}", extent) for n, extent in enumerate(extents)]

    def run(start, var_of):
        x = start
        for op, number, which in steps:
            v = var_of(variables[which % len(variables)])
            if op == "+":
                x = x + number
            elif op == "-":
                x = x - number
            elif op == "*":
                x = x * number
            elif op == "/":
                x = x // number
            elif op == "%":
                x = x % number
            else:
                x = x * number + v
        return x

    index = as_index(run(as_index(variables[0]), as_index))
    for point in itertools.product(*(range(e) for e in extents)):
        env = dict(zip(variables, point, strict=True))
        got = value(index, env)
        assert got == run(env[variables[0]], lambda v: env[v])  # noqa: B023
        assert index.low <= got <= index.high


@given(st.lists(st.integers(1, 7), min_size=1, max_size=4))
def test_unflatten_undoes_flatten(shape):
    variables = [Var(f"i{n}", size) for n, size in enumerate(shape)]
    index = tuple(as_index(v) for v in variables)
    assert unflatten(flatten(index, shape), shape) == index


@given(st.lists(st.integers(1, 7), min_size=1, max_size=4))
def test_flatten_undoes_unflatten(shape):
    size = 1
    for extent in shape:
        size *= extent
    flat = as_index(Var("f", size))
    assert flatten(unflatten(flat, shape), shape) == flat


@given(st.lists(st.integers(1, 7), min_size=1, max_size=4), st.data())
def test_the_flat_position_in_a_share_is_found_again(shape, data):
    """Units share a tensor in runs of vectors, whatever its axes: square images of 73x73 in shares of 148 rows."""
    size = prod(shape)
    share = data.draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
    lanes = data.draw(st.sampled_from([n for n in (1, 2, 4) if n <= share]))
    flat = (
        as_index(Var("u", size // share)) * share
        + as_index(Var("v", share // lanes)) * lanes
        + as_index(Var("l", lanes))
    )
    assert flatten(unflatten(flat, shape), shape) == flat


def test_axes_of_one_element_outside_leave_no_remainder():
    """Columns of a sum over the batch whose axis is kept: loops over whole vectors reach beyond the last column."""
    unit, lane = Var("u", 39), Var("l", 32)
    flat = as_index(unit) * 32 + as_index(lane)
    assert unflatten(flat, (1, 1, 1241)) == (as_index(0), as_index(0), flat)


def test_quotients_within_range_vanish():
    i, j = Var("i", 5), Var("j", 12)
    index = as_index(i) * 12 + as_index(j)
    assert index // 12 == as_index(i)
    assert index % 12 == as_index(j)
    assert index // 4 == as_index(i) * 3 + as_index(j) // 4


def test_remainders_of_what_cannot_reach_the_rest_are_of_a_factor():
    """Lanes of half a row stay neighbours: ``(v*16 + l) % 32`` moves by one with l."""
    v, lane = Var("v", 24), Var("l", 16)
    index = as_index(v) * 16 + as_index(lane)
    assert index % 32 == as_index(v) % 2 * 16 + as_index(lane)
    assert (index % 32).coefficient(lane) == 1
    assert index // 32 * 32 + index % 32 == index
    assert (index + 1) % 32 != as_index(v) % 2 * 16 + as_index(lane) + 1


def test_coefficients():
    i, j = Var("i", 5), Var("j", 12)
    index = as_index(i) * 3 + as_index(j) // 5
    assert index.coefficient(i) == 3
    assert index.coefficient(j) is None
    assert index.coefficient(Var("k", 2)) == 0
    assert index.without(i) == as_index(j) // 5
    assert index.variables() == {i, j}


def test_substitution_simplifies_again():
    i, j, k = Var("i", 5), Var("j", 12), Var("k", 60)
    index = (as_index(k) // 12) * 100 + as_index(k) % 12
    assert index.substitute({k: as_index(i) * 12 + as_index(j)}) == as_index(i) * 100 + as_index(j)


def test_variables_of_one_element_are_zero():
    assert as_index(Var("i", 1)) == as_index(0)


def test_text():
    i, j = Var("i", 5), Var("j", 12)
    assert str(as_index(i) * 12 + as_index(j) + 3) == "i*12 + j + 3"
    assert str(as_index(0)) == "0"
    assert str((as_index(i) * 12 + as_index(j)) // 5) == "(i*12 + j) // 5"


def test_indices_are_values():
    i = Var("i", 5)
    assert as_index(i) + 1 == Index(1, frozenset({(i, 1)}))
    assert hash(as_index(i) + 1) == hash(1 + as_index(i))
    assert as_index(i) - as_index(i) == as_index(0)


def test_dynamic_atoms_are_within_their_axis():
    dynamic = Dynamic(None, 7)
    assert (as_index(dynamic).low, as_index(dynamic).high) == (0, 6)
    with pytest.raises(KeyError):
        value(as_index(Var("i", 3)), {})


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(-20, 20)), min_size=1, max_size=3))
def test_what_is_injective_has_as_many_values_as_its_variables(terms):
    variables = [Var("v", extent) for extent, _ in terms]
    index = as_index(3)
    for var, (_, stride) in zip(variables, terms, strict=True):
        index = index + as_index(var) * stride
    moving = [(extent, stride) for extent, stride in terms if stride and extent > 1]
    places = itertools.product(*(range(extent) for extent, _ in moving))
    values = {sum(n * stride for n, (_, stride) in zip(place, moving, strict=True)) for place in places}
    if is_injective(index, variables):
        assert len(values) == prod(extent for extent, _ in moving)


def test_remainders_are_not_known_to_be_injective():
    v, w = Var("v", 8), Var("w", 4)
    assert is_injective(as_index(v) * 4 + as_index(w), {v, w})
    assert not is_injective(as_index(v) * 3 + as_index(w), {v, w})
    assert is_injective(as_index(v) * 3 + as_index(w), {v})
    assert not is_injective((as_index(v) + 4) % 8, {v})
