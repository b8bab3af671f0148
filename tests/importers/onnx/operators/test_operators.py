"""The operators of each family against ONNX's own reference, with all nodes of a family in one program."""

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx.reference import ReferenceEvaluator

import adjoint as torch
from adjoint.errors import InvalidValueError
from adjoint.importers.onnx.operators import OPERATORS
from tests.importers.onnx.models import OLD_REFERENCE, model, weights

FLOAT, INT, BOOL = 1, 7, 9

X = weights(2, 3, 4) * 4
POSITIVE = np.abs(weights(2, 3, 4)) + 0.5
IMAGE = weights(2, 4, 6, 6) * 2
IDS = np.array([[0, 2, 1], [-1, 0, 2]])

#: Inputs of all graphs by their names.
INPUTS = {"x": X, "p": POSITIVE, "u": weights(2, 3, 4), "i": IMAGE, "n": np.array([[7, -7], [3, -2]]), "ids": IDS}
INPUTS |= {"b": X > 0, "c": POSITIVE > 0.7, "row": weights(4) * 3, "steps": weights(5, 2, 3), "q": weights(2, 2, 5, 4)}

#: Stored values, which parameters of operators come from.
STORED = {
    **{"two": np.float32(2), "n2": [[2, 2], [-2, 3]], "one": [1], "ax2": [2], "low": np.float32(-0.5)},
    **{
        "w": weights(6, 4, 3, 3),
        "wg": weights(8, 2, 3, 3),
        "wb": weights(6),
        "wt": weights(4, 3, 3, 3),
        "m": weights(4, 5),
    },
    **{"s4": np.abs(weights(4)) + 0.5, "b4": weights(4), "mean": weights(4), "var": np.abs(weights(4)) + 1},
    **{"table": weights(3, 4), "sizes": [1, 2], "reps": [2, 1, 3], "pads": [0, 1, 2, 1, 0, 1], "flat": [0, -1]},
    **{"starts": [-1, 0], "ends": [-9, 4], "axes": [2, 1], "strides": [-2, 2], "shape": [2, 1, 3, 4], "k": [2]},
    **{"depth": np.int64(4), "onoff": np.array([-1, 3], np.float32), "scales": np.array([1, 1, 2, 1.5], np.float32)},
    **{
        "half": np.array([1, 1, 0.5, 0.5], np.float32),
        "nd": [[0, 1], [1, 2]],
        "up": weights(2, 4),
        "up3": weights(2, 3, 4),
    },
    **{
        "lw": weights(2, 16, 3),
        "lr": weights(2, 16, 4),
        "lb": weights(2, 32),
        "ids3": np.array([[[0, 1, 0, 2]] * 3] * 2),
    },
    **{
        "gw": weights(1, 12, 3),
        "gr": weights(1, 12, 4),
        "gb": weights(1, 24),
        "rw": weights(1, 4, 3),
        "rr": weights(1, 4, 4),
    },
    **{
        "lengths": np.array([5, 3], np.int32),
        "cos": weights(8, 2),
        "sin": weights(8, 2)[::-1].copy(),
        "mask": np.tri(5) > 0,
    },
    **{"ax0": np.int64(1), "ones3": np.ones(3, np.float32), "z3": np.zeros(3, np.float32), "big": [3, 2]},
    **{"cw": weights(2, 2, 3), "grid": weights(2, 3, 3, 2) * 2, "image_sizes": [2, 4, 4, 9]},
}

ONE = "Abs Atan Ceil Cos Erf Exp Floor Neg Round Sign Sin Sinh Tan Reciprocal Relu Elu Selu Celu Sigmoid Tanh Softplus "
ONE += "Softsign HardSigmoid HardSwish LeakyRelu ThresholdedRelu Softmax LogSoftmax Hardmax Mish Identity IsNaN "
UNIT = "Acos Asin Atanh Asinh Cosh"

#: Families: nodes ``(op, inputs, attributes)``; several results are named after the inputs.
CASES = {
    "elementwise": [
        *((op, ["x"]) for op in ONE.split()),
        *((op, ["u"]) for op in UNIT.split()),
        *((op, ["p"]) for op in ("Log", "Sqrt")),
        *(
            (op, ["x", "row"])
            for op in ("Add", "Sub", "Mul", "Div", "Greater", "LessOrEqual", "Max", "Min", "Mean", "Sum")
        ),
        *(
            (op, ["n", "n2"])
            for op in ("Div", "Equal", "Less", "GreaterOrEqual", "Mod", "BitwiseAnd", "BitwiseOr", "BitwiseXor")
        ),
        *((op, ["b", "c"]) for op in ("And", "Or", "Xor")),
        ("Mod", ["x", "row"], {"fmod": 1}),
        ("Pow", ["x", "two"]),
        ("Pow", ["p", "row"]),
        ("Not", ["b"]),
        ("BitwiseNot", ["n"]),
        ("Where", ["b", "x", "two"]),
        ("Clip", ["x", "low", "two"]),
        ("Clip", ["x", "", "two"]),
        ("Cast", ["x"], {"to": 6}),
        ("CastLike", ["n", "x"]),
        ("PRelu", ["x", "row"]),
        ("Gelu", ["x"]),
        ("Gelu", ["x"], {"approximate": "tanh"}),
        ("Shrink", ["x"], {"lambd": 1.0, "bias": 0.5}),
        ("IsInf", ["x"]),
    ],
    "arranging": [
        ("Transpose", ["x"]),
        ("Transpose", ["x"], {"perm": [1, 2, 0]}),
        ("Flatten", ["x"], {"axis": -1}),
        ("Unsqueeze", ["x", "axes"]),
        ("Reshape", ["x", "flat"]),
        ("Slice", ["x", "starts", "ends", "axes", "strides"]),
        ("Split", ["x", "sizes"], {"axis": 1}, 2),
        ("Split", ["x"], {"axis": 2, "num_outputs": 3}, 2),
        ("Tile", ["x", "reps"]),
        ("Pad", ["x", "pads", "two"]),
        ("Pad", ["x", "pads"], {"mode": "edge"}),
        ("Pad", ["x", "pads"], {"mode": "reflect"}),
        ("Expand", ["row", "shape"]),
        ("Concat", ["x", "p"], {"axis": -2}),
        ("DepthToSpace", ["i"], {"blocksize": 2}),
        ("DepthToSpace", ["i"], {"blocksize": 2, "mode": "CRD"}),
        ("SpaceToDepth", ["i"], {"blocksize": 3}),
        ("Trilu", ["x"]),
        ("Trilu", ["x", "ax0"], {"upper": 0}),
        ("Gather", ["x", "ids"], {"axis": 1}),
        ("Gather", ["table", "ids"]),
        ("GatherElements", ["x", "ids3"], {"axis": 2}),
        ("GatherND", ["x", "nd"]),
        ("ScatterND", ["x", "nd", "up"]),
        ("ScatterElements", ["x", "ids3", "up3"], {"axis": 1}),
        ("OneHot", ["ids", "depth", "onoff"], {"axis": 1}),
        ("TopK", ["x", "k"], {}, 2),
        ("CumSum", ["x", "ax0"], {"exclusive": 1, "reverse": 1}),
    ],
    "reductions": [
        *(
            (f"Reduce{op}", ["x", "one"])
            for op in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSumExp")
        ),
        ("ReduceLogSum", ["p", "one"], {"keepdims": 0}),
        ("ReduceSum", ["x"]),
        ("ReduceSum", ["x"], {"noop_with_empty_axes": 1}),
        ("ArgMax", ["x"], {"axis": 2}),
        ("ArgMin", ["x"], {"axis": -2, "keepdims": 0, "select_last_index": 1}),
        ("MatMul", ["x", "m"]),
        ("Einsum", ["x", "m"], {"equation": "abc,cd->bad"}),
        ("LayerNormalization", ["x", "s4", "b4"]),
        ("BatchNormalization", ["i", "s4", "b4", "mean", "var"]),
        ("GroupNormalization", ["i", "s4", "b4"], {"num_groups": 2}),
        ("InstanceNormalization", ["i", "s4", "b4"]),
        ("LRN", ["i"], {"size": 3}),
        ("LpNormalization", ["x"]),
        ("MeanVarianceNormalization", ["i"]),
        ("RMSNormalization", ["x", "s4"]),
    ],
    "windows": [
        ("Conv", ["i", "w", "wb"], {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
        ("Conv", ["i", "wg"], {"group": 2, "auto_pad": "SAME_LOWER", "strides": [2, 2]}),
        ("Conv", ["steps", "cw"], {"dilations": [1], "auto_pad": "VALID"}),
        ("ConvTranspose", ["i", "wt"], {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 0]}),
        ("ConvTranspose", ["i", "wt"], {"strides": [2, 2], "pads": [0, 1, 1, 0]}),
        ("MaxPool", ["i"], {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [0, 0, 1, 1]}),
        ("MaxPool", ["i"], {"kernel_shape": [2, 2], "strides": [3, 3], "ceil_mode": 1}),
        ("AveragePool", ["i"], {"kernel_shape": [3, 3], "pads": [1, 0, 0, 1]}),
        ("AveragePool", ["i"], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
        ("LpPool", ["i"], {"kernel_shape": [2, 2], "strides": [2, 2], "p": 3}),
        ("GlobalAveragePool", ["i"]),
        ("GlobalMaxPool", ["i"]),
        ("Resize", ["i", "", "scales"], {"mode": "linear"}),
        ("Resize", ["i", "", "half"], {"mode": "cubic", "exclude_outside": 1}),
        ("Resize", ["i", "", "scales"], {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}),
        ("Resize", ["i", "", "", "image_sizes"], {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
        ("GridSample", ["i", "grid"], {"mode": "linear"}),
    ],
    "sequences": [
        ("LSTM", ["steps", "lw", "lr", "lb"], {"hidden_size": 4, "direction": "bidirectional"}, 3),
        ("GRU", ["steps", "gw", "gr", "gb"], {"hidden_size": 4, "linear_before_reset": 1}, 2),
        ("RNN", ["steps", "rw", "rr"], {"hidden_size": 4}, 2),
        ("Attention", ["q", "q", "q"]),
        ("Attention", ["q", "q", "q", "mask"]),
        ("Attention", ["q", "q", "q"], {"is_causal": 1, "scale": 0.3}),
        ("RotaryEmbedding", ["q", "cos", "sin", "ids5"]),
    ],
}
INPUTS["ids5"] = np.array([[0, 1, 2, 3, 4]] * 2)


def graph_of(cases, opset):
    """A model that returns the results of all cases."""
    nodes, outputs, used = [], [], set()
    for number, (op, inputs, *rest) in enumerate(cases):
        attrs = rest[0] if rest else {}
        count = rest[1] if len(rest) > 1 and isinstance(rest[1], int) else 1
        made = [f"{op}_{number}_{n}" for n in range(count)]
        nodes.append((op, inputs, made, attrs))
        outputs += made
        used |= set(inputs)
    codes = {"f": FLOAT, "i": INT, "b": BOOL}
    given = {name: (codes[x.dtype.kind], x.shape) for name, x in INPUTS.items() if name in used}
    stored = {name: x for name, x in STORED.items() if name in used}
    return model(nodes, given, outputs, stored, opset), given, outputs


@pytest.mark.parametrize("family", CASES)
def test_operators_agree_with_the_reference(family):
    cases = [case for case in CASES[family] if not (OLD_REFERENCE and case[1][0] == "steps")]
    made, given, outputs = graph_of(cases, 23)
    expected = ReferenceEvaluator(made).run(None, {name: INPUTS[name] for name in given})
    network = torch.from_onnx(made).eval()
    results = network(*(torch.tensor(INPUTS[name]) for name in given))
    for name, result, want in zip(outputs, results, expected, strict=True):
        found = result.detach().numpy()
        assert found.shape == np.shape(want), name
        np.testing.assert_allclose(found, want, rtol=2e-4, atol=2e-5, err_msg=name)


#: Operators that are tested elsewhere: by what they make of shapes, in training, or with subgraphs.
ELSEWHERE = {"Constant", "ConstantOfShape", "Dropout", "Gemm", "NonZero", "Range", "Shape", "Size", "Squeeze"}
ELSEWHERE |= {"SequenceAt", "SplitToSequence"}
#: Operators whose only difference from tested ones is a function of adjoint.
ALIKE = {"Acosh", "BitShift", "CumProd", "Swish"}


def test_every_operator_is_tested():
    tested = {op for cases in CASES.values() for op, *_ in cases}
    assert OPERATORS.keys() - tested == ELSEWHERE | ALIKE


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (("LSTM", ["steps", "lw", "lr"], {"hidden_size": 4, "clip": 1.0}), "LSTM 'y' must not clip, got 1.0"),
        (
            ("GRU", ["steps", "gw", "gr"], {"hidden_size": 4}),
            "GRU 'y' must apply the reset gate after the product, as PyTorch does, got linear_before_reset=0",
        ),
        (
            ("Resize", ["i", "", "half"], {"antialias": 1, "mode": "linear"}),
            "Resize 'y' must resize whole images without antialiasing, got half_pixel, or one of these settings",
        ),
        (
            ("AveragePool", ["i"], {"kernel_shape": [2, 2], "dilations": [2, 2]}),
            "AveragePool 'y' must have dilations of 1, got [2, 2]",
        ),
        (
            ("Attention", ["q", "q", "q"], {"softcap": 2.0}),
            "Attention 'y' must attend to all keys that masks allow, and return the result, got softcap",
        ),
    ],
)
def test_settings_without_a_rule_are_refused(node, message):
    op, inputs, attrs = node
    given = {name: (FLOAT, INPUTS[name].shape) for name in inputs if name in INPUTS}
    made = model([(op, inputs, ["y"], attrs)], given, ["y"], {n: STORED[n] for n in inputs if n in STORED}, 23)
    with pytest.raises(InvalidValueError) as error:
        torch.from_onnx(made).eval()(*(torch.tensor(INPUTS[name]) for name in given))
    assert error.value.message == f"from_onnx: {message}; export the model without it"


def test_parts_of_a_sequence():
    nodes = [
        ("SplitToSequence", ["x", "three"], ["parts"], {"axis": 2}),
        ("SequenceAt", ["parts", "last"], ["a"]),
        ("SplitToSequence", ["x"], ["rows"], {"axis": 1, "keepdims": 0}),
        ("SequenceAt", ["rows", "last"], ["b"]),
        ("Einsum", ["a", "b"], ["y"], {"equation": "nij,nk->nik"}),
    ]
    made = model(nodes, {"x": (FLOAT, X.shape)}, ["y"], {"three": np.int64(3), "last": np.int64(-1)})
    network = torch.from_onnx(made)
    for _ in range(2):
        np.testing.assert_allclose(network(torch.tensor(X)).numpy(), X[:, :, 3:] * X[:, -1:], rtol=1e-6)


def test_old_versions_have_axes_as_attributes():
    nodes = [
        ("ReduceMean", ["x"], ["m"], {"axes": [1]}),
        ("Squeeze", ["m", "one"], ["s"]),
        ("Reshape", ["s", "zero3"], ["r"]),
        ("Size", ["r"], ["size"]),
        ("Cast", ["size"], ["f"], {"to": 1}),
        ("Mul", ["r", "f"], ["y"]),
    ]
    made = model(nodes, {"x": (FLOAT, X.shape)}, ["y"], {"one": [1], "zero3": [0, 2, -1]}, 13)
    expected = ReferenceEvaluator(made).run(None, {"x": X})[0]
    np.testing.assert_allclose(torch.from_onnx(made)(torch.tensor(X)).numpy(), expected, atol=1e-5)
