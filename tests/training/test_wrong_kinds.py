"""What a new user passes in place of a model, a training module, a loss or an optimizer, and what the message says."""

import pytest

from adjoint.compiler import compile
from adjoint.errors import NameLookupError, TypeRuleError
from adjoint.ir import Function, IRModule, TensorType, param
from adjoint.losses import CrossEntropyLoss
from adjoint.optim import Adam
from adjoint.training import SetupTrainer, Trainer, inference_function

X, W = param("x", (4, 3)), param("w", (3, 2))
MODEL = Function("model", (X, W), (X @ W,))
LOSS, OPTIMIZER = CrossEntropyLoss(), Adam(0.1)
SETUP = SetupTrainer(LOSS, OPTIMIZER)
TRAINED = (
    "Trainer takes a module that SetupTrainer returns, got {}; write Trainer(SetupTrainer(loss, optimizer)(model))"
)
NAMED = (
    "{}: the function of the model must be named backbone, got a module of @model; rename it with "
    'function.renamed("backbone"), or pass the function itself'
)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: Trainer(MODEL), TypeRuleError, TRAINED.format("a Function")),
        (lambda: Trainer(SETUP), TypeRuleError, TRAINED.format("a SetupTrainer")),
        (lambda: Trainer(MODEL, LOSS, OPTIMIZER), TypeRuleError, TRAINED.format("a Function")),
        (
            lambda: SETUP(None),
            TypeRuleError,
            "SetupTrainer: the model must be an IRModule or a Function, got None; pass "
            'Function("backbone", (inputs..., params...), (outputs...))',
        ),
        (
            lambda: SETUP(Trainer(SETUP(MODEL))),
            TypeRuleError,
            "SetupTrainer: the model must be an IRModule or a Function, got a Trainer; pass its module, trainer.module",
        ),
        (
            lambda: inference_function(Trainer(SETUP(MODEL))),
            TypeRuleError,
            "inference_function: the model must be an IRModule or a Function, got a Trainer; pass its module, "
            "trainer.module",
        ),
        (
            lambda: compile(Trainer(SETUP(MODEL))),
            TypeRuleError,
            "compile takes an IRModule or a Function, got a Trainer; pass its module, trainer.module",
        ),
        (lambda: SETUP(IRModule((MODEL,))), NameLookupError, NAMED.format("SetupTrainer")),
        (lambda: inference_function(IRModule((MODEL,))), NameLookupError, NAMED.format("inference_function")),
        (
            lambda: SETUP(IRModule((MODEL, MODEL.renamed("other")))),
            NameLookupError,
            "SetupTrainer: the function of the model must be named backbone, got a module of @model, @other; rename it "
            'with function.renamed("backbone")',
        ),
        (
            lambda: SetupTrainer(OPTIMIZER, LOSS),
            TypeRuleError,
            "SetupTrainer takes the loss, then the optimizer, got an Adam, then a CrossEntropyLoss; exchange them",
        ),
        (
            lambda: SetupTrainer(LOSS, Adam),
            TypeRuleError,
            "SetupTrainer: optimizer must be an Optimizer such as SGD(0.01), got the class Adam; call it, as in "
            "Adam(0.01)",
        ),
        (
            lambda: SetupTrainer(LOSS, "adam"),
            TypeRuleError,
            "SetupTrainer: optimizer must be an Optimizer such as SGD(0.01), got a str; pass one",
        ),
        (
            lambda: SetupTrainer(LOSS, OPTIMIZER, MODEL),
            TypeRuleError,
            "SetupTrainer: loss_args must be the types of the loss's arguments, got a Function; pass the model to the "
            "result, SetupTrainer(loss, optimizer)(model)",
        ),
        (
            lambda: SetupTrainer(LOSS, OPTIMIZER, TensorType((4, 2))),
            TypeRuleError,
            "SetupTrainer: loss_args must be the types of the loss's arguments, got a TensorType; write "
            "[TensorType(shape), ...]",
        ),
    ],
)
def test_the_message_says_what_to_write(call, error, sentence):
    with pytest.raises(error) as refusal:
        call()
    assert refusal.value.message == sentence


def test_the_inference_function_of_a_function_is_the_model():
    assert inference_function(MODEL) == MODEL.renamed("backbone")
