"""Compiled code agrees with the reference of every operator, on its own samples."""

import numpy as np
import pytest

from adjoint.compiler import CompileOptions, compile
from adjoint.ir import DTYPES, Function, apply, is_float, param
from adjoint.lower.facts import facts_of
from adjoint.ops.catalogue import CATALOGUE
from adjoint.testing import interpret

#: Relative error that compiled code may have beside NumPy: a few units in the last place, for the polynomials of
#: transcendental functions and other orders of summation.
RTOL = {"f64": 1e-14, "f32": 2e-6, "f16": 1e-3, "bf16": 8e-3}
OPTIONS = CompileOptions(threads=1, cache=False)


def joined(samples):
    """One function of all samples' operands to all their results, so that an operator compiles once."""
    params, results = [], []
    for number, sample in enumerate(samples):
        own = [param(f"s{number}_{i}", x.shape, x.dtype) for i, x in enumerate(sample.inputs)]
        params += own
        results.append(apply(sample.op, *own))
    return Function("samples", tuple(params), tuple(results))


def agree(found, expected, message="", cancels=False):
    """Equal types; equal integers, bool, infinities and NaN; close floats.

    Where terms may cancel, as in a sum, closeness is measured against the largest element.
    """
    assert found.dtype == expected.dtype, message
    assert found.shape == expected.shape, message
    if not is_float(expected.dtype):
        np.testing.assert_array_equal(found, expected, err_msg=message)
        return
    name = next(name for name, dtype in DTYPES.items() if dtype == expected.dtype)
    wide = expected.astype(np.float64)
    scale = float(np.max(np.abs(wide), initial=0.0, where=np.isfinite(wide)))
    np.testing.assert_allclose(
        found.astype(np.float64),
        wide,
        rtol=RTOL[name],
        atol=RTOL[name] * (scale if cancels else 1e-2 * min(scale, 1.0)),
        err_msg=message,
    )


@pytest.mark.parametrize("cls", CATALOGUE, ids=lambda cls: cls.name)
def test_compiled_code_agrees_with_the_reference(cls):
    samples = [sample for sample in cls.samples() if not sample.error]
    function = joined(samples)
    arrays = [x for sample in samples for x in sample.inputs]
    found = compile(function, options=OPTIONS)(*arrays)
    found = found if isinstance(found, tuple) else (found,)
    for number, (got, expected) in enumerate(zip(found, interpret(function, *arrays), strict=True)):
        cancels = facts_of(function.results[number]).kind in ("reduce", "stream")
        agree(got, expected, f"{cls.name}, sample {number}: {samples[number]}", cancels)
