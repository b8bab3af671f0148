"""Matrix products."""

from typing import Any

from adjoint.importers.onnx.graph import Node
from adjoint.importers.onnx.operators.base import Array, Rule, Table, plain
from adjoint.nn import functional
from adjoint.tensor import arithmetic, linear_algebra

__all__ = ["PRODUCTS"]


def _gemm(node: Node, a: Array, b: Array, c: Array = None) -> Array:
    """``alpha * a @ b + beta * c``; as one linear layer if it is one."""
    alpha, beta = node.attrs["alpha"], node.attrs["beta"]
    if node.attrs["transA"]:
        a = a.t()
    if alpha == 1.0 and (c is None or (beta == 1.0 and len(c.shape) == 1)):
        weight: Any = b if node.attrs["transB"] else b.t()
        return functional.linear(a, weight, c)
    made = arithmetic.matmul(a, b.t() if node.attrs["transB"] else b)
    made = made if alpha == 1.0 else made * alpha
    return made if c is None else made + (c if beta == 1.0 else c * beta)


def _einsum(node: Node, *xs: Array) -> Array:
    return linear_algebra.einsum(node.attrs["equation"], *xs)


PRODUCTS: Table = {
    "Einsum": Rule(_einsum),
    "Gemm": Rule(_gemm),
    "MatMul": plain(arithmetic.matmul),
}
