"""Linear layers and embeddings, with PyTorch's arguments."""

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.nn.functional.recording import Array, recorded
from adjoint.tensor.autocasting import full_precision, low_precision

__all__ = ["bilinear", "embedding", "linear"]


@low_precision
@recorded
def linear(input: Array, weight: Array, bias: Array | None = None) -> Array:
    """``input @ weight.T + bias``.

    Parameters
    ----------
    input : Tensor
        Shape ``[..., in]``.
    weight : Tensor
        Shape ``[out, in]``, or ``[in]`` for a result without the last axis.
    bias : Tensor, optional
        Shape ``[out]``.

    Raises
    ------
    TypeRuleError
        If the shapes do not match.
    """
    if not input.shape or len(weight.shape) not in (1, 2) or input.shape[-1] != weight.shape[-1]:
        raise TypeRuleError(
            f"linear: the last axis of the input must be that of the weight [out, in], got {input.type} and "
            f"{weight.type}; reshape the input, or change in_features"
        )
    result = ops.matmul(input, weight, transpose_b=True) if len(weight.shape) == 2 else ops.matmul(input, weight)
    return result if bias is None else ops.add(result, bias)


@full_precision
@recorded
def bilinear(input1: Array, input2: Array, weight: Array, bias: Array | None = None) -> Array:
    """``input1 @ weight[o] @ input2`` for each output o, plus the bias.

    Parameters
    ----------
    input1, input2 : Tensor
        Shapes ``[..., in1]`` and ``[..., in2]``.
    weight : Tensor
        Shape ``[out, in1, in2]``.
    bias : Tensor, optional
        Shape ``[out]``.

    Raises
    ------
    TypeRuleError
        If the shapes do not match.
    """
    if (
        len(weight.shape) != 3
        or (input1.shape[-1:], input2.shape[-1:]) != (weight.shape[1:2], weight.shape[2:])
        or input1.shape[:-1] != input2.shape[:-1]
    ):
        raise TypeRuleError(
            f"bilinear: the inputs [..., in1] and [..., in2] must match the weight [out, in1, in2], got {input1.type}, "
            f"{input2.type} and {weight.type}; reshape them"
        )
    out, first, second = weight.shape
    lead = input1.shape[:-1]
    flat = ops.reshape(ops.permute(weight, (1, 0, 2)), (first, out * second))
    products = ops.reshape(ops.matmul(input1, flat), (*lead, out, second))
    result = ops.sum(ops.multiply(products, ops.expand_dims(input2, -2)), -1)
    return result if bias is None else ops.add(result, bias)


@recorded
def embedding(input: Array, weight: Array, padding_idx: int | None = None) -> Array:
    """Rows of a table, one per id.

    Parameters
    ----------
    input : Tensor
        Integers from 0 to ``V - 1``, of any shape.
    weight : Tensor
        The table, shape ``[V, D]``.
    padding_idx : int, optional
        A row that gets no gradient; it may be negative.

    Raises
    ------
    InvalidValueError
        If `padding_idx` is not a row.
    TypeRuleError
        If the input is not of integers.
    """
    if input.dtype.kind not in "iu":
        raise TypeRuleError(
            f"embedding: the input must have an integer dtype, got {input.type}; convert it with long()"
        )
    if padding_idx is None:
        return ops.embedding(weight, input)
    size = weight.shape[0]
    if not -size <= padding_idx < size:
        raise InvalidValueError(
            f"embedding: padding_idx must be a row of the table, {-size} to {size - 1}, got {padding_idx}; change it"
        )
    rows = ops.embedding(weight, input)
    is_padding = ops.expand_dims(ops.equal(input, padding_idx % size), -1)
    return ops.where(is_padding, ops.stop_gradient(rows), rows)
