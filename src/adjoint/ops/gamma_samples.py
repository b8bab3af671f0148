"""The derivative of a gamma variable with respect to its shape parameter, at a fixed probability.

A sample z with the distribution function ``F(z; a)`` and the density ``f(z; a)`` moves with `a` so that F stays the
same (M. Figurnov et al., "Implicit reparameterization gradients", 2018)::

    dz/da = -(dF/da)(z; a) / f(z; a)

The derivative of F is the integral of ``(log(t) - digamma(a)) * f(t; a)`` up to z, or minus that from z on. With
``t = z * exp(s)``, and v = 1 beyond z or -1 up to it, ::

    dz/da = v * z * integral over s > 0 of (log(z) + v * s - digamma(a)) * exp(v * a * s - z * (exp(v * s) - 1))

On the chosen side the integrand has one sign, so nothing cancels. The integral over ``s = scale * exp(y - exp(-y))`` is
computed by the trapezoidal rule in y, which converges exponentially for such integrands (H. Takahasi and M. Mori,
"Double exponential formulas for numerical integration", 1974).
"""

import numpy as np

from adjoint.ir.function import Function
from adjoint.ir.types import dtype_name
from adjoint.ir.value import Value, param
from adjoint.ops.arithmetic import multiply, negative, subtract
from adjoint.ops.calls import custom_call
from adjoint.ops.control import uniquely_named
from adjoint.ops.convert import cast
from adjoint.ops.create import constant
from adjoint.ops.logic import greater, logical_and, logical_or, where
from adjoint.ops.piecewise import maximum, minimum
from adjoint.ops.powers import reciprocal, sqrt
from adjoint.ops.reduce import sum
from adjoint.ops.shape import expand_dims
from adjoint.ops.special import digamma
from adjoint.ops.transcendental import exp, expm1, log, log1p

__all__ = ["gamma_slope", "moving_with"]

#: Nodes of the trapezoidal rule, from -3.3 to 3.315. The relative error of the integral is below 2e-7 for `a` from
#: 1e-4 to 1e5 (against 40 digits).
_Y = -3.3 + 0.105 * np.arange(64)
_NODES = np.exp(_Y - np.exp(-_Y))
_WEIGHTS = 0.105 * _NODES * (1 + np.exp(-_Y))

#: The greatest exponent, whose exponential times a sample is finite; there, the integrand is 0.
_GREATEST = 650.0


def gamma_slope(a: Value, z: Value) -> Value:
    """The derivative of a gamma variable z with respect to its shape parameter, computed in f64.

    Parameters
    ----------
    a, z : Value
        Shape parameters and samples, positive floats of one type.

    Returns
    -------
    Value
        Of the same type, within 2e-7 of the exact value.
    """
    wide, sample = cast(a, "f64"), maximum(cast(z, "f64"), float(np.finfo(np.float64).tiny))
    middle, height = digamma(wide), log(sample)
    # The upper side where the integrand is positive there, unless all of it is within one scale below 1.
    beyond = logical_or(
        logical_and(greater(sample, wide), greater(sample, 0.5)),
        logical_and(greater(height, middle), greater(sample, 1.0)),
    )
    above = log1p(reciprocal(maximum(subtract(sample, wide), 0.0) + sqrt(sample)))
    below = reciprocal(maximum(subtract(wide, sample), minimum(sqrt(wide), wide)))
    scale = where(beyond, above, negative(below))
    each = [expand_dims(x, -1) for x in (wide, sample, subtract(height, middle), scale)]
    a_of, z_of, gap, step = each
    x = minimum(multiply(step, constant(_NODES)), _GREATEST)
    exponent = subtract(multiply(a_of, x), multiply(z_of, expm1(x)))
    integrand = multiply(multiply(gap + x, exp(exponent)), constant(_WEIGHTS))
    return cast(multiply(multiply(sample, scale), sum(integrand, -1)), a.dtype)


def moving_with(a: Value, z: Value) -> Value:
    """Gamma variables z, with the derivative `gamma_slope` with respect to their shape parameters.

    Parameters
    ----------
    a, z : Value
        Shape parameters and samples, floats of one type.
    """
    given = [param("a", a.shape, a.dtype), param("z", z.shape, z.dtype)]
    out, ct = (param(name, z.shape, z.dtype) for name in ("out", "ct"))
    name = f"gamma_samples_{dtype_name(z.dtype)}"
    forward = uniquely_named(Function(name, tuple(given), (given[1],)))
    slope = multiply(ct, gamma_slope(given[0], out))
    rule = uniquely_named(Function(f"vjp_{name}", (*given, out, ct), (slope,)))
    found: Value = custom_call(forward, rule, (0,), a, z)
    return found
