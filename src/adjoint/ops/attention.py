"""Scaled dot-product attention."""

from math import sqrt

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.value import Value
from adjoint.ops.arithmetic import multiply
from adjoint.ops.composites import softmax
from adjoint.ops.contract import matmul
from adjoint.ops.create import iota
from adjoint.ops.logic import greater_equal, where
from adjoint.ops.rules import require_float

__all__ = ["scaled_dot_product_attention"]


def scaled_dot_product_attention(
    q: Value, k: Value, v: Value, causal: bool = False, scale: float | None = None
) -> Value:
    """``softmax(q @ k.T * scale) @ v`` (Vaswani et al., 2017, formula 1), as PyTorch's function of that name.

    Parameters
    ----------
    q : Value
        Queries, float, shape ``[..., T, D]``.
    k, v : Value
        Keys ``[..., S, D]`` and values ``[..., S, E]``; leading axes broadcast.
    causal : bool, default False
        Query t sees keys 0 to t only.
    scale : float, optional
        Default: ``1 / sqrt(D)``.

    Returns
    -------
    Value
        Shape ``[..., T, E]``.

    Raises
    ------
    TypeRuleError
        Where shapes or dtypes do not fit.
    InvalidValueError
        For a scale that is no number.
    """
    name = "scaled_dot_product_attention"
    for what, value in (("q", q), ("k", k), ("v", v)):
        require_float(name, value)
        if len(value.shape) < 2 or 0 in value.shape[-2:]:
            raise TypeRuleError(
                f"{name}: {what} has the shape [..., T, D], none of them 0, got {value.type}; reshape it"
            )
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise TypeRuleError(
            f"{name}: q and k have one last axis, k and v one number of rows, got {q.type}, {k.type} and {v.type}; "
            "transpose one of them?"
        )
    if scale is None:
        scale = 1.0 / sqrt(q.shape[-1])
    elif isinstance(scale, bool) or not isinstance(scale, int | float):
        raise InvalidValueError(f"{name}: scale is a number or None, got {scale!r}; leave it out for 1/sqrt(D)")
    # The product is scaled, not the queries: that happens where it is stored, in registers.
    scores = multiply(matmul(q, k, transpose_b=True), scale)
    if causal:
        square = scores.shape[-2:]
        # Rows are those of queries: each sees itself, so that no row is without an element.
        seen = greater_equal(iota(square, 0, "i32"), iota(square, 1, "i32"))
        scores = where(seen, scores, float("-inf"))
    return matmul(softmax(scores), v)
