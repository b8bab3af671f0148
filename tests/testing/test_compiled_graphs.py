"""Random graphs compiled and interpreted agree: those that Hypothesis chooses and shrinks, and those with a number."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from adjoint.compiler import CompileOptions, compile
from adjoint.testing.graphs import arguments, functions, losses
from adjoint.testing.grown import program
from adjoint.transforms.differentiate import gradient
from tests.closeness import agrees_with_graph

SETTINGS = settings(deadline=None, max_examples=20, derandomize=True, suppress_health_check=list(HealthCheck))
OPTIONS = CompileOptions(threads=1, cache=False)
#: One of these programs is run for each so many of the networks in `tests.testing.test_programs`.
SHARE = 3


def pytest_generate_tests(metafunc):
    if "number" in metafunc.fixturenames:
        first, count = (metafunc.config.getoption(name) for name in ("--fuzz-seed", "--fuzz-count"))
        metafunc.parametrize("number", range(first, first + -(-count // SHARE)))


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
