"""Methods of graph values: each is a function of adjoint.ops with its signature, and does what NumPy's does."""

import inspect

import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import Function, param
from adjoint.ir.methods import Methods
from tests.ops.slopes import result

X = param("x", (2, 3, 4))
CUBE = np.random.default_rng(0).uniform(0.5, 2.0, (2, 3, 4)).astype(np.float32)
#: Methods whose function has another name, and those that take numbers one by one.
NAMES = {"var": "variance", "unsqueeze": "expand_dims", "astype": "cast"}
FREE = {"reshape", "permute", "transpose", "broadcast_to", "matmul"}


def methods():
    return [name for name, member in vars(Methods).items() if inspect.isfunction(member) and not name.startswith("_")]


@pytest.mark.parametrize("name", sorted(set(methods()) - FREE))
def test_a_method_has_the_parameters_of_its_function(name):
    own = list(inspect.signature(getattr(Methods, name)).parameters.values())[1:]
    function = list(inspect.signature(getattr(ops, NAMES.get(name, name))).parameters.values())[1:]
    assert [(p.name, p.default) for p in own] == [(p.name, p.default) for p in function]


@pytest.mark.parametrize("name", methods())
def test_a_method_has_a_docstring(name):
    assert getattr(Methods, name).__doc__.rstrip().endswith(".")


@pytest.mark.parametrize(
    "code",
    [
        lambda x: x.sum(),
        lambda x: x.sum(1),
        lambda x: x.sum((0, -1), keepdims=True),
        lambda x: x.mean(axis=-1),
        lambda x: x.max(0),
        lambda x: x.min(axis=(1, 2), keepdims=True),
        lambda x: x.prod(2),
        lambda x: x.cumsum(1),
        lambda x: x.cumprod(-1),
        lambda x: x.all(0),
        lambda x: x.any(),
        lambda x: x.round(1),
        lambda x: x.var(1),
        lambda x: x.argmax(),
        lambda x: x.argmax(keepdims=True),
        lambda x: x.argmax(1),
        lambda x: x.argmax(-1, keepdims=True),
        lambda x: x.reshape(-1, 6),
        lambda x: x.reshape((4, 6)),
        lambda x: x.reshape(24),
        lambda x: x.flatten(),
        lambda x: x.transpose(),
        lambda x: x.transpose(2, 0, 1),
        lambda x: x.transpose((1, 0, 2)),
        lambda x: x.swapaxes(0, -1),
        lambda x: x.T,
        lambda x: x.reshape(2, 1, 12).squeeze(),
        lambda x: x.reshape(2, 1, 12).squeeze(1),
        lambda x: x.astype("float64"),
        lambda x: x.clip(0.75, 1.5),
        lambda x: x.ndim + x * 0,
        lambda x: x.size + x * 0,
    ],
)
def test_a_method_of_numpy_does_what_it_does_there(code):
    np.testing.assert_allclose(result(code, CUBE), code(CUBE), rtol=1e-6)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (lambda x: x.flatten(1), CUBE.reshape(2, 12)),
        (lambda x: x.flatten(-2), CUBE.reshape(2, 12)),
        (lambda x: x.permute(2, 0, 1), CUBE.transpose(2, 0, 1)),
        (lambda x: x.permute([1, 2, 0]), CUBE.transpose(1, 2, 0)),
        (lambda x: x.transpose(0, 2), CUBE.swapaxes(0, 2)),
        (lambda x: x.transpose(-1, -2), CUBE.swapaxes(1, 2)),
        (lambda x: x.mT, CUBE.swapaxes(1, 2)),
        (lambda x: x.unsqueeze(1), CUBE[:, None]),
        (lambda x: x.expand_dims((0, -1)), CUBE[None, ..., None]),
        (lambda x: x[:, :1].broadcast_to(2, 3, 4), np.broadcast_to(CUBE[:, :1], (2, 3, 4))),
        (lambda x: x.broadcast_to((5, 2, 3, 4)), np.broadcast_to(CUBE, (5, 2, 3, 4))),
        (lambda x: x.flip(), CUBE[::-1, ::-1, ::-1]),
        (lambda x: x.flip(1), CUBE[:, ::-1]),
        (lambda x: x.var(1, correction=1), CUBE.var(1, ddof=1)),
        (lambda x: x.cast("f64"), CUBE.astype(np.float64)),
        (lambda x: x.exp(), np.exp(CUBE)),
        (lambda x: x.log(), np.log(CUBE)),
        (lambda x: x.sqrt(), np.sqrt(CUBE)),
        (lambda x: x.rsqrt(), 1 / np.sqrt(CUBE)),
        (lambda x: x.square(), CUBE**2),
        (lambda x: (1 - x).abs(), np.abs(1 - CUBE)),
        (lambda x: x.tanh(), np.tanh(CUBE)),
        (lambda x: x.sigmoid(), 1 / (1 + np.exp(-CUBE))),
        (lambda x: (1 - x).relu(), np.maximum(1 - CUBE, 0)),
        (lambda x: x.softmax(), np.exp(CUBE) / np.exp(CUBE).sum(-1, keepdims=True)),
        (lambda x: x.log_softmax(0), np.log(np.exp(CUBE) / np.exp(CUBE).sum(0, keepdims=True))),
        (lambda x: x.matmul(x.mT), CUBE @ CUBE.swapaxes(1, 2)),
    ],
)
def test_other_methods_do_what_they_say(code, expected):
    np.testing.assert_allclose(result(code, CUBE), expected, rtol=2e-6, atol=1e-7)


def test_every_method_is_compared_with_something():
    source = inspect.getsource(inspect.getmodule(methods))
    assert [name for name in methods() if f"x.{name}(" not in source and f").{name}(" not in source] == []


def test_the_norm_is_that_of_all_elements():
    np.testing.assert_allclose(result(lambda x: x.norm(), CUBE), np.linalg.norm(CUBE), rtol=1e-6)


def test_two_axes_of_transpose_are_exchanged_even_where_numpy_would_keep_them():
    matrix = param("x", (2, 3))
    assert matrix.transpose(0, 1).shape == (3, 2)


def test_a_method_builds_the_graph_of_its_function():
    one, other = X.softmax(1).sum(0), ops.sum(ops.softmax(X, 1), 0)
    assert Function("f", (X,), (one,)) == Function("f", (X,), (other,))


def test_errors_are_those_of_the_functions():
    with pytest.raises(InvalidValueError) as refusal:
        X.sum(3)
    assert refusal.value.message == "sum: axis 3 is out of range for rank 3; use -3 to 2"
    with pytest.raises(InvalidValueError, match="flatten: axis 5 is out of range for rank 3"):
        X.flatten(5)
    with pytest.raises(InvalidValueError, match="swapaxes: axis 3 is out of range for rank 3"):
        X.transpose(0, 3)
