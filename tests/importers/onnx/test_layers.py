"""Linear layers in files of exporters."""

import numpy as np
import pytest

pytest.importorskip("onnx")

import adjoint as torch
from tests.importers.onnx.models import ROWS, model, weights


def test_a_product_with_a_transposed_weight_is_one_operation():
    nodes = [("Transpose", ["w"], ["t"]), ("MatMul", ["x", "t"], ["a"]), ("Relu", ["a"], ["y"])]
    nodes[0] = (*nodes[0], {"perm": [1, 0]})
    network = torch.from_onnx(model(nodes, ROWS, ["y"], {"w": weights(2, 3)}))
    x = weights(4, 3)
    np.testing.assert_allclose(network(torch.tensor(x)).detach().numpy(), np.maximum(x @ weights(2, 3).T, 0), atol=1e-6)
    assert "permute" not in str(network.show("graph", x))


def test_a_transposed_weight_with_other_users_stays():
    nodes = [("Transpose", ["w"], ["t"], {"perm": [1, 0]}), ("MatMul", ["x", "t"], ["a"]), ("Add", ["a", "t"], ["y"])]
    network = torch.from_onnx(model(nodes, ROWS, ["y"], {"w": weights(3, 3)}))
    x = weights(3, 3) * 2
    expected = x @ weights(3, 3).T + weights(3, 3).T
    np.testing.assert_allclose(network(torch.tensor(x)).detach().numpy(), expected, atol=1e-6)
