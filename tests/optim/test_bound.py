"""Optimizers bound to parameters: groups, missing gradients, changed settings, `state_dict`, refusals."""
# ruff: noqa: ARG002, ARG005

import inspect
from dataclasses import dataclass

import numpy as np
import pytest

from adjoint.errors import AdjointError
from adjoint.optim import SGD, Adam, AdamW, Optimizer, chain, clip_by_global_norm, freeze, trace
from adjoint.tensor.explain import explain_recompiles
from adjoint.tensor.tensor import from_array
from tests.optim import reference

START = np.array([1.0, -2.0])
GRADS = [np.array([0.5, 3.0]), np.array([-1.0, 0.25]), np.array([2.0, 2.0])]


def leaf(array=START):
    return from_array(np.array(array), requires_grad=True)


def step(optimizer, params, grads):
    for param, grad in zip(params, grads, strict=True):
        param.grad = None if grad is None else from_array(grad)
    optimizer.step()


def read(tensor):
    return np.array(tensor.numpy(force=True))


def last(steps):
    *_, final = steps
    return final


@pytest.mark.parametrize(
    ("make", "formula", "settings"),
    [
        (lambda ps: SGD(ps, 0.1, 0.9), reference.sgd, {"lr": 0.1, "momentum": 0.9}),
        (lambda ps: SGD(0.1, 0.9).bind(ps), reference.sgd, {"lr": 0.1, "momentum": 0.9}),
        (lambda ps: AdamW(params=iter(ps), lr=0.1, fused=True), reference.adamw, {"lr": 0.1}),
    ],
    ids=["bound", "bind", "keyword"],
)
def test_a_bound_optimizer_updates_its_parameters_in_place(make, formula, settings):
    w = leaf()
    optimizer = make([w])
    for g in GRADS:
        step(optimizer, [w], [g])
    np.testing.assert_allclose(read(w), last(formula(START, GRADS, **settings)), rtol=1e-12)
    optimizer.zero_grad(set_to_none=False)
    np.testing.assert_array_equal(read(w.grad), 0.0)
    optimizer.zero_grad()
    assert w.grad is None


def test_groups_have_their_own_settings_and_changing_one_compiles_nothing():
    v, w = leaf(), leaf()
    optimizer = SGD([{"params": [v], "lr": 0.5}, {"params": w, "name": "second"}], lr=0.1)
    step(optimizer, [v, w], [GRADS[0]] * 2)
    read(v)
    before = len(explain_recompiles())
    optimizer.param_groups[1]["lr"] = 0.2
    for group in optimizer.param_groups:
        group["lr"] *= 2
    step(optimizer, [v, w], [GRADS[1]] * 2)
    np.testing.assert_allclose(read(v), START - 0.5 * GRADS[0] - 1.0 * GRADS[1])
    np.testing.assert_allclose(read(w), START - 0.1 * GRADS[0] - 0.4 * GRADS[1])
    assert len(explain_recompiles()) == before
    assert optimizer.param_groups[1]["name"] == "second"
    assert optimizer.defaults["lr"] == 0.1


def test_a_setting_that_changes_the_graph_can_change_too():
    w = leaf()
    optimizer = SGD([w], lr=0.1)
    step(optimizer, [w], GRADS[:1])
    optimizer.param_groups[0].update(momentum=0.9, nesterov=True)
    step(optimizer, [w], GRADS[1:2])
    np.testing.assert_allclose(read(w), START - 0.1 * GRADS[0] - 0.1 * 1.9 * GRADS[1])


def test_settings_that_are_valid_only_together_can_be_set_in_any_order():
    optimizer = SGD([leaf()], lr=0.1)
    group = optimizer.param_groups[0]
    group["nesterov"] = True
    with pytest.raises(AdjointError, match="nesterov requires momentum above 0"):
        step(optimizer, group["params"], GRADS[:1])
    group["momentum"] = 0.9
    step(optimizer, group["params"], GRADS[:1])
    np.testing.assert_allclose(read(group["params"][0]), START - 0.19 * GRADS[0])


def test_a_step_uses_the_rate_of_its_time_though_it_runs_later():
    """Nothing is read between the steps, so that both are in one program."""
    w = leaf()
    optimizer = SGD([w], lr=0.1)
    step(optimizer, [w], GRADS[:1])
    optimizer.param_groups[0]["lr"] = 0.2
    optimizer.step()
    np.testing.assert_allclose(read(w), START - 0.3 * GRADS[0])


def test_parameters_without_a_gradient_wait_and_are_counted_apart():
    """Each parameter's bias correction is that of its own updates, as in PyTorch."""
    v, w = leaf(), leaf()
    optimizer = Adam([v, w], lr=0.1)
    step(optimizer, [v, w], [None, None])
    assert optimizer.state == {}
    for gv, gw in zip(GRADS, [GRADS[0], None, GRADS[2]], strict=True):
        step(optimizer, [v, w], [gv, gw])
    np.testing.assert_allclose(read(v), last(reference.adam(START, GRADS, lr=0.1)), rtol=1e-12)
    np.testing.assert_allclose(read(w), last(reference.adam(START, [GRADS[0], GRADS[2]], lr=0.1)), rtol=1e-12)
    assert [read(optimizer.state_dict()["state"][i]["step"]) for i in (0, 1)] == [3.0, 2.0]


def test_a_chain_with_a_norm_is_measured_over_the_parameters_with_gradients():
    v, w = leaf(), leaf()
    optimizer = chain([v, w], clip_by_global_norm(1.0), trace(0.5), SGD(1.0))
    step(optimizer, [v, w], GRADS[:2])
    norm = np.sqrt((GRADS[0] ** 2).sum() + (GRADS[1] ** 2).sum())
    np.testing.assert_allclose(read(v), START - GRADS[0] / norm, rtol=1e-5)
    step(optimizer, [v, w], [None, GRADS[2]])
    np.testing.assert_allclose(read(v), START - GRADS[0] / norm, rtol=1e-5)
    second = 0.5 * GRADS[1] / norm + GRADS[2] / np.sqrt((GRADS[2] ** 2).sum())
    np.testing.assert_allclose(read(w), START - GRADS[1] / norm - second, rtol=1e-5)
    assert optimizer.param_groups[0].keys() == {"params", "max_norm", "momentum", "lr"}


def test_named_parameters_can_be_frozen_by_name():
    v, w = leaf(), leaf()
    optimizer = freeze(SGD(0.1), "head.*").bind([("body.weight", v), ("head.weight", w)])
    step(optimizer, [v, w], GRADS[:2])
    np.testing.assert_array_equal(read(w), START)
    np.testing.assert_allclose(read(v), START - 0.1 * GRADS[0])
    assert optimizer.param_groups[0]["param_names"] == ["body.weight", "head.weight"]


def test_an_own_optimizer_is_bound_without_knowing_of_it():
    class Signed(Optimizer):
        slot_names = ("last",)

        def __init__(self, lr):
            self.lr = lr

        def update(self, param, grad, slots, scalars):
            return param - scalars["lr"] * grad / abs(grad), {"last": grad}

    w = leaf()
    optimizer = Signed([w], 0.1)
    step(optimizer, [w], GRADS[:1])
    optimizer.param_groups[0]["lr"] = 1.0
    step(optimizer, [w], GRADS[1:2])
    np.testing.assert_allclose(read(w), START - 0.1 * np.sign(GRADS[0]) - np.sign(GRADS[1]))
    np.testing.assert_array_equal(read(optimizer.state[w]["last"]), GRADS[1])


def test_a_state_continues_in_another_optimizer_with_the_same_bits():
    v, w = leaf(), leaf()
    first = AdamW([v], lr=0.1)
    step(first, [v], GRADS[:1])
    step(first, [v], GRADS[1:2])
    saved = first.state_dict()
    assert saved["param_groups"] == [
        {
            "lr": 0.1,
            "betas": (0.9, 0.999),
            "eps": 1e-8,
            "weight_decay": 0.01,
            "amsgrad": False,
            "maximize": False,
            "foreach": None,
            "capturable": False,
            "differentiable": False,
            "fused": None,
            "decoupled_weight_decay": True,
            "params": [0],
        }
    ]
    assert list(saved["state"][0]) == ["step", "exp_avg", "exp_avg_sq"]
    assert saved["state"][0]["step"].dtype == np.float32
    u = leaf(read(v))
    second = AdamW([u], lr=0.7)
    second.load_state_dict(saved)
    step(first, [v], GRADS[2:])
    step(second, [u], GRADS[2:])
    np.testing.assert_array_equal(read(u), read(v))
    del w


def test_a_state_of_momentum_without_a_buffer_starts_it():
    """PyTorch's state before the first step: no buffer, so that dampening does not apply to the next gradient."""
    w = leaf()
    optimizer = SGD([w], lr=0.1, momentum=0.9, dampening=0.5)
    saved = optimizer.state_dict()
    assert saved["state"] == {}
    saved["state"][0] = {"momentum_buffer": None}
    optimizer.load_state_dict(saved)
    step(optimizer, [w], GRADS[:1])
    np.testing.assert_allclose(read(w), START - 0.1 * GRADS[0])
    assert list(optimizer.state_dict()["state"][0]) == ["momentum_buffer"]


def test_a_group_can_be_added_and_a_closure_is_called():
    v, w = leaf(), leaf()
    optimizer = SGD([v], lr=0.1)
    optimizer.add_param_group({"params": [w], "lr": 0.2})

    def closure():
        v.grad, w.grad = from_array(GRADS[0]), from_array(GRADS[1])
        return "loss"

    assert optimizer.step(closure) == "loss"
    np.testing.assert_allclose(read(v), START - 0.1 * GRADS[0])
    np.testing.assert_allclose(read(w), START - 0.2 * GRADS[1])


def test_the_signature_is_that_of_the_settings():
    assert list(inspect.signature(SGD).parameters)[:3] == ["lr", "momentum", "dampening"]


@dataclass(frozen=True)
class NotReading(Optimizer):
    """Its rate has no effect."""

    lr: float = 0.1

    def update(self, param, grad, slots, scalars):
        """The update."""
        return param - grad, {}


def loaded(**changes):
    w = leaf()
    optimizer = Adam([w])
    step(optimizer, [w], GRADS[:1])
    saved = optimizer.state_dict()
    saved["state"][0].update(changes)
    return optimizer, saved


def load(optimizer, saved):
    optimizer.load_state_dict(saved)


def without_step():
    optimizer, saved = loaded()
    del saved["state"][0]["step"]
    optimizer.load_state_dict(saved)


def not_reading():
    w = leaf()
    step(NotReading([w]), [w], GRADS[:1])


def bad_rate():
    w = leaf()
    optimizer = SGD([w])
    optimizer.param_groups[0]["lr"] = -1.0
    step(optimizer, [w], GRADS[:1])


WRONG = {
    "not bound": (
        lambda: SGD(0.1).step(),
        "SGD: step() needs parameters, got an optimizer that is not bound to any; write SGD(model.parameters(), ...), "
        "or optimizer.bind(model.parameters())",
    ),
    "no groups": (
        lambda: SGD(0.1).param_groups,
        "SGD: param_groups needs parameters, got an optimizer that is not bound to any; write SGD(model.parameters(), "
        "...), or optimizer.bind(model.parameters())",
    ),
    "none": (lambda: SGD([], lr=0.1), "SGD: at least one parameter is required, got none; pass model.parameters()"),
    "a tensor": (
        lambda: SGD(leaf(), lr=0.1),
        "SGD takes an iterable of parameters, got a single tensor; write [parameter]",
    ),
    "a module": (
        lambda: SGD(type("Linear", (), {"parameters": lambda self: []})(), lr=0.1),
        "SGD takes parameters, got a Linear; pass its parameters()",
    ),
    "a dict": (
        lambda: SGD({"w": leaf()}, lr=0.1),
        "SGD takes an iterable of parameters, got a dict; pass its items()",
    ),
    "a set": (lambda: SGD({leaf()}), "SGD: parameters must have an order, got a set; pass a list"),
    "an array": (
        lambda: SGD([leaf(), START]),
        "SGD takes tensors as parameters, got a ndarray among them; convert or omit it",
    ),
    "an array in a group": (
        lambda: SGD([{"params": [START]}]),
        "SGD takes tensors as parameters, got a ndarray; convert it",
    ),
    "no leaf": (
        lambda: SGD([leaf() * 2.0]),
        "SGD: parameters must be leaves, got a result of operations, parameter 0; pass the tensor that it was computed "
        "from, or its detach()",
    ),
    "twice": (
        lambda: SGD([leaf()] * 2),
        "SGD: a parameter can be in one group only once, got parameter 1 again; remove it",
    ),
    "no params": (
        lambda: SGD([leaf()]).add_param_group({"lr": 0.1}),
        "SGD: a group of parameters must be a dict with params, got {'lr': 0.1}; add it",
    ),
    "bound to a number": (
        lambda: SGD(0.1).bind(0.2),
        "SGD.bind takes parameters, got 0.2; pass model.parameters() or a list of tensors",
    ),
    "a setting out of range": (
        lambda: SGD([{"params": [leaf()], "lr": -1.0}]),
        "SGD: lr must be finite and at least 0, got -1.0",
    ),
    "a rate that becomes negative": (bad_rate, "SGD: lr must be finite and at least 0, got -1.0"),
    "a rate that is not read": (
        not_reading,
        "NotReading.update does not read the hyperparameter lr, so changing it would have no effect; use "
        "scalars['lr'] instead of self.lr, or omit it from hyper(params)",
    ),
    "other groups": (
        lambda: SGD([leaf(), leaf()]).load_state_dict(SGD([leaf()]).state_dict()),
        "load_state_dict: the groups must have as many parameters as those of the optimizer, 1 group of 2, got 1 group "
        "of 1; build the optimizer as it was saved",
    ),
    "another optimizer": (
        lambda: Adam([leaf()]).load_state_dict(AdamW([leaf()]).state_dict()),
        "load_state_dict: Adam cannot continue from a state with decoupled_weight_decay=True; use AdamW",
    ),
    "another shape": (
        lambda: load(*loaded(exp_avg=np.zeros(3))),
        "load_state_dict: exp_avg of parameter 0 must have the parameter's shape (2,), got (3,); load the state of the "
        "same model",
    ),
    "no step": (
        without_step,
        "load_state_dict: the state of parameter 0 must have step, got exp_avg, exp_avg_sq; load what the same "
        "optimizer saved",
    ),
    "a frozen parameter that does not exist": (
        lambda: freeze(SGD(0.1), "c").bind([leaf()]),
        "freeze: 'c' selects none of the parameters 0; correct the pattern",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_uses_are_refused_in_one_sentence(case):
    make, expected = WRONG[case]
    with pytest.raises(AdjointError) as caught:
        make()
    assert caught.value.message == expected
