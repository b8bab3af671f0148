"""Operators of networks: ``R.nn.*``."""

from collections.abc import Sequence
from typing import Any

from adjoint import ops
from adjoint.compat.tvm.relax.expr import Call, Expr, as_expr
from adjoint.compat.tvm.relax.op.calls import number, only, pads, same
from adjoint.compat.uncovered import uncovered
from adjoint.errors import InvalidValueError
from adjoint.ir import Value
from adjoint.losses import CrossEntropyLoss, NLLLoss

__all__ = [
    "adaptive_avg_pool2d", "attention", "avg_pool2d", "batch_flatten", "batch_norm", "conv1d", "conv2d",
    "cross_entropy_with_logits", "dropout", "gelu", "gelu_tanh", "group_norm", "layer_norm", "leakyrelu", "log_softmax",
    "max_pool2d", "nll_loss", "pad", "relu", "relu6", "rms_norm", "selu", "silu", "softmax", "softplus",
]  # fmt: skip
__getattr__ = uncovered(
    __name__,
    {"conv2d_transpose": "use adjoint.ops.conv_transpose2d in a function of the graph door"},
    "adjoint.ops",
)

relu = same("nn.relu", ops.relu)
relu6 = same("nn.relu6", ops.relu6)
gelu = same("nn.gelu", ops.gelu)
silu = same("nn.silu", ops.silu)
selu = same("nn.selu", ops.selu)

_Sizes = int | Sequence[int]


def gelu_tanh(data: Any) -> Expr:
    """GELU by the approximation with tanh."""
    return Call("nn.gelu_tanh", lambda x: ops.gelu(x, "tanh"), (as_expr(data),), {})


def leakyrelu(data: Any, alpha: float = 0.01) -> Expr:
    """``x`` where it is positive, and ``alpha * x`` elsewhere."""
    return Call("nn.leakyrelu", lambda x, alpha: ops.leaky_relu(x, alpha), (as_expr(data),), {"alpha": alpha})


def softplus(data: Any, beta: float = 1.0, threshold: float = 20.0) -> Expr:
    """``log(1 + exp(beta x)) / beta``."""

    def made(x: Value, beta: float, threshold: float) -> Value:
        scaled = x * beta
        return ops.where(scaled > threshold, x, ops.softplus(scaled) / beta)

    return Call("nn.softplus", made, (as_expr(data),), {"beta": beta, "threshold": threshold})


def softmax(data: Any, axis: int = -1) -> Expr:
    """Softmax along an axis."""
    return Call("nn.softmax", lambda x, axis: ops.softmax(x, axis), (as_expr(data),), {"axis": axis})


def log_softmax(data: Any, axis: int = -1) -> Expr:
    """The logarithm of softmax along an axis."""
    return Call("nn.log_softmax", lambda x, axis: ops.log_softmax(x, axis), (as_expr(data),), {"axis": axis})


def conv1d(
    data: Any, weight: Any, strides: _Sizes = 1, padding: _Sizes = 0, dilation: _Sizes = 1, groups: int = 1,
    data_layout: str = "NCW", kernel_layout: str = "OIW", out_layout: str | None = None, out_dtype: Any = None,
) -> Expr:  # fmt: skip
    """A convolution of sequences [N, C, W] with weights [O, I, W]."""
    only("conv1d: data_layout", data_layout, "NCW")
    only("conv1d: kernel_layout", kernel_layout, "OIW")
    only("conv1d: out_layout", out_layout, None, "NCW")
    only("conv1d: out_dtype", out_dtype, None, "float32")

    def made(x: Value, w: Value, strides: Any, padding: Any, dilation: Any, groups: int) -> Value:
        return ops.conv1d(x, w, stride=strides, padding=padding, dilation=dilation, groups=groups)

    settings = {"strides": strides, "padding": pads(padding, 1), "dilation": dilation, "groups": groups}
    return Call("nn.conv1d", made, (as_expr(data), as_expr(weight)), settings)


def conv2d(
    data: Any, weight: Any, strides: _Sizes = (1, 1), padding: _Sizes = (0, 0), dilation: _Sizes = (1, 1),
    groups: int = 1, data_layout: str = "NCHW", kernel_layout: str = "OIHW", out_layout: str | None = None,
    out_dtype: Any = None,
) -> Expr:  # fmt: skip
    """A convolution of images [N, C, H, W] with weights [O, I, H, W]."""
    only("conv2d: data_layout", data_layout, "NCHW")
    only("conv2d: kernel_layout", kernel_layout, "OIHW")
    only("conv2d: out_layout", out_layout, None, "NCHW")
    only("conv2d: out_dtype", out_dtype, None, "float32")

    def made(x: Value, w: Value, strides: Any, padding: Any, dilation: Any, groups: int) -> Value:
        return ops.conv2d(x, w, stride=strides, padding=padding, dilation=dilation, groups=groups)

    settings = {"strides": strides, "padding": pads(padding, 2), "dilation": dilation, "groups": groups}
    return Call("nn.conv2d", made, (as_expr(data), as_expr(weight)), settings)


def max_pool2d(
    data: Any, pool_size: _Sizes = (1, 1), strides: _Sizes = (1, 1), padding: _Sizes = (0, 0),
    dilation: _Sizes = (1, 1), ceil_mode: bool = False, count_include_pad: bool = False, layout: str = "NCHW",
    out_layout: str | None = None,
) -> Expr:  # fmt: skip
    """The maximum of windows; unlike in PyTorch, they move by 1 unless `strides` says otherwise."""
    del count_include_pad
    only("max_pool2d: layout", layout, "NCHW")
    only("max_pool2d: out_layout", out_layout, None, "NCHW")

    def made(x: Value, pool_size: Any, strides: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Value:
        return ops.max_pool2d(x, pool_size, strides, padding, dilation, ceil_mode)

    settings = {"pool_size": pool_size, "strides": strides, "padding": _equal_pads("max_pool2d", padding)}
    settings |= {"dilation": dilation, "ceil_mode": ceil_mode}
    return Call("nn.max_pool2d", made, (as_expr(data),), settings)


def avg_pool2d(
    data: Any, pool_size: _Sizes = (1, 1), strides: _Sizes = (1, 1), padding: _Sizes = (0, 0),
    dilation: _Sizes = (1, 1), ceil_mode: bool = False, count_include_pad: bool = False, layout: str = "NCHW",
    out_layout: str | None = None,
) -> Expr:  # fmt: skip
    """The mean of windows; unlike in PyTorch, they move by 1 and padding does not count by default."""
    only("avg_pool2d: layout", layout, "NCHW")
    only("avg_pool2d: out_layout", out_layout, None, "NCHW")
    only("avg_pool2d: dilation", dilation, (1, 1), 1, [1, 1])

    def made(x: Value, pool_size: Any, strides: Any, padding: Any, ceil_mode: bool, count_include_pad: bool) -> Value:
        return ops.avg_pool2d(x, pool_size, strides, padding, count_include_pad, ceil_mode)

    settings = {"pool_size": pool_size, "strides": strides, "padding": _equal_pads("avg_pool2d", padding)}
    settings |= {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    return Call("nn.avg_pool2d", made, (as_expr(data),), settings)


def _equal_pads(name: str, padding: _Sizes) -> tuple[int, ...]:
    """The padding of both ends of each axis."""
    found = pads(padding, 2)
    if any(isinstance(one, tuple) and one[0] != one[1] for one in found):
        raise InvalidValueError(f"{name}: padding must be equal on both ends, got {padding!r}; use R.nn.pad before it")
    return tuple(one[0] if isinstance(one, tuple) else one for one in found)


def adaptive_avg_pool2d(
    data: Any, output_size: _Sizes | None = None, layout: str = "NCHW", out_layout: str | None = None
) -> Expr:
    """Means of windows of which there are `output_size`."""
    only("adaptive_avg_pool2d: layout", layout, "NCHW")
    only("adaptive_avg_pool2d: out_layout", out_layout, None, "NCHW")
    settings = {"output_size": output_size}
    return Call(
        "nn.adaptive_avg_pool2d", lambda x, output_size: ops.adaptive_avg_pool2d(x, output_size), (as_expr(data),),
        settings,
    )  # fmt: skip


def batch_flatten(data: Any) -> Expr:
    """All axes but the first as one."""
    return Call("nn.batch_flatten", lambda x: ops.flatten(x, 1), (as_expr(data),), {})


def batch_norm(
    data: Any, gamma: Any, beta: Any, moving_mean: Any, moving_var: Any, axis: int, epsilon: float = 1e-5,
    center: bool = True, scale: bool = True, momentum: float = 0.1, training: bool = True,
) -> Expr:  # fmt: skip
    """Batch normalization: the result, and the new moving mean and variance, which is biased as in TVM.

    In inference, as `Trainer.predict` computes it, the moving statistics normalize and stay as they are.
    """
    only("batch_norm: axis", axis, 1)

    def made(x: Value, g: Value, b: Value, mean: Value, var: Value, **s: Any) -> tuple[Value, Value, Value]:
        weight, bias = (g if s["scale"] else None), (b if s["center"] else None)
        return ops.batch_norm(x, mean, var, weight, bias, s["momentum"], s["epsilon"], unbiased=False)

    def inference(x: Value, g: Value, b: Value, mean: Value, var: Value, **s: Any) -> tuple[Value, Value, Value]:
        weight, bias = (g if s["scale"] else None), (b if s["center"] else None)
        return ops.batch_norm_inference(x, mean, var, weight, bias, s["epsilon"]), mean, var

    args = tuple(map(as_expr, (data, gamma, beta, moving_mean, moving_var)))
    settings = {"axis": axis, "epsilon": epsilon, "center": center, "scale": scale, "momentum": momentum}
    settings["training"] = training
    return Call("nn.batch_norm", made if training else inference, args, settings, inference)


def layer_norm(
    data: Any, gamma: Any, beta: Any, axes: _Sizes, epsilon: float = 1e-5, center: bool = True, scale: bool = True
) -> Expr:
    """Layer normalization over the last axes, whose sizes `gamma` and `beta` have."""
    x = as_expr(data)
    _last_axes("layer_norm", axes, x)

    def made(x: Value, g: Value, b: Value, **s: Any) -> Value:
        return ops.layer_norm(x, g if s["scale"] else None, b if s["center"] else None, s["epsilon"])

    settings = {"axes": axes, "epsilon": epsilon, "center": center, "scale": scale}
    return Call("nn.layer_norm", made, (x, as_expr(gamma), as_expr(beta)), settings)


def rms_norm(data: Any, weight: Any, axes: _Sizes = -1, epsilon: float = 1e-5) -> Expr:
    """Division by the root of the mean square over the last axis."""
    x = as_expr(data)
    _last_axes("rms_norm", axes, x)
    settings = {"axes": axes, "epsilon": epsilon}
    made = lambda x, w, axes, epsilon: ops.rms_norm(x, w, -1, epsilon)  # noqa: E731, ARG005
    return Call("nn.rms_norm", made, (x, as_expr(weight)), settings)


def _last_axes(name: str, given: _Sizes, x: Expr) -> None:
    found = [given] if isinstance(given, int) else list(given)
    rank = len(x.struct_info.shape)
    if [axis % rank for axis in found] != [rank - 1]:
        raise InvalidValueError(f"{name}: axes must be the last one, got {given!r}; transpose the operand")


def group_norm(
    data: Any, gamma: Any, beta: Any, num_groups: int, channel_axis: int, axes: _Sizes, epsilon: float = 1e-5,
    center: bool = True, scale: bool = True,
) -> Expr:  # fmt: skip
    """Normalization over groups of channels, axis 1, and all axes after it."""
    del axes
    only("group_norm: channel_axis", channel_axis, 1)

    def made(x: Value, g: Value, b: Value, num_groups: int, **s: Any) -> Value:
        return ops.group_norm(x, num_groups, g if s["scale"] else None, b if s["center"] else None, s["epsilon"])

    settings = {"num_groups": num_groups, "epsilon": epsilon, "center": center, "scale": scale}
    return Call("nn.group_norm", made, tuple(map(as_expr, (data, gamma, beta))), settings)


def dropout(data: Any, rate: float = 0.5) -> Expr:
    """Refused: Relax has no random numbers in a compiled step."""
    del data
    raise InvalidValueError(
        f"R.nn.dropout needs random numbers in the step, got rate {rate}; write the model with adjoint.ops.dropout and "
        "a key, or through the object door with nn.Dropout"
    )


def pad(data: Any, pad_width: Sequence[int], pad_mode: str | None = "constant", pad_value: float | None = 0.0) -> Expr:
    """Padding: for each axis the number before it and the number after it."""
    only("pad: pad_mode", pad_mode, "constant")
    low, high = tuple(pad_width[::2]), tuple(pad_width[1::2])
    made = lambda x, low, high, value: ops.pad(x, low, high, value)  # noqa: E731
    return Call("nn.pad", made, (as_expr(data),), {"low": low, "high": high, "value": pad_value or 0.0})


def attention(
    query: Any, key: Any, value: Any, bias: Any = None, scale: Any = None, causal_mask: str | None = None,
    window_size: int | None = None,
) -> Expr:  # fmt: skip
    """Attention of heads in the layout [batch, tokens, heads, width]."""
    only("attention: causal_mask", causal_mask, None, "TopLeft")
    only("attention: window_size", window_size, None)

    def made(q: Value, k: Value, v: Value, *mask: Value, **s: Any) -> Value:
        q, k, v = (ops.permute(x, (0, 2, 1, 3)) for x in (q, k, v))
        found = ops.scaled_dot_product_attention(q, k, v, s["causal"], s["scale"], mask[0] if mask else None)
        return ops.permute(found, (0, 2, 1, 3))

    args = [as_expr(x) for x in (query, key, value, bias) if x is not None]
    settings = {"scale": None if scale is None else number(scale, "attention: scale")}
    return Call("nn.attention", made, args, settings | {"causal": causal_mask == "TopLeft"})


def cross_entropy_with_logits(predictions: Any, labels: Any) -> Expr:
    """``-sum(predictions * labels) / N``: the predictions are logarithms of probabilities, as in TVM."""

    def made(x: Value, y: Value) -> Value:
        return ops.negative(ops.sum(x * y)) / (x.shape[0] if len(x.shape) > 1 else 1)

    return Call("nn.cross_entropy_with_logits", made, (as_expr(predictions), as_expr(labels)), {})


def nll_loss(
    predictions: Any, targets: Any, weights: Any = None, reduction: str = "mean", ignore_index: int = -100
) -> Expr:
    """The negative log-likelihood of class indices."""
    loss = NLLLoss(reduction=reduction, ignore_index=ignore_index)
    args = [as_expr(x) for x in (predictions, targets, weights) if x is not None]
    settings = {"reduction": reduction, "ignore_index": ignore_index}
    return Call("nn.nll_loss", lambda *args, reduction, ignore_index: loss(*args), args, settings)  # noqa: ARG005


def cross_entropy(predictions: Any, targets: Any, weights: Any = None, **settings: Any) -> Expr:
    """The cross entropy of scores, by adjoint's loss; `CrossEntropyLoss` uses it."""
    loss = CrossEntropyLoss(**settings)
    args = [as_expr(x) for x in (predictions, targets, weights) if x is not None]
    return Call("adjoint.cross_entropy", lambda *args, **_: loss(*args), args, settings)
