"""What PyTorch computed for the operators of networks."""

import json
from pathlib import Path

import numpy as np
import pytest

from adjoint.ir import Function, is_float, param
from adjoint.testing import interpret, pullback

CASES = json.loads((Path(__file__).parents[1] / "golden/torch/operators.json").read_text())["cases"]


def cases(name):
    """A pytest parameter for each recorded case of that name."""
    found = [case for case in CASES if case["name"] == name]
    assert found
    return pytest.mark.parametrize("case", found, ids=[f"{name}-{number}" for number in range(len(found))])


def settings_of(case):
    return {key: tuple(value) if isinstance(value, list) else value for key, value in case["settings"].items()}


def agrees(case, build, rtol=1e-9):
    """Compare result, gradients and updated states of ``build(**inputs, **settings)`` with PyTorch's, in float64."""
    arrays = {name: np.array(value) for name, value in case["inputs"].items()}
    params = {name: param(name, a.shape, a.dtype) for name, a in arrays.items()}
    built = build(**params, **settings_of(case))
    out, *states = built if isinstance(built, tuple) else (built,)
    ct = param("ct", out.shape, out.dtype)
    wanted = [p for name, p in params.items() if is_float(p.dtype) and name not in case["states"]]
    found = pullback([out], [ct], wanted)
    function = Function("f", (*params.values(), ct), (out, *found, *states))
    results = interpret(function, *arrays.values(), np.array(case["ct"]))
    expected = [case["out"], *case["gradients"], *(list(case["states"].values()) if states else [])]
    for got, number in zip(results, expected, strict=True):
        np.testing.assert_allclose(got, np.array(number), rtol=rtol, atol=rtol)
