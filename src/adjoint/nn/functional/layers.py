"""Linear layers, convolutions and embeddings, with PyTorch's arguments."""

from collections.abc import Sequence

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.nn.functional.recording import Array, recorded
from adjoint.tensor.autocasting import full_precision, low_precision

__all__ = ["bilinear", "conv1d", "conv2d", "conv_transpose2d", "embedding", "linear", "pair", "single"]


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


def pair(given: int | Sequence[int]) -> tuple[int, int]:
    """Two numbers, for rows and columns, of which both are the same if one is given."""
    return (given, given) if isinstance(given, int) else tuple(given)  # type: ignore[return-value]


@low_precision
@recorded
def conv2d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Array:
    """Convolution of images.

    Parameters
    ----------
    input : Tensor
        Images, shape ``[N, C, H, W]`` or ``[C, H, W]``.
    weight : Tensor
        Shape ``[O, C/groups, KH, KW]``.
    bias : Tensor, optional
        Shape ``[O]``.
    stride, dilation : int or pair of int, default 1
        The distances between windows and between the elements of a window.
    padding : int, pair of int, "valid" or "same", default 0
        The zeros at both ends; "same" keeps the size, for a stride of 1.
    groups : int, default 1
        Number of groups of channels.

    Raises
    ------
    TypeRuleError
        If the shapes or dtypes do not match.
    InvalidValueError
        If a setting is out of range.
    """
    if len(input.shape) == 3:
        one = ops.expand_dims(input, 0)
        return ops.squeeze(_conv2d(one, weight, bias, stride, padding, dilation, groups), 0)
    return _conv2d(input, weight, bias, stride, padding, dilation, groups)


def _conv2d(
    x: Array,
    weight: Array,
    bias: Array | None,
    stride: int | Sequence[int],
    padding: int | str | Sequence[int],
    dilation: int | Sequence[int],
    groups: int,
) -> Array:
    if isinstance(padding, str):
        if padding not in ("valid", "same"):
            raise InvalidValueError(f"conv2d: padding must be numbers, 'valid' or 'same', got {padding!r}; use 'same'")
        if padding == "same":
            if pair(stride) != (1, 1):
                raise InvalidValueError(
                    f"conv2d: padding='same' requires a stride of 1, got {stride!r}; pass the padding as numbers"
                )
            total = [d * (k - 1) for d, k in zip(pair(dilation), weight.shape[2:], strict=True)]
            low = [n // 2 for n in total]
            high = [n - n // 2 for n in total]
            if low == high:
                return ops.conv2d(x, weight, bias, stride, low, dilation, groups)
            x = ops.pad(x, (0, 0, *low), (0, 0, *high))
        padding = 0
    return ops.conv2d(x, weight, bias, stride, padding, dilation, groups)


@low_precision
@recorded
def conv1d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Array:
    """Convolution of sequences, as a convolution of images of one row.

    Parameters
    ----------
    input : Tensor
        Shape ``[N, C, L]`` or ``[C, L]``.
    weight : Tensor
        Shape ``[O, C/groups, K]``.
    bias : Tensor, optional
        Shape ``[O]``.
    stride, padding, dilation, groups
        As in `conv2d`, one number each.

    Raises
    ------
    TypeRuleError
        If the shapes or dtypes do not match.
    InvalidValueError
        If a setting is out of range.
    """
    if len(input.shape) not in (2, 3) or len(weight.shape) != 3:
        raise TypeRuleError(
            f"conv1d: the input must be [N, C, L] or [C, L] and the weight [O, C/groups, K], got {input.type} and "
            f"{weight.type}; reshape them"
        )
    x = input if len(input.shape) == 3 else ops.expand_dims(input, 0)
    around = padding if isinstance(padding, str) else (0, single(padding))
    result = _conv2d(
        ops.expand_dims(x, 2),
        ops.expand_dims(weight, 2),
        bias,
        (1, single(stride)),
        around,
        (1, single(dilation)),
        groups,
    )
    return ops.squeeze(result, 2 if len(input.shape) == 3 else (0, 2))


def single(given: int | Sequence[int]) -> int:
    """The number of a setting for one axis, which may be given as a sequence of one."""
    return given if isinstance(given, int) else given[0]


@low_precision
@recorded
def conv_transpose2d(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Array:
    """The gradient of `conv2d` with respect to its images, as a layer that enlarges images.

    It is a convolution with the flipped weights of the input with ``stride - 1`` zeros between its elements.

    Parameters
    ----------
    input : Tensor
        Images, shape ``[N, C, H, W]``.
    weight : Tensor
        Shape ``[C, O, KH, KW]``.
    bias : Tensor, optional
        Shape ``[O]``.
    stride, padding, dilation : int or pair of int
        Those of the convolution; the padding is at most ``dilation * (K - 1)``.
    output_padding : int or pair of int, default 0
        Rows and columns that are added at the end of the result.
    groups : int, default 1
        1, the only number that is supported.

    Returns
    -------
    Tensor
        Shape ``[N, O, I, J]`` with ``I = (H - 1) * stride - 2 * padding + dilation * (KH - 1) + output_padding + 1``.

    Raises
    ------
    TypeRuleError
        If the shapes or dtypes do not match.
    InvalidValueError
        If a setting is out of range.
    """
    if groups != 1:
        raise InvalidValueError(f"conv_transpose2d: groups must be 1, got {groups!r}; use one layer per group")
    if len(input.shape) != 4 or len(weight.shape) != 4:
        raise TypeRuleError(
            f"conv_transpose2d: the input must be [N, C, H, W] and the weight [C, O, KH, KW], got {input.type} and "
            f"{weight.type}; reshape them"
        )
    steps, around, more, apart = pair(stride), pair(padding), pair(output_padding), pair(dilation)
    low = [d * (k - 1) - p for d, k, p in zip(apart, weight.shape[2:], around, strict=True)]
    if min(low) < 0:
        raise InvalidValueError(
            f"conv_transpose2d: padding must be at most dilation * (kernel_size - 1), got {padding!r} for a kernel of "
            f"{list(weight.shape[2:])}; pad less and slice the result"
        )
    high = [n + m for n, m in zip(low, more, strict=True)]
    spread = ops.pad(input, (0, 0, *low), (0, 0, *high), interior=(0, 0, *(s - 1 for s in steps)))
    flipped = ops.flip(ops.permute(weight, (1, 0, 2, 3)), (2, 3))
    return ops.conv2d(spread, flipped, bias, 1, 0, apart)


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
