"""Random graphs compiled and interpreted agree."""

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from adjoint.compiler import CompileOptions, compile
from adjoint.testing.graphs import arguments, functions, losses
from adjoint.transforms.differentiate import gradient
from tests.closeness import agrees_with_graph

SETTINGS = settings(deadline=None, max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))
OPTIONS = CompileOptions(threads=1, cache=False)


def agree(function, seed=0):
    note(str(function))
    arrays = arguments(function, seed)
    agrees_with_graph(compile(function, options=OPTIONS)(*arrays), function, *arrays)


@SETTINGS
@given(functions(calls=True), st.integers(0, 3))
def test_compiled_graphs_agree_with_the_interpreter(function, seed):
    agree(function, seed)


@settings(SETTINGS, max_examples=40)
@given(losses(calls=True))
def test_compiled_gradients_agree_with_the_interpreter(function):
    agree(gradient(function))
