"""The logarithm of the gamma function, and its derivative, of positive numbers, as distributions need them.

Stirling's series after 8 steps of the recurrence. From 8 on, the terms that are left out are below 1e-12.
"""

from math import log as log_of
from math import pi

from adjoint.ir.value import Value
from adjoint.ops.arithmetic import add, multiply, subtract
from adjoint.ops.create import full
from adjoint.ops.powers import reciprocal, square
from adjoint.ops.transcendental import log

__all__ = ["digamma", "log_gamma"]

#: The steps of the recurrence.
_STEPS = 8


def log_gamma(x: Value) -> Value:
    """``log(gamma(x))`` for positive `x`, float."""
    product = x
    for n in range(1, _STEPS):
        product = multiply(product, add(x, float(n)))
    y = add(x, float(_STEPS))
    r = reciprocal(y)
    series = _series(square(r), (1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12))
    stirling = add(subtract(multiply(subtract(y, 0.5), log(y)), y), add(multiply(series, r), 0.5 * log_of(2 * pi)))
    return subtract(stirling, log(product))


def digamma(x: Value) -> Value:
    """The derivative of `log_gamma`."""
    total = reciprocal(x)
    for n in range(1, _STEPS):
        total = add(total, reciprocal(add(x, float(n))))
    y = add(x, float(_STEPS))
    r = reciprocal(y)
    s = square(r)
    series = _series(s, (1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12))
    return subtract(subtract(subtract(log(y), multiply(r, 0.5)), multiply(series, s)), total)


def _series(x: Value, coefficients: tuple[float, ...]) -> Value:
    """A polynomial, by Horner's rule."""
    made = full(coefficients[0], x.shape, x.dtype)
    for c in coefficients[1:]:
        made = add(multiply(made, x), c)
    return made
