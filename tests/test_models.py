import numpy as np
import pytest

from adjoint import models
from adjoint.errors import InvalidValueError
from adjoint.ir import TensorType
from adjoint.testing import interpret


def test_mlp_has_the_parameters_of_its_layers():
    module = models.mlp((6, 5, 4, 3), batch_size=2)
    names = {p.label: p.type for p in module["backbone"].params}
    assert names == {
        "x": TensorType((2, 6)),
        "w0": TensorType((6, 5)), "b0": TensorType((5,)),
        "w1": TensorType((5, 4)), "b1": TensorType((4,)),
        "w2": TensorType((4, 3)), "b2": TensorType((3,)),
    }  # fmt: skip
    assert dict(module.attrs) == {"param_num": 6, "state_num": 0}


def test_mlp_computes_what_numpy_does():
    rng = np.random.default_rng(3)
    backbone = models.mlp((4, 3, 2), batch_size=5)["backbone"]
    x, w0, b0, w1, b1 = arrays = [rng.standard_normal(p.shape).astype(np.float32) for p in backbone.params]
    expected = np.maximum(x @ w0 + b0, 0) @ w1 + b1
    (got,) = interpret(backbone, *arrays)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_linreg_is_a_matrix_product():
    backbone = models.linreg()["backbone"]
    x, w = np.array([[1, 2], [2, 3], [4, 6], [3, 1]], np.float32), np.array([[2], [3]], np.float32)
    (got,) = interpret(backbone, x, w)
    np.testing.assert_array_equal(got, [[8], [13], [26], [9]])


@pytest.mark.parametrize(("sizes", "batch_size"), [((4,), 2), ((4, 0), 2), ((4, 3), 0)])
def test_mlp_refuses_sizes_that_are_none(sizes, batch_size):
    with pytest.raises(InvalidValueError, match="two or more numbers from 1"):
        models.mlp(sizes, batch_size)


def test_linreg_refuses_sizes_that_are_none():
    with pytest.raises(InvalidValueError, match="features and batch_size are from 1, got 0 and 4"):
        models.linreg(features=0)
