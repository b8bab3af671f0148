"""The words of messages, and short texts of public objects."""

import pickle
import threading
import warnings

import numpy as np
import pytest

from adjoint import CompileOptions, SetupTrainer, Trainer, compile, losses, models, ops, optim
from adjoint.compiler import host
from adjoint.errors import (
    AdjointWarning,
    MissingAttributeError,
    TypeRuleError,
    described,
    kind_of,
    listed,
    plural,
    require_call,
    warn,
)
from adjoint.ir import param
from adjoint.training import EpochResult

OPTIONS = CompileOptions(threads=1, cache=False)


def test_a_count_has_the_form_of_its_noun():
    assert [plural(n, "step") for n in (0, 1, 2)] == ["0 steps", "1 step", "2 steps"]


def test_a_long_list_is_cut():
    assert listed([1, 2, 3, 4]) == "1, 2, 3, 4"
    assert listed("abcdef", most=2) == "a, b, 4 more"
    assert listed([]) == ""


def test_what_was_returned_is_described():
    assert described(None) == "None (is a return missing?)"
    assert described(0.5) == "the float 0.5"
    assert described((1, 2)) == "a tuple of 2"
    assert described([1]) == "an object of type list"


def test_the_kind_of_what_was_given_has_its_article():
    assert [kind_of(given) for given in (None, 3, "x", int)] == ["None", "an int", "a str", "the class int"]


def test_an_error_begins_with_the_function_that_was_called():
    for message, expected in [
        ("update: x is wrong", "run_epoch: x is wrong"),
        ("update takes 2 arguments", "run_epoch takes 2 arguments"),
        ("updated twice", "updated twice"),
        ("run_epoch: x is wrong", "run_epoch: x is wrong"),
    ]:
        error = TypeRuleError(message)
        error.begin_with("run_epoch", "update")
        assert error.message == expected
        assert str(error) == f"{expected} [at {error.where}]"
        assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_function_with_another_signature_is_refused():
    require_call("f", lambda a, b=1: (a, b), (1,), "a number")
    require_call("max", max, (1, 2), "numbers")
    with pytest.raises(TypeRuleError) as caught:
        require_call("f", lambda a, b: (a, b), (1,), "a number")
    assert caught.value.message == (
        "f is called with 1 argument, a number, but its signature is (a, b); correct the signature"
    )


def test_one_group_is_singular():
    with pytest.raises(TypeRuleError, match=r"got f32\[1,3,8,8\] in 1 group and f32\[4,2,3,3\]; use size 3 there"):
        ops.conv2d(param("x", (1, 3, 8, 8)), param("w", (4, 2, 3, 3)))


@pytest.fixture(scope="module")
def trainer():
    """A small classifier, compiled."""
    return Trainer(SetupTrainer(losses.CrossEntropyLoss(), optim.SGD(0.1))(models.mlp((4, 3, 2), 4)), options=OPTIONS)


def test_public_objects_have_short_texts(trainer):
    assert repr(trainer) == "<Trainer: 4 parameters of 23 elements, no values yet; step not compiled; 1 thread>"
    trainer.init_parameters("zeros")
    result = trainer.run_epoch((np.zeros((4000, 4), np.float32), np.zeros(4000, np.int64)))
    assert repr(trainer) == "<Trainer: 4 parameters of 23 elements; step compiled; 1 thread>"
    assert repr(result).startswith("<EpochResult: 1000 steps in ")
    assert repr(result).endswith(f" s, losses 0.6931 to {result.losses[-1]:.4g}>")
    step = trainer.module["step"]
    assert repr(step) == (
        "<Function @step(x: f32[4,4], targets: i64[4], w0: f32[4,3], b0: f32[3], 4 more) -> "
        "(f32[], f32[4,3], f32[3], f32[3,2], 1 more)>"
    )
    assert repr(trainer.module) == (
        "<IRModule of @backbone, @backbone_loss, @backbone_loss_adjoint, @optimizer, @step; attributes: param_num, "
        "state_num, input_num, target_num, optimizer_state, hyper, rows, batch_axes>"
    )
    executable = compile(trainer.module["backbone"], options=OPTIONS)
    kernels = plural(len(executable.kernels), "kernel")
    assert repr(executable).startswith(f"<Executable: backbone ({kernels}); compiled, ")
    assert repr(executable["backbone"]) == (
        "<Entry backbone(x: float32[4, 4], w0: float32[4, 3], b0: float32[3], w1: float32[3, 2], 1 more) -> "
        f"(float32[4, 2]): {kernels}>"
    )


def test_an_epoch_without_losses_has_a_text():
    assert repr(EpochResult(np.zeros(0), 0, 0.5, True)) == "<EpochResult: 0 steps in 0.5 s, stopped by the callback>"


def test_a_profile_has_a_short_text(trainer):
    trainer.init_parameters("zeros")
    profile = trainer.profile(np.zeros((4, 4), np.float32), np.zeros(4, np.int64), runs=1)
    assert repr(profile) == (
        f"<Profile: step {profile.step:.1f} us (forward {profile.forward:.1f}, backward {profile.backward:.1f}, "
        f"optimizer {profile.optimizer:.1f}), {plural(len(profile.kernels), 'kernel')}; print it for all>"
    )


def test_settings_have_short_texts():
    loss = losses.CrossEntropyLoss(weight=np.ones(300))
    assert repr(loss) == (
        "CrossEntropyLoss(reduction='mean', ignore_index=-100, label_smoothing=0.0, weight=(1.0, 1.0, 1.0, 1.0, 296 "
        "more))"
    )
    for settings in (SetupTrainer(loss, optim.Adam()), CompileOptions(), host()):
        assert len(repr(settings)) < 500


def warn_twice():
    warn("a sentence")
    warn("a sentence", "model.py:3")


def test_a_warning_has_the_line_of_the_user_and_that_of_the_value():
    with pytest.warns(AdjointWarning) as caught:
        warn_twice()
    assert [str(each.message) for each in caught] == ["a sentence", "a sentence [at model.py:3]"]
    first = warn_twice.__code__.co_firstlineno
    assert [(each.filename, each.lineno) for each in caught] == [(__file__, first + 1), (__file__, first + 2)]


def warn_in_a_thread():
    thread = threading.Thread(target=warn, args=("a sentence",))
    thread.start()
    thread.join()


def test_a_warning_without_user_code_on_the_stack_is_shown_too():
    with pytest.warns(AdjointWarning, match=r"^a sentence$") as caught:
        warn_in_a_thread()
    assert caught[0].filename == "adjoint"


def test_warnings_are_silenced_by_their_category():
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("ignore", category=AdjointWarning)
        warn("a sentence")
    assert caught == []


def test_a_missing_attribute_is_an_attribute_error_that_can_be_pickled():
    with pytest.raises(AttributeError) as caught:
        param("x", (2,)).view(1, 2)
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, MissingAttributeError)
    assert str(again) == str(caught.value)
