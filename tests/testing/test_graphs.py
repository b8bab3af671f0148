"""Random graphs: they reach every operator, are valid and tame, read back from text, and differentiate."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adjoint.ir import Function, is_float, is_param, verify
from adjoint.ops.catalogue import CATALOGUE
from adjoint.ops.text import parse_function
from adjoint.testing import interpret, pullback
from adjoint.testing.graphs import NAMES, arguments, functions, losses
from adjoint.testing.recipes import RECIPES
from adjoint.transforms.differentiate import gradient
from adjoint.transforms.inline_calls import inline_calls

QUICK = settings(deadline=None, max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))


def test_every_operator_has_a_recipe():
    """Write one for a new operator (`adjoint.testing.recipes` and the files next to it): how random graphs apply it."""
    assert set(RECIPES) == {operator.name for operator in CATALOGUE}


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_applies_its_operator(name):
    @settings(QUICK, max_examples=8)
    @given(functions(max_ops=1, names=[name]))
    def check(function):
        found = {value.op.name for value in function.values()}
        sometimes_nothing_to_do = {"broadcast_to", "reshape", "permute", "slice", "pad", "sum", "max", "min", "prod"}
        if name in found:
            seen.append(name)
        else:
            assert name in sometimes_nothing_to_do | {"cast"}

    seen = []
    check()
    assert seen


@QUICK
@given(functions(), st.integers(0, 3))
def test_functions_are_valid_and_tame(function, seed):
    verify(function)
    for found, result in zip(interpret(function, *arguments(function, seed)), function.results, strict=True):
        assert found.shape == result.shape
        if is_float(found.dtype):
            assert np.isfinite(found).all()
            assert np.max(np.abs(found), initial=0.0) <= 50 * 40


@QUICK
@given(functions(calls=True))
def test_functions_read_back_from_text(function):
    assert parse_function(str(function)) == function


@QUICK
@given(functions(max_ops=6))
def test_rounding_less_changes_results_little(function):
    """The promise behind comparing programs: in float64 every result is nearly the same, whatever jumps on the way."""
    wide = {p: p if not is_float(p.dtype) else None for p in function.params}
    if not any(replacement is None for replacement in wide.values()) or _mentions_dtypes(function):
        return
    text = str(function).replace("f32", "f64")
    arrays = arguments(function)
    precise = parse_function(text)
    widened = [a.astype(p.dtype) for a, p in zip(arrays, precise.params, strict=True)]
    for found, expected in zip(interpret(function, *arrays), interpret(precise, *widened), strict=True):
        scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
        np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=1e-4, atol=1e-4 * scale)


def _mentions_dtypes(function):
    """Whether an operator would not survive a change of all f32 to f64: literals and 16-bit casts."""
    return any(v.op.name in ("constant", "cast") for v in function.values())


@QUICK
@given(losses(calls=True))
def test_differentiate_agrees_with_plain_reverse_mode(function):
    flat = inline_calls(function)
    wrt = [p for p in flat.params if is_float(p.dtype)]
    (loss,) = flat.results
    one = np.ones((), loss.dtype)
    ct = parse_function(f"func @one(%ct: {loss.type}) -> {loss.type} {{\n  return %ct\n}}").params[0]
    plain = Function("plain", (*flat.params, ct), pullback([loss], [ct], wrt))
    arrays = arguments(function)
    expected = interpret(plain, *arrays, one)
    made = gradient(function)
    verify(made)
    found = interpret(made, *arrays)
    np.testing.assert_array_equal(found[0], interpret(function, *arrays)[0])
    for name, got, wanted in zip(wrt, found[1:], expected, strict=True):
        scale = float(np.max(np.abs(wanted), initial=0.0))
        tolerance = 1e-5 if got.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance * max(scale, 1e-3), err_msg=name.label)


def test_arguments_are_within_their_promise():
    @QUICK
    @given(functions(max_ops=12), st.integers(0, 99))
    def check(function, seed):
        for p, array in zip(function.params, arguments(function, seed), strict=True):
            assert is_param(p)
            assert (array.shape, array.dtype) == (p.shape, p.dtype)
            assert np.max(np.abs(array.astype(np.float64)), initial=0.0) <= (2 if is_float(p.dtype) else 3)

    check()


def test_graphs_share_values_and_have_several_results():
    shared, several, depth = [], [], []

    @settings(QUICK, max_examples=100)
    @given(functions())
    def look(function):
        users = [operand for value in function.values() for operand in value.inputs if not is_param(operand)]
        shared.append(len(users) > len(set(users)))
        several.append(len(function.results) > 1)
        depth.append(len(function.values()))

    look()
    assert sum(shared) > 10
    assert sum(several) > 30
    assert max(depth) > 15
