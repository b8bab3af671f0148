"""`mindspore.nn.layer`: layers with MindSpore's arguments, defaults and names of parameters."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from adjoint.compat.mindspore.common.initializer import defaults, initializer
from adjoint.compat.mindspore.common.parameter import Parameter
from adjoint.compat.mindspore.nn.activations import get_activation
from adjoint.compat.mindspore.nn.cell import Cell
from adjoint.compat.uncovered import uncovered
from adjoint.errors import InvalidValueError
from adjoint.nn import functional
from adjoint.tensor.creation import ones_like

__all__ = [
    "AvgPool1d",
    "AvgPool2d",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Conv1d",
    "Conv2d",
    "Conv2dTranspose",
    "Dense",
    "Dropout",
    "Embedding",
    "Flatten",
    "GroupNorm",
    "Identity",
    "LayerNorm",
    "MaxPool1d",
    "MaxPool2d",
]


def _sizes(given: int | Sequence[int], axes: int) -> tuple[int, ...]:
    return (given,) * axes if isinstance(given, int) else tuple(given)[-axes:]


def _edges(
    mode: str, padding: int | Sequence[int], sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int],
    dilation: Sequence[int],
) -> list[tuple[int, int]]:  # fmt: skip
    """What is added before and after each axis."""
    if mode == "valid":
        return [(0, 0)] * len(kernel)
    if mode == "same":
        totals = [
            max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
            for n, k, s, d in zip(sizes, kernel, stride, dilation, strict=True)
        ]
        return [(total // 2, total - total // 2) for total in totals]
    if mode != "pad":
        raise InvalidValueError(f"pad_mode must be 'same', 'valid' or 'pad', got {mode!r}")
    if isinstance(padding, int):
        return [(padding, padding)] * len(kernel)
    if len(padding) == len(kernel):
        return [(p, p) for p in padding]
    return [(padding[2 * i], padding[2 * i + 1]) for i in range(len(kernel))]


def _padded(x: Any, edges: Sequence[tuple[int, int]], value: float = 0.0) -> tuple[Any, tuple[int, ...]]:
    """The input, filled up where both ends of an axis differ, and what remains to be added to both ends."""
    if all(before == after for before, after in edges):
        return x, tuple(before for before, _ in edges)
    widths = [width for edge in reversed(edges) for width in edge]
    return functional.pad(x, widths, "constant", value), (0,) * len(edges)


class Dense(Cell):
    """``Dense(in_channels, out_channels)``: `adjoint.nn.Linear`, with an activation if one is named."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        weight_init: Any = None,
        bias_init: Any = None,
        has_bias: bool = True,
        activation: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels, self.has_bias = in_channels, out_channels, has_bias
        weight, bias = defaults(in_channels)
        made = initializer(weight if weight_init is None else weight_init, (out_channels, in_channels), dtype)
        self.weight = Parameter(made, name="weight")
        self.bias: Any = None
        if has_bias:
            made = initializer(bias if bias_init is None else bias_init, (out_channels,), dtype)
            self.bias = Parameter(made, name="bias")
        self.activation = get_activation(activation) if isinstance(activation, str) else activation

    def construct(self, x: Any) -> Any:
        """The product with the weight, and the bias and the activation if there are any."""
        made = functional.linear(x, self.weight, self.bias)
        return made if self.activation is None else self.activation(made)


class _Conv(Cell):
    """What convolutions share."""

    axes = 2
    transposed = False
    call: Callable[..., Any]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        pad_mode: str = "same",
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        group: int = 1,
        has_bias: bool = False,
        weight_init: Any = None,
        bias_init: Any = None,
        data_format: str = "NCHW",
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if data_format not in ("NCHW", "NCL"):
            raise InvalidValueError(f"{type(self).__name__}: data_format must be 'NCHW', got {data_format!r}; permute")
        self.in_channels, self.out_channels, self.group = in_channels, out_channels, group
        self.pad_mode, self.padding, self.has_bias = pad_mode, padding, has_bias
        self.kernel_size, self.stride, self.dilation = (
            _sizes(given, self.axes) for given in (kernel_size, stride, dilation)
        )
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (first, second // group, *self.kernel_size)
        weight, bias = defaults(prod(shape[1:]))
        self.weight = Parameter(initializer(weight if weight_init is None else weight_init, shape, dtype), "weight")
        self.bias: Any = None
        if has_bias:
            made = initializer(bias if bias_init is None else bias_init, (out_channels,), dtype)
            self.bias = Parameter(made, name="bias")

    def construct(self, x: Any) -> Any:
        """The convolution."""
        sizes = x.shape[2:]
        edges = _edges(self.pad_mode, self.padding, sizes, self.kernel_size, self.stride, self.dilation)
        given, padding = _padded(x, edges)
        return type(self).call(
            given, self.weight, self.bias, self.stride, padding, dilation=self.dilation, groups=self.group
        )


class Conv2d(_Conv):
    """``Conv2d(in_channels, out_channels, kernel_size)``: `pad_mode` is "same", and there is no bias."""

    call = staticmethod(functional.conv2d)


class Conv1d(_Conv):
    """``Conv1d(in_channels, out_channels, kernel_size)``: as `Conv2d`."""

    axes = 1
    call = staticmethod(functional.conv1d)


class Conv2dTranspose(_Conv):
    """``Conv2dTranspose(in_channels, out_channels, kernel_size)``: results of "same" are `stride` times as large."""

    transposed = True

    def construct(self, x: Any) -> Any:
        """The transposed convolution."""
        spans = [d * (k - 1) + 1 for k, d in zip(self.kernel_size, self.dilation, strict=True)]
        if self.pad_mode == "same":
            totals = [span - s for span, s in zip(spans, self.stride, strict=True)]
            edges = [(max(total, 0) // 2, max(total, 0) - max(total, 0) // 2) for total in totals]
            longer = [max(-total, 0) for total in totals]
        else:
            edges, longer = _edges(self.pad_mode, self.padding, (), spans, self.stride, (1, 1)), [0, 0]
        before = [edge[0] for edge in edges]
        made = functional.conv_transpose2d(
            x, self.weight, self.bias, self.stride, before, longer, self.group, self.dilation
        )
        cut = [size - (edge[1] - edge[0]) for size, edge in zip(made.shape[2:], edges, strict=True)]
        return made[:, :, : cut[0], : cut[1]] if cut != list(made.shape[2:]) else made


class _Pool(Cell):
    """What pooling layers share."""

    axes = 2

    def __init__(
        self,
        kernel_size: int | Sequence[int] = 1,
        stride: int | Sequence[int] = 1,
        pad_mode: str = "valid",
        padding: int | Sequence[int] = 0,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = _sizes(kernel_size, self.axes), _sizes(stride, self.axes)
        self.pad_mode, self.padding = pad_mode.lower(), padding

    def _edges(self, x: Any) -> list[tuple[int, int]]:
        return _edges(
            self.pad_mode, self.padding, x.shape[-self.axes :], self.kernel_size, self.stride, (1,) * self.axes
        )


class MaxPool2d(_Pool):
    """``MaxPool2d(kernel_size=1, stride=1, pad_mode="valid")``."""

    def construct(self, x: Any) -> Any:
        """The largest elements of windows."""
        given, padding = _padded(x, self._edges(x), float("-inf"))
        call = functional.max_pool2d if self.axes == 2 else functional.max_pool1d
        return call(given, self.kernel_size, self.stride, padding)


class MaxPool1d(MaxPool2d):
    """``MaxPool1d(kernel_size=1, stride=1, pad_mode="valid")``."""

    axes = 1


class AvgPool2d(_Pool):
    """``AvgPool2d(kernel_size=1, stride=1, pad_mode="valid")``; with "same", means of the elements that there are."""

    def __init__(
        self,
        kernel_size: int | Sequence[int] = 1,
        stride: int | Sequence[int] = 1,
        pad_mode: str = "valid",
        padding: int | Sequence[int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__(kernel_size, stride, pad_mode, padding)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def construct(self, x: Any) -> Any:
        """The means of windows."""
        given, padding = _padded(x, self._edges(x))
        call = functional.avg_pool2d if self.axes == 2 else functional.avg_pool1d
        own = self.count_include_pad and self.pad_mode != "same"
        means = call(given, self.kernel_size, self.stride, padding, self.ceil_mode, own)
        if given is x:
            return means
        there = _padded(ones_like(x), self._edges(x))[0]
        return means / call(there, self.kernel_size, self.stride, padding)


class AvgPool1d(AvgPool2d):
    """``AvgPool1d(kernel_size=1, stride=1, pad_mode="valid")``."""

    axes = 1


class BatchNorm2d(Cell):
    """``BatchNorm2d(num_features, eps=1e-5, momentum=0.9)``: `momentum` is the weight of the old moving values."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.9,
        affine: bool = True,
        gamma_init: Any = "ones",
        beta_init: Any = "zeros",
        moving_mean_init: Any = "zeros",
        moving_var_init: Any = "ones",
        use_batch_statistics: bool | None = None,
        data_format: str = "NCHW",  # noqa: ARG002
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.use_batch_statistics = use_batch_statistics

        def made(init: Any, name: str, trained: bool) -> Parameter:
            return Parameter(initializer(init, (num_features,), dtype), name, trained)

        self.moving_mean = made(moving_mean_init, "moving_mean", False)
        self.moving_variance = made(moving_var_init, "moving_variance", False)
        self.gamma, self.beta = made(gamma_init, "gamma", affine), made(beta_init, "beta", affine)

    def construct(self, x: Any) -> Any:
        """Normalized with the statistics of the batch while it is trained, otherwise with the moving ones."""
        own = self.training if self.use_batch_statistics is None else self.use_batch_statistics
        return functional.batch_norm(
            x, self.moving_mean, self.moving_variance, self.gamma, self.beta, own, 1 - self.momentum, self.eps
        )


class BatchNorm1d(BatchNorm2d):
    """``BatchNorm1d(num_features, eps=1e-5, momentum=0.9)``."""


class BatchNorm3d(BatchNorm2d):
    """``BatchNorm3d(num_features, eps=1e-5, momentum=0.9)``."""


class LayerNorm(Cell):
    """``LayerNorm(normalized_shape, begin_norm_axis=-1, begin_params_axis=-1, epsilon=1e-7)``."""

    def __init__(
        self,
        normalized_shape: Sequence[int],
        begin_norm_axis: int = -1,
        begin_params_axis: int = -1,
        gamma_init: Any = "ones",
        beta_init: Any = "zeros",
        epsilon: float = 1e-7,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape, self.epsilon = tuple(normalized_shape), epsilon
        self.begin_norm_axis, self.begin_params_axis = begin_norm_axis, begin_params_axis
        self.gamma = Parameter(initializer(gamma_init, self.normalized_shape, dtype), "gamma")
        self.beta = Parameter(initializer(beta_init, self.normalized_shape, dtype), "beta")

    def construct(self, x: Any) -> Any:
        """Normalized over the axes from `begin_norm_axis` on."""
        rest = tuple(x.shape[self.begin_norm_axis :])
        if rest == self.normalized_shape:
            return functional.layer_norm(x, rest, self.gamma, self.beta, self.epsilon)
        return functional.layer_norm(x, rest, None, None, self.epsilon) * self.gamma + self.beta


class GroupNorm(Cell):
    """``GroupNorm(num_groups, num_channels, eps=1e-5)``."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        gamma_init: Any = "ones",
        beta_init: Any = "zeros",
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.gamma = Parameter(initializer(gamma_init, (num_channels,), dtype), "gamma", affine)
        self.beta = Parameter(initializer(beta_init, (num_channels,), dtype), "beta", affine)

    def construct(self, x: Any) -> Any:
        """Normalized over groups of channels."""
        return functional.group_norm(x, self.num_groups, self.gamma, self.beta, self.eps)


class Dropout(Cell):
    """``Dropout(p=...)`` drops with probability `p`; ``Dropout(keep_prob)``, of releases before 2, keeps with it."""

    def __init__(self, keep_prob: float = 0.5, p: float | None = None, dtype: Any = None) -> None:  # noqa: ARG002
        super().__init__()
        self.keep_prob, self.p = keep_prob, p

    def construct(self, x: Any) -> Any:
        """Some elements replaced by 0 while it is trained."""
        return functional.dropout(x, 1 - self.keep_prob if self.p is None else self.p, self.training)


class Embedding(Cell):
    """``Embedding(vocab_size, embedding_size, use_one_hot=False, embedding_table="normal")``."""

    def __init__(
        self,
        vocab_size: int,
        embedding_size: int,
        use_one_hot: bool = False,  # noqa: ARG002
        embedding_table: Any = "normal",
        dtype: Any = None,
        padding_idx: int | None = None,
    ) -> None:
        super().__init__()
        self.vocab_size, self.embedding_size, self.padding_idx = vocab_size, embedding_size, padding_idx
        made = initializer(embedding_table, (vocab_size, embedding_size), dtype)
        if padding_idx is not None:
            made[padding_idx] = 0.0
        self.embedding_table = Parameter(made, "embedding_table")

    def construct(self, ids: Any) -> Any:
        """The rows of the table."""
        return functional.embedding(ids, self.embedding_table, self.padding_idx)


class Flatten(Cell):
    """``Flatten(start_dim=1, end_dim=-1)``."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def construct(self, x: Any) -> Any:
        """One axis in place of several."""
        return x.flatten(self.start_dim, self.end_dim)


class Identity(Cell):
    """Returns what it is given."""

    def construct(self, x: Any) -> Any:
        """The same."""
        return x


__getattr__ = uncovered(__name__, {}, "adjoint.nn")
