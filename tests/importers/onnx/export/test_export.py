"""Graphs of inference as files: what ONNX's reference computes with them, for batches of any size."""

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx
from onnx.reference import ReferenceEvaluator

import adjoint as torch
from adjoint import nn, ops
from adjoint.errors import CheckpointError, InvalidValueError, NameLookupError, TypeRuleError
from adjoint.ir import Function, param
from tests.importers.onnx.models import weights


class Image(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(27, 4)

    def forward(self, images):
        x = nn.functional.max_pool2d(self.norm(self.conv(images)).relu(), 2)
        return self.head(self.drop(x.flatten(1))).softmax(-1)


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)

    def forward(self, ids):
        x = self.embedding(ids) + torch.arange(ids.shape[1]).float().unsqueeze(-1) * 0.1
        x = self.layer(x)
        return x.mean(1), x.argmax(-1)


def sizes(values):
    return [[d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim] for value in values]


def refused(kind, *args, **settings):
    with pytest.raises(kind) as error:
        torch.to_onnx(*args, **settings)
    assert type(error.value) is kind
    return error.value.message


@pytest.mark.parametrize(
    ("network", "example", "batch", "results"),
    [
        (Image, weights(1, 2, 6, 6), weights(3, 2, 6, 6), [["batch", 4]]),
        (Text, np.array([[0, 1, 2], [3, 4, 5]]), np.array([[6, 1, 2]] * 3), [["batch", 8], ["batch", 3]]),
    ],
)
def test_the_reference_computes_the_same(tmp_path, network, example, batch, results):
    torch.manual_seed(0)
    made = network()
    path = tmp_path / "net.onnx"
    torch.to_onnx(made, example, path)
    assert made.training, "as before"
    proto = onnx.load(path)
    assert sizes(proto.graph.output) == results
    assert {tensor.name for tensor in proto.graph.initializer} > {name for name, _ in made.named_parameters()}
    name = proto.graph.input[0].name
    assert name in ("images", "ids")
    expected = made.eval()(torch.tensor(batch))
    found = ReferenceEvaluator(proto).run(None, {name: batch})
    for one, want in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
        np.testing.assert_allclose(one, want.detach().numpy(), atol=2e-6)


def test_names_and_versions_can_be_chosen(tmp_path):
    path = tmp_path / "f.onnx"
    settings = {"input_names": ["a", "b"], "output_names": ["c"], "opset": 21, "dynamic_batch": False}
    torch.to_onnx(lambda x, y: x @ y, (weights(2, 3), weights(3, 2)), path, **settings)
    proto = onnx.load(path)
    assert [value.name for value in (*proto.graph.input, *proto.graph.output)] == ["a", "b", "c"]
    assert sizes(proto.graph.input) == [[2, 3], [3, 2]]
    assert proto.opset_import[0].version == 21
    assert proto.producer_name == "adjoint"


def test_other_inputs_keep_their_sizes(tmp_path):
    torch.to_onnx(lambda x, y: x + y, (weights(2, 3), weights(3)), tmp_path / "f.onnx")
    assert sizes(onnx.load(tmp_path / "f.onnx").graph.input) == [["batch", 3], [3]]


def test_graphs_with_their_weights(tmp_path):
    x, w = param("x", (4, 3)), param("w", (3, 2))
    function = Function("net", (x, w), (ops.reshape(ops.gelu(x @ w), (8,)),))
    path = tmp_path / "net.onnx"
    torch.to_onnx(function, None, path, weights={"w": weights(3, 2)})
    proto = onnx.load(path)
    assert [value.name for value in proto.graph.input] == ["x"]
    assert sizes(proto.graph.output) == [["batch*2"]]
    given = weights(5, 3)
    found = ReferenceEvaluator(proto).run(None, {"x": given})[0]
    expected = torch.nn.functional.gelu(torch.tensor(given @ weights(3, 2))).flatten()
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-6)
    assert refused(NameLookupError, function, None, path, weights={"v": 0}) == (
        "to_onnx: weights must name parameters of the function, got 'v'; there are x, w"
    )
    assert refused(TypeRuleError, function, None, path, weights={"w": weights(2)}) == (
        "to_onnx: the weight 'w' must have the shape [3, 2], got [2]; reshape it"
    )


def test_a_batch_that_is_mixed_stays_as_it_is(tmp_path):
    path = tmp_path / "f.onnx"

    def total(x):
        return (x - x.mean(0)) * torch.arange(x.shape[0]).float().unsqueeze(-1)

    torch.to_onnx(total, weights(2, 3), path)
    assert sizes(onnx.load(path).graph.input) == [[2, 3]]
    assert refused(InvalidValueError, total, weights(2, 3), path, dynamic_batch=True).startswith(
        "to_onnx: with a dynamic batch, the model must compute the same for batches of every size, got this for "
        "another size: "
    )


def test_all_operators_that_onnx_lacks_are_listed_and_the_old_file_stays(tmp_path):
    path = tmp_path / "f.onnx"
    path.write_bytes(b"old")

    def function(x):
        return torch.lgamma(x).cumprod(0) + torch.erfinv(x)

    assert refused(InvalidValueError, function, weights(2, 3), path).startswith("to_onnx: operators must be among the ")
    assert ", got cumprod, erfinv, lgamma; export" in refused(InvalidValueError, function, weights(2, 3), path)
    loop = nn.RNN(3, 2)
    assert ", got scan, tuple_get; export" in refused(InvalidValueError, lambda x: loop(x)[0], weights(2, 1, 3), path)
    assert path.read_bytes() == b"old"


def test_a_file_has_at_most_two_gigabytes(tmp_path):
    x, w = param("x", (1, 1)), param("w", (1, 1 << 29))
    function = Function("net", (x, w), (ops.concat(x, w, axis=1),))
    large = np.lib.stride_tricks.as_strided(weights(1), (1, 1 << 29), (0, 0))
    assert refused(InvalidValueError, function, None, tmp_path / "f.onnx", weights={"w": large}) == (
        "to_onnx: a file of ONNX holds at most 2 GB, got weights of 2.1 GB; convert the module with half() or save its "
        "state_dict"
    )


def test_what_cannot_be_written(tmp_path):
    path = tmp_path / "f.onnx"
    assert refused(InvalidValueError, torch.exp, weights(2), path, opset=17).startswith(
        "to_onnx: opset must be from 18 to"
    )
    assert refused(TypeRuleError, 3, weights(2), path) == (
        "to_onnx writes a module, a function or a graph, got an int; pass one of them"
    )
    assert refused(TypeRuleError, torch.exp, 3, path) == (
        "to_onnx: example inputs must be tensors or arrays, got an int; convert them"
    )
    assert refused(TypeRuleError, torch.exp, weights(2), path, weights={}) == (
        "to_onnx: weights are for graphs, got some for a module; a module has its own"
    )
    assert refused(InvalidValueError, torch.exp, weights(2), path, output_names=["a", "b"]) == (
        "to_onnx: output_names must be 1 names, got 2; pass one for each"
    )
    assert refused(InvalidValueError, torch.exp, weights(2), path, input_names=["a"], output_names=["a"]) == (
        "to_onnx: inputs and outputs must have different names, got 'a' twice; rename one"
    )
    assert refused(CheckpointError, torch.exp, weights(2), tmp_path / "none" / "f.onnx").startswith(
        f"to_onnx: the directory {tmp_path / 'none'} does not exist"
    )
    with pytest.raises(TypeRuleError, match=r"^to_onnx: what is exported must return tensors that it computes"):
        torch.to_onnx(lambda x: x, weights(2), path, dynamic_batch=False)
