"""Names of PyTorch that are not here are refused with what to use instead."""

from importlib import import_module

import pytest

import adjoint as torch
from adjoint.errors import MissingAttributeError
from adjoint.missing import _METHODS, INSTEAD

SENTENCES = {
    ("adjoint", "stft"): "adjoint has no stft, because there is no operator for it yet; use numpy.fft on "
    "x.detach().numpy()",
    ("adjoint.linalg", "eig"): "adjoint.linalg has no eig, because there is no operator for it yet; use "
    "numpy.linalg.eig on x.detach().numpy()",
    ("adjoint", "channels_last"): "adjoint has no channels_last; leave it out, because it would have no effect here",
    ("adjoint", "zeors"): "adjoint has no zeors; did you mean zeros?",
    ("adjoint.nn", "FractionalMaxPool2d"): "adjoint.nn has no FractionalMaxPool2d, because there is no operator for it "
    "yet; use MaxPool2d",
    ("adjoint.nn", "Linaer"): "adjoint.nn has no Linaer; did you mean Linear?",
    ("adjoint.nn.functional", "alpha_dropout"): "adjoint.nn.functional has no alpha_dropout, because there is no "
    "operator for it yet; use dropout",
    ("adjoint.nn.utils", "prune"): "adjoint.nn.utils has no prune; multiply by a mask in forward",
    ("adjoint.optim", "LBFGS"): "adjoint.optim has no LBFGS; use Adam, because an optimizer is part of the compiled "
    "step and cannot evaluate the loss again",
    ("adjoint.optim.lr_scheduler", "_LRScheduler"): "adjoint.optim.lr_scheduler has no _LRScheduler; use LRScheduler",
    ("adjoint.optim.swa_utils", "update_bm"): "adjoint.optim.swa_utils has no update_bm; did you mean update_bn?",
    ("adjoint.autograd", "Variable"): "adjoint.autograd has no Variable; use tensors",
}


@pytest.mark.parametrize(("module", "name"), SENTENCES)
def test_what_to_use_instead(module, name):
    with pytest.raises(MissingAttributeError) as error:
        getattr(import_module(module), name)
    assert error.value.message == SENTENCES[module, name]
    assert error.value.where.startswith(__file__)


def test_methods_of_tensors():
    x = torch.ones(2)
    with pytest.raises(MissingAttributeError) as error:
        x.svd()
    assert error.value.message == ("a tensor has no svd; use linalg.svd, whose third result is transposed")
    assert not hasattr(x, "unsqueeze_")
    assert "svd" not in dir(x)
    assert "sum" in dir(x)


def test_only_what_is_missing_is_listed():
    for module, names in INSTEAD.items():
        assert not set(names) & set(import_module(module).__all__), module
    for name in _METHODS:
        assert all(name not in vars(base) for base in torch.Tensor.__mro__ if base.__name__ != "MissingMethods"), name


def test_questions_about_other_names_get_pythons_answer():
    assert not hasattr(torch, "__wrapped__")
    with pytest.raises(AttributeError, match=r"^module 'adjoint' has no attribute 'qqqqqqq'$"):
        torch.qqqqqqq  # noqa: B018 - looking it up is what is tested
