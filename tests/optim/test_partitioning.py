"""`partition`: different optimizers for different parameters."""

import numpy as np
import pytest

from adjoint.errors import AdjointError
from adjoint.ir import TensorType
from adjoint.optim import SGD, AdamW, Muon, partition
from tests.optim import reference
from tests.optim.stepping import Stepper

STARTS = {"a.weight": np.array([[1.0, 2.0], [0.5, -1.0]]), "a.bias": np.array([1.0, 2.0]), "scale": np.array([3.0])}


def test_each_parameter_has_its_optimizer():
    rng = np.random.default_rng(0)
    grads = {name: rng.standard_normal((4, *start.shape)) for name, start in STARTS.items()}
    optimizer = partition([("*.bias", SGD(0.1, 0.9)), (("*.weight",), Muon(0.02))], AdamW(0.01))
    stepper = Stepper(optimizer, STARTS)
    assert list(stepper.hyper) == [
        "lr", "momentum", "lr_2", "momentum_2", "eps", "weight_decay",
        "lr_3", "beta1", "beta2", "eps_2", "weight_decay_2",
    ]  # fmt: skip
    for i in range(4):
        stepper.step({name: g[i] for name, g in grads.items()})
    formulas = {
        "a.bias": reference.sgd(STARTS["a.bias"], grads["a.bias"], 0.1, 0.9),
        "a.weight": reference.muon(STARTS["a.weight"], grads["a.weight"], 0.02),
        "scale": reference.adamw(STARTS["scale"], grads["scale"], 0.01),
    }
    for name, formula in formulas.items():
        *_, expected = formula
        np.testing.assert_allclose(stepper.params[name], expected, rtol=1e-9)
    assert [name for name in stepper.state if name.startswith("scale")] == ["scale_exp_avg", "scale_exp_avg_sq"]


def test_the_rest_may_be_empty():
    stepper = Stepper(partition([("w", SGD(0.5))], AdamW()), {"w": np.ones(1)})
    np.testing.assert_allclose(stepper.step({"w": np.ones(1)})["w"], 0.5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: partition([("b*", SGD())], SGD()).function({"w": TensorType(())}),
            "partition: 'b*' selects none of the parameters w; correct the pattern",
        ),
        (
            lambda: partition({"*.bias": SGD()}, SGD()),
            "partition takes pairs of a pattern and an optimizer, got a dict; write partition([('*.bias', SGD(0.1))], "
            "AdamW())",
        ),
        (
            lambda: partition([("b", 0.1)], SGD()),
            "partition takes optimizers such as SGD(0.1), got a float; pass an optimizer",
        ),
    ],
)
def test_refusals(make, message):
    with pytest.raises(AdjointError) as error:
        make()
    assert error.value.message == message
