"""Random tensors of further distributions, made of uniform and normal numbers. `adjoint.ops.random` exports them.

What is drawn by rejection (`gamma`, `poisson`) tries a fixed number of candidates for each element, of which the first
that is accepted counts. So the numbers depend on the key and the position alone, as those of all other distributions.
The numbers of candidates are such that all are rejected with a probability below 1e-10, which is less than what 32
random bits resolve; then the last one counts.
"""

from math import pi, sqrt

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.types import DTYPES, as_dtype, dtype_name, is_float
from adjoint.ir.value import Value
from adjoint.ops.arithmetic import add, divide, multiply, negative, subtract
from adjoint.ops.axes import axis_of
from adjoint.ops.convert import cast, stop_gradient
from adjoint.ops.create import constant, full, iota
from adjoint.ops.gamma_samples import moving_with
from adjoint.ops.logic import equal, greater, greater_equal, less, less_equal, logical_and, logical_or, where
from adjoint.ops.piecewise import abs, floor, maximum, minimum, sign
from adjoint.ops.powers import reciprocal, square
from adjoint.ops.powers import sqrt as root
from adjoint.ops.random_floats import Bound, float_dtype, normal, spread_to, uniform, unit_floats
from adjoint.ops.random_keys import Shape, sizes, split
from adjoint.ops.reduce import argmax, min, sum
from adjoint.ops.rules import require_float
from adjoint.ops.shape import broadcast_to, slice_axis, squeeze
from adjoint.ops.special import erfinv, lgamma
from adjoint.ops.transcendental import cos, erf, exp, log, log1p, sin

__all__ = [
    "beta",
    "categorical",
    "cauchy",
    "dirichlet",
    "exponential",
    "gamma",
    "geometric",
    "gumbel",
    "laplace",
    "lognormal",
    "poisson",
    "truncated_normal",
]

#: Candidates per element. One of `gamma` is accepted with probability 0.95 at least, one of `poisson` with 0.7.
_GAMMA_CANDIDATES, _POISSON_CANDIDATES = 8, 20

#: The greatest rate of `poisson` for which its distribution function is inverted, and how many values are searched:
#: a greater one has a probability below 1e-10.
_INVERTED_RATE, _INVERTED_VALUES = 10.0, 42


def exponential(key: Value, shape: Shape = (), dtype: object = "f32") -> Value:
    """Random floats of the exponential distribution with rate 1: ``-log(1 - u)``, for uniform u in ``[0, 1)``.

    Parameters
    ----------
    key : Value
        A key, u32[2], or several along the last axis.
    shape : int or sequence of int, default ()
        Shape of what a key draws.
    dtype : str or numpy dtype, default "f32"
        A float dtype. 16-bit floats are computed in f32 and rounded once.
    """
    to = float_dtype("exponential", dtype)
    return cast(negative(log1p(negative(_wide_unit("exponential", key, shape, to)))), to)


def gumbel(key: Value, shape: Shape = (), dtype: object = "f32") -> Value:
    """Random floats of the standard Gumbel distribution: ``-log(e)``, for exponentially distributed e.

    Parameters
    ----------
    key, shape, dtype
        As for `exponential`.
    """
    to = float_dtype("gumbel", dtype)
    unit = _wide_unit("gumbel", key, shape, to)
    least = 2.0**-54 if to == DTYPES["f64"] else 2.0**-25  # half of a step, so that no number is infinite
    return cast(negative(log(negative(log1p(negative(maximum(unit, least)))))), to)


def laplace(key: Value, shape: Shape = (), dtype: object = "f32") -> Value:
    """Random floats of the Laplace distribution with mean 0 and scale 1.

    Parameters
    ----------
    key, shape, dtype
        As for `exponential`.
    """
    to = float_dtype("laplace", dtype)
    centred = _centred("laplace", key, shape, to)
    return cast(negative(multiply(sign(centred), log1p(negative(abs(centred))))), to)


def cauchy(key: Value, shape: Shape = (), dtype: object = "f32") -> Value:
    """Random floats of the standard Cauchy distribution: ``tan(pi / 2 * u)``, for u in ``(-1, 1)``.

    Parameters
    ----------
    key, shape, dtype
        As for `exponential`.
    """
    to = float_dtype("cauchy", dtype)
    centred = _centred("cauchy", key, shape, to)
    size = abs(centred)
    # The tangent of the smaller of two angles that add up to a right one, which is accurate.
    angle = multiply(minimum(size, subtract(1.0, size)), pi / 2)
    tangent = divide(sin(angle), cos(angle))
    return cast(multiply(sign(centred), where(less_equal(size, 0.5), tangent, reciprocal(tangent))), to)


def lognormal(key: Value, sigma: Bound = 1.0, shape: Shape | None = None, dtype: object = "f32") -> Value:
    """``exp(sigma * z)``, for z of the standard normal distribution.

    Parameters
    ----------
    key : Value
        A key, u32[2], or several along the last axis.
    sigma : float, Value or numpy.ndarray, default 1.0
        The standard deviation of the logarithm: a number, or a tensor of the dtype that broadcasts to the result.
    shape : int or sequence of int, optional
        Shape of what a key draws; default: that of `sigma`.
    dtype : str or numpy dtype, default "f32"
        A float dtype.
    """
    to = float_dtype("lognormal", dtype)
    (deviation,), sizes_of_all = _parameters("lognormal", shape, to, sigma)
    drawn = normal(key, sizes_of_all, to)
    return exp(multiply(drawn, spread_to("lognormal", deviation, drawn)))


def geometric(key: Value, p: Bound, shape: Shape | None = None, dtype: object = "f32") -> Value:
    """How many trials there are up to the first success: 1 or more, ``floor(log(1 - u) / log(1 - p)) + 1``.

    Parameters
    ----------
    key : Value
        A key, u32[2], or several along the last axis.
    p : float, Value or numpy.ndarray
        The probability of success, above 0: a number, or a float tensor that broadcasts to the result.
    shape : int or sequence of int, optional
        Shape of what a key draws; default: that of `p`.
    dtype : str or numpy dtype, default "f32"
        Of the result.
    """
    to = as_dtype(dtype)
    own = to if is_float(to) else DTYPES["f32"]
    (chance,), sizes_of_all = _parameters("geometric", shape, own, p)
    unit = _wide_unit("geometric", key, sizes_of_all, own)
    chance = cast(stop_gradient(spread_to("geometric", chance, unit)), unit.dtype)
    return cast(add(floor(divide(log1p(negative(unit)), log1p(negative(chance)))), 1.0), to)


def truncated_normal(
    key: Value, lower: Bound = -2.0, upper: Bound = 2.0, shape: Shape | None = None, dtype: object = "f32"
) -> Value:
    """Random floats of the standard normal distribution between two bounds.

    The inverse of the distribution function, at a uniform number between its values at the bounds. In f32, bounds
    farther than about 5 standard deviations from 0 leave few different numbers.

    Parameters
    ----------
    key : Value
        A key, u32[2], or several along the last axis.
    lower, upper : float, Value or numpy.ndarray, default -2.0 and 2.0
        The bounds: numbers, or tensors of the dtype that broadcast to the result.
    shape : int or sequence of int, optional
        Shape of what a key draws; default: that of the bounds.
    dtype : str or numpy dtype, default "f32"
        A float dtype. 16-bit floats are computed in f32 and rounded once.
    """
    to = float_dtype("truncated_normal", dtype)
    wide = to if to == DTYPES["f64"] else DTYPES["f32"]
    (low, high), sizes_of_all = _parameters("truncated_normal", shape, wide, lower, upper)
    unit = unit_floats("truncated_normal", key, sizes_of_all, wide)
    low, high = (stop_gradient(spread_to("truncated_normal", x, unit)) for x in (low, high))
    start, stop = (erf(multiply(x, sqrt(0.5))) for x in (low, high))
    drawn = multiply(erfinv(add(start, multiply(unit, subtract(stop, start)))), sqrt(2.0))
    return cast(minimum(maximum(drawn, low), high), to)


def categorical(key: Value, logits: Value, axis: int = -1, shape: Shape | None = None) -> Value:
    """Random indices with the probabilities ``softmax(logits)``: the places of the greatest logits plus Gumbel noise.

    J. Yellott, "The relationship between Luce's choice axiom, Thurstone's theory of comparative judgment, and the
    double exponential distribution", 1977.

    Parameters
    ----------
    key : Value
        A key, u32[2].
    logits : Value
        Logarithms of probabilities, which need not be normalized: float. Minus infinity is never drawn.
    axis : int, default -1
        The axis of the classes.
    shape : int or sequence of int, optional
        Shape of the result, to whose last axes the other axes of the logits broadcast; default: those axes.

    Returns
    -------
    Value
        i64.
    """
    require_float("categorical", logits)
    n = axis_of("categorical", axis, len(logits.shape))
    classes = logits.shape[n]
    if not classes:
        raise TypeRuleError(f"categorical: there must be a class, got {logits.type}; pass logits of at least one")
    batch = (*logits.shape[:n], *logits.shape[n + 1 :])
    wanted = batch if shape is None else sizes(shape)
    extra = len(wanted) - len(batch)
    if extra < 0 or any(have not in (1, want) for have, want in zip(batch, wanted[extra:], strict=True)):
        raise TypeRuleError(
            f"categorical: the shape must end with that of the logits without the classes, {list(batch)}, got "
            f"{list(wanted)}; prepend axes only"
        )
    place = n + extra
    whole = (*wanted[:place], classes, *wanted[place:])
    noise = gumbel(key, whole, logits.dtype if logits.dtype.itemsize > 2 else "f32")
    return argmax(add(cast(stop_gradient(logits), noise.dtype), noise), place)


def gamma(key: Value, a: Bound, shape: Shape | None = None, dtype: object = "f32") -> Value:
    """Random floats of the gamma distribution with scale 1.

    The method of G. Marsaglia and W. Tsang ("A simple method for generating gamma variables", 2000). The gradient with
    respect to `a` is that at a fixed value of the distribution function (M. Figurnov et al., "Implicit
    reparameterization gradients", 2018).

    Parameters
    ----------
    key : Value
        A key, u32[2].
    a : float, Value or numpy.ndarray
        The shape parameter, above 0: a number, or a tensor of the dtype that broadcasts to the result.
    shape : int or sequence of int, optional
        Shape of the result; default: that of `a`.
    dtype : str or numpy dtype, default "f32"
        A float dtype. 16-bit floats are computed in f32 and rounded once.
    """
    to = float_dtype("gamma", dtype)
    wide = to if to == DTYPES["f64"] else DTYPES["f32"]
    (given,), drawn = _parameters("gamma", shape, to, a)
    moving = cast(_spread("gamma", given, drawn), wide)
    alpha = stop_gradient(moving)
    tries = (_GAMMA_CANDIDATES, *drawn)
    keys = split(key, 3)
    z = normal(_key(keys, 0), tries, wide)
    u = uniform(_key(keys, 1), tries, wide)
    boosted = where(less(alpha, 1.0), add(alpha, 1.0), alpha)
    d = broadcast_to(subtract(boosted, 1.0 / 3.0), tries)
    v = add(multiply(z, reciprocal(root(multiply(d, 9.0)))), 1.0)
    cube = multiply(v, square(v))
    inside = greater(v, 0.0)
    bound = add(multiply(square(z), 0.5), multiply(d, add(subtract(1.0, cube), log(where(inside, cube, 1.0)))))
    accepted = logical_and(inside, less(log(maximum(u, float(np.finfo(wide).tiny))), bound))
    made = _first(accepted, maximum(multiply(d, cube), 0.0))
    # A gamma variable of a + 1 times u**(1/a) is one of a.
    small = subtract(1.0, uniform(_key(keys, 2), drawn, wide))
    factor = exp(divide(log(small), alpha))
    least = float(np.finfo(wide).tiny)  # where a is so small that most numbers underflow
    found = maximum(where(less(alpha, 1.0), multiply(made, factor), made), least)
    return cast(moving_with(moving, found) if isinstance(a, Value) else found, to)


def beta(key: Value, a: Bound, b: Bound, shape: Shape | None = None, dtype: object = "f32") -> Value:
    """Random floats of the beta distribution: ``x / (x + y)``, for x and y of gamma distributions.

    The gradient is that of this formula.

    Parameters
    ----------
    key, shape, dtype
        As for `gamma`.
    a, b : float, Value or numpy.ndarray
        The shape parameters, above 0: numbers, or tensors of the dtype that broadcast to the result.
    """
    to = float_dtype("beta", dtype)
    (first, second), drawn = _parameters("beta", shape, to, a, b)
    keys = split(key)
    x, y = (gamma(_key(keys, n), _spread("beta", p, drawn), drawn, to) for n, p in enumerate((first, second)))
    return divide(x, add(x, y))


def dirichlet(key: Value, alpha: Value | np.ndarray, shape: Shape | None = None, dtype: object = "f32") -> Value:
    """Random points of the Dirichlet distribution: gamma variables along the last axis, divided by their sum.

    The gradient is that of this formula.

    Parameters
    ----------
    key, dtype
        As for `gamma`.
    alpha : Value or numpy.ndarray
        The shape parameters, above 0, along the last axis.
    shape : int or sequence of int, optional
        Shape of the result without its last axis; default: that of `alpha` without it.
    """
    to = float_dtype("dirichlet", dtype)
    given = constant(alpha, to) if isinstance(alpha, np.ndarray) else alpha
    drawn = given.shape if shape is None else (*sizes(shape), *given.shape[-1:])
    made = gamma(key, given, drawn, to)
    return divide(made, broadcast_to(sum(made, -1, keepdims=True), made.shape))


def poisson(key: Value, lam: Bound, shape: Shape | None = None, dtype: object = "i64") -> Value:
    """Random integers of the Poisson distribution.

    For rates below 10 the distribution function is inverted; for others this is the transformed rejection of W.
    Hörmann ("The transformed rejection method for generating Poisson random variables", 1993), in f64.

    Parameters
    ----------
    key : Value
        A key, u32[2].
    lam : float, Value or numpy.ndarray
        The rate, from 0: a number, or a float tensor that broadcasts to the result. It has no gradient.
    shape : int or sequence of int, optional
        Shape of the result; default: that of `lam`.
    dtype : str or numpy dtype, default "i64"
        Of the result.
    """
    to = as_dtype(dtype)
    (given,), drawn = _parameters("poisson", shape, None, lam)
    rate = cast(stop_gradient(_spread("poisson", given, drawn)), "f64")
    keys = split(key, 3)
    few = _inverted_poisson(_key(keys, 0), minimum(rate, _INVERTED_RATE))
    many = _rejected_poisson(_key(keys, 1), _key(keys, 2), maximum(rate, _INVERTED_RATE))
    return cast(where(less(rate, _INVERTED_RATE), few, many), to)


def _inverted_poisson(key: Value, rate: Value) -> Value:
    """How many values of the distribution function are at most a uniform number."""
    u = uniform(key, rate.shape, "f64")
    chance = exp(negative(rate))
    below, found = chance, full(0.0, rate.shape, "f64")
    for k in range(1, _INVERTED_VALUES + 1):
        found = add(found, cast(less_equal(below, u), "f64"))
        chance = multiply(chance, multiply(rate, 1.0 / k))
        below = add(below, chance)
    return found


def _rejected_poisson(first: Value, second: Value, rate: Value) -> Value:
    """Hörmann's algorithm PTRS."""
    tries = (_POISSON_CANDIDATES, *rate.shape)
    lam = broadcast_to(rate, tries)
    b = add(multiply(root(lam), 2.53), 0.931)
    a = add(multiply(b, 0.02483), -0.059)
    inverse = add(divide(full(1.1328, tries, "f64"), subtract(b, 3.4)), 1.1239)
    certain = subtract(0.9277, divide(full(3.6224, tries, "f64"), subtract(b, 2.0)))
    u = subtract(uniform(first, tries, "f64"), 0.5)
    v = subtract(1.0, uniform(second, tries, "f64"))
    near = subtract(0.5, abs(u))
    squeezed = maximum(near, 2.0**-54)
    k = floor(add(add(multiply(add(divide(multiply(a, 2.0), squeezed), b), u), lam), 0.43))
    fits = logical_and(greater(k, -0.5), logical_or(greater_equal(near, 0.013), less_equal(v, near)))
    k = maximum(k, 0.0)
    quick = logical_and(greater_equal(near, 0.07), less_equal(v, certain))
    density = add(subtract(multiply(k, log(lam)), lam), negative(lgamma(add(k, 1.0))))
    slope = log(divide(multiply(v, inverse), add(divide(a, square(squeezed)), b)))
    accepted = logical_or(quick, logical_and(fits, less_equal(slope, density)))
    return _first(accepted, k)


def _first(accepted: Value, candidates: Value) -> Value:
    """Along axis 0, the first candidate that is accepted, or the last one."""
    count = candidates.shape[0]
    number = iota(candidates.shape, 0, "i32")
    place = min(where(accepted, number, count - 1), 0, keepdims=True)
    return sum(where(equal(number, broadcast_to(place, number.shape)), candidates, 0.0), 0)


def _horner(x: Value, coefficients: tuple[float, ...]) -> Value:
    made = full(coefficients[0], x.shape, x.dtype)
    for c in coefficients[1:]:
        made = add(multiply(made, x), c)
    return made


def _wide_unit(name: str, key: object, shape: Shape, dtype: np.dtype) -> Value:
    """Uniform numbers in ``[0, 1)`` of at least 24 bits."""
    return unit_floats(name, key, shape, dtype, least=24)


def _centred(name: str, key: object, shape: Shape, dtype: np.dtype) -> Value:
    """Uniform numbers in ``(-1, 1)``: odd multiples of half a step, so that none is 0 or a bound."""
    unit = _wide_unit(name, key, shape, dtype)
    half = 2.0**-53 if unit.dtype == DTYPES["f64"] else 2.0**-24
    return add(subtract(multiply(unit, 2.0), 1.0), half)


def _key(keys: Value, n: int) -> Value:
    return squeeze(slice_axis(keys, -2, n, n + 1), -2)


def _parameters(
    name: str, shape: Shape | None, dtype: np.dtype | None, *given: Bound
) -> tuple[tuple[Value, ...], tuple[int, ...]]:
    """Parameters of a distribution as values, and the shape of what is drawn: by default, that of the parameters."""
    made = []
    for x in given:
        if isinstance(x, Value):
            require_float(name, x)
            if dtype is not None and x.dtype != dtype and x.dtype.itemsize > dtype.itemsize:
                raise TypeRuleError(f"{name}: a parameter must be {dtype_name(dtype)}, got {x.type}; cast it")
            made.append(x if dtype is None else cast(x, dtype))
        else:
            if isinstance(x, bool) or not isinstance(x, int | float | np.ndarray | np.number):
                raise InvalidValueError(f"{name}: a parameter must be a number or a tensor, got {x!r}; pass one")
            made.append(constant(np.asarray(x, np.float64), dtype or DTYPES["f64"]))
    drawn = np.broadcast_shapes(*(x.shape for x in made)) if shape is None else sizes(shape)
    return tuple(made), drawn


def _spread(name: str, x: Value, shape: tuple[int, ...]) -> Value:
    """A parameter, broadcast to what is drawn."""
    return spread_to(name, x, full(0.0, shape, x.dtype))
