"""gelu, the Gaussian error linear unit. It is an operator because of what its gradient needs to keep.

Composed of `erf` and products, three tensors of its size are kept from the forward to the backward pass, from which the
gradient is computed: ``x/2``, ``1 + erf(..)`` and the bell curve. As one operator it keeps one, its slope, which the
kernel that computes `x` can compute at the same time.
"""

import math
from typing import ClassVar

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import add, multiply, subtract
from adjoint.ops.base import Builder, Sample, Scalar
from adjoint.ops.powers import square
from adjoint.ops.rules import FloatOp, rounded, unary_samples
from adjoint.ops.transcendental import erf, exp, tanh

__all__ = ["Gelu", "gelu"]

#: The factor of x in ``erf``, and the height of the bell curve.
_ERF_SCALE, _BELL = math.sqrt(0.5), 1.0 / math.sqrt(2.0 * math.pi)
#: Coefficients of the argument of ``tanh``, ``_TANH_SCALE * (x + _CUBIC * x**3)``.
_TANH_SCALE, _CUBIC = math.sqrt(2.0 / math.pi), 0.044715


@dataclass(frozen=True, slots=True)
class Gelu(FloatOp):
    """``x * P(Z <= x)`` for a standard normal Z, or an approximation of it by a hyperbolic tangent.

    Parameters
    ----------
    approximate : {"none", "tanh"}, default "none"
        "none": ``0.5 * x * (1 + erf(x / sqrt(2)))``. "tanh": ``0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 *
        x**3)))``.
    """

    name: ClassVar[str] = "gelu"
    flops: ClassVar[float] = 22.0
    approximate: str = "none"

    def __post_init__(self) -> None:
        if self.approximate not in ("none", "tanh"):
            raise InvalidValueError(
                f"gelu: approximate must be 'none' or 'tanh', got {self.approximate!r}; use one of them"
            )

    def reference(self, x: np.ndarray) -> np.ndarray:
        """The formula in NumPy."""
        if self.approximate == "none":
            inner = np.vectorize(math.erf, otypes=[np.float64])
            return rounded(lambda wide: 0.5 * wide * (1 + inner(wide * _ERF_SCALE)), x)
        return rounded(lambda wide: 0.5 * wide * (1 + np.tanh(_TANH_SCALE * (wide + _CUBIC * wide**3))), x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``ct * (P(Z <= x) + x * d/dx P(Z <= x))``; the slope is computed first, since it does not depend on `ct`."""
        if self.approximate == "none":
            inner = erf(multiply(x, _ERF_SCALE))
            rise = multiply(exp(multiply(square(x), -0.5)), _BELL)
        else:
            inner = tanh(multiply(add(x, multiply(multiply(square(x), x), _CUBIC)), _TANH_SCALE))
            steep = add(multiply(square(x), 1.5 * _CUBIC * _TANH_SCALE), 0.5 * _TANH_SCALE)
            rise = multiply(multiply(subtract(1.0, inner), add(inner, 1.0)), steep)
        return (multiply(ct, add(multiply(add(inner, 1.0), 0.5), multiply(x, rise))),)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """An error function or hyperbolic tangent, written exactly as in the gradient, so that both share it."""

        def times(a: Scalar, by: float) -> Scalar:
            return k.call("mul", a, k.const(by, k.dtype(x)))

        if self.approximate == "none":
            inner = k.call("erf", times(x, _ERF_SCALE))
        else:
            cube = k.call("mul", k.call("mul", x, x), x)
            inner = k.call("tanh", times(k.call("add", x, times(cube, _CUBIC)), _TANH_SCALE))
        return k.call("mul", times(x, 0.5), k.call("add", inner, k.const(1.0, k.dtype(x))))

    @classmethod
    def samples(cls) -> list[Sample]:
        """Both forms; both signs, tiny numbers, saturation, infinity and NaN.

        No negative numbers just before saturation: there ``1 + erf(..)`` has few correct digits in either form.
        """
        edges = np.array([0, -0.0, 1e-10, 9, -13, -40, np.inf, np.nan], np.float32)
        exact, close = unary_samples(cls(), -1.2, 3.0), unary_samples(cls("tanh"), -1.2, 3.0)
        good = [Sample(op, (edges,), gradient=False) for op in (cls(), cls("tanh"))]
        return [*exact, *close, *good]


def gelu(x: Value, approximate: str = "none") -> Value:
    """``x * P(Z <= x)`` for a standard normal Z: the Gaussian error linear unit.

    Parameters
    ----------
    x : Value
        Float, any shape. 16-bit floats are computed in f32 and rounded once.
    approximate : {"none", "tanh"}, default "none"
        "none": ``0.5 * x * (1 + erf(x / sqrt(2)))``. "tanh": ``0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 *
        x**3)))``. Both are from Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016, section 2.
    """
    return apply(Gelu(approximate), x)
