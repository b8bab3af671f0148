"""Plain functions and own subclasses as losses, and what is said about wrong ones."""
# ruff: noqa: ARG002, ARG005

import numpy as np
import pytest

from adjoint import SetupTrainer, TensorType, Trainer, compile, ops
from adjoint.errors import AdjointError, TypeRuleError
from adjoint.ir import Function, IRModule, param
from adjoint.losses import CrossEntropyLoss, L1Loss, Loss, MSELoss, as_loss
from adjoint.models import linreg
from adjoint.optim import SGD
from adjoint.training import AppendLoss

PREDICTIONS = TensorType((4, 1))
PAIR = (PREDICTIONS, PREDICTIONS)
X = np.array([[1, 2], [2, 3], [4, 6], [3, 1]], np.float32)
Y = np.array([[8], [13], [26], [9]], np.float32)


def squared(predictions, targets):
    return ops.mean(ops.square(ops.subtract(predictions, targets)))


def message(build):
    with pytest.raises(AdjointError) as caught:
        build()
    return caught.value.message


def setup(loss, *args):
    return SetupTrainer(loss, SGD(0.05), *args)(linreg(2, 4))


def losses_of(module, steps=3):
    trainer = Trainer(module)
    trainer.init_parameters("zeros")
    return [trainer.update(X, Y) for _ in range(steps)]


def test_a_function_is_the_loss_that_it_computes():
    loss = as_loss(squared, 1)
    assert (loss.name, loss.arg_names, loss.num_optional) == ("squared", ("predictions", "targets"), 0)
    assert loss.function(*PAIR).name == "squared"
    found = losses_of(setup(squared, PAIR))
    assert np.isclose(found[0], (Y.astype(np.float64) ** 2).mean())
    assert found == losses_of(setup(MSELoss(), PAIR))


def test_types_of_targets_are_inferred():
    assert setup(MSELoss())["step"] == setup(MSELoss(), PAIR)["step"]
    assert L1Loss().target_types(TensorType((3, 2), "f64")) == (TensorType((3, 2), "f64"),)
    entropy = CrossEntropyLoss()
    for shape, targets in [((64, 10), (64,)), ((10,), ()), ((2, 10, 4, 5), (2, 4, 5))]:
        assert entropy.target_types(TensorType(shape)) == (TensorType(targets, "i64"),)


def test_a_function_may_take_several_outputs_no_targets_and_options():
    x, w = param("x", (4, 2)), param("w", (2, 1))
    product = ops.matmul(x, w)
    model = IRModule((Function("backbone", (x, w), (product, ops.square(product))),), {"param_num": 1, "state_num": 0})

    def both(first, second, scale=2.0):
        return ops.multiply(ops.sum(ops.add(first, second)), scale)

    trainer = Trainer(SetupTrainer(both, SGD(0.1))(model))
    trainer.load_params([np.ones((2, 1), np.float32)])
    sums = X.sum(axis=1)
    assert trainer.update(X) == 2 * (sums + sums**2).sum()
    assert message(lambda: SetupTrainer(MSELoss(), SGD(0.1))(model)) == (
        "SetupTrainer: mse_loss takes 1 output of @backbone, which returns [f32[4,1], f32[4,1]]; return 1, correct "
        "state_num, or use another loss"
    )
    assert message(lambda: SetupTrainer(lambda p: ops.sum(p), SGD(0.1))(model)) == (
        "loss: a function that is a loss takes the 2 outputs of the model, then the targets, got the signature (p); "
        "take all outputs, used or not"
    )


def test_append_loss_takes_a_loss_or_a_function():
    model = linreg(2, 4)
    plain = AppendLoss("backbone", MSELoss().function(*PAIR))(model)["backbone_loss"]
    assert AppendLoss("backbone", MSELoss())(model)["backbone_loss"] == plain
    appended = AppendLoss("backbone", squared, loss_args=PAIR)(model)["backbone_loss"]
    weights = np.ones((2, 1), np.float32)
    assert compile(appended)(X, weights, Y) == compile(plain)(X, weights, Y)


class Own(Loss):
    """A loss with an ``__init__`` of its own."""

    name = "own"

    def __init__(self, scale):
        self.scale = scale

    def target_types(self, *outputs):
        """The type of the output."""
        return outputs

    def __call__(self, predictions, targets):
        """The loss."""
        return ops.multiply(squared(predictions, targets), self.scale)


def test_an_own_loss_need_not_be_a_dataclass():
    assert losses_of(setup(Own(3.0)), 1)[0] == 3 * losses_of(setup(MSELoss()), 1)[0]

    class Halved(MSELoss):
        def __init__(self):
            super().__init__("sum")
            self.factor = 0.5

        def __call__(self, *args):
            return ops.multiply(super().__call__(*args), self.factor)

    assert losses_of(setup(Halved()), 1)[0] == 2 * losses_of(setup(MSELoss()), 1)[0]


class Unfinished(Loss):
    """A loss without `__call__`."""


class Three(Loss):
    """A loss whose `__call__` takes other arguments than it names."""

    def __call__(self, predictions, targets, weights):
        """The loss."""
        return predictions


WRONG = [
    (
        lambda: setup(squared),
        "squared: the types of the targets cannot be inferred for a function; pass loss_args, the types of "
        "(predictions, targets)",
    ),
    (
        lambda: setup(Three()),
        "loss: the types of the targets cannot be inferred for this loss; pass loss_args, the types of (predictions, "
        "targets), or define target_types(self, *outputs)",
    ),
    (lambda: setup(MSELoss), "a loss must be an instance, got the class MSELoss; call it, MSELoss()"),
    (
        lambda: setup(3),
        "a loss must be a Loss or a function, got 3; pass a Loss such as CrossEntropyLoss(), or a function of graph "
        "values (predictions, targets)",
    ),
    (
        lambda: setup(lambda *args: args[0], PAIR),
        "loss: a function that is a loss must take only arguments with names, in order, got (*args); name them as in "
        "(predictions, targets)",
    ),
    (
        lambda: setup(lambda p, t: None, PAIR),
        "loss: a loss must return a graph value, got None (is a return missing?); return the result of operators such "
        "as ops.mean",
    ),
    (
        lambda: setup(lambda p, t: 0.5, PAIR),
        "loss: a loss must return a graph value, got the float 0.5; return the result of operators such as ops.mean",
    ),
    (
        lambda: setup(lambda p, t: (squared(p, t), p), PAIR),
        "loss: a loss must return a graph value, got a tuple of 2; return the result of operators such as ops.mean",
    ),
    (
        lambda: setup(MSELoss("none")),
        "SetupTrainer: the loss must be a float scalar, got f32[4,1]; use reduction 'mean' or 'sum', or ops.mean in a "
        "function",
    ),
    (
        lambda: setup(lambda p, t: ops.cast(squared(p, t), "i32"), PAIR),
        "SetupTrainer: the loss must be a float scalar, got i32[]; use reduction 'mean' or 'sum', or ops.mean in a "
        "function",
    ),
    (
        lambda: setup(Unfinished(), PAIR),
        "Unfinished: a loss must define __call__(self, predictions, targets), which returns a graph value; add it",
    ),
    (
        lambda: setup(Three(), PAIR),
        "Three.__call__ is called with 2 arguments, the arguments of arg_names, ('predictions', 'targets'), but its "
        "signature is (predictions, targets, weights); correct the signature",
    ),
]


@pytest.mark.parametrize(("build", "expected"), WRONG)
def test_a_wrong_loss_is_refused_in_one_sentence(build, expected):
    assert message(build) == expected


def test_a_wrong_loss_is_a_type_error():
    with pytest.raises(TypeRuleError):
        setup(3)
