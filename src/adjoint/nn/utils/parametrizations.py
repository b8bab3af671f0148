"""Weight and spectral normalization of parameters: the names of ``torch.nn.utils.parametrizations``."""

from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.modules import Module
from adjoint.nn import functional as F  # noqa: N812
from adjoint.nn.convolution import ConvTranspose2d
from adjoint.nn.utils.parametrize import register_parametrization
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.linear_algebra import mv
from adjoint.tensor.making import from_array
from adjoint.tensor.random import host_normal
from adjoint.tensor.tensor import Tensor

__all__ = [
    "as_matrix",
    "norm_except",
    "power_iteration",
    "spectral_dim",
    "spectral_norm",
    "spectral_value",
    "starting_vectors",
    "weight_norm",
]

#: The number of power iterations for the first vectors, as in PyTorch.
_FIRST_ITERATIONS = 15


def norm_except(weight: Any, dim: int | None) -> Any:
    """The norms of the slices along an axis, with the other axes of size 1; None for the norm of the whole."""
    if dim is None or dim == -1:  # -1 is PyTorch's other word for the whole
        return weight.norm()
    axis = dim % weight.ndim
    rows = weight.transpose(0, axis).reshape(weight.shape[axis], -1)
    return rows.norm(2, 1).reshape([n if i == axis else 1 for i, n in enumerate(weight.shape)])


class _WeightNorm(Module):
    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        """The direction with the given norms."""
        return weight_v * (weight_g / norm_except(weight_v, self.dim))

    def right_inverse(self, weight: Any) -> tuple[Any, Any]:
        """The norms, and the weight itself as direction."""
        return norm_except(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Make a weight the product of a norm and a direction, ``g * v / norm(v)`` (Salimans and Kingma, 2016).

    Parameters
    ----------
    module : Module
        The module, which is changed and returned. ``parametrizations.weight.original0`` is g, ``original1`` is v.
    name : str, default "weight"
        The name of the weight.
    dim : int or None, default 0
        The axis along which each slice has a norm of its own; None for one norm of the whole.
    """
    return register_parametrization(module, name, _WeightNorm(dim))


def as_matrix(weight: Any, dim: int) -> Any:
    """A weight as a matrix, whose rows are its slices along an axis."""
    return weight.transpose(0, dim).reshape(weight.shape[dim], -1) if dim else weight.reshape(weight.shape[0], -1)


def starting_vectors(matrix: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Approximations of the first singular vectors of a matrix, by power iterations from random vectors."""
    array = np.asarray(matrix.detach().elements().array, np.float64)
    u, v = (np.asarray(host_normal((n,), 0.0, 1.0, np.dtype(np.float64))) for n in array.shape)
    for _ in range(_FIRST_ITERATIONS):
        u = array @ v
        u = u / max(np.linalg.norm(u), eps)
        v = array.T @ u
        v = v / max(np.linalg.norm(v), eps)
    return from_array(u.astype(matrix.dtype)), from_array(v.astype(matrix.dtype))


def power_iteration(matrix: Any, first: Any, second: Any, iterations: int, eps: float) -> None:
    """Move vectors, in place, towards the first singular vectors of a matrix, by power iterations.

    Parameters
    ----------
    matrix : Tensor
        The matrix.
    first, second : Tensor
        The left and the right vector. With those exchanged and the transposed matrix, the right vector is computed
        first.
    iterations : int
        How many.
    eps : float
        The least norm that a vector is divided by.
    """
    with no_grad():
        left, right = first, second
        for _ in range(iterations):
            left = F.normalize(mv(matrix, right), dim=0, eps=eps)
            right = F.normalize(mv(matrix.T, left), dim=0, eps=eps)
        first.copy_(left)
        second.copy_(right)


def spectral_value(matrix: Any, u: Any, v: Any) -> Any:
    """The first singular value of a matrix, given its vectors."""
    return (u.clone() * mv(matrix, v.clone())).sum()


class _SpectralNorm(Module):
    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        self.n_power_iterations, self.dim, self.eps = n_power_iterations, dim, eps
        if weight.ndim > 1:
            u, v = starting_vectors(as_matrix(weight, dim), eps)
            self.register_buffer("_u", u)
            self.register_buffer("_v", v)

    def forward(self, weight: Any) -> Any:
        """The weight divided by its first singular value."""
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            power_iteration(matrix, self._u, self._v, self.n_power_iterations, self.eps)
        return weight / spectral_value(matrix, self._u, self._v)

    def right_inverse(self, weight: Any) -> Any:
        """The weight itself."""
        return weight


def spectral_dim(owner: str, module: Module, weight: Tensor, iterations: int, dim: int | None) -> int:
    """The axis of the outputs, after checking the settings."""
    if iterations < 1:
        raise InvalidValueError(f"{owner}: n_power_iterations must be at least 1, got {iterations}; use 1")
    found = int(isinstance(module, ConvTranspose2d)) if dim is None else dim
    if not -weight.ndim <= found < weight.ndim:
        raise InvalidValueError(
            f"{owner}: dim must be an axis of the weight, which has {weight.ndim}, got {found}; use 0"
        )
    return found % weight.ndim


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Make a weight one that is divided by its greatest singular value (Miyato et al., 2018).

    The singular vectors are approximated by power iterations, of which each computation of the weight while training
    takes some; they are the buffers ``parametrizations.weight.0._u`` and ``_v``.

    Parameters
    ----------
    module : Module
        The module, which is changed and returned.
    name : str, default "weight"
        The name of the weight.
    n_power_iterations : int, default 1
        The number of iterations, at least 1.
    eps : float, default 1e-12
        The least norm that a vector is divided by.
    dim : int, optional
        The axis of the outputs; default: 1 for transposed convolutions, otherwise 0.

    Raises
    ------
    InvalidValueError
        If a setting is out of range.
    """
    weight = getattr(module, name)
    axis = spectral_dim("spectral_norm", module, weight, n_power_iterations, dim)
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, axis, eps))
