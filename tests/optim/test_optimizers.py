"""Optimizers against NumPy float64 and PyTorch, over every combination of their settings."""

import json
from pathlib import Path

import numpy as np
import pytest

from adjoint.errors import InvalidValueError, NameLookupError, TypeRuleError
from adjoint.ir import TensorType, param
from adjoint.optim import SGD, Adam, AdamW
from tests.golden.torch.formulas import long_gradients
from tests.optim import reference
from tests.optim.stepping import Stepper

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/torch/optimizers.json").read_text())
MAKE = {"SGD": SGD, "Adam": Adam, "AdamW": AdamW}
REFERENCE = {"SGD": reference.sgd, "Adam": reference.adam, "AdamW": reference.adamw}


def described(run):
    return f"{run['optimizer']}-" + "-".join(f"{k}={v}" for k, v in run["settings"].items())


@pytest.mark.parametrize("run", GOLDEN["runs"], ids=described)
def test_every_combination_agrees_with_pytorch(run):
    start, gradients = np.array(GOLDEN["start"]), np.array(GOLDEN["gradients"])
    assert len(gradients) >= 10
    stepper = Stepper(MAKE[run["optimizer"]](**run["settings"]), {"w": start})
    got = [stepper.step({"w": g})["w"] for g in gradients]
    np.testing.assert_allclose(got, run["path"], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("run", GOLDEN["runs"], ids=described)
def test_every_combination_agrees_with_numpy(run):
    """Two parameters of other shapes, float32, against the formulas in float64."""
    rng = np.random.default_rng(1)
    starts = {"w": rng.standard_normal((3, 2)).astype(np.float32), "b": np.float32(0.25) * np.ones((), np.float32)}
    gradients = {n: rng.standard_normal((15, *a.shape)).astype(np.float32) for n, a in starts.items()}
    stepper = Stepper(MAKE[run["optimizer"]](**run["settings"]), starts)
    for i in range(15):
        stepper.step({n: g[i] for n, g in gradients.items()})
    for name, start in starts.items():
        wide = gradients[name].astype(np.float64)
        *_, expected = REFERENCE[run["optimizer"]](start.astype(np.float64), wide, **run["settings"])
        np.testing.assert_allclose(stepper.params[name], expected, rtol=5e-6, atol=5e-7)


@pytest.mark.parametrize("run", GOLDEN["long"], ids=described)
def test_a_thousand_float32_steps_stay_with_pytorch(run):
    gradients = long_gradients(16)
    stepper = Stepper(MAKE[run["optimizer"]](**run["settings"]), {"w": np.linspace(-1, 1, 16, dtype=np.float32)})
    at = dict(zip(run["at"], run["path"], strict=True))
    for i, gradient in enumerate(gradients, 1):
        new = stepper.step({"w": gradient})["w"]
        if i in at:
            np.testing.assert_allclose(new, at[i], rtol=1e-6, atol=1e-6)
    assert new.dtype == np.float32


@pytest.mark.parametrize("optimizer", [SGD(0.1, 0.9, 0.2, 0.1), Adam(0.1, weight_decay=0.1), AdamW(0.1)])
def test_hyperparameters_are_inputs(optimizer):
    """Halving the learning rate on the way needs no other function; PyTorch's rule reads it at every step."""
    start, gradients = np.array(GOLDEN["start"]), np.array(GOLDEN["gradients"])
    changing, fixed = Stepper(optimizer, {"w": start}), Stepper(optimizer, {"w": start})
    for g in gradients[:5]:
        changing.step({"w": g})
        fixed.step({"w": g})
    before = changing.params["w"]
    changing.hyper["lr"][()] = 0.05
    if "weight_decay" in changing.hyper and isinstance(optimizer, AdamW):
        # Its decay is scaled by lr as well, so that all of the step halves.
        assert changing.hyper["weight_decay"] == 0.01
    half = changing.step({"w": gradients[5]})["w"] - before
    full = fixed.step({"w": gradients[5]})["w"] - before
    np.testing.assert_allclose(half, full / 2, rtol=1e-9)


def test_state_and_hyperparameters_are_what_the_settings_need():
    types = {"w": TensorType((2, 3)), "b": TensorType((3,))}

    def names(specs):
        return [f"{s.name}:{s.type}={s.initial:g}" for s in specs]

    assert names(SGD(0.5).init(types)) == []
    assert names(SGD(0.5).hyper(types)) == ["lr:f32[]=0.5"]
    assert names(SGD(0.5, 0.9).init(types)) == ["w_momentum_buffer:f32[2,3]=0", "b_momentum_buffer:f32[3]=0"]
    assert names(SGD(0.5, 0.9, 0.1).init(types))[0] == "step:i64[]=0"
    assert names(SGD(0.5, 0.9, 0.1, 0.2).hyper(types)) == [
        "lr:f32[]=0.5",
        "momentum:f32[]=0.9",
        "dampening:f32[]=0.1",
        "weight_decay:f32[]=0.2",
    ]
    assert names(Adam().init(types)) == [
        "step:i64[]=0",
        "beta1_power:f64[]=1",
        "beta2_power:f64[]=1",
        "w_exp_avg:f32[2,3]=0",
        "b_exp_avg:f32[3]=0",
        "w_exp_avg_sq:f32[2,3]=0",
        "b_exp_avg_sq:f32[3]=0",
    ]
    assert names(AdamW().hyper(types))[1:3] == ["beta1:f64[]=0.9", "beta2:f64[]=0.999"]
    assert names(SGD(0.5).hyper({"w": TensorType((), "f64")})) == ["lr:f64[]=0.5"]


def test_the_function_has_all_in_order_and_donates():
    function = SGD(0.1, momentum=0.9).function({"w": TensorType((2,)), "b": TensorType(())})
    assert function.name == "optimizer"
    assert [p.label for p in function.params] == [
        "w",
        "b",
        "w_adjoint",
        "b_adjoint",
        "w_momentum_buffer",
        "b_momentum_buffer",
        "lr",
        "momentum",
    ]
    assert [r.type for r in function.results] == [TensorType((2,)), TensorType(())] * 2
    assert function.attrs["donate"] == (("w", 0), ("b", 1), ("w_momentum_buffer", 2), ("b_momentum_buffer", 3))


def test_what_parameters_share_is_computed_once():
    """The values that do not depend on a parameter are as many for ten parameters as for one."""

    def scalars(count):
        function = AdamW().function({f"w{i}": TensorType((4,)) for i in range(count)})
        return sum(v.type.shape == () and bool(v.inputs) for v in function.values())

    assert scalars(10) == scalars(1)


def test_a_step_counts():
    stepper = Stepper(Adam(), {"w": np.zeros(2, np.float32)})
    for _ in range(3):
        stepper.step({"w": np.ones(2, np.float32)})
    assert stepper.state["step"] == 3
    np.testing.assert_allclose(stepper.state["beta2_power"], 0.999**3, rtol=1e-15)


def test_mixed_dtypes_keep_theirs():
    start = {"w": np.ones(2, np.float64), "h": np.ones(2, np.float16)}
    stepper = Stepper(AdamW(0.1), start)
    stepper.step({n: np.ones_like(a) for n, a in start.items()})
    assert {n: a.dtype for n, a in stepper.params.items()} == {n: a.dtype for n, a in start.items()}
    np.testing.assert_allclose(stepper.params["w"], 0.999 - 0.1, rtol=1e-7)
    np.testing.assert_allclose(stepper.params["h"], 0.899, rtol=2e-3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SGD(-0.1), r"SGD: lr must be finite and at least 0, got -0\.1"),
        (lambda: SGD(float("nan")), "lr must be finite"),
        (lambda: SGD(float("inf")), "lr must be finite"),
        (lambda: SGD("0.1"), r"lr must be a number, got '0\.1'"),
        (lambda: SGD(True), "lr must be a number, got True"),
        (lambda: SGD(0.1, momentum=-1), "momentum must be finite"),
        (lambda: SGD(0.1, nesterov=True), r"nesterov requires momentum above 0 and dampening 0, got momentum=0\.0"),
        (lambda: SGD(0.1, 0.9, 0.1, nesterov=True), r"dampening=0\.1"),
        (lambda: Adam(betas=(0.9, 1.0)), r"Adam: beta2 must be at least 0 and below 1, got 1\.0"),
        (lambda: Adam(betas=(-0.1, 0.9)), "beta1 must be at least 0"),
        (lambda: Adam(betas=(0.9,)), r"betas must be two numbers, got \(0\.9,\)"),
        (lambda: Adam(0.1, 0.9), r"Adam: betas must be two numbers, got 0\.9; write betas=\(0\.9, 0\.999\)"),
        (lambda: Adam(eps=-1e-8), "eps must be finite"),
        (lambda: AdamW(weight_decay=-1), "AdamW: weight_decay must be finite"),
    ],
)
def test_settings_out_of_range_are_refused(make, message):
    with pytest.raises(InvalidValueError, match=message):
        make()


def test_parameters_that_cannot_be_trained_are_refused():
    with pytest.raises(TypeRuleError, match=r"float dtype, got ids of i64\[3\]"):
        SGD(0.1).init({"w": TensorType((2,)), "ids": TensorType((3,), "i64")})
    with pytest.raises(TypeRuleError, match="at least one parameter is required"):
        SGD(0.1).function({})
    with pytest.raises(NameLookupError, match="parameter 'w' has no gradient; choose one of v"):
        SGD(0.1).apply({"w": param("w", (2,))}, {"v": param("v", (2,))}, {}, {})
