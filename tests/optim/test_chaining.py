"""Chains of transforms against NumPy float64, and what a chain refuses."""
# ruff: noqa: ARG002, ARG005

from dataclasses import dataclass

import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import AdjointError
from adjoint.ir import TensorType
from adjoint.optim import (
    SGD,
    Adam,
    AdamW,
    Chain,
    Optimizer,
    Quotient,
    Transform,
    add_decayed_weights,
    chain,
    clip_by_global_norm,
    clip_by_value,
    decoupled_weight_decay,
    freeze,
    masked,
    negate,
    scale_by_adam,
    scale_by_learning_rate,
    scale_by_schedule,
    trace,
)
from tests.optim import reference
from tests.optim.stepping import Stepper

RNG = np.random.default_rng(3)
START = {"w": RNG.standard_normal((3, 2)), "b": RNG.standard_normal(2)}
GRADS = [{name: 3 * RNG.standard_normal(a.shape) for name, a in START.items()} for _ in range(4)]
TYPES = {name: TensorType(a.shape, a.dtype) for name, a in START.items()}


def run(optimizer, grads=GRADS):
    stepper = Stepper(optimizer, START)
    for each in grads:
        stepper.step(each)
    return stepper


def agree(stepper, expected, rtol=1e-12):
    for name, value in expected.items():
        np.testing.assert_allclose(stepper.params[name], value, rtol=rtol, atol=1e-14)


def clipped(grads, limit):
    norm = np.sqrt(sum((g**2).sum() for g in grads.values()))
    return {name: g * min(1.0, limit / (norm + 1e-6)) for name, g in grads.items()}


def last(steps):
    *_, final = steps
    return final


@pytest.mark.parametrize(
    ("named", "composed"),
    [
        (SGD(0.1), chain(scale_by_learning_rate(0.1))),
        (SGD(0.1, 0.9, nesterov=True), chain(trace(0.9, nesterov=True), scale_by_learning_rate(0.1))),
        (
            SGD(0.1, 0.9, 0.2, 0.3),
            chain(add_decayed_weights(0.3), trace(0.9, 0.2), scale_by_learning_rate(0.1)),
        ),
        (SGD(0.1, maximize=True), chain(negate(), scale_by_learning_rate(0.1))),
        (Adam(0.1), chain(scale_by_adam(), scale_by_learning_rate(0.1))),
        (AdamW(0.1), chain(scale_by_adam(), decoupled_weight_decay(0.01), scale_by_learning_rate(0.1))),
    ],
)
def test_the_named_optimizers_are_chains(named, composed):
    """The same bits, and the same function but for the order of the hyperparameters."""
    found, expected = run(composed), run(named)
    assert all(np.array_equal(found.params[name], expected.params[name]) for name in START)
    assert found.state.keys() == expected.state.keys()
    assert sorted(found.hyper) == sorted(expected.hyper)


@pytest.mark.parametrize("inner", [SGD(0.1, 0.9), AdamW(0.1)], ids=["sgd", "adamw"])
def test_clipping_comes_before_any_optimizer(inner):
    found = run(chain(clip_by_global_norm(1.5), inner))
    path = [clipped(g, 1.5) for g in GRADS]
    formula = reference.adamw if isinstance(inner, AdamW) else lambda p, g: reference.sgd(p, g, 0.1, 0.9)
    options = {"lr": 0.1} if isinstance(inner, AdamW) else {}
    agree(found, {n: last(formula(START[n], [g[n] for g in path], **options)) for n in START})


def test_a_norm_below_the_limit_changes_nothing_and_the_limit_is_an_input():
    stepper = run(chain(clip_by_global_norm(1e6), SGD(0.1)), GRADS[:1])
    agree(stepper, {n: START[n] - 0.1 * GRADS[0][n] for n in START})
    before = dict(stepper.params)
    stepper.hyper["max_norm"][()] = 0.5
    small = clipped(GRADS[1], 0.5)
    stepper.step(GRADS[1])
    agree(stepper, {n: before[n] - 0.1 * small[n] for n in START})


def test_a_clip_in_the_middle_reads_what_comes_before():
    """Optax's order of a trust region: the clip limits the scaled step, not the gradient."""
    found = run(chain(trace(0.5), scale_by_learning_rate(0.1), clip_by_value(0.05)), GRADS[:2])
    expected = {}
    for n in START:
        first, second = GRADS[0][n], 0.5 * GRADS[0][n] + GRADS[1][n]
        expected[n] = START[n] - np.clip(0.1 * first, -0.05, 0.05) - np.clip(0.1 * second, -0.05, 0.05)
    agree(found, expected)


def test_a_transform_after_adam_gets_the_whole_quotient():
    found = run(chain(Adam(0.1), clip_by_value(0.08)), GRADS[:1])
    agree(found, {n: START[n] - np.clip(0.1 * np.sign(GRADS[0][n]), -0.08, 0.08) for n in START}, rtol=1e-6)


def test_decay_before_a_transform_is_part_of_what_it_gets():
    found = run(chain(decoupled_weight_decay(0.5), scale_by_learning_rate(0.1), clip_by_value(0.2)), GRADS[:1])
    agree(found, {n: START[n] - np.clip(0.1 * (GRADS[0][n] + 0.5 * START[n]), -0.2, 0.2) for n in START})


def test_a_schedule_scales_any_chain_in_the_step():
    found = run(chain(AdamW(0.1, weight_decay=0.3), scale_by_schedule(lambda t: 1.0 / (t + 1.0))))
    for n in START:
        p, m, v = START[n], 0.0, 0.0
        for t, grads in enumerate(GRADS, 1):
            g, lr = grads[n], 0.1 / t
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            p = p * (1 - lr * 0.3) - lr * m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        agree(found, {n: p})
    assert found.state["count"] == 4


def test_parts_of_equal_names_get_numbers():
    twice = chain(
        add_decayed_weights(0.1), trace(0.9), trace(0.5), AdamW(0.2, weight_decay=0.3), scale_by_schedule(abs)
    )
    assert [s.name for s in twice.hyper(TYPES)] == [
        "weight_decay",
        "momentum",
        "momentum_2",
        "beta1",
        "beta2",
        "eps",
        "weight_decay_2",
        "lr",
    ]
    names = [s.name for s in twice.init({"w": TYPES["w"]})]
    assert names[:2] == ["w_momentum_buffer", "w_momentum_buffer_2"]
    assert len(set(names)) == len(names)
    found = run(chain(trace(0.9), trace(0.5), scale_by_learning_rate(0.1)), GRADS[:2])
    second = [g["w"] * f for g, f in ((GRADS[0], 0.9 + 0.5), (GRADS[1], 1.0))]
    agree(found, {"w": START["w"] - 0.1 * (GRADS[0]["w"] + sum(second))})


def test_an_own_optimizer_is_the_last_part():
    class Own(Optimizer):
        slot_names = ("sum",)

        def __init__(self, lr):
            self.lr = lr

        def update(self, param, grad, slots, scalars):
            total = slots["sum"] + grad
            return param - scalars["lr"] * total, {"sum": total}

    stepper = run(chain(trace(0.5), masked(clip_by_value(1.0), "w"), Own(0.1)), GRADS[:1])
    assert list(stepper.hyper) == ["momentum", "limit", "lr"]
    agree(stepper, {"w": START["w"] - 0.1 * np.clip(GRADS[0]["w"], -1, 1), "b": START["b"] - 0.1 * GRADS[0]["b"]})
    np.testing.assert_allclose(stepper.state["b_sum"], GRADS[0]["b"])


def test_a_subclass_that_extends_the_update_is_a_part_of_its_own():
    class Doubled(SGD):
        def update(self, param, grad, slots, scalars):
            return super().update(param, 2.0 * grad, slots, scalars)

    stepper = run(chain(clip_by_value(0.5), Doubled(0.1, 0.9)), GRADS[:1])
    agree(stepper, {n: START[n] - 0.2 * np.clip(GRADS[0][n], -0.5, 0.5) for n in START})


@dataclass(frozen=True)
class Signed(Transform):
    """An own transform: the direction divided by its magnitude, times the largest of all."""

    floor: float = 1e-8

    def measure(self, directions, scalars):
        """The largest magnitude."""
        largest = [ops.max(abs(d)) for d in directions.values()]
        return {"largest": ops.maximum(*largest)}

    def update(self, param, direction, slots, scalars):
        """The sign."""
        return Quotient(scalars["largest"] * direction, abs(direction) + scalars["floor"]), {}


def test_an_own_transform_measures_and_updates():
    largest = max(abs(g).max() for g in GRADS[0].values())
    stepper = run(chain(Signed(), scale_by_learning_rate(0.1)), GRADS[:1])
    agree(stepper, {n: START[n] - 0.1 * largest * np.sign(GRADS[0][n]) for n in START}, rtol=1e-5)


def transform(**methods):
    return chain(type("Own", (Transform,), methods)(), SGD(0.1))


WRONG = {
    "nothing": (lambda: chain(), "chain: at least one part is required, got none; write chain(SGD(0.1))"),
    "a class": (
        lambda: chain(clip_by_value, SGD(0.1)),
        "chain takes transforms and optimizers, got the class clip_by_value; call it",
    ),
    "a number": (
        lambda: chain(1.0, SGD(0.1)),
        "chain takes transforms and optimizers, got a float; pass such as clip_by_value(1.0) or SGD(0.1)",
    ),
    "an optimizer in the middle": (
        lambda: chain(freeze(SGD(0.1), "w"), clip_by_value(1.0)),
        "chain: freeze changes parameters itself, so nothing can follow it, got a clip_by_value after it; put it last",
    ),
    "an update that is extended": (
        lambda: type("Own", (Chain,), {"update": lambda self, *args: Chain.update(self, *args)})(
            clip_by_global_norm(1.0), SGD(0.1)
        ).function(TYPES),
        "Own: update cannot be extended in a chain with clip_by_global_norm, which reads all gradients; write a "
        "Transform and put it into the chain",
    ),
    "no direction": (
        lambda: transform(update=lambda self, p, d, slots, scalars: None).function(TYPES),
        "Own.update must return (new direction, new slots), got None (is a return missing?); return both",
    ),
    "a number as direction": (
        lambda: transform(update=lambda self, p, d, slots, scalars: (0.5, {})).function(TYPES),
        "Own.update: the new direction of w must be a graph value, got the float 0.5; compute it with operators such "
        "as ops.multiply",
    ),
    "the signature": (
        lambda: transform(update=lambda self, p, d: (d, {})).function(TYPES),
        "Own.update is called with 4 arguments, as in Transform.update, but its signature is (p, d); correct the "
        "signature",
    ),
    "an unknown scalar": (
        lambda: transform(update=lambda self, p, d, slots, scalars: (scalars["x"] * d, {})).function(TYPES),
        "Own.update reads the scalar 'x', which does not exist, got none; make it a numeric attribute of the "
        "transform, or return it from prepare or measure",
    ),
    "a measure without a dict": (
        lambda: transform(measure=lambda self, directions, scalars: 1.0).function(TYPES),
        "Own.measure must return a dict of scalars, got the float 1.0; return {} if there is nothing",
    ),
    "shared state without prepare": (
        lambda: transform(shared=trace(0.9, 0.1).shared).function(TYPES),
        "Own: a transform with shared state (step) must define prepare(self, hyper, shared), which returns (scalars, "
        "new shared state); add it",
    ),
    "a hyperparameter that nothing reads": (
        lambda: chain(type("Own", (Signed,), {"update": lambda self, p, d, s, x: (x["largest"] * d, {})})(), SGD(0.1))
        .function(TYPES),
        "Own.update does not read the hyperparameter floor, so changing it would have no effect; use "
        "scalars['floor'] instead of self.floor, or omit it from hyper(params)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_chain_is_refused_in_one_sentence(case):
    make, expected = WRONG[case]
    with pytest.raises(AdjointError) as caught:
        make()
    assert caught.value.message == expected


def test_chains_compare_by_their_parts():
    assert chain(clip_by_value(1.0), SGD(0.1)) == chain(clip_by_value(1.0), SGD(0.1)) != chain(SGD(0.1))
    assert repr(chain(clip_by_value(1.0), negate())) == "chain(clip_by_value(limit=1.0), negate())"
    assert hash(chain(negate())) == hash(chain(negate()))
