"""Matrix products."""

from adjoint.importers.onnx.graph import Node
from adjoint.importers.onnx.operators.base import Array, Rule, Table, permuted
from adjoint.nn import functional
from adjoint.tensor import arithmetic, linear_algebra

__all__ = ["PRODUCTS"]


def _gemm(node: Node, a: Array, b: Array, c: Array = None) -> Array:
    """``alpha * a @ b + beta * c``; as one linear layer if it is one."""
    alpha, beta = node.attrs["alpha"], node.attrs["beta"]
    if node.attrs["transA"]:
        a = permuted(a, (1, 0))
    if alpha == 1.0 and node.attrs["transB"] and (c is None or (beta == 1.0 and len(c.shape) == 1)):
        return functional.linear(a, b, c)
    made = functional.linear(a, b) if node.attrs["transB"] else arithmetic.matmul(a, b)
    made = made if alpha == 1.0 else made * alpha
    return made if c is None else made + (c if beta == 1.0 else c * beta)


def _matmul(node: Node, a: Array, b: Array) -> Array:
    """A product, or that with a transposed matrix (`adjoint.importers.onnx.layers`)."""
    return functional.linear(a, b) if node.attrs.get("transB") else arithmetic.matmul(a, b)


def _einsum(node: Node, *xs: Array) -> Array:
    return linear_algebra.einsum(node.attrs["equation"], *xs)


PRODUCTS: Table = {
    "Einsum": Rule(_einsum),
    "Gemm": Rule(_gemm),
    "MatMul": Rule(_matmul),
}
