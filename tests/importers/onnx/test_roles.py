"""What is trained, what is a buffer and what is part of the program; operators without a rule."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, defs, helper

import adjoint as torch
from adjoint.errors import InvalidValueError
from adjoint.importers.onnx import operators
from adjoint.importers.onnx.operators import OPERATORS
from tests.importers.onnx.models import ROWS, model, weights


def names(network):
    return [n for n, _ in network.named_parameters()], [n for n, _ in network.named_buffers()]


def test_weights_are_trained_and_constants_of_formulas_are_not():
    mask = np.where(np.tri(3, dtype=bool), 0, np.finfo(np.float32).min).astype(np.float32)
    stored = {
        "w": weights(3, 3),
        "n.running_mean": weights(3),
        "half": np.float32(0.5),
        "mask": mask,
        "low": np.float32(-1.0),
        "ids": [2, 0],
    }
    nodes = [
        ("MatMul", ["x", "w"], ["a"]),
        ("Mul", ["a", "half"], ["b"]),
        ("Add", ["b", "mask"], ["m"]),
        ("Sub", ["m", "n.running_mean"], ["c"]),
        ("Clip", ["c", "low"], ["d"]),
        ("Gather", ["d", "ids"], ["y"], {"axis": 1}),
    ]
    network = torch.from_onnx(model(nodes, ROWS, ["y"], stored))
    assert names(network) == (["w"], ["ids", "n.running_mean"])
    x = weights(3, 3)
    expected = np.maximum((x @ weights(3, 3)) * 0.5 + mask - weights(3), -1)[:, [2, 0]]
    np.testing.assert_allclose(network(torch.tensor(x)).detach().numpy(), expected, atol=1e-6)


def test_what_shapes_are_computed_from_is_part_of_the_program():
    stored = {"w": weights(6), "shape": [0, 3, 1], "positions": [[0, 1, 2, 3]], "end": [3], "axis": [1], "start": [0]}
    nodes = [
        ("Reshape", ["x", "shape"], ["a"]),
        ("Slice", ["positions", "start", "end", "axis"], ["few"]),  # as BERT does
        ("Gather", ["w", "few"], ["b"]),
        ("Add", ["a", "b"], ["y"]),
    ]
    network = torch.from_onnx(model(nodes, ROWS, ["y"], stored))
    assert names(network) == (["w"], [])
    x = weights(2, 3)
    expected = x[:, :, None] + weights(6)[None, None, :3].reshape(1, 1, 3)
    np.testing.assert_allclose(network(torch.tensor(x)).detach().numpy(), expected, atol=1e-6)


def test_all_operators_without_a_rule_are_listed():
    nodes = [
        ("Det", ["x"], ["a"]),
        helper.make_node("Magic", ["a"], ["b"], domain="com.example"),
        ("StringNormalizer", ["b"], ["c"]),
        ("Neg", ["c"], ["y"]),
    ]
    made = model(nodes, ROWS, ["y"], domains=["com.example"])
    with pytest.raises(InvalidValueError) as error:
        torch.from_onnx(made)
    assert error.value.message == (
        f"from_onnx: the operators of a model must be among the {len(OPERATORS)} that adjoint reads, got Det, "
        "StringNormalizer, com.example.Magic; export the model with other operators, or for a newer version of ONNX's "
        "operators"
    )


def test_control_flow_is_refused():
    value = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    branch = helper.make_graph([helper.make_node("Neg", ["x"], ["z"])], "branch", [], [value])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    made = model([node], {**ROWS, "c": (TensorProto.BOOL, [])}, ["y"])
    with pytest.raises(InvalidValueError, match=r"got If; If choose at run time what is computed: export the model by"):
        torch.from_onnx(made)


#: Attributes that no rule reads, because they concern rounding, or what the value of others makes irrelevant.
IRRELEVANT = {
    *("activation_alpha", "activation_beta", "extrapolation_value", "hidden_size", "qk_matmul_output_mode"),
    *("round_mode", "saturate", "seed", "softmax_precision", "sorted", "stash_type", "storage_order", "training_mode"),
    *(
        "sparse_value",
        "value_float",
        "value_floats",
        "value_int",
        "value_ints",
        "value_strings",
    ),  # of Constant, by value
}


def test_new_attributes_of_operators_are_noticed():
    """A version of ONNX may give an operator a new setting, which its rule must read or refuse."""
    folder = Path(operators.__file__).parent
    text = "".join(path.read_text() for path in folder.glob("*.py"))
    for op in OPERATORS:
        for name in defs.get_schema(op).attributes if defs.has(op) else ():
            assert f'"{name}"' in text or name in IRRELEVANT, (op, name)
