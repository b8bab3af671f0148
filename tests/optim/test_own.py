"""Own optimizers: `update` alone is enough, and each way to get one wrong has its sentence."""
# ruff: noqa: ARG002, ARG005

from dataclasses import dataclass

import numpy as np
import pytest

from adjoint import SetupTrainer, TensorType, Trainer, ops
from adjoint.errors import AdjointError
from adjoint.losses import MSELoss
from adjoint.models import linreg
from adjoint.optim import SGD, Optimizer, StateSpec

X = np.array([[1, 2], [2, 3], [4, 6], [3, 1]], np.float32)
Y = np.array([[8], [13], [26], [9]], np.float32)


def descend(param, grad, scalars):
    return ops.subtract(param, ops.multiply(scalars["lr"], grad))


class Plain(Optimizer):
    """Gradient descent, not a dataclass."""

    def __init__(self, lr, name="plain"):
        self.lr = lr
        self.name = name

    def update(self, param, grad, slots, scalars):
        """The update."""
        return descend(param, grad, scalars), {}


@dataclass
class Momentum(Optimizer):
    """Gradient descent with momentum; a dataclass with slots of state."""

    slot_names = ("velocity",)
    lr: float
    momentum: float = 0.9
    quiet: bool = True

    def update(self, param, grad, slots, scalars):
        """The update."""
        velocity = ops.add(ops.multiply(scalars["momentum"], slots["velocity"]), grad)
        return descend(param, velocity, scalars), {"velocity": velocity}


def trained(optimizer, steps=5):
    trainer = Trainer(SetupTrainer(MSELoss(), optimizer)(linreg(2, 4)))
    trainer.init_parameters("zeros")
    for _ in range(steps):
        trainer.update(X, Y)
    return trainer


@pytest.mark.parametrize(
    ("own", "known"), [(Plain(0.01), SGD(0.01)), (Momentum(0.01), SGD(0.01, momentum=0.9))], ids=["plain", "momentum"]
)
def test_update_alone_makes_an_optimizer(own, known):
    found, expected = trained(own), trained(known)
    assert np.array_equal(found.export_params()["w"], expected.export_params()["w"])
    assert dict(found.hyper) == dict(expected.hyper)
    found.hyper["lr"] = 0.0
    before = found.export_params()["w"]
    found.update(X, Y)
    assert np.array_equal(found.export_params()["w"], before)


def test_hyperparameters_are_the_numbers_among_the_settings():
    names = {"w": TensorType((2, 1))}
    assert [(s.name, s.initial, s.type) for s in Plain(1).hyper(names)] == [("lr", 1.0, TensorType(()))]
    found = Momentum(0.5).hyper({"w": TensorType((2, 1), "f64")})
    assert [(s.name, s.initial, s.type) for s in found] == [
        ("lr", 0.5, TensorType((), "f64")),
        ("momentum", 0.9, TensorType((), "f64")),
    ]


def test_a_subclass_of_a_known_optimizer_may_have_its_own_init():
    class Scaled(SGD):
        def __init__(self, lr):
            super().__init__(lr)
            self.factor = 3.0

        def update(self, param, grad, slots, scalars):
            return super().update(param, ops.multiply(grad, self.factor), slots, scalars)

    assert np.allclose(trained(Scaled(0.01), 1).export_params()["w"], trained(SGD(0.03), 1).export_params()["w"])


def own(update, **attributes):
    """An optimizer class with this `update`, called Own."""
    return type("Own", (Plain,), {"update": update, **attributes})


def counting():
    return (StateSpec("step", TensorType((), "i64"), 0.0),)


class Missing(Optimizer):
    """Defines nothing."""


@dataclass(frozen=True, slots=True)
class Slotted(SGD):
    """Calls super() in a dataclass with slots."""

    def update(self, param, grad, slots, scalars):
        """The update."""
        return super().update(param, grad, slots, scalars)


WRONG = {
    "super() with slots": (
        Slotted,
        "Slotted: super() without arguments cannot be used in a dataclass with slots=True; write super(Slotted, self), "
        "or omit slots=True",
    ),
    "no update": (
        lambda _lr: Missing(),
        "Missing: an optimizer must define update(self, param, grad, slots, scalars), which returns (new parameter, "
        "new slots); add it",
    ),
    "none": (
        own(lambda self, p, g, slots, scalars: None),
        "Own.update must return (new parameter, new slots), got None (is a return missing?); return both",
    ),
    "value alone": (
        own(lambda self, p, g, slots, scalars: p),
        "Own.update must return (new parameter, new slots), got an object of type Value; return both",
    ),
    "three": (
        own(lambda self, p, g, slots, scalars: (p, {}, {})),
        "Own.update must return (new parameter, new slots), got a tuple of 3; return both",
    ),
    "no dict": (
        own(lambda self, p, g, slots, scalars: (p, None)),
        "Own.update must return (new parameter, new slots) with a dict as the second, got None (is a return missing?); "
        "return {} if there is nothing",
    ),
    "number": (
        own(lambda self, p, g, slots, scalars: (0.5, {})),
        "Own.update: the new value of w must be a graph value, got the float 0.5; compute it with operators such as "
        "ops.multiply",
    ),
    "shape": (
        own(lambda self, p, g, slots, scalars: (ops.sum(p), {})),
        "Own.update: the new value of w must be f32[2,1], got f32[]; keep the shape",
    ),
    "dtype": (
        own(lambda self, p, g, slots, scalars: (ops.cast(p, "f64"), {})),
        "Own.update: the new value of w must be f32[2,1], got f64[2,1]; cast it",
    ),
    "signature": (
        own(lambda self, p, g, slots: (p, {})),
        "Own.update is called with 4 arguments, as in Optimizer.update, but its signature is (p, g, slots); correct "
        "the signature",
    ),
    "undeclared slot read": (
        own(lambda self, p, g, slots, scalars: (slots["m"], {})),
        "Own.update reads the slot 'm', which does not exist, got none; add it to slot_names",
    ),
    "undeclared slot returned": (
        own(lambda self, p, g, slots, scalars: (p, {"m": g})),
        "Own.update returns the slot m, which slot_names does not declare; declare it there",
    ),
    "forgotten slot": (
        own(lambda self, p, g, slots, scalars: (p, {}), slot_names=("m", "v")),
        "Own.update must return a new value for every slot of slot_names, got none for m, v; add it",
    ),
    "type of a slot": (
        own(lambda self, p, g, slots, scalars: (p, {"m": ops.sum(g)}), slot_names=("m",)),
        "Own.update: the slot 'm' of w must be f32[2,1], got f32[]; keep the shape",
    ),
    "unknown scalar": (
        own(lambda self, p, g, slots, scalars: (scalars["rate"], {})),
        "Own.update reads the scalar 'rate', which does not exist, got lr; make it a numeric attribute of the "
        "optimizer, or return it from prepare",
    ),
    "shared state without prepare": (
        own(Plain.update, shared=lambda self: counting()),
        "Own: an optimizer with shared state (step) must define prepare(self, hyper, shared), which returns (scalars, "
        "new shared state); add it",
    ),
    "forgotten shared state": (
        own(Plain.update, shared=lambda self: counting(), prepare=lambda self, hyper, shared: (dict(hyper), {})),
        "Own.prepare must return a new value for every shared state of shared(), got none for step; add it",
    ),
    "prepare returns one": (
        own(Plain.update, prepare=lambda self, hyper, shared: dict(hyper)),
        "Own.prepare must return (scalars, new shared state), got an object of type dict; return both",
    ),
    "scalar is a number": (
        own(Plain.update, prepare=lambda self, hyper, shared: ({"lr": 0.1}, {})),
        "Own.prepare: the scalar 'lr' must be a graph value, got the float 0.1; compute it with operators such as "
        "ops.multiply",
    ),
    "unknown hyperparameter": (
        own(Plain.update, prepare=lambda self, hyper, shared: ({"lr": hyper["rate"]}, {})),
        "Own.prepare reads the hyperparameter 'rate', which does not exist, got lr; return it from hyper(params)",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_optimizer_is_refused_in_one_sentence(case):
    make, expected = WRONG[case]
    with pytest.raises(AdjointError) as caught:
        SetupTrainer(MSELoss(), make(0.1))(linreg(2, 4))
    assert caught.value.message == expected


class Fixed(Optimizer):
    """Reads its rate as a number of Python, which is then part of the graph."""

    def __init__(self, lr):
        self.lr = lr

    def update(self, param, grad, slots, scalars):
        """The update."""
        return param - self.lr * grad, {}


class Halved(Fixed):
    """Prepares its scalars from a number of Python."""

    def prepare(self, hyper, shared):
        """The rate."""
        return {"half": ops.full(self.lr / 2, ())}, {}

    def update(self, param, grad, slots, scalars):
        """The update."""
        return param - scalars["half"] * grad, {}


class Repeated(Fixed):
    """Has a number that builds the graph, and that is no hyperparameter."""

    def __init__(self, lr, times):
        super().__init__(lr)
        self.times = times

    def hyper(self, params):
        """The rate alone."""
        return tuple(spec for spec in super().hyper(params) if spec.name == "lr")

    def update(self, param, grad, slots, scalars):
        """The update."""
        for _ in range(self.times):
            param = descend(param, grad, scalars)
        return param, {}


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        (
            Fixed(0.01),
            "Fixed.update does not read the hyperparameter lr, so changing it would have no effect; use scalars['lr'] "
            "instead of self.lr, or omit it from hyper(params)",
        ),
        (
            Halved(0.01),
            "neither Halved.prepare nor Halved.update reads the hyperparameter lr, so changing it would have no "
            "effect; use hyper['lr'] instead of self.lr, or omit it from hyper(params)",
        ),
    ],
    ids=["update", "prepare"],
)
def test_a_hyperparameter_that_nothing_reads_is_refused(optimizer, message):
    with pytest.raises(AdjointError) as caught:
        SetupTrainer(MSELoss(), optimizer)(linreg(2, 4))
    assert caught.value.message == message
    assert caught.value.where == f"{__file__}:{type(optimizer).update.__code__.co_firstlineno}"


def test_a_number_that_builds_the_graph_is_omitted_from_the_hyperparameters():
    twice = trained(Repeated(0.01, 2), steps=1)
    assert dict(twice.hyper) == {"lr": 0.01}
    np.testing.assert_allclose(twice.export_params()["w"], trained(SGD(0.02), steps=1).export_params()["w"], rtol=1e-6)
