"""Dropout of attention weights: factors that are functions of a key and of a position, and are stored nowhere.

A factor is 0 with the probability `rate`, and otherwise ``1 / (1 - rate)``. That of the weight at a position is made of
the random bits of this position in a tensor of all weights, as by `adjoint.ops.dropout`, so that each operator of
attention draws it where it needs it.
"""

from math import ceil

import numpy as np

from adjoint.ir.types import DTYPES, TensorType
from adjoint.ir.value import Value, apply
from adjoint.ops.arithmetic import multiply
from adjoint.ops.base import Builder, Index, Operand, Scalar
from adjoint.ops.create import full
from adjoint.ops.logic import greater_equal, where
from adjoint.ops.threefry import RandomBits

__all__ = ["check_positions", "factor_at", "factors", "with_factors"]

#: Random bits of a factor: those of a uniform number in f32.
_BITS = 24
_U32 = DTYPES["u32"]


def _bits(shape: tuple[int, ...], lead: int) -> RandomBits:
    """The random bits for weights of a shape, whose first axes have keys of their own."""
    return RandomBits(shape[lead:], _BITS)


def _threshold(rate: float) -> int:
    """The random bits from which on a weight is kept, with the rate rounded to f32 as in `adjoint.ops.dropout`."""
    return ceil(float(np.float32(rate)) * (1 << _BITS))


def _scale(rate: float) -> float:
    return 1.0 / (1.0 - rate) if rate < 1 else 0.0


def check_positions(keys: TensorType, shape: tuple[int, ...]) -> None:
    """Raise if a key cannot draw bits for all weights."""
    _bits(shape, keys.rank - 1).infer(keys)


def factors(rate: float, keys: np.ndarray | None, made: np.ndarray) -> np.ndarray:
    """The factors for an array of weights, in NumPy; 1 without a key."""
    if keys is None:
        return np.ones((), made.dtype)
    bits = _bits(made.shape, keys.ndim - 1).reference(keys)
    kept: np.ndarray = np.where(bits >= _threshold(rate), made.dtype.type(_scale(rate)), made.dtype.type(0))
    return kept


def with_factors(rate: float, keys: Value | None, made: Value) -> Value:
    """A value of T times S elements times the factors; itself without a key."""
    if keys is None:
        return made
    bits = apply(_bits(made.shape, len(keys.shape) - 1), keys)
    kept = greater_equal(bits, full(_threshold(rate), bits.shape, "u32"))
    return where(kept, multiply(made, _scale(rate)), 0.0)


def factor_at(k: Builder, rate: float, keys: Operand, shape: tuple[int, ...], index: Index, dtype: np.dtype) -> Scalar:
    """The factor at an index of a tensor of weights of a shape."""
    bits = _bits(shape, len(keys.type.shape) - 1).lower(k, index, keys)
    kept = k.call("ge", bits, k.const(_threshold(rate), _U32))
    return k.select(kept, k.const(_scale(rate), dtype), k.const(0.0, dtype))
