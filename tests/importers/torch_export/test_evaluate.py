"""Graphs are evaluated operation by operation: in place, nested, under all names, and refused with a list."""

import numpy as np
import pytest

import adjoint as torch
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.importers.torch_export.evaluate import evaluate, missing_operators, refuse_missing
from adjoint.importers.torch_export.graph import Graph, Input, Node, Ref
from tests.importers.torch_export.graphs import program


def test_operations_change_views_of_their_inputs_in_place():
    # y = x.clone(); y[:, 1] += 2; y.relu_(): as PyTorch's functions do
    made = program(
        {
            "y": ("clone.default", ("%x",), {"memory_format": "torch.contiguous_format"}),
            "column": ("select.int", ("%y", 1, 1)),
            "more": ("add_.Tensor", ("%column", 2)),
            "positive": ("relu_.default", ("%y",)),
        },
        ["x"],
        outputs=["%y"],
    )
    x = torch.tensor([[-1.0, 1.0], [2.0, -3.0]])
    np.testing.assert_array_equal(evaluate(made, {}, [x])[0], [[0, 3], [2, 0]])
    np.testing.assert_array_equal(x, [[-1, 1], [2, -3]])


def test_sizes_are_numbers_and_constants_belong_to_the_graph():
    made = program(
        {
            "rows": ("sym_size.int", ("%x", 0)),
            "all": ("py.mul", ("%rows", 3)),
            "checked": ("_assert_scalar.default", ("%all", "positive")),
            "flat": ("view.default", ("%x", ["%all"])),
            "sum": ("add.Tensor", ("%flat", "%c")),
        },
        ["x"],
        outputs=["%sum", "%all", None],
        inputs=[Input("c", "constant", "shift")],
        constants={"shift": np.float32(1) + np.arange(6, dtype=np.float32)},
    )
    total, size, nothing = evaluate(made, {}, [torch.ones(2, 3)])
    np.testing.assert_array_equal(total, [2, 3, 4, 5, 6, 7])
    assert (size, nothing) == (6, None)


def test_a_nested_graph_without_gradients_has_none():
    inner = program({"y": ("exp.default", ("%a",))}, ["a"], outputs=["%y"])
    nodes = (
        Node("inner", "wrap_with_set_grad_enabled", (False, inner, Ref("x"))),
        Node("first", "py.getitem", (Ref("inner"), 0)),
        Node("y", "mul.Tensor", (Ref("first"), Ref("x"))),
    )
    x = torch.tensor([2.0], requires_grad=True)
    (y,) = evaluate(Graph((Input("x"),), nodes, (Ref("y"),), tuple), {}, [x])
    y.sum().backward()
    np.testing.assert_allclose(x.grad, [np.exp(2.0)], rtol=1e-6)  # not (1 + x) exp(x)


def test_a_nested_graph_with_autocast_multiplies_in_half_floats():
    inner = program({"y": ("mm.default", ("%a", "%a"))}, ["a"], outputs=["%y"])
    nodes = (Node("inner", "wrap_with_autocast", ("cpu", np.dtype(torch.bfloat16), True, None, inner, Ref("x"))),)
    nodes = (*nodes, Node("y", "py.getitem", (Ref("inner"), 0)))
    x = torch.full((1, 1), 1 + 2**-7 + 2**-9)  # which bfloat16 rounds to 1 + 2**-7
    (y,) = evaluate(Graph((Input("x"),), nodes, (Ref("y"),), tuple), {}, [x])
    assert y.dtype == torch.bfloat16
    assert y.item() == 1 + 2**-6  # (1 + 2**-7)**2, rounded


def test_buffers_get_their_new_values():
    made = program(
        {"new": ("add.Tensor", ("%b", "%x"))},
        ["x"],
        inputs=[Input("b", "tensor", "count")],
        updates=[("count", Ref("new"))],
    )
    count = torch.zeros(2)
    evaluate(made, {"count": count}, [torch.ones(2)])
    np.testing.assert_array_equal(count, [1, 1])


def test_all_missing_operators_are_listed_with_the_lines_of_the_model():
    inner = Graph((Input("a"),), (Node("e", "nonsense.default", (Ref("a"),), {}, "model.py:9"),), (), tuple)
    nodes = (
        Node("a", "fft_fft.default", (Ref("x"),), {}, "model.py:3"),
        Node("b", "fft_fft.default", (Ref("a"),), {}, "model.py:4"),
        Node("c", "add.Tensor", (Ref("a"), Ref("b"))),
        Node("d", "wrap_with_set_grad_enabled", (True, inner, Ref("c"))),
    )
    made = Graph((Input("x"),), nodes, (), tuple)
    assert missing_operators(made) == [("fft_fft.default", "model.py:3"), ("nonsense.default", "model.py:9")]
    with pytest.raises(InvalidValueError) as error:
        refuse_missing("from_torch", made)
    assert str(error.value) == (
        "from_torch: every operator must be one that adjoint has, got aten::fft_fft.default at model.py:3, "
        "aten::nonsense.default at model.py:9; write the model without them [at model.py:3]"
    )


def test_errors_have_the_line_of_the_model():
    made = Graph((Input("x"),), (Node("y", "mm.default", (Ref("x"), Ref("x")), {}, "model.py:7"),), (Ref("y"),), tuple)
    with pytest.raises(TypeRuleError, match=r"inner dimensions differ.*\[at model.py:7\]$"):
        evaluate(made, {}, [torch.ones(2, 3)])
    made = Graph(
        (Input("x"),), (Node("y", "relu.default", (Ref("x"),), {"alpha": 1}, "model.py:7"),), (Ref("y"),), tuple
    )
    with pytest.raises(
        TypeRuleError, match=r"^from_torch: the arguments of aten::relu.default must be ones that adjoint has, got"
    ):
        evaluate(made, {}, [torch.ones(2, 3)])
