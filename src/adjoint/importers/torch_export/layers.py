"""ATen operators of layers and losses that torch.export keeps whole, where arguments differ from adjoint's."""

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.errors import InvalidValueError
from adjoint.nn import functional as F  # noqa: N812
from adjoint.nn.functional.recurrent import recurrent_layer
from adjoint.tensor.joining import cat, stack

__all__ = ["LAYERS"]

#: ATen's numbers of reductions.
_REDUCTIONS = ("none", "mean", "sum")

#: Losses, with the position of the number of the reduction among ATen's arguments.
_LOSSES = {
    "binary_cross_entropy": 3,
    "cosine_embedding_loss": 4,
    "hinge_embedding_loss": 3,
    "huber_loss": 2,
    "kl_div": 2,
    "l1_loss": 2,
    "margin_ranking_loss": 4,
    "mse_loss": 2,
    "multi_margin_loss": 5,
    "multilabel_margin_loss": 2,
    "poisson_nll_loss": 5,
    "smooth_l1_loss": 2,
    "soft_margin_loss": 2,
    "triplet_margin_loss": 7,
}


def _loss(name: str, place: int) -> Callable[..., Any]:
    function = getattr(F, name)

    def made(*args: Any, **keywords: Any) -> Any:
        given = list(args)
        if len(given) > place:
            given[place] = _REDUCTIONS[given[place]]
        if "reduction" in keywords:
            keywords["reduction"] = _REDUCTIONS[keywords["reduction"]]
        return function(*given, **keywords)

    return made


def _cross_entropy(
    x: Any,
    target: Any,
    weight: Any = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:
    return F.cross_entropy(x, target, weight, ignore_index, _REDUCTIONS[reduction], label_smoothing)


def _nll(x: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100) -> Any:
    return F.nll_loss(x, target, weight, ignore_index, _REDUCTIONS[reduction])


def _bce_with_logits(x: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 1) -> Any:
    return F.binary_cross_entropy_with_logits(x, target, weight, _REDUCTIONS[reduction], pos_weight)


def _ctc(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Any:
    name = _REDUCTIONS[reduction]
    return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, name, zero_infinity)


def _max_pool(function: Callable[..., Any], indices: bool = False) -> Callable[..., Any]:
    def made(x: Any, size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Any:
        return function(x, size, _given(stride), padding, dilation, ceil_mode=ceil_mode, return_indices=indices)

    return made


def _avg_pool(function: Callable[..., Any]) -> Callable[..., Any]:
    def made(x: Any, size: Any, stride: Any = (), *settings: Any, **keywords: Any) -> Any:
        return function(x, size, _given(stride), *settings, **keywords)

    return made


def _given(stride: Any) -> Any:
    """A stride; ATen's empty list stands for that of the size of the window."""
    return None if isinstance(stride, list | tuple) and not stride else stride


def _embedding(
    weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, _sparse: bool = False
) -> Any:
    if scale_grad_by_freq:
        raise InvalidValueError(
            "embedding: gradients are those of the sum over all uses of a row, got scale_grad_by_freq=True; leave it "
            "out"
        )
    return F.embedding(indices, weight, None if padding_idx < 0 else padding_idx)


def _embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Any, None, None, None]:
    """The first of ATen's results; the others are for its gradient."""
    settings = (scale_grad_by_freq, ("sum", "mean", "max")[mode], sparse, per_sample_weights, include_last_offset)
    rows = None if padding_idx is None or padding_idx < 0 else padding_idx
    return F.embedding_bag(indices, weight, offsets, None, 2.0, *settings, rows), None, None, None


def _convolution(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    rank = len(weight.shape) - 2
    if transposed:
        function = getattr(F, f"conv_transpose{rank}d")
        return function(x, weight, bias, stride, padding, output_padding, groups, dilation)
    return getattr(F, f"conv{rank}d")(x, weight, bias, stride, padding, dilation, groups)


def _interpolate(mode: str, corners: bool) -> Callable[..., Any]:
    """Resizing by sizes or factors: the ``vec`` overloads."""

    def made(x: Any, size: Any, *settings: Any) -> Any:
        align = settings[0] if corners else None
        factors = settings[corners] if len(settings) > corners else None
        size = None if size is None else tuple(size)
        return F.interpolate(x, size, None if factors is None else tuple(factors), mode, align)

    return made


def _padded(mode: str) -> Callable[..., Any]:
    return lambda x, padding: F.pad(x, tuple(padding), mode)


def _recurrent(kind: str) -> Callable[..., Any]:
    """All layers of a recurrent network, in both directions, as ATen has them: states and weights are lists."""

    def made(
        x: Any,
        state: Any,
        weights: Sequence[Any],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        training: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Any, ...]:
        states = list(state) if isinstance(state, list | tuple) else [state]
        directions = 1 + bidirectional
        each = len(weights) // (num_layers * directions)
        rows = x.transpose(0, 1) if batch_first else x
        finals: list[tuple[Any, ...]] = []
        for layer in range(num_layers):
            if layer and dropout and training:
                rows = F.dropout(rows, dropout)
            outputs = []
            for number in range(layer * directions, (layer + 1) * directions):
                own = weights[number * each : (number + 1) * each]
                bias_ih, bias_hh = own[2:4] if has_biases else (None, None)
                projection = own[-1] if each % 2 else None
                reverse = number % directions == 1
                parts = [part[number] for part in states]
                made, *last = recurrent_layer(
                    kind, rows, parts, own[0], own[1], bias_ih, bias_hh, None, reverse, projection
                )
                outputs.append(made)
                finals.append(tuple(last))
            rows = outputs[0] if directions == 1 else cat(outputs, -1)
        last_states = [stack(list(parts)) for parts in zip(*finals, strict=True)]
        return (rows.transpose(0, 1) if batch_first else rows, *last_states)

    return made


LAYERS: dict[str, Callable[..., Any]] = {
    **{f"{name}.default": _loss(name, place) for name, place in _LOSSES.items()},
    "cross_entropy_loss.default": _cross_entropy,
    "nll_loss.default": _nll,
    "nll_loss_nd.default": _nll,
    "binary_cross_entropy_with_logits.default": _bce_with_logits,
    "ctc_loss.IntList": _ctc,
    "ctc_loss.Tensor": _ctc,
    "max_pool1d.default": _max_pool(F.max_pool1d),
    "max_pool2d.default": _max_pool(F.max_pool2d),
    "max_pool3d.default": _max_pool(F.max_pool3d),
    "max_pool2d_with_indices.default": _max_pool(F.max_pool2d, indices=True),
    "max_pool3d_with_indices.default": _max_pool(F.max_pool3d, indices=True),
    "avg_pool1d.default": _avg_pool(F.avg_pool1d),
    "avg_pool2d.default": _avg_pool(F.avg_pool2d),
    "avg_pool3d.default": _avg_pool(F.avg_pool3d),
    "dropout.default": lambda x, p, train: F.dropout(x, p, train) if train and p else x,
    "dropout_.default": lambda x, p, train: x.copy_(F.dropout(x, p)) if train and p else x,
    "native_dropout.default": lambda x, p, train=True: (F.dropout(x, p, bool(train)), None),
    "feature_dropout.default": lambda x, p, train: F.dropout2d(x, p, train) if train and p else x,
    "embedding.default": _embedding,
    "_embedding_bag.default": _embedding_bag,
    "embedding_bag.default": _embedding_bag,
    "embedding_bag.padding_idx": _embedding_bag,
    "convolution.default": _convolution,
    "_convolution.default": lambda *args: _convolution(*args[:9]),
    "upsample_nearest1d.vec": _interpolate("nearest", corners=False),
    "upsample_nearest2d.vec": _interpolate("nearest", corners=False),
    "upsample_nearest3d.vec": _interpolate("nearest", corners=False),
    "upsample_linear1d.vec": _interpolate("linear", corners=True),
    "upsample_bilinear2d.vec": _interpolate("bilinear", corners=True),
    "upsample_bicubic2d.vec": _interpolate("bicubic", corners=True),
    "upsample_trilinear3d.vec": _interpolate("trilinear", corners=True),
    **{f"reflection_pad{n}d.default": _padded("reflect") for n in (1, 2, 3)},
    **{f"replication_pad{n}d.default": _padded("replicate") for n in (1, 2, 3)},
    "im2col.default": lambda x, size, dilation, padding, stride: F.unfold(x, size, dilation, padding, stride),
    "col2im.default": lambda x, out, size, dilation, padding, stride: F.fold(x, out, size, dilation, padding, stride),
    "lstm.input": _recurrent("lstm"),
    "gru.input": _recurrent("gru"),
    "rnn_tanh.input": _recurrent("rnn_tanh"),
    "rnn_relu.input": _recurrent("rnn_relu"),
}
