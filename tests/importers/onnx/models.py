"""Small ONNX models in code."""

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper
from onnx import __version__ as version

#: Whether ONNX's reference lacks corrections of operators: 1.18 does not compute some settings, or does so wrongly.
OLD_REFERENCE = tuple(map(int, version.split(".")[:2])) < (1, 20)


def weights(*shape):
    """Numbers of both signs that need no random generator."""
    count = int(np.prod(shape))
    return (np.sin(np.arange(1, count + 1) * 1.7) * 0.5).astype(np.float32).reshape(shape)


def model(nodes, inputs, outputs, stored=(), opset=17, functions=(), domains=()):
    """A model of nodes ``(op, inputs, outputs, attributes)``, with inputs ``{name: (dtype, shape)}``."""
    made = [
        node if hasattr(node, "op_type") else helper.make_node(node[0], node[1], node[2], **(node[3:] or ({},))[0])
        for node in nodes
    ]
    given = [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    arrays = [numpy_helper.from_array(np.asarray(array), name) for name, array in dict(stored).items()]
    graph = helper.make_graph(made, "net", given, results, arrays)
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(name, 1) for name in domains)]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=8)


#: An input of any number of rows of three numbers.
ROWS = {"x": (TensorProto.FLOAT, ["n", 3])}


def perceptron():
    """``relu(x @ w + b)``, with three inputs and two outputs."""
    nodes = [("Gemm", ["x", "layer.w", "layer.b"], ["h"]), ("Relu", ["h"], ["y"])]
    return model(nodes, ROWS, ["y"], {"layer.w": weights(3, 2), "layer.b": weights(2)})


def convolutional():
    """A convolution with batch normalization, and the chain of shape computations that exporters write to flatten."""
    stored = {
        "conv.weight": weights(4, 2, 3, 3),
        "bn.weight": np.ones(4, np.float32),
        "bn.bias": np.zeros(4, np.float32),
        "bn.running_mean": np.zeros(4, np.float32),
        "bn.running_var": np.ones(4, np.float32),
        "head.weight": weights(3, 36),
        "head.bias": weights(3),
    }
    nodes = [
        ("Conv", ["x", "conv.weight"], ["c"], {"pads": [1, 1, 1, 1]}),
        ("BatchNormalization", ["c", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"], ["n"]),
        ("Relu", ["n"], ["r"]),
        ("MaxPool", ["r"], ["p"], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Shape", ["p"], ["shape"]),
        ("Constant", [], ["zero"], {"value_int": 0}),
        ("Gather", ["shape", "zero"], ["rows"]),
        ("Constant", [], ["axis"], {"value_ints": [0]}),
        ("Unsqueeze", ["rows", "axis"], ["rows1"]),
        ("Constant", [], ["rest"], {"value_ints": [-1]}),
        ("Concat", ["rows1", "rest"], ["flat"], {"axis": 0}),
        ("Reshape", ["p", "flat"], ["f"]),
        ("Gemm", ["f", "head.weight", "head.bias"], ["y"], {"transB": 1}),
    ]
    return model(nodes, {"x": (TensorProto.FLOAT, ["n", 2, 6, 6])}, ["y"], stored)
