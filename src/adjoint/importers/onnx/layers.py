"""Linear layers, which exporters write as products with transposed weights."""

from collections import Counter
from dataclasses import replace

from adjoint.importers.onnx.graph import Graph

__all__ = ["with_linear_layers"]


def with_linear_layers(graph: Graph) -> Graph:
    """The graph with products of a transposed stored matrix as one node each.

    ``MatMul(x, Transpose(w))`` becomes a MatMul with the attribute `transB`, which ONNX only has for Gemm. The gradient
    of the weight is a product in the weight's own layout then, to which the optimizer's update is fused.
    """
    turned = {
        node.outputs[0]: node.inputs[0]
        for node in graph.nodes
        if node.op == "Transpose" and node.attrs.get("perm") == (1, 0) and node.inputs[0] in graph.stored
    }
    nodes = [
        replace(node, inputs=(node.inputs[0], turned[node.inputs[1]]), attrs={**node.attrs, "transB": 1})
        if node.op == "MatMul" and node.inputs[1] in turned
        else node
        for node in graph.nodes
    ]
    uses = Counter(name for node in nodes for name in node.inputs)
    uses.update(graph.outputs)
    kept = [node for node in nodes if node.outputs[0] not in turned or uses[node.outputs[0]]]
    return replace(graph, nodes=kept)
