"""Dtypes, devices, copies, and what tensors say about themselves."""

import copy
import pickle

import numpy as np
import pytest

import adjoint as torch
from tests.tensor.comparing import check, message

X = np.array([-1.5, 0.0, 2.5], np.float32)


def test_conversions_as_in_numpy():
    x = torch.tensor(X)
    check(
        (x.long(), X.astype(np.int64)),
        (x.int(), X.astype(np.int32)),
        (x.bool(), X != 0),
        (x.half(), X),
        (x.bfloat16(), X),
        (x.double(), X),
        (x.to("cpu", torch.float64), X),
        (x.to(torch.arange(2)), X.astype(np.int64)),
        (x.type(torch.uint8).new_ones(2), [1, 1]),
    )
    assert x.to("cpu") is x.float() is x.cpu() is x
    assert x.to(torch.float32, copy=True) is not x
    assert (x.type(), x.long().type(), x.element_size(), x.nbytes) == ("FloatTensor", "LongTensor", 4, 12)
    assert (x.dim(), x.ndim, x.numel(), x.size(0), x.device) == (1, 1, 3, 3, torch.device("cpu"))
    assert torch.result_type(x, 1.0) == torch.result_type(x, torch.arange(2)) == torch.float32


def test_copies():
    x = torch.tensor(X, requires_grad=True)
    (x * 2).sum().backward()
    copied, loaded = copy.deepcopy({"x": [x, x]})["x"], pickle.loads(pickle.dumps(x))
    assert copied[0] is copied[1]
    assert copied[0].grad.tolist() == [2, 2, 2]
    assert loaded.requires_grad
    with torch.no_grad():
        copied[0].zero_()
    check((x, X), (loaded, X))


def test_requiring_gradients_after_use():
    x = torch.tensor(X)
    y = x * 2
    x.requires_grad_()
    (x * x).sum().backward()
    check((x.grad, 2 * X), (y, 2 * X))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda x: x.cuda(), "cuda(): there is one device, 'cpu', got a request for a GPU; leave the call out"),
        (lambda x: x.to("mps"), "there is one device, 'cpu', got 'mps'; use device='cpu', or leave it out"),
        (
            lambda x: f"{x:.2f}",
            "a format such as '.2f' is for one number, got f32[3]; format its item() or its tolist()",
        ),
        (lambda x: x.to(shape=1), "to: unknown arguments shape; pass a dtype, a device or a tensor"),
        (
            lambda x: copy.deepcopy(x.requires_grad_() * 2),
            "only leaves can be copied with deepcopy, got a result of operations, f32[3]; detach() it",
        ),
    ],
)
def test_refusals(call, sentence):
    assert message(lambda: call(torch.tensor(X))) == sentence


def test_texts_in_f_strings():
    assert f"{torch.tensor(0.5)} {torch.tensor(2.345):.2f} {torch.tensor(7):3d} {torch.ones(1)}" == (
        "0.5 2.35   7 tensor([1.])"
    )
    assert f"{torch.nn.Parameter(torch.tensor(1.0))}" == "Parameter containing:\ntensor(1., requires_grad=True)"
