"""Methods in place that are seldom used, and functions in place, against NumPy."""

import numpy as np
import pytest

import adjoint as torch
from adjoint.errors import TypeRuleError
from adjoint.tensor import in_place_functions
from adjoint.tensor.more_in_place import MoreInPlace
from tests.tensor.comparing import check

X = np.random.default_rng(5).uniform(0.1, 0.9, (2, 3)).astype(np.float32)


def changed(method, *args, **keywords):
    """A tensor after a method that changes it in place and returns it."""
    x = torch.tensor(X)
    assert getattr(x, method)(*args, **keywords) is x
    return x


def test_they_are_those_of_numpy():
    t = torch.tensor(X)
    check(
        (changed("acos_"), np.arccos(X)),
        (changed("sinh_"), np.sinh(X)),
        (changed("log10_"), np.log10(X)),
        (changed("rad2deg_"), np.rad2deg(X)),
        (changed("atan2_", t), np.arctan2(X, X)),
        (changed("hypot_", t), np.hypot(X, X)),
        (changed("cumsum_", 1), np.cumsum(X, 1)),
        (changed("clip_", 0.3, 0.5), X.clip(0.3, 0.5)),
        (changed("subtract_", t, alpha=2), -X),
        (changed("ge_", 0.5), (X >= 0.5).astype(np.float32)),
        (changed("logical_not_"), (X == 0).astype(np.float32)),
        (changed("addr_", torch.ones(2), torch.ones(3)), X + 1),
        (torch.tensor([5, 6]).bitwise_and_(3), np.array([1, 2])),
    )


def test_functions_call_the_methods():
    x = torch.tensor(X)
    assert torch.sqrt_(x) is x
    check((x, np.sqrt(X)), (torch.clamp_(torch.tensor(X), min=0.5), X.clip(0.5)))
    assert all(hasattr(torch.Tensor, name) for name in in_place_functions.__all__)
    assert all(getattr(torch, name) is getattr(in_place_functions, name) for name in in_place_functions.__all__)


def test_methods_have_their_own_names():
    assert MoreInPlace.acos_.__name__ == "acos_"
    assert MoreInPlace.acos_.__doc__ == "`acos` in place."


def test_the_type_stays():
    with pytest.raises(TypeRuleError, match="a tensor changed in place keeps its type, got f32"):
        torch.tensor([1, 2]).sinh_()
