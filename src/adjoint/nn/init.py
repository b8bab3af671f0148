"""Initialization of parameters, in place and with PyTorch's distributions.

The numbers are drawn on the host from the global generator, so `adjoint.manual_seed` makes them reproducible. Each
function returns the tensor that it is given.
"""

from math import erf, prod, sqrt
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError, kind_of
from adjoint.tensor.assign import assign
from adjoint.tensor.random import host_normal, host_uniform
from adjoint.tensor.tensor import Tensor

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

#: Gains of functions without a setting: PyTorch's table.
_GAINS = {
    **dict.fromkeys(("linear", "identity", "conv1d", "conv2d", "conv3d", "sigmoid"), 1.0),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), 1.0),
    "tanh": 5.0 / 3.0,
    "relu": sqrt(2.0),
    "selu": 0.75,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which initialization makes up for an activation function.

    Parameters
    ----------
    nonlinearity : str
        Name of the function: "linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu" or "selu".
    param : float, optional
        The slope of "leaky_relu"; default: 0.01.

    Raises
    ------
    InvalidValueError
        If the name is unknown.
    """
    if nonlinearity == "leaky_relu":
        return sqrt(2.0 / (1.0 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        raise InvalidValueError(
            f"calculate_gain: the nonlinearity must be one of {', '.join((*_GAINS, 'leaky_relu'))}, got "
            f"{nonlinearity!r}; use one of them"
        )
    return _GAINS[nonlinearity]


def _shape(name: str, tensor: Any) -> tuple[int, ...]:
    if not isinstance(tensor, Tensor):
        raise TypeRuleError(f"{name}: what is initialized must be a tensor, got {kind_of(tensor)}; pass a parameter")
    return tuple(tensor.shape)


def _written(tensor: Tensor, array: np.ndarray) -> Tensor:
    assign(tensor, array.astype(tensor.dtype, copy=False))
    return tensor


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Draw the elements evenly from ``[a, b)``."""
    return _written(tensor, host_uniform(_shape("uniform_", tensor), a, b, tensor.dtype))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Draw the elements from a normal distribution."""
    return _written(tensor, host_normal(_shape("normal_", tensor), mean, std, tensor.dtype))


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> Tensor:
    """Draw the elements from a normal distribution of which only the part from `a` to `b` is left.

    Elements outside are drawn again.

    Parameters
    ----------
    tensor : Tensor
        The tensor.
    mean, std : float, default 0.0 and 1.0
        Mean and standard deviation before the cut.
    a, b : float, default -2.0 and 2.0
        The bounds, which are not multiplied by `std`.

    Raises
    ------
    InvalidValueError
        If less than a millionth of the distribution is between the bounds.
    """
    share = (erf((b - mean) / (std * sqrt(2.0))) - erf((a - mean) / (std * sqrt(2.0)))) / 2.0
    if share < 1e-6:
        raise InvalidValueError(
            f"trunc_normal_: the bounds must leave a part of the distribution, got {a} to {b} for mean {mean} and "
            f"standard deviation {std}; widen them"
        )
    wide = np.dtype(np.float64)
    array = host_normal(tuple(tensor.shape), mean, std, wide)
    outside = (array < a) | (array > b)
    while outside.any():
        array[outside] = host_normal((int(outside.sum()),), mean, std, wide)
        outside = (array < a) | (array > b)
    return _written(tensor, array)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Set all elements to one value."""
    return _written(tensor, np.full(_shape("constant_", tensor), val))


def zeros_(tensor: Tensor) -> Tensor:
    """Set all elements to 0."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Set all elements to 1."""
    return constant_(tensor, 1.0)


def eye_(tensor: Tensor) -> Tensor:
    """Set a matrix to ones on the diagonal and zeros elsewhere."""
    rows, columns = _matrix("eye_", tensor)
    return _written(tensor, np.eye(rows, columns))


def _matrix(name: str, tensor: Tensor) -> tuple[int, int]:
    if len(tensor.shape) != 2:
        raise TypeRuleError(f"{name}: the tensor must have two axes, got {tensor._spec.type}; reshape it")
    return tensor.shape[0], tensor.shape[1]


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Set the weight of a convolution so that channels pass unchanged, as many as there are.

    Parameters
    ----------
    tensor : Tensor
        Shape ``[O, C, ...]``.
    groups : int, default 1
        Number of groups of channels.
    """
    shape = tuple(tensor.shape)
    if len(shape) not in (3, 4, 5) or shape[0] % groups:
        raise TypeRuleError(
            f"dirac_: the tensor must be the weight of a convolution, got {tensor._spec.type} and {groups} groups; "
            "pass [O, C, ...]"
        )
    array = np.zeros(shape)
    centre = tuple(n // 2 for n in shape[2:])
    each = shape[0] // groups
    for group in range(groups):
        for n in range(min(each, shape[1])):
            array[(group * each + n, n, *centre)] = 1.0
    return _written(tensor, array)


def _fans(name: str, tensor: Tensor) -> tuple[int, int]:
    """The numbers of inputs and outputs of a weight ``[out, in, ...]``."""
    if len(tensor.shape) < 2:
        raise TypeRuleError(f"{name}: the tensor must have at least two axes, got {tensor._spec.type}; use uniform_")
    window = prod(tensor.shape[2:])
    return tensor.shape[1] * window, tensor.shape[0] * window


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Draw evenly between plus and minus ``gain * sqrt(6 / (fan_in + fan_out))`` (Glorot and Bengio, 2010)."""
    bound = gain * sqrt(6.0 / sum(_fans("xavier_uniform_", tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Draw with the standard deviation ``gain * sqrt(2 / (fan_in + fan_out))`` (Glorot and Bengio, 2010)."""
    return normal_(tensor, 0.0, gain * sqrt(2.0 / sum(_fans("xavier_normal_", tensor))))


def kaiming_uniform_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Draw evenly between plus and minus ``gain * sqrt(3 / fan)`` (He et al., 2015).

    Parameters
    ----------
    tensor : Tensor
        A weight ``[out, in, ...]``.
    a : float, default 0.0
        The slope of "leaky_relu".
    mode : {"fan_in", "fan_out"}, default "fan_in"
        Whether the variance of results or of gradients is kept.
    nonlinearity : str, default "leaky_relu"
        As in `calculate_gain`.

    Raises
    ------
    InvalidValueError
        If the mode or the nonlinearity is unknown.
    """
    bound = sqrt(3.0) * _kaiming("kaiming_uniform_", tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Draw with the standard deviation ``gain / sqrt(fan)`` (He et al., 2015).

    Parameters and errors are those of `kaiming_uniform_`.
    """
    return normal_(tensor, 0.0, _kaiming("kaiming_normal_", tensor, a, mode, nonlinearity))


def _kaiming(name: str, tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fans = dict(zip(("fan_in", "fan_out"), _fans(name, tensor), strict=True))
    if mode not in fans:
        raise InvalidValueError(f"{name}: the mode must be fan_in or fan_out, got {mode!r}; use fan_in")
    return calculate_gain(nonlinearity, a) / sqrt(fans[mode])


def orthogonal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Set a weight, as the matrix ``[out, rest]``, to random orthonormal rows or columns times `gain`.

    Saxe et al., "Exact solutions to the nonlinear dynamics of learning in deep linear neural networks", 2013.
    """
    if len(tensor.shape) < 2:
        raise TypeRuleError(
            f"orthogonal_: the tensor must have at least two axes, got {tensor._spec.type}; use normal_"
        )
    rows, columns = tensor.shape[0], prod(tensor.shape[1:])
    drawn = host_normal((max(rows, columns), min(rows, columns)), 0.0, 1.0, np.dtype(np.float64))
    q, r = np.linalg.qr(drawn)
    q = q * np.sign(np.diag(r))  # makes the distribution uniform
    return _written(tensor, gain * (q.T if rows < columns else q).reshape(tuple(tensor.shape)))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01) -> Tensor:
    """Draw a matrix from a normal distribution, and set a part of each column to 0 (Martens, 2010).

    Parameters
    ----------
    tensor : Tensor
        The matrix.
    sparsity : float
        The part of each column that is 0.
    std : float, default 0.01
        Standard deviation of the others.
    """
    rows, columns = _matrix("sparse_", tensor)
    wide = np.dtype(np.float64)
    array = host_normal((rows, columns), 0.0, std, wide)
    order = np.argsort(host_uniform((rows, columns), 0.0, 1.0, wide), axis=0, kind="stable")
    array[order < int(np.ceil(sparsity * rows))] = 0.0
    return _written(tensor, array)
