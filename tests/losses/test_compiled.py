"""Losses and their gradients, compiled: PyTorch's numbers again, and labels out of range."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from adjoint.compiler import CompileOptions, compile
from adjoint.errors import InvalidValueError
from adjoint.ir import Function, TensorType, param
from adjoint.losses import CrossEntropyLoss, L1Loss, MSELoss
from adjoint.ops import call
from adjoint.transforms.differentiate import gradient

CASES = json.loads((Path(__file__).parents[1] / "golden/torch/losses.json").read_text())["cases"]
SCALAR = [case for case in CASES if case["settings"]["reduction"] != "none"]
LOSSES = {"cross_entropy": CrossEntropyLoss, "mse_loss": MSELoss, "l1_loss": L1Loss}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", LOSSES)
def test_pytorch_gives_the_same(name, dtype):
    """All settings and shapes of a loss in one program, of a call for each."""
    params, results, arrays = [], [], []
    cases = [case for case in SCALAR if case["name"] == name]
    for number, case in enumerate(cases):
        x, y = np.array(case["predictions"], dtype), np.array(case["targets"])
        if y.dtype == np.float64:
            y = y.astype(dtype)
        arrays += x, y
        own = [param(f"{of}{number}", array.shape, array.dtype) for of, array in (("x", x), ("y", y))]
        params += own
        loss = LOSSES[name](**case["settings"]).function(*(value.type for value in own))
        results += call(replace(gradient(loss, "predictions"), name=f"case{number}"), *own)
    function = Function("losses", tuple(params), tuple(results))
    found = compile(function, options=CompileOptions(threads=1, cache=False))(*arrays)
    close = {"rtol": 1e-5, "atol": 1e-6} if dtype is np.float32 else {"rtol": 1e-11, "atol": 1e-13}
    for case, value, grad in zip(cases, found[::2], found[1::2], strict=True):
        message = f"{np.shape(case['targets'])} {case['settings']}"
        np.testing.assert_allclose(value, case["loss"], **close, err_msg=message)
        np.testing.assert_allclose(grad, case["gradient"], **close, err_msg=message)


@pytest.mark.parametrize("bad", [-1, 3, 1 << 40])
@pytest.mark.parametrize("weight", [None, (1.0, 2.0, 3.0)])
def test_labels_out_of_range_are_refused(bad, weight):
    types = TensorType((2, 3)), TensorType((2,), "i64")
    function = gradient(CrossEntropyLoss(weight=weight, ignore_index=-7).function(*types), "predictions")
    run = compile(function, options=CompileOptions(threads=1, cache=False))
    assert np.isfinite(run(np.zeros((2, 3), np.float32), np.array([0, -7]))[0])
    with pytest.raises(InvalidValueError, match=rf"targets must be in \[0, 3\) or -7, got {bad} at 1"):
        run(np.zeros((2, 3), np.float32), np.array([0, bad]))


def test_one_hot_targets_give_the_bits_of_their_indices():
    rng = np.random.default_rng(7)
    x, y = 3 * rng.standard_normal((33, 19)).astype(np.float32), rng.integers(0, 19, 33)
    found = []
    for target in (y, np.eye(19, dtype=np.float32)[y]):
        loss = CrossEntropyLoss("sum", label_smoothing=0.1, weight=np.linspace(0.5, 2.0, 19))
        function = loss.function(TensorType(x.shape), TensorType(target.shape, target.dtype))
        run = compile(gradient(function, "predictions"), options=CompileOptions(threads=1, cache=False))
        found.append(run(x, target))
    for by_index, by_one_hot in zip(*found, strict=True):
        np.testing.assert_array_equal(by_one_hot, by_index)
