"""Normalization by mean and variance."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.modules import Module
from adjoint.nn import functional as F  # noqa: N812
from adjoint.nn.functional.normalization import train_batch_norm
from adjoint.nn.parameters import check_sizes, filled, filled_buffer, own_dtype, require_tensor
from adjoint.tensor.assign import assign
from adjoint.tensor.tensor import Parameter, Tensor

__all__ = [
    "BatchNorm",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "GroupNorm",
    "InstanceNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "LocalResponseNorm",
    "RMSNorm",
]


class BatchNorm(Module):
    """Normalization of each channel over a batch (Ioffe and Szegedy, 2015).

    While it is trained, the statistics are those of the batch, and the running ones are updated in the same program;
    afterwards (`eval`) the running ones are used.

    Parameters
    ----------
    num_features : int
        Number of channels.
    eps : float, default 1e-5
        Added to the variance.
    momentum : float or None, default 0.1
        The weight of a batch in the running statistics; None for the mean over all batches.
    affine : bool, default True
        Whether there are a weight and a bias per channel.
    track_running_stats : bool, default True
        Whether there are running statistics. Without, those of the batch are always used.
    device : str, optional
        "cpu".
    dtype : str or numpy dtype, optional
        Dtype of parameters and statistics.
    unbiased : bool, default True
        Whether the running variance is the unbiased estimate, as in PyTorch, rather than the variance of the batch.

    Attributes
    ----------
    weight, bias : Parameter or None
        Shape ``[num_features]``, ones and zeros.
    running_mean, running_var : Tensor or None
        Shape ``[num_features]``, zeros and ones.
    num_batches_tracked : Tensor or None
        The number of batches in the running statistics, i64.
    """

    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    #: The numbers of axes that the input may have.
    ranks: tuple[int, ...] = ()

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: object = None,
        dtype: object = None,
        unbiased: bool = True,
    ) -> None:
        super().__init__()
        check_sizes(type(self).__name__, num_features=num_features)
        self.num_features, self.eps, self.momentum, self.unbiased = num_features, eps, momentum, unbiased
        self.affine, self.track_running_stats = affine, track_running_stats
        own, shape = own_dtype(device, dtype), (num_features,)
        self.register_parameter("weight", filled(shape, 1.0, own) if affine else None)
        self.register_parameter("bias", filled(shape, 0.0, own) if affine else None)
        kept = track_running_stats
        self.register_buffer("running_mean", filled_buffer(shape, 0.0, own) if kept else None)
        self.register_buffer("running_var", filled_buffer(shape, 1.0, own) if kept else None)
        self.register_buffer("num_batches_tracked", filled_buffer((), 0, np.dtype(np.int64)) if kept else None)

    def reset_running_stats(self) -> None:
        """Set the running statistics to zeros and ones, if there are any."""
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            assign(self.running_mean, np.zeros(self.running_mean.shape, self.running_mean.dtype))
            assign(self.running_var, np.ones(self.running_var.shape, self.running_var.dtype))
            assign(self.num_batches_tracked, np.zeros((), np.int64))

    def forward(self, input: Any) -> Any:
        """The normalized input."""
        require_tensor(type(self).__name__, input)
        if len(input.shape) not in self.ranks:
            raise TypeRuleError(
                f"{type(self).__name__}: the input must have {' or '.join(map(str, self.ranks))} axes, got the shape "
                f"{tuple(input.shape)}; use the layer for it"
            )
        mean, var = self.running_mean, self.running_var
        if mean is None or not self.training:
            return F.batch_norm(input, mean, var, self.weight, self.bias, mean is None, 0.0, self.eps)
        return train_batch_norm(
            input, mean, var, self.num_batches_tracked, self.weight, self.bias, self.momentum, self.eps, self.unbiased
        )

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"track_running_stats={self.track_running_stats}"
        )


class BatchNorm1d(BatchNorm):
    """Batch normalization of ``[N, C]`` or ``[N, C, L]``; settings and attributes are those of `BatchNorm`."""

    ranks = (2, 3)


class BatchNorm2d(BatchNorm):
    """Batch normalization of images ``[N, C, H, W]``; settings and attributes are those of `BatchNorm`."""

    ranks = (4,)


class BatchNorm3d(BatchNorm):
    """Batch normalization of volumes ``[N, C, D, H, W]``; settings and attributes are those of `BatchNorm`."""

    ranks = (5,)


def _shape(given: int | Sequence[int]) -> tuple[int, ...]:
    return (given,) if isinstance(given, int) else tuple(given)


class LayerNorm(Module):
    """Normalization over the last axes (Ba, Kiros and Hinton, 2016).

    Parameters
    ----------
    normalized_shape : int or sequence of int
        The sizes of these axes.
    eps : float, default 1e-5
        Added to the variance.
    elementwise_affine : bool, default True
        Whether there is a weight.
    bias : bool, default True
        Whether there is a bias besides.
    device : str, optional
        "cpu".
    dtype : str or numpy dtype, optional
        Dtype of the parameters; default: `adjoint.get_default_dtype`.

    Attributes
    ----------
    weight, bias : Parameter or None
        Of the shape `normalized_shape`, ones and zeros.
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__()
        self.normalized_shape, self.eps = _shape(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        own = own_dtype(device, dtype)
        self.register_parameter("weight", filled(self.normalized_shape, 1.0, own) if elementwise_affine else None)
        self.register_parameter(
            "bias", filled(self.normalized_shape, 0.0, own) if elementwise_affine and bias else None
        )

    def forward(self, input: Any) -> Any:
        """The normalized input."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The settings."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class RMSNorm(Module):
    """Division by the root of the mean square over the last axes (Zhang and Sennrich, 2019).

    Parameters
    ----------
    normalized_shape : int or sequence of int
        The sizes of these axes.
    eps : float, optional
        Added to the mean; default: the machine epsilon.
    elementwise_affine : bool, default True
        Whether there is a weight.
    device : str, optional
        "cpu".
    dtype : str or numpy dtype, optional
        Dtype of the parameters; default: `adjoint.get_default_dtype`.

    Attributes
    ----------
    weight : Parameter or None
        Of the shape `normalized_shape`, ones.
    """

    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__()
        self.normalized_shape, self.eps = _shape(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        own = own_dtype(device, dtype)
        self.register_parameter("weight", filled(self.normalized_shape, 1.0, own) if elementwise_affine else None)

    def forward(self, input: Any) -> Any:
        """The input, divided."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The settings."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Normalization over groups of channels and all pixels (Wu and He, 2018).

    Parameters
    ----------
    num_groups, num_channels : int
        Numbers of groups and channels; the second is a multiple of the first.
    eps : float, default 1e-5
        Added to the variance.
    affine : bool, default True
        Whether there are a weight and a bias per channel.
    device : str, optional
        "cpu".
    dtype : str or numpy dtype, optional
        Dtype of the parameters; default: `adjoint.get_default_dtype`.

    Attributes
    ----------
    weight, bias : Parameter or None
        Shape ``[num_channels]``, ones and zeros.
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__()
        check_sizes("GroupNorm", num_groups=num_groups, num_channels=num_channels)
        if num_groups < 1 or num_channels % num_groups:
            raise InvalidValueError(
                f"GroupNorm: num_channels must be a multiple of num_groups, got {num_channels} and {num_groups}; "
                "change one"
            )
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        own = own_dtype(device, dtype)
        self.register_parameter("weight", filled((num_channels,), 1.0, own) if affine else None)
        self.register_parameter("bias", filled((num_channels,), 0.0, own) if affine else None)

    def forward(self, input: Any) -> Any:
        """The normalized input."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The settings."""
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"


class InstanceNorm(Module):
    """Normalization of each channel of each image (Ulyanov et al., 2016).

    Parameters
    ----------
    num_features : int
        Number of channels.
    eps : float, default 1e-5
        Added to the variance.
    momentum : float, default 0.1
        The weight of a batch in the running statistics.
    affine : bool, default False
        Whether there are a weight and a bias per channel.
    track_running_stats : bool, default False
        Whether there are running statistics, which are used outside of training.
    device : str, optional
        "cpu".
    dtype : str or numpy dtype, optional
        Dtype of the parameters; default: `adjoint.get_default_dtype`.

    Attributes
    ----------
    weight, bias : Parameter or None
        Shape ``[num_features]``, ones and zeros.
    running_mean, running_var : Tensor or None
        Shape ``[num_features]``, zeros and ones.
    num_batches_tracked : Tensor or None
        0: as in PyTorch, it is not counted.
    """

    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    #: Number of axes of an image; one of them more than the input may have, for a batch.
    axes = 2

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__()
        check_sizes(type(self).__name__, num_features=num_features)
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        own, shape, kept = own_dtype(device, dtype), (num_features,), track_running_stats
        self.register_parameter("weight", filled(shape, 1.0, own) if affine else None)
        self.register_parameter("bias", filled(shape, 0.0, own) if affine else None)
        self.register_buffer("running_mean", filled_buffer(shape, 0.0, own) if kept else None)
        self.register_buffer("running_var", filled_buffer(shape, 1.0, own) if kept else None)
        self.register_buffer("num_batches_tracked", filled_buffer((), 0, np.dtype(np.int64)) if kept else None)

    def forward(self, input: Any) -> Any:
        """The normalized input."""
        require_tensor(type(self).__name__, input)
        rank = len(input.shape)
        if rank not in (self.axes + 1, self.axes + 2):
            raise TypeRuleError(
                f"{type(self).__name__}: the input must have {self.axes + 1} or {self.axes + 2} axes, got the shape "
                f"{tuple(input.shape)}; use the layer for it"
            )
        x = input if rank == self.axes + 2 else input[None]
        mean, var = self.running_mean, self.running_var
        own = self.training or mean is None
        result = F.instance_norm(x, mean, var, self.weight, self.bias, own, self.momentum, self.eps)
        return result if rank == self.axes + 2 else result[0]

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"track_running_stats={self.track_running_stats}"
        )


class InstanceNorm1d(InstanceNorm):
    """Instance normalization of sequences ``[N, C, L]`` or ``[C, L]``; settings and attributes of `InstanceNorm`."""

    axes = 1


class InstanceNorm2d(InstanceNorm):
    """Instance normalization of images ``[N, C, H, W]`` or ``[C, H, W]``; settings and attributes of `InstanceNorm`."""


class InstanceNorm3d(InstanceNorm):
    """Instance normalization of volumes, with or without N; settings and attributes of `InstanceNorm`."""

    axes = 3


class LocalResponseNorm(Module):
    """Division by a power of the mean square of neighbouring channels: `functional.local_response_norm`.

    Parameters
    ----------
    size : int
        Number of channels of a mean.
    alpha, beta, k : float, default 1e-4, 0.75, 1
        The numbers of the formula.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Any) -> Any:
        """The input, divided."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """The settings."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
