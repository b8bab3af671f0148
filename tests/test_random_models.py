"""Random models of many kinds of layers train as with PyTorch: its numbers, and itself where it is installed."""

import numpy as np
import pytest

import adjoint
from adjoint.tensor.trace import fresh_trace
from tests.random_models import Plan, figures

#: By seed: the losses, and the sum of the magnitudes of all that is read, which `figures(seed, torch, plan)` of PyTorch
#: 2.13 returned.
NUMBERS = {
    47: ([1.0577547493254105, 2.361192847452683, 1.794610848090675], 56.183523698258504),
    57: ([1.6581096855680677, 1.6172189412782403, 1.7159856962631448], 130.93142594649322),
}


@pytest.mark.parametrize("seed", NUMBERS)  # LSTM and LayerNorm; convolutions and PReLU
def test_random_models_agree_with_numbers_of_pytorch(seed):
    fresh_trace()
    found = figures(seed, adjoint, Plan(seed, adjoint))
    losses, total = NUMBERS[seed]
    np.testing.assert_allclose([float(loss) for loss in found[:3]], losses, rtol=1e-9)
    np.testing.assert_allclose(sum(np.abs(one).sum() for one in found), total, rtol=1e-8)


def test_random_models_agree_with_pytorch(pytestconfig):
    torch = pytest.importorskip("torch")
    first = pytestconfig.getoption("--fuzz-seed")
    for seed in range(first, first + pytestconfig.getoption("--fuzz-count")):
        plan = Plan(seed, torch)
        expected = figures(seed, torch, plan)
        fresh_trace()
        for number, (got, want) in enumerate(zip(figures(seed, adjoint, plan), expected, strict=True)):
            message = f"seed {seed}, number {number}: {[name for name, *_ in plan.layers]}"
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-8, err_msg=message)
