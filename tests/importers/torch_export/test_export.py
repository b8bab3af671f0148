"""Modules of PyTorch as graphs: sizes, modes, decomposed operators, and what is refused."""

import numpy as np
import pytest

from adjoint.errors import InvalidValueError
from adjoint.importers.torch_export.export import Exports
from adjoint.importers.torch_export.graph import Ref

torch = pytest.importorskip("torch")

F32 = np.dtype(np.float32)


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2)
        self.attention = torch.nn.MultiheadAttention(4, 2, dropout=0.1, batch_first=True)

    def forward(self, x):
        y = torch.nn.functional.dropout(self.norm(self.conv(x)), 0.5, training=self.training)
        y = y.flatten(2)
        return self.attention(y, y, y, need_weights=False)[0]


def ops(graph):
    return [node.op for node in graph.nodes]


def test_layers_stay_whole_and_modes_have_graphs_of_their_own():
    module = Layers()
    exports = Exports(module, (torch.zeros(2, 1, 4, 4),), {})
    trained = exports.graph(True, [(2, 1, 4, 4)], [F32])
    assert {"conv2d.default", "batch_norm.default", "scaled_dot_product_attention.default"} <= set(ops(trained))
    dropped = next(node for node in trained.nodes if node.op == "dropout.default")
    assert dropped.args[1:] == (0.5, True)
    assert dropped.line.startswith(__file__)
    assert [one.target for one in trained.inputs][:2] == ["conv.weight", "conv.bias"]
    used = exports.graph(False, [(2, 1, 4, 4)], [F32])
    assert next(node for node in used.nodes if node.op == "batch_norm.default").args[5] is False
    assert module.training
    assert exports.graph(True, [(2, 1, 4, 4)], [F32]) is trained


def test_one_graph_is_for_all_numbers_of_rows_but_one():
    exports = Exports(torch.nn.Linear(3, 2), (torch.zeros(4, 3),), {})
    graph = exports.graph(True, [(4, 3)], [F32])
    assert graph.inputs[-1].shape[1:] == (3,)
    assert exports.graph(True, [(7, 3)], [F32]) is graph
    assert exports.graph(True, [(1, 3)], [F32]) is not graph


def test_parts_in_evaluation_mode_stay_so():
    module = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3))
    module[0].eval()
    graph = Exports(module, (torch.zeros(4, 3),), {}).graph(True, [(4, 3)], [F32])
    assert [node.args[5] for node in graph.nodes if node.op == "batch_norm.default"] == [False, True]
    assert [one.training for one in module] == [False, True]


def test_operators_that_adjoint_does_not_have_are_decomposed():
    class Decomposed(torch.nn.Module):
        def forward(self, x):
            return torch.special.ndtr(x), torch.ops.aten.silu_backward(x, x)

    exports = Exports(Decomposed(), (torch.zeros(4, 3),), {})
    graph = exports.graph(True, [(4, 3)], [F32])
    assert not {"special_ndtr.default", "silu_backward.default"} & set(ops(graph))
    assert len(graph.outputs) == 2
    assert all(isinstance(one, Ref) for one in graph.outputs)


def test_what_is_missing_is_listed_with_its_lines():
    class Missing(torch.nn.Module):
        def forward(self, x):
            y = torch.fft.rfft(x).abs()
            return y.sum() + torch.special.i0(x).sum()

    with pytest.raises(InvalidValueError) as error:
        Exports(Missing(), (torch.zeros(4, 3),), {}).graph(True, [(4, 3)], [F32])
    line = Missing.forward.__code__.co_firstlineno
    assert error.value.message == (
        f"from_torch: every operator must be one that adjoint has, got aten::fft_rfft.default at "
        f"{__file__}:{line + 1}, aten::special_i0.default at {__file__}:{line + 2}; write the model without them"
    )
    assert error.value.where == f"{__file__}:{line + 1}"


@pytest.mark.filterwarnings("ignore")
def test_what_torch_cannot_export_is_refused():
    class Branching(torch.nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(
        InvalidValueError,
        match=r"^from_torch: torch.export must be able to export the module, got GuardOnData.*; change ",
    ):
        Exports(Branching(), (torch.zeros(4, 3),), {}).graph(True, [(4, 3)], [F32])


def test_other_numbers_of_tensors_are_refused():
    exports = Exports(torch.nn.Linear(3, 2), (torch.zeros(4, 3),), {})
    with pytest.raises(InvalidValueError, match="as many tensors as in example_inputs, 1, got 2; pass them in"):
        exports.graph(True, [(4, 3), (4, 3)], [F32, F32])
