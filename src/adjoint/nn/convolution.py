"""Convolutions and transposed convolutions of sequences, images and volumes."""

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

from adjoint.errors import InvalidValueError
from adjoint.modules import Module
from adjoint.nn import functional as F  # noqa: N812
from adjoint.nn.parameters import check_sizes, drawn, own_dtype
from adjoint.tensor.tensor import Parameter

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

#: The modes of padding.
_MODES = ("zeros", "reflect", "replicate", "circular")


class _Convolution(Module):
    """What the convolutions share: their settings and parameters."""

    bias: Parameter | None
    #: Number of axes of a window.
    axes = 2
    transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int],
        padding: int | str | Sequence[int],
        dilation: int | Sequence[int],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: object,
        dtype: object,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        allowed = ("zeros",) if self.transposed else _MODES
        if padding_mode not in allowed:
            raise InvalidValueError(
                f"{name}: padding_mode must be {', '.join(map(repr, allowed))}, got {padding_mode!r}; use 'zeros'"
            )
        check_sizes(name, in_channels=in_channels, out_channels=out_channels, groups=groups)
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise InvalidValueError(
                f"{name}: groups must divide in_channels and out_channels, got {groups} for {in_channels} and "
                f"{out_channels}; change one"
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.dilation = (self._sizes(n) for n in (kernel_size, stride, dilation))
        self.padding: Any = padding if isinstance(padding, str) else self._sizes(padding)
        self.padding_mode = padding_mode
        first, second = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (first, second // groups, *self.kernel_size)
        fan_in = prod(shape[1:])
        bound = fan_in**-0.5 if fan_in else 0.0
        own = own_dtype(device, dtype)
        self.weight = drawn(shape, bound, own)
        self.register_parameter("bias", drawn((out_channels,), bound, own) if bias else None)

    def _sizes(self, given: int | Sequence[int]) -> tuple[int, ...]:
        sizes = tuple(given) if isinstance(given, Iterable) else (given,) * self.axes
        for size in sizes:
            check_sizes(type(self).__name__, **{"a setting of windows": size})
        if len(sizes) != self.axes:
            raise InvalidValueError(
                f"{type(self).__name__}: a setting must have one number, or one per axis of a window ({self.axes}), "
                f"got {given!r}; change it"
            )
        return sizes

    def extra_repr(self) -> str:
        """The settings that differ from the default."""
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        if self.padding != (0,) * self.axes:
            parts.append(f"padding={self.padding!r}")
        if self.dilation != (1,) * self.axes:
            parts.append(f"dilation={self.dilation}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode!r}")
        return ", ".join(parts)


class Conv2d(_Convolution):
    """Convolution of images: `functional.conv2d`.

    Parameters
    ----------
    in_channels, out_channels : int
        Channels of the input and of the result.
    kernel_size : int or pair of int
        Rows and columns of a window.
    stride, dilation : int or pair of int, default 1
        The distances between windows and between the elements of a window.
    padding : int, pair of int, "valid" or "same", default 0
        The zeros at both ends.
    groups : int, default 1
        Number of groups of channels.
    bias : bool, default True
        Whether there is a bias.
    padding_mode : {"zeros", "reflect", "replicate", "circular"}, default "zeros"
        What is added at both ends: zeros, or elements of the input as by `functional.pad`.
    device : str, optional
        "cpu".
    dtype : str or numpy dtype, optional
        Dtype of the parameters; default: `adjoint.get_default_dtype`.

    Attributes
    ----------
    weight : Parameter
        Shape ``[out_channels, in_channels / groups, rows, columns]``, drawn evenly between plus and minus
        ``1 / sqrt(in_channels / groups * rows * columns)``.
    bias : Parameter or None
        Shape ``[out_channels]``, drawn likewise.
    """

    _function: Callable[..., Any] = staticmethod(F.conv2d)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | str | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Any) -> Any:
        """The convolved images or sequences."""
        function, padding = type(self)._function, self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._around(), self.padding_mode), 0
        return function(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def _around(self) -> tuple[int, ...]:
        """The padding as `functional.pad` takes it: two numbers for each axis, the last axis first."""
        if isinstance(self.padding, str):
            spans = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            pairs = [(n // 2, n - n // 2) if self.padding == "same" else (0, 0) for n in spans]
        else:
            pairs = [(n, n) for n in self.padding]
        return tuple(n for both in reversed(pairs) for n in both)


class Conv1d(Conv2d):
    """Convolution of sequences: `functional.conv1d`.

    The parameters are those of `Conv2d`, with one number where those have two.
    """

    axes = 1
    _function: Callable[..., Any] = staticmethod(F.conv1d)


class Conv3d(Conv2d):
    """Convolution of volumes: `functional.conv3d`.

    The parameters are those of `Conv2d`, with three numbers where those have two.
    """

    axes = 3
    _function: Callable[..., Any] = staticmethod(F.conv3d)


class ConvTranspose2d(_Convolution):
    """The gradient of a convolution of images, which enlarges images: `functional.conv_transpose2d`.

    Parameters
    ----------
    in_channels, out_channels : int
        Channels of the input and of the result.
    kernel_size, stride, padding, dilation
        As in `Conv2d`.
    output_padding : int or pair of int, default 0
        Rows and columns that are added at the end of the result, fewer than the stride or the dilation.
    groups : int, default 1
        Number of groups of channels.
    bias : bool, default True
        Whether there is a bias.
    padding_mode : {"zeros"}
        The only mode, as in PyTorch.
    device : str, optional
        "cpu".
    dtype : str or numpy dtype, optional
        Dtype of the parameters; default: `adjoint.get_default_dtype`.

    Attributes
    ----------
    weight : Parameter
        Shape ``[in_channels, out_channels / groups, rows, columns]``, drawn evenly between plus and minus ``1 /
        sqrt(out_channels / groups * rows * columns)``.
    bias : Parameter or None
        Shape ``[out_channels]``, drawn likewise.
    """

    transposed = True
    _function: Callable[..., Any] = staticmethod(F.conv_transpose2d)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Sequence[int] = 1,
        padding_mode: str = "zeros",
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )
        self.output_padding = self._sizes(output_padding)

    def forward(self, input: Any, output_size: Sequence[int] | None = None) -> Any:
        """The enlarged images, of a size that is one of those that are possible with the stride."""
        more = self.output_padding if output_size is None else self._more(input.shape, output_size)
        rest = self.weight, self.bias, self.stride, self.padding, more, self.groups, self.dilation
        return type(self)._function(input, *rest)

    def _more(self, shape: Sequence[int], wanted: Sequence[int]) -> tuple[int, ...]:
        """The output padding for a size of the result."""
        size, settings = tuple(wanted)[-self.axes :], (self.stride, self.padding, self.dilation, self.kernel_size)
        axes = zip(shape[-self.axes :], *settings, strict=True)
        least = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, d, k in axes]
        most = [n + s - 1 for n, s in zip(least, self.stride, strict=True)]
        if len(size) != self.axes or any(not a <= n <= b for a, n, b in zip(least, size, most, strict=True)):
            raise InvalidValueError(
                f"{type(self).__name__}: output_size must be from {least} to {most} for an input of "
                f"{list(shape)}, got {list(wanted)}; change it"
            )
        return tuple(n - a for n, a in zip(size, least, strict=True))


class ConvTranspose1d(ConvTranspose2d):
    """The gradient of a convolution of sequences, which enlarges sequences: `functional.conv_transpose1d`.

    The parameters are those of `ConvTranspose2d`, with one number where those have two.
    """

    axes = 1
    _function: Callable[..., Any] = staticmethod(F.conv_transpose1d)


class ConvTranspose3d(ConvTranspose2d):
    """The gradient of a convolution of volumes, which enlarges volumes: `functional.conv_transpose3d`.

    The parameters are those of `ConvTranspose2d`, with three numbers where those have two.
    """

    axes = 3
    _function: Callable[..., Any] = staticmethod(F.conv_transpose3d)
