"""Functions of neural networks that PyTorch has at its top level too, as ``torch.conv2d``.

Those whose arguments differ from the functions of `adjoint.nn.functional`, or have another order, are defined here; the
others are the same functions.
"""

from collections.abc import Sequence
from typing import Any

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.nn import functional as F  # noqa: N812
from adjoint.nn.functional import (
    adaptive_avg_pool1d,
    avg_pool1d,
    bilinear,
    celu,
    channel_shuffle,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    cosine_similarity,
    hardshrink,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    pairwise_distance,
    pixel_shuffle,
    pixel_unshuffle,
    prelu,
    rms_norm,
    rrelu,
    selu,
    threshold,
)
from adjoint.nn.functional.in_place import celu_, rrelu_, selu_, threshold_

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_max_pool1d",
    "avg_pool1d",
    "batch_norm",
    "bilinear",
    "celu",
    "celu_",
    "channel_shuffle",
    "constant_pad_nd",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_similarity",
    "dropout",
    "dropout_",
    "embedding",
    "feature_dropout",
    "grid_sampler",
    "group_norm",
    "hardshrink",
    "instance_norm",
    "layer_norm",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool3d",
    "pairwise_distance",
    "pixel_shuffle",
    "pixel_unshuffle",
    "prelu",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "threshold",
    "threshold_",
]

Numbers = int | Sequence[int]


def batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,  # noqa: ARG001
) -> Any:
    """`nn.functional.batch_norm`, with the parameters before the running statistics; the last argument is ignored."""
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,  # noqa: ARG001
) -> Any:
    """`nn.functional.instance_norm`, with the parameters before the statistics; the last argument is ignored."""
    return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def layer_norm(
    input: Any,
    normalized_shape: Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,  # noqa: ARG001
) -> Any:
    """`nn.functional.layer_norm`; the last argument is ignored."""
    return F.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(
    input: Any,
    num_groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,  # noqa: ARG001
) -> Any:
    """`nn.functional.group_norm`; the last argument is ignored."""
    return F.group_norm(input, num_groups, weight, bias, eps)


def dropout(input: Any, p: float, train: bool) -> Any:
    """`nn.functional.dropout`, whose settings must be given here."""
    return F.dropout(input, p, train)


def dropout_(input: Any, p: float, train: bool) -> Any:
    """`dropout` in place."""
    return F.dropout(input, p, train, inplace=True)


def feature_dropout(input: Any, p: float, train: bool) -> Any:
    """Dropout of whole channels of ``[N, C, ...]`` with up to 3 axes behind: `nn.functional.dropout2d` and others.

    Raises
    ------
    TypeRuleError
        If the input has another number of axes.
    """
    by_rank = {2: F.dropout, 3: F.dropout1d, 4: F.dropout2d, 5: F.dropout3d}
    if len(input.shape) not in by_rank:
        raise TypeRuleError(
            f"feature_dropout: the input must have 2 to 5 axes, [N, C, ...], got the shape {tuple(input.shape)}; "
            "reshape it"
        )
    return by_rank[len(input.shape)](input, p, train)


def embedding(
    weight: Any,
    indices: Any,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,  # noqa: ARG001
) -> Any:
    """Rows of a table, which comes first: `nn.functional.embedding`.

    Parameters
    ----------
    weight : Tensor
        The table, shape ``[V, D]``.
    indices : Tensor
        Integers from 0 to ``V - 1``, of any shape.
    padding_idx : int, default -1
        A row that gets no gradient; none if it is negative.
    scale_grad_by_freq : bool, default False
        Only False.
    sparse : bool, default False
        Ignored: gradients are dense.

    Raises
    ------
    InvalidValueError
        If gradients are to be scaled, or `padding_idx` is not a row.
    """
    if scale_grad_by_freq:
        raise InvalidValueError(
            "embedding: scale_grad_by_freq must be False, got True; divide the gradient by the counts of bincount"
        )
    return F.embedding(indices, weight, None if padding_idx < 0 else padding_idx)


def max_pool1d_with_indices(
    input: Any,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
) -> Any:
    """The maxima of `nn.functional.max_pool1d`, and their positions."""
    return F.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def adaptive_max_pool1d(input: Any, output_size: Numbers) -> Any:
    """The maxima of `nn.functional.adaptive_max_pool1d`, and their positions."""
    return F.adaptive_max_pool1d(input, output_size, True)


def constant_pad_nd(input: Any, pad: Sequence[int], value: float = 0) -> Any:
    """`nn.functional.pad` with a constant."""
    return F.pad(input, pad, "constant", value)


def grid_sampler(input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Any:
    """`nn.functional.grid_sample` with modes as numbers.

    Parameters
    ----------
    input, grid, align_corners
        As there.
    interpolation_mode : int
        0 for "bilinear", 1 for "nearest", 2 for "bicubic".
    padding_mode : int
        0 for "zeros", 1 for "border", 2 for "reflection".

    Raises
    ------
    InvalidValueError
        If a mode is another number.
    """
    for name, given in (("interpolation_mode", interpolation_mode), ("padding_mode", padding_mode)):
        if given not in (0, 1, 2):
            raise InvalidValueError(f"grid_sampler: {name} must be 0, 1 or 2, got {given!r}; use grid_sample")
    interpolation = ("bilinear", "nearest", "bicubic")[interpolation_mode]
    return F.grid_sample(input, grid, interpolation, ("zeros", "border", "reflection")[padding_mode], align_corners)
