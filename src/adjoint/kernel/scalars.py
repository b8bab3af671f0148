"""The scalar functions that `Apply` may name: how many operands, what dtype comes out, what NumPy says they do.

Code generators hold a table with the same keys; transcendental ones are expanded to arithmetic beforehand
(`adjoint.lower.vector_math`), so that results do not depend on a target's libm.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import erf
from typing import Any, Literal

import numpy as np

__all__ = ["SCALARS", "ScalarFunction"]


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """One scalar function.

    Parameters
    ----------
    arity : int
        Number of operands.
    result : {"same", "bool"}
        Dtype of the result: the operands' or bool.
    numpy : callable
        Its meaning, on NumPy scalars or arrays of the operands' dtype.
    flops : float
        Floating-point operations it costs, for the cost model.
    """

    arity: int
    result: Literal["same", "bool"]
    numpy: Callable[..., Any]
    flops: float = 1.0


def _div(x: Any, y: Any) -> Any:
    return np.divide(x, y) if np.asarray(x).dtype.kind not in "iu" else np.floor_divide(x, y)


def _erf(x: Any) -> Any:
    return np.vectorize(erf, otypes=[np.float64])(x).astype(np.asarray(x).dtype)


def _sigmoid(x: Any) -> Any:
    return np.asarray(1 / (1 + np.exp(-np.asarray(x, np.float64)))).astype(np.asarray(x).dtype)


def _fma(x: Any, y: Any, z: Any) -> Any:
    return x * y + z


#: Scalar functions by name.
SCALARS: dict[str, ScalarFunction] = {
    "add": ScalarFunction(2, "same", np.add),
    "sub": ScalarFunction(2, "same", np.subtract),
    "mul": ScalarFunction(2, "same", np.multiply),
    "div": ScalarFunction(2, "same", _div, 4),
    "pow": ScalarFunction(2, "same", np.power, 40),
    "max": ScalarFunction(2, "same", np.maximum),
    "min": ScalarFunction(2, "same", np.minimum),
    "fma": ScalarFunction(3, "same", _fma, 2),
    "neg": ScalarFunction(1, "same", np.negative),
    "abs": ScalarFunction(1, "same", np.abs),
    "sqrt": ScalarFunction(1, "same", np.sqrt, 6),
    "floor": ScalarFunction(1, "same", np.floor),
    "exp": ScalarFunction(1, "same", np.exp, 12),
    "expm1": ScalarFunction(1, "same", np.expm1, 16),
    "log": ScalarFunction(1, "same", np.log, 14),
    "log1p": ScalarFunction(1, "same", np.log1p, 18),
    "tanh": ScalarFunction(1, "same", np.tanh, 16),
    "sigmoid": ScalarFunction(1, "same", _sigmoid, 16),
    "sin": ScalarFunction(1, "same", np.sin, 16),
    "cos": ScalarFunction(1, "same", np.cos, 16),
    "erf": ScalarFunction(1, "same", _erf, 18),
    "lt": ScalarFunction(2, "bool", np.less),
    "le": ScalarFunction(2, "bool", np.less_equal),
    "gt": ScalarFunction(2, "bool", np.greater),
    "ge": ScalarFunction(2, "bool", np.greater_equal),
    "eq": ScalarFunction(2, "bool", np.equal),
    "ne": ScalarFunction(2, "bool", np.not_equal),
    "and": ScalarFunction(2, "same", np.bitwise_and),
    "or": ScalarFunction(2, "same", np.bitwise_or),
    "xor": ScalarFunction(2, "same", np.bitwise_xor),
    "not": ScalarFunction(1, "same", np.logical_not),
    "shl": ScalarFunction(2, "same", np.left_shift),
    "shr": ScalarFunction(2, "same", np.right_shift),
    "rint": ScalarFunction(1, "same", np.rint),
}
