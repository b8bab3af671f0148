"""`Trainer.load` belongs to the class."""

import copy
import inspect

import pytest

from adjoint.errors import TypeRuleError
from adjoint.training import Trainer


def test_a_trainer_is_not_loaded_into(trainer, tmp_path):
    path = tmp_path / "trainer.safetensors"
    trainer.save(path)
    with pytest.raises(TypeRuleError) as caught:
        trainer.load(path)
    assert caught.value.message == (
        "Trainer.load makes a new trainer, got a call on one; write trainer = Trainer.load(path)"
    )
    assert caught.value.where.startswith(__file__)
    assert Trainer.load(path).export_params().keys() == trainer.export_params().keys()


def test_the_method_of_the_class_keeps_its_signature_and_documentation(trainer):
    assert list(inspect.signature(Trainer.load).parameters) == ["path", "module", "threads", "options", "check_finite"]
    assert Trainer.load.__doc__.startswith("Make a trainer from a file of `save`")
    assert trainer.load.__doc__ == Trainer.load.__doc__
    kinds = {each.name: each.kind for each in inspect.classify_class_attrs(Trainer)}
    assert kinds["load"] == "class method"


def test_a_subclass_loads_itself_and_is_named(trainer, tmp_path):
    class Mine(Trainer):
        def __init__(self, *args):
            super().__init__(*args)
            self.note = "own"

    path = tmp_path / "trainer.safetensors"
    trainer.save(path)
    mine = Mine.load(path)
    assert isinstance(mine, Mine)
    assert mine.note == "own"
    with pytest.raises(TypeRuleError, match=r"^Mine.load makes a new trainer, got a call on one; write trainer = Mine"):
        mine.load(path)


def test_reading_the_method_of_a_trainer_is_no_error(trainer):
    assert callable(copy.copy(trainer.load))
    assert "load" in dict(inspect.getmembers(trainer))
