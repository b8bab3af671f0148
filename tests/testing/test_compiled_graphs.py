"""Random graphs compiled and interpreted agree: those that Hypothesis chooses and shrinks, and those with a number."""

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from adjoint import ops
from adjoint.compiler import CompileOptions, compile
from adjoint.ir import Function, is_param, param
from adjoint.runtime.bound import aligned
from adjoint.testing.graphs import arguments, functions, losses
from adjoint.testing.grown import program
from adjoint.transforms.differentiate import gradient
from tests.closeness import agrees_with_graph

SETTINGS = settings(deadline=None, max_examples=20, derandomize=True, suppress_health_check=list(HealthCheck))
OPTIONS = CompileOptions(threads=1, cache=False)
#: One of these programs is run for each so many of the networks in `tests.testing.test_programs`.
SHARE = 3


#: And one with donated parameters for each so many.
DONATED_SHARE = 4


def pytest_generate_tests(metafunc):
    if "number" in metafunc.fixturenames:
        first, count = (metafunc.config.getoption(name) for name in ("--fuzz-seed", "--fuzz-count"))
        share = DONATED_SHARE if "donating" in metafunc.function.__name__ else SHARE
        metafunc.parametrize("number", range(first, first + -(-count // share)))


def agree(function, seed=0):
    note(str(function))
    arrays = arguments(function, seed)
    agrees_with_graph(compile(function, options=OPTIONS)(*arrays), function, *arrays)


@SETTINGS
@given(functions(calls=True), st.integers(0, 3))
def test_compiled_graphs_agree_with_the_interpreter(function, seed):
    agree(function, seed)


@settings(SETTINGS, max_examples=10)
@given(losses(calls=True))
def test_compiled_gradients_agree_with_the_interpreter(function):
    agree(gradient(function))


def test_programs_of_all_operators_are_right_on_any_number_of_threads(number):
    """Forward, gradients, products with the Jacobian and the Hessian, and mapped, with loops and branches."""
    made = program(number)
    told = f"program {number}, {made.kind}, {' '.join(made.steps)}"
    # Compiled once: the second time it comes from the tests' own cache.
    found = [compile(made.function, options=CompileOptions(threads=n))(*made.arrays) for n in (1, 3)]
    results = [result if isinstance(result, tuple | list) else (result,) for result in found]
    one, three = ([np.asarray(x).tobytes() for x in result] for result in results)
    assert one == three, f"{told}: different bits on 1 and 3 threads"
    try:
        agrees_with_graph(results[0], made.function, *made.arrays, slack=2)
    except AssertionError as error:
        pytest.fail(f"{told}: {error}\n{made.function}", pytrace=False)


def donating(function, seed):
    """The function with as many parameters as possible donated to results of their types, chosen at random."""
    drawn = random.Random(seed)
    results = tuple(dict.fromkeys(r for r in function.results if not is_param(r)))
    free, pairs = list(function.params), []
    for number, result in enumerate(results):
        if fitting := [p for p in free if p.type == result.type]:
            chosen = drawn.choice(fitting)
            free.remove(chosen)
            pairs.append((chosen.label, number))
    return Function("donating", function.params, results, {"donate": tuple(pairs)}) if pairs else None


def left_in_place(function, arrays):
    """The results of a compiled function, of which some are written over the parameters that are donated to them."""
    resident, given = {}, []
    places = dict(function.attrs["donate"])
    for parameter, array in zip(function.params, arrays, strict=True):
        if parameter.label in places:
            resident[parameter.label] = aligned(array.shape, array.dtype)
            resident[parameter.label][...] = array
        else:
            given.append(array)
    apart = compile(function, options=CompileOptions(threads=2, cache=False))["donating"].bind(resident)(*given)
    others = iter(apart if isinstance(apart, tuple | list) else (apart,))
    donated = {number: resident[label] for label, number in places.items()}
    # Scalars come as Python's numbers.
    return [
        donated[n] if n in donated else np.asarray(next(others), result.dtype)
        for n, result in enumerate(function.results)
    ]


def test_programs_donating_parameters_to_results_are_right(number):
    """Elements of a parameter are read before results are written over them, by whatever kernels read them."""
    made = program(number)
    function = donating(made.function, number)
    if function is None:
        pytest.skip("no result has the type of a parameter")
    try:
        agrees_with_graph(left_in_place(function, made.arrays), function, *made.arrays, slack=2)
    except AssertionError as error:
        pytest.fail(f"program {number}, {made.kind}, {' '.join(made.steps)}: {error}\n{function}", pytrace=False)


def test_a_result_that_is_written_too_early_is_found():
    """What the test above relies on: a parameter is read, as it was, after a result of its type has been computed."""
    x, y = param("x", (7, 17)), param("y", (7, 17))
    late = ops.matmul(x, ops.permute(x, (1, 0)))
    function = Function("donating", (x, y), (ops.add(x, y), late), {"donate": (("x", 0),)})
    arrays = arguments(function)
    found = left_in_place(function, arrays)
    agrees_with_graph(found, function, *arrays)
    overwritten = found[0] @ found[0].T
    with pytest.raises(AssertionError, match="off by more than rounding allows"):
        agrees_with_graph([found[0], overwritten], function, *arrays)
