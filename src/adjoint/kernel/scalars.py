"""The scalar functions of `Apply`: number of operands, dtype of the result, and semantics in NumPy.

Code generators have a table with the same keys. Transcendental functions are expanded to arithmetic beforehand
(`adjoint.lower.vector_math`), so that results do not depend on a target's libm.
"""

from collections.abc import Callable
from math import copysign, erf, erfc, exp, floor, inf, isinf, lgamma, nan, pi, sqrt
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from adjoint.lazy_dataclass import dataclass

__all__ = ["SCALARS", "ScalarFunction"]


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A scalar function.

    Parameters
    ----------
    arity : int
        Number of operands.
    result : {"same", "bool"}
        Dtype of the result: that of the operands, or bool.
    numpy : callable
        The semantics, for NumPy scalars or arrays of the operands' dtype.
    flops : float
        Number of floating-point operations, for the cost model.
    operands : str
        Kinds of dtypes accepted: ``f`` floats, ``i`` and ``u`` integers, ``b`` bool.
    """

    arity: int
    result: Literal["same", "bool"]
    numpy: Callable[..., Any]
    flops: float = 1.0
    operands: str = "fiu"


def _div(x: Any, y: Any) -> Any:
    return np.divide(x, y) if np.asarray(x).dtype.kind not in "iu" else np.floor_divide(x, y)


def _each(function: Callable[[float], float]) -> Callable[[Any], Any]:
    """A function of Python floats, element by element in float64."""
    return lambda x: np.vectorize(function, otypes=[np.float64])(x).astype(np.asarray(x).dtype)


def _lgamma(x: float) -> float:
    return inf if isinf(x) or (x <= 0 and x == floor(x)) else lgamma(x)


def _erfinv(x: float) -> float:
    """From a quantile of the normal distribution; where that is small, corrected by a step of Newton's method."""
    a = abs(x)
    if not a < 1:
        return copysign(inf, x) if a == 1 else nan
    y = -NormalDist().inv_cdf((1 - a) / 2) / sqrt(2)
    if a < 0.5:
        y -= (erf(y) - a) * sqrt(pi) / 2 * exp(y * y)
    return copysign(y, x)


def _sigmoid(x: Any) -> Any:
    return np.asarray(1 / (1 + np.exp(-np.asarray(x, np.float64)))).astype(np.asarray(x).dtype)


def _rotate_left(x: Any, by: Any) -> Any:
    width = np.asarray(x).dtype.type(np.asarray(x).dtype.itemsize * 8)
    return x << by % width | x >> (width - by) % width


def _fma(x: Any, y: Any, z: Any) -> Any:
    return x * y + z


def _scaleb(x: Any, shifted: Any) -> Any:
    """``x * 2**k``, rounded once, as scaleB of IEEE 754; k is held as ``1.5 * 2**mantissa + 2 * bias + k``.

    That is what is left after a number was rounded to an integer by adding ``1.5 * 2**mantissa``, and its low bits are
    those of ``k + 2 * bias``, which is never negative.
    """
    form = np.finfo(np.asarray(shifted).dtype)
    return np.ldexp(x, (shifted - (1.5 * 2.0**form.nmant + 2 * (form.maxexp - 1))).astype(np.int32))


#: Scalar functions by name.
SCALARS: dict[str, ScalarFunction] = {
    "add": ScalarFunction(2, "same", np.add),
    "sub": ScalarFunction(2, "same", np.subtract),
    "mul": ScalarFunction(2, "same", np.multiply),
    "div": ScalarFunction(2, "same", _div, 4),
    "pow": ScalarFunction(2, "same", np.power, 40, operands="f"),
    "max": ScalarFunction(2, "same", np.maximum, operands="fiub"),
    "min": ScalarFunction(2, "same", np.minimum, operands="fiub"),
    "fma": ScalarFunction(3, "same", _fma, 2, operands="f"),
    "neg": ScalarFunction(1, "same", np.negative),
    "abs": ScalarFunction(1, "same", np.abs),
    "sqrt": ScalarFunction(1, "same", np.sqrt, 6, operands="f"),
    "floor": ScalarFunction(1, "same", np.floor, operands="f"),
    "exp": ScalarFunction(1, "same", np.exp, 12, operands="f"),
    "expm1": ScalarFunction(1, "same", np.expm1, 16, operands="f"),
    "log": ScalarFunction(1, "same", np.log, 14, operands="f"),
    "log1p": ScalarFunction(1, "same", np.log1p, 18, operands="f"),
    "tanh": ScalarFunction(1, "same", np.tanh, 16, operands="f"),
    "sigmoid": ScalarFunction(1, "same", _sigmoid, 16, operands="f"),
    "sin": ScalarFunction(1, "same", np.sin, 16, operands="f"),
    "cos": ScalarFunction(1, "same", np.cos, 16, operands="f"),
    "erf": ScalarFunction(1, "same", _each(erf), 18, operands="f"),
    "exp2": ScalarFunction(1, "same", np.exp2, 14, operands="f"),
    "log2": ScalarFunction(1, "same", np.log2, 16, operands="f"),
    "atan": ScalarFunction(1, "same", np.arctan, 20, operands="f"),
    "erfc": ScalarFunction(1, "same", _each(erfc), 60, operands="f"),
    "erfinv": ScalarFunction(1, "same", _each(_erfinv), 70, operands="f"),
    "lgamma": ScalarFunction(1, "same", _each(_lgamma), 150, operands="f"),
    "lt": ScalarFunction(2, "bool", np.less, operands="fiub"),
    "le": ScalarFunction(2, "bool", np.less_equal, operands="fiub"),
    "gt": ScalarFunction(2, "bool", np.greater, operands="fiub"),
    "ge": ScalarFunction(2, "bool", np.greater_equal, operands="fiub"),
    "eq": ScalarFunction(2, "bool", np.equal, operands="fiub"),
    "ne": ScalarFunction(2, "bool", np.not_equal, operands="fiub"),
    "and": ScalarFunction(2, "same", np.bitwise_and, operands="iub"),
    "or": ScalarFunction(2, "same", np.bitwise_or, operands="iub"),
    "xor": ScalarFunction(2, "same", np.bitwise_xor, operands="iub"),
    "not": ScalarFunction(1, "same", np.logical_not, operands="b"),
    "shl": ScalarFunction(2, "same", np.left_shift, operands="iu"),
    "shr": ScalarFunction(2, "same", np.right_shift, operands="iu"),
    "rotl": ScalarFunction(2, "same", _rotate_left, operands="u"),
    "scaleb": ScalarFunction(2, "same", _scaleb, operands="f"),
    "rint": ScalarFunction(1, "same", np.rint, operands="f"),
}
