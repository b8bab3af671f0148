"""Random graphs compiled and interpreted agree."""

import ml_dtypes
import numpy as np
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from adjoint.compiler import CompileOptions, compile
from adjoint.ir import is_float
from adjoint.testing import interpret
from adjoint.testing.graphs import arguments, functions, losses
from adjoint.testing.rounding import estimate_rounding
from adjoint.transforms.differentiate import gradient
from adjoint.transforms.inline_calls import inline_calls

SETTINGS = settings(deadline=None, max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))
OPTIONS = CompileOptions(threads=1, cache=False)


def agree(function, seed=0):
    note(str(function))
    arrays = arguments(function, seed)
    found = compile(function, options=OPTIONS)(*arrays)
    found = found if isinstance(found, tuple) else (found,)
    rounded = estimate_rounding(inline_calls(function), *arrays)
    for got, expected, reach in zip(found, interpret(function, *arrays), rounded.reach, strict=True):
        assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
        # The interpreter rounds too. What is below the least normal number has no digits to speak of.
        least = float(ml_dtypes.finfo(got.dtype).tiny) if is_float(got.dtype) else 0.0
        off = np.abs(got.astype(np.float64) - expected.astype(np.float64))
        assert (off <= 2 * reach + least).all(), f"off by {off} where rounding reaches {reach}"


@SETTINGS
@given(functions(calls=True), st.integers(0, 3))
def test_compiled_graphs_agree_with_the_interpreter(function, seed):
    agree(function, seed)


@settings(SETTINGS, max_examples=40)
@given(losses(calls=True))
def test_compiled_gradients_agree_with_the_interpreter(function):
    agree(gradient(function))
