"""Which stored values are one parameter, in files of exporters that merge equal ones."""

import numpy as np
import pytest

pytest.importorskip("onnx")

import adjoint as torch
from tests.importers.onnx.models import ROWS, model, weights


def parameters(nodes, stored, given=None):
    network = torch.from_onnx(model(nodes, given or ROWS, ["y"], stored))
    return sorted(name for name, _ in network.named_parameters())


def test_copies_of_uniform_values_are_parameters_of_their_own():
    nodes = [
        ("Identity", ["norm1.w"], ["norm2.w"]),
        ("Identity", ["w1"], ["w2"]),
        ("Mul", ["x", "norm1.w"], ["a"]),
        ("Mul", ["a", "norm2.w"], ["b"]),
        ("Mul", ["b", "w1"], ["c"]),
        ("Mul", ["c", "w2"], ["y"]),
    ]
    stored = {"norm1.w": np.ones(3, np.float32), "w1": weights(3)}
    assert parameters(nodes, stored) == ["norm1.w", "norm2.w", "w1"]


def test_each_use_of_a_uniform_value_is_a_parameter_of_its_own():
    nodes = [
        ("Mul", ["x", "w"], ["a"]),
        ("Mul", ["a", "w"], ["b"]),
        ("Add", ["b", "v"], ["c"]),
        ("Add", ["c", "v"], ["y"]),
    ]
    assert parameters(nodes, {"w": np.ones(3, np.float32), "v": weights(3)}) == ["v", "w", "w_2"]


def test_a_head_that_was_stored_as_the_transpose_of_an_embedding_is_tied():
    nodes = [("Gather", ["table", "ids"], ["e"]), ("MatMul", ["e", "head"], ["y"])]
    stored = {"table": weights(5, 3), "head": weights(5, 3).T.copy()}
    given = {"ids": (7, ["n"])}
    assert parameters(nodes, stored, given) == ["table"]
    assert parameters(nodes, {**stored, "head": weights(3, 5)}, given) == ["head", "table"]
