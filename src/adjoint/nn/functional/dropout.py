"""Dropout, which draws its numbers from the global generator of `adjoint.manual_seed`."""

from collections.abc import Callable

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.nn.functional.recording import Array
from adjoint.tensor.random import next_key
from adjoint.tensor.record import entry_of, operation, record_in_place

__all__ = ["dropout", "dropout1d", "dropout2d", "dropout3d"]


@operation
def _dropout(x: Array, rate: float, key: Array) -> Array:
    return ops.dropout(x, key, rate)


@operation
def _channel_dropout(x: Array, rate: float, key: Array, axes: int) -> Array:
    """Dropout of whole channels, which span the last axes."""
    lead = len(x.shape) - axes
    factors = ops.dropout(ops.full(1.0, (*x.shape[:lead], *(1 for _ in range(axes))), x.dtype), key, rate)
    return ops.multiply(x, factors)


def dropout(input: Array, p: float = 0.5, training: bool = True, inplace: bool = False) -> Array:
    """`input` with elements replaced by 0 with probability `p`, and the others divided by ``1 - p``.

    Parameters
    ----------
    input : Tensor
        Float.
    p : float, default 0.5
        The probability, from 0 to 1.
    training : bool, default True
        Whether anything is dropped.
    inplace : bool, default False
        Whether the input gets the result too.

    Raises
    ------
    InvalidValueError
        If the probability is out of range.
    """
    return _dropped("dropout", _dropout, input, p, training, inplace)


def dropout1d(input: Array, p: float = 0.5, training: bool = True, inplace: bool = False) -> Array:
    """`dropout` of whole channels of ``[N, C, L]`` or ``[C, L]``; arguments as in `dropout`."""
    _check_rank("dropout1d", input, 1)
    return _dropped("dropout1d", _channel_dropout, input, p, training, inplace, 1)


def dropout2d(input: Array, p: float = 0.5, training: bool = True, inplace: bool = False) -> Array:
    """`dropout` of whole channels of ``[N, C, H, W]`` or ``[C, H, W]``; arguments as in `dropout`."""
    _check_rank("dropout2d", input, 2)
    return _dropped("dropout2d", _channel_dropout, input, p, training, inplace, 2)


def dropout3d(input: Array, p: float = 0.5, training: bool = True, inplace: bool = False) -> Array:
    """`dropout` of whole channels of ``[N, C, D, H, W]`` or ``[C, D, H, W]``; arguments as in `dropout`."""
    _check_rank("dropout3d", input, 3)
    return _dropped("dropout3d", _channel_dropout, input, p, training, inplace, 3)


def _check_rank(name: str, x: Array, axes: int) -> None:
    if len(x.shape) not in (axes + 1, axes + 2):
        raise TypeRuleError(
            f"{name}: the input must have {axes + 1} or {axes + 2} axes, got the shape {tuple(x.shape)}; reshape it"
        )


def _dropped(
    name: str, function: Callable[..., Array], x: Array, p: float, training: bool, inplace: bool, *settings: int
) -> Array:
    if not 0 <= p <= 1:
        raise InvalidValueError(f"{name}: p must be from 0 to 1, got {p!r}; pass a probability")
    if not training or p == 0:
        return x
    if inplace:
        return record_in_place(entry_of(function), x, float(p), next_key(), *settings)
    return function(x, float(p), next_key(), *settings)
