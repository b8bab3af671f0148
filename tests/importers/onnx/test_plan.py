"""Preparation for shapes: what is computed beforehand, and what is refused before memory is allocated."""

import numpy as np
import pytest

pytest.importorskip("onnx")

import adjoint as torch
from adjoint.errors import InvalidValueError, TypeRuleError
from tests.importers.onnx.models import ROWS, convolutional, model, weights


def refused(nodes, stored=None, kind=InvalidValueError, given=ROWS):
    network = torch.from_onnx(model(nodes, given, ["y"], stored or {}))
    with pytest.raises(kind) as error:
        network(torch.tensor(weights(2, 3)))
    return error.value.message


def test_computations_of_shapes_are_done_once_for_each_shape():
    network = torch.from_onnx(convolutional())
    for rows in (2, 3, 2):
        assert network(torch.zeros(rows, 2, 6, 6)).shape == (rows, 3)
    plans = network._plans
    assert len(plans) == 2
    assert [len(plan.steps) for plan in plans.values()] == [6, 6]  # of 13 nodes


def test_masks_for_all_rows_are_broadcast():
    nodes = [
        ("Shape", ["x"], ["shape"]),
        ("ConstantOfShape", ["shape"], ["zeros"]),
        ("Add", ["x", "zeros"], ["y"]),
    ]
    network = torch.from_onnx(model(nodes, ROWS, ["y"]))
    assert network(torch.ones(4, 3)).tolist() == [[1.0] * 3] * 4
    (plan,) = network._plans.values()
    assert plan.steps[0].arguments[0].shape == (1, 1)


def test_sizes_must_follow_from_shapes():
    nodes = [("Cast", ["x"], ["z"], {"to": 7}), ("Reshape", ["x", "z"], ["y"])]
    assert refused(nodes) == (
        "from_onnx: input 1 of Reshape 'y' must follow from constants and shapes, got 'z', which depends on the "
        "elements of inputs or parameters; export the model with fixed sizes there"
    )


@pytest.mark.parametrize("size", [1 << 40, (1 << 63) - 1])
def test_absurd_sizes_are_refused(size):
    assert refused([("ConstantOfShape", ["s"], ["a"]), ("Add", ["x", "a"], ["y"])], {"s": [size]}) == (
        f"from_onnx: ConstantOfShape 'a' must make an array of at most 134217728 elements, got [{size}]; do not use "
        "this file"
    )
    nodes = [("Unsqueeze", ["x", "axis"], ["u"]), ("Expand", ["u", "s"], ["y"])]
    assert "must make a tensor of at most 2147483648 elements" in refused(nodes, {"axis": [2], "s": [1, 1, size >> 5]})


def test_arrays_that_grow_by_broadcasting_are_refused():
    stored = {"a": np.zeros((1 << 14, 1), np.int64), "b": np.zeros((1, 1 << 14), np.int64), "s": [0, 3]}
    nodes = [
        ("Add", ["a", "b"], ["c"]),
        ("ReduceSum", ["c"], ["d"]),
        ("Cast", ["d"], ["e"], {"to": 1}),
        ("Add", ["x", "e"], ["y"]),
    ]
    assert refused(nodes, stored).startswith("from_onnx: Add 'c' must make an array of at most 134217728 elements, got")


def test_dtypes_must_fit():
    assert refused([("Add", ["x", "i"], ["y"])], {"i": [1, 2, 3]}, TypeRuleError) == (
        "from_onnx: Add 'y' must have inputs of one dtype, got f32 and i64; export the model again"
    )


def test_errors_name_the_node():
    assert refused([("MatMul", ["x", "w"], ["y"])], {"w": weights(2, 2)}, TypeRuleError).startswith(
        "from_onnx: MatMul 'y': matmul: inner dimensions differ"
    )
    assert refused([("Reshape", ["x", "s"], ["y"])], {"s": [4]}) == (
        "from_onnx: Reshape 'y' must keep the number of elements, got [2, 3] to [4]; if the model was exported for "
        "one size of batch, export it with a dynamic batch axis"
    )
    assert refused([("Gather", ["s", "i"], ["j"]), ("Reshape", ["x", "j"], ["y"])], {"s": [4], "i": [7]}) == (
        "from_onnx: Gather 'j' must have inputs and attributes that fit each other, got an error of IndexError "
        "(index 7 is out of bounds for axis 0 with size 1); check the file with onnx.checker.check_model"
    )
    assert refused([("TopK", ["x", "k"], ["a", "b"]), ("Neg", ["a"], ["y"])], {"k": [1, 1]}).startswith(
        "from_onnx: TopK 'a' must have inputs and attributes that fit each other, got an error of ValueError ("
    )
