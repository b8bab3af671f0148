"""The form of graphs: names, order, versions, attributes and types."""

import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper

import adjoint as torch
from adjoint.errors import CheckpointError, InvalidValueError, TypeRuleError
from tests.importers.onnx.models import ROWS, model, perceptron, weights


def refused(made, kind=CheckpointError):
    with pytest.raises(kind) as error:
        torch.from_onnx(made)
    assert type(error.value) is kind
    return error.value.message


def changed(change):
    made = perceptron()
    change(made.graph)
    return made


def test_cycles_and_values_that_nothing_makes():
    cycle = model([("Add", ["x", "b"], ["a"]), ("Neg", ["a"], ["b"])], ROWS, ["b"])
    assert refused(cycle) == (
        "from_onnx: nodes must be in an order in which they can be computed, got Add 'a' before its input 'b', which "
        "may depend on it in a cycle; export the model again"
    )
    assert refused(model([("Neg", ["z"], ["y"])], ROWS, ["y"])) == (
        "from_onnx: Neg 'y' must use values of the graph, got 'z', which nothing makes; export the model again"
    )
    assert refused(model([("Neg", ["x"], ["y"])], ROWS, ["z"])) == (
        "from_onnx: the result of the graph must use values of the graph, got 'z', which nothing makes; export the "
        "model again"
    )
    assert refused(model([("Add", ["x", ""], ["y"])], ROWS, ["y"])) == (
        "from_onnx: Add 'y' must have its input 1, got none; export the model again"
    )


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda g: g.initializer.append(g.initializer[0]), "initializer must have a name of its own, got 'layer.w'"),
        (lambda g: g.input.append(g.input[0]), "input must have a name of its own, got 'x'"),
        (lambda g: g.node.append(g.node[0]), "value must have a name of its own, got 'h'"),
        (lambda g: g.output.append(g.output[0]), "output must have a name of its own, got 'y'"),
        (
            lambda g: g.node[0].attribute.extend([helper.make_attribute("alpha", 1.0)] * 2),
            "attribute of Gemm 'h' must have a name of its own, got 'alpha'",
        ),
    ],
)
def test_names_are_unique(change, what):
    assert refused(changed(change)) == f"from_onnx: each {what} twice; export the model again"


def test_versions():
    old = perceptron()
    old.opset_import[0].version = 9
    assert refused(old, InvalidValueError).endswith(
        "got 9; convert it with onnx.version_converter.convert_version(model, 18)"
    )
    old.opset_import[0].version = 999
    assert refused(old, InvalidValueError).startswith("from_onnx: the version of ONNX's operators must be from 13 to ")


def test_attributes_are_those_of_the_operator():
    odd = changed(lambda g: g.node[0].attribute.append(helper.make_attribute("gamma", 1.0)))
    assert refused(odd, InvalidValueError) == (
        "from_onnx: Gemm 'h' must have attributes of its operator only, got 'gamma'; export the model again"
    )
    wrong = changed(lambda g: g.node[0].attribute.append(helper.make_attribute("alpha", "x")))
    assert refused(wrong, TypeRuleError) == (
        "from_onnx: the attribute 'alpha' of Gemm 'h' must be of kind FLOAT, got another; export the model again"
    )
    assert refused(model([("Concat", ["x", "x"], ["y"])], ROWS, ["y"])) == (
        "from_onnx: Concat 'y' must have the attribute 'axis'; export the model again"
    )
    assert refused(model([("Neg", ["x", "x"], ["y"])], ROWS, ["y"])) == (
        "from_onnx: Neg 'y' must have from 1 to 1 inputs, got 2; export the model again"
    )


def test_inputs_are_tensors_of_known_dtypes():
    made = perceptron()
    made.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING
    assert refused(made, TypeRuleError).startswith("from_onnx: the input 'x' must have a dtype that adjoint has, got")
    made.graph.input[0].type.sequence_type.elem_type.tensor_type.elem_type = 1
    assert refused(made, TypeRuleError) == (
        "from_onnx: the input 'x' must be a tensor, got another type; export the model with tensors"
    )


def test_parts_that_a_graph_must_have_or_must_not():
    made = perceptron()
    made.graph.input[0].type.tensor_type.shape.dim[1].dim_value = -3
    assert refused(made) == "from_onnx: the input 'x' must have sizes of at least 0, got -3; correct it"
    made = perceptron()
    made.graph.sparse_initializer.add()
    assert refused(made, InvalidValueError) == (
        "from_onnx: initializers must be dense, got a sparse one; export the model without them"
    )
    made = perceptron()
    del made.graph.output[:]
    assert refused(made) == "from_onnx: a graph must have outputs, got none; export it again"
    made.ClearField("graph")
    assert refused(made) == (
        "from_onnx: a model must have a graph, got none; is the file complete, and a model of ONNX?"
    )


def test_initializers_may_be_inputs_too():
    made = perceptron()
    made.graph.input.append(helper.make_tensor_value_info("layer.w", TensorProto.FLOAT, [3, 2]))
    network = torch.from_onnx(made)
    assert network.input_names == ("x",)
    assert torch.equal(network.layer.w, torch.tensor(weights(3, 2)))
