"""Optimizers compiled: PyTorch's numbers again."""

import json
from pathlib import Path

import numpy as np
import pytest

from adjoint.compiler import CompileOptions, compile
from adjoint.optim import SGD, Adam, AdamW
from tests.golden.torch.formulas import long_gradients
from tests.optim.stepping import Stepper

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/torch/optimizers.json").read_text())
MAKE = {"SGD": SGD, "Adam": Adam, "AdamW": AdamW}


def described(run):
    return f"{run['optimizer']}-" + "-".join(f"{k}={v}" for k, v in run["settings"].items())


def native(function):
    return compile(function, options=CompileOptions(threads=1, cache=False))


@pytest.mark.parametrize("run", GOLDEN["runs"], ids=described)
def test_every_combination_agrees_with_pytorch(run):
    stepper = Stepper(MAKE[run["optimizer"]](**run["settings"]), {"w": np.array(GOLDEN["start"])}, native)
    got = [stepper.step({"w": g})["w"] for g in np.array(GOLDEN["gradients"])]
    np.testing.assert_allclose(got, run["path"], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("run", GOLDEN["long"], ids=described)
def test_a_thousand_float32_steps_stay_with_pytorch(run):
    start = np.linspace(-1, 1, 16, dtype=np.float32)
    stepper = Stepper(MAKE[run["optimizer"]](**run["settings"]), {"w": start}, native)
    at = dict(zip(run["at"], run["path"], strict=True))
    for i, gradient in enumerate(long_gradients(16), 1):
        new = stepper.step({"w": gradient})["w"]
        if i in at:
            np.testing.assert_allclose(new, at[i], rtol=1e-6, atol=1e-6)
