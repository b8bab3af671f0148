"""Random graphs compiled and interpreted agree."""

import numpy as np
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from adjoint.compiler import CompileOptions, compile
from adjoint.ir import is_float
from adjoint.testing import interpret
from adjoint.testing.graphs import arguments, functions, losses
from adjoint.transforms.differentiate import gradient
from adjoint.transforms.inline_calls import inline_calls

SETTINGS = settings(deadline=None, max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))
OPTIONS = CompileOptions(threads=1, cache=False)

#: Rounding differs by the order of sums and by fused multiply-adds, and grows along a graph.
TOLERANCE = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-12}


def agree(function, seed=0):
    note(str(function))
    arrays = arguments(function, seed)
    found = compile(function, options=OPTIONS)(*arrays)
    found = found if isinstance(found, tuple) else (found,)
    lowest = max(TOLERANCE.get(value.dtype, 0.0) for value in inline_calls(function).values())
    for got, expected in zip(found, interpret(function, *arrays), strict=True):
        assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
        if is_float(expected.dtype):
            scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
            np.testing.assert_allclose(got, expected, rtol=lowest, atol=lowest * scale)
        else:
            np.testing.assert_array_equal(got, expected)


@SETTINGS
@given(functions(calls=True), st.integers(0, 3))
def test_compiled_graphs_agree_with_the_interpreter(function, seed):
    agree(function, seed)


@settings(SETTINGS, max_examples=40)
@given(losses(calls=True))
def test_compiled_gradients_agree_with_the_interpreter(function):
    agree(gradient(function))
