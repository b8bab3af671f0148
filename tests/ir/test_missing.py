"""Attributes of NumPy's and PyTorch's arrays that graph values lack say what to use instead."""

import copy
import inspect
import pickle
import re

import pytest

from adjoint import ops
from adjoint.errors import MissingAttributeError
from adjoint.ir import Value, param
from adjoint.ir.missing import MISSING, Missing

X = param("x", (2, 3))
#: Modules and constructors that replacements name, beside functions and methods.
WORDS = {"ops", "adjoint", "transforms"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("view", "a graph value has no attribute view; use reshape"),
        ("sin", "a graph value has no attribute sin; use ops.sin"),
        (
            "item",
            "a graph value has no attribute item; compile the function and read its result, because a value has no "
            "elements before that",
        ),
        (
            "backward",
            "a graph value has no attribute backward; use adjoint.transforms.gradient, or train with SetupTrainer and "
            "Trainer",
        ),
    ],
)
def test_the_message_says_what_to_use(name, message):
    with pytest.raises(MissingAttributeError) as caught:
        getattr(X, name)
    assert caught.value.message == message
    assert caught.value.where.startswith(__file__)


def test_the_names_are_absent_and_their_replacements_present():
    for name, fix in MISSING.items():
        assert not hasattr(X, name), f"{name} exists"
        for function in re.findall(r"ops\.(\w+)", fix):
            assert function in ops.__all__
        if re.fullmatch(r"use \w+", fix):
            assert hasattr(X, fix.removeprefix("use ")), fix


def test_existing_attributes_are_found_without_python_code():
    assert not any("__getattr__" in vars(cls) for cls in Value.__mro__)
    assert X.unsqueeze(0).shape == (1, 2, 3)
    with pytest.raises(AttributeError, match="'Value' object has no attribute 'reshpe'"):
        X.reshpe  # noqa: B018


def test_tools_that_look_at_attributes_see_those_that_there_are():
    assert "reshape" in dir(X)
    assert not MISSING.keys() & {*dir(X)}
    assert "view" not in dict(inspect.getmembers(X))
    assert copy.deepcopy(X) is X
    assert pickle.loads(pickle.dumps(X)).type == X.type
    assert vars(Missing)["view"] is not None
