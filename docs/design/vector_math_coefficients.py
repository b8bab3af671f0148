"""Computes every number in adjoint.lower.vector_math: run it to see them again, with their errors.

    python docs/design/vector_math_coefficients.py [NAME ...]

Each polynomial minimises the largest weighted error over its interval (Remez's exchange algorithm, in mpmath at 200
bits); the weight makes it the relative error of the function that is wanted. The coefficients are then rounded to
the format, one after another from the largest term, each time fitting the others anew where that helps.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mpmath import (
    atan,
    atanh,
    cos,
    erf,
    erfc,
    exp,
    expm1,
    floor,
    frexp,
    ldexp,
    log,
    log1p,
    loggamma,
    lu_solve,
    matrix,
    mp,
    mpf,
    nint,
    pi,
    sin,
    sqrt,
    tanh,
)

mp.prec = 200

Function = Callable[[mpf], mpf]
BITS = {"f32": 24, "f64": 53}


@dataclass(frozen=True)
class Fit:
    """A polynomial of `terms` coefficients close to `function` over ``[low, high]``, error times `weight`."""

    name: str
    format: str
    function: Function
    weight: Function
    low: mpf
    high: mpf
    terms: int


def chebyshev_grid(low: mpf, high: mpf, count: int) -> list[mpf]:
    """Points that lie dense at both ends, as the extrema of the error do."""
    return [(low + high) / 2 - (high - low) / 2 * cos(pi * (2 * i + 1) / (2 * count)) for i in range(count)]


def exchange(xs: Sequence[mpf], ys: Sequence[mpf], ws: Sequence[mpf], powers: Sequence[int]) -> list[mpf]:
    """Coefficients of ``x**p`` for p in powers with the least largest ``|w * (y - sum)|`` over the grid."""
    terms, last = len(powers), len(xs) - 1
    basis = [[w * x**p for p in powers] for x, w in zip(xs, ws, strict=True)]
    points = [i * last // terms for i in range(terms + 1)]
    found: list[mpf] = []
    for _ in range(40):
        system = matrix([[*basis[p], mpf(-1) ** i] for i, p in enumerate(points)])
        solution = lu_solve(system, matrix([ws[p] * ys[p] for p in points]))
        found, level = [solution[i] for i in range(terms)], abs(solution[terms])
        errors = [
            w * y - sum(c * b for c, b in zip(found, row, strict=True)) for w, y, row in zip(ws, ys, basis, strict=True)
        ]
        extrema = alternating(errors)
        while len(extrema) > terms + 1:
            extrema.pop(0 if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]) else -1)
        if len(extrema) <= terms or max(map(abs, errors)) < level * mpf("1.0001"):
            break
        points = extrema
    return found


def alternating(errors: Sequence[mpf]) -> list[int]:
    """Where the error is largest between its changes of sign."""
    found, start = [], 0
    for i in range(1, len(errors) + 1):
        if i == len(errors) or (errors[i] > 0) != (errors[start] > 0):
            found.append(max(range(start, i), key=lambda j: abs(errors[j])))
            start = i
    return found


def rounded(x: mpf, bits: int) -> mpf:
    """`x` to that many significant bits."""
    fraction, exponent = frexp(x)
    return ldexp(nint(ldexp(fraction, bits)), exponent - bits)


def polynomial(fit: Fit) -> tuple[list[mpf], mpf]:
    """Coefficients rounded to the format, and the largest error that they leave."""
    xs = chebyshev_grid(fit.low, fit.high, 40 * (fit.terms + 1))
    ys, ws = [fit.function(x) for x in xs], [fit.weight(x) for x in xs]
    bits, powers = BITS[fit.format], range(fit.terms)

    def error(c: Sequence[mpf]) -> mpf:
        return max(abs(w * (y - sum(a * x**i for i, a in enumerate(c)))) for x, y, w in zip(xs, ys, ws, strict=True))

    at_once = [rounded(c, bits) for c in exchange(xs, ys, ws, powers)]
    in_turn: list[mpf] = []
    left = list(ys)
    for i in powers:
        in_turn.append(rounded(exchange(xs, left, ws, powers[i:])[0], bits))
        left = [y - in_turn[-1] * x**i for x, y in zip(xs, left, strict=True)]
    best = min(at_once, in_turn, key=error)
    return best, error(best)


def parts(value: mpf, ends: Sequence[int], bits: int) -> list[mpf]:
    """`value` as a sum: multiples of ``2**end``, each as large as possible, and a last one of so many bits."""
    out: list[mpf] = []
    for end in ends:
        out.append(ldexp(floor(ldexp(value, -end)), end))
        value -= out[-1]
    return [*out, rounded(value, bits)]


HALF_LOG_2 = log(mpf(2)) / 2
#: A fitted interval is a little longer than the exact one: the integer part is found by a rounded product.
SLACK = 1 + mpf(2) ** -10
#: Of ``r**2`` for sin(r): x/pi, rounded to float32, is off by up to 0.003 where x is 1e5.
SINE_END = mpf("1.582") ** 2
#: Of ``x**2`` for tanh near 0.
TANH_END = mpf("0.55") ** 2
ATANH_END = ((sqrt(2) - 1) / (sqrt(2) + 1)) ** 2


def of_root(f: Function) -> Function:
    """``f(sqrt(z))``."""
    return lambda z: f(sqrt(z))


def scaled_erfc(t: mpf) -> mpf:
    """``e**(a*a) * erfc(a) / t`` where ``t = 2 / (2 + a)``."""
    a = 2 * (1 - t) / t
    return exp(a * a) * erfc(a) / t


def inverse_erf(w: mpf) -> mpf:
    """``erfinv(x) / x`` where ``w = -log(1 - x**2)``, by Newton's method, of the logarithm of erfc for larger w."""
    x = sqrt(-expm1(-w))
    y = sqrt(w) if w > 1 else x * sqrt(pi) / 2
    step = y
    while abs(step) > mpf(2) ** -150:
        slope = 2 / sqrt(pi) * exp(-y * y)
        step = (log(erfc(y)) + w + log1p(x)) * erfc(y) / slope if w > 1 else (x - erf(y)) / slope
        y += step
    return y / x


def of_special_functions() -> list[Fit]:
    """The polynomials of atan, erfc, erfinv and lgamma."""
    out = []
    for format_, terms in (("f32", 9), ("f64", 20)):
        out.append(
            Fit(
                "trigonometric.ATAN",
                format_,
                of_root(lambda x: (atan(x) - x) / x**3),
                of_root(lambda x: x**3 / atan(x)),
                mpf("1e-12"),
                mpf(1),
                terms,
            )
        )
    for format_, end, terms in (("f32", "10.1", 10), ("f64", "27.3", 26)):
        out.append(
            Fit(
                "error_function.SCALED",
                format_,
                lambda v: scaled_erfc(v + mpf(0.5)),
                lambda v: 1 / scaled_erfc(v + mpf(0.5)),
                2 / (2 + mpf(end)) - mpf(0.5),
                mpf(0.5),
                terms,
            )
        )
    for format_, middle, terms in (("f32", mpf("2.5"), 11), ("f64", mpf("3.125"), 27)):
        out.append(
            Fit(
                "error_function.INVERSE",
                format_,
                lambda w, middle=middle: inverse_erf(w + middle),
                lambda w, middle=middle: 1 / inverse_erf(w + middle),
                mpf("1e-9") - middle,
                middle,
                terms,
            )
        )
    tails = (("f32", mpf(3), sqrt(mpf(5)) - 3, mpf("4.1") - 3, 11), ("f64", mpf("4.26"), mpf("-1.76"), mpf("1.76"), 30))
    for format_, middle, low, high, terms in tails:
        out.append(
            Fit(
                "error_function.INVERSE_TAIL",
                format_,
                lambda s, middle=middle: inverse_erf((s + middle) ** 2),
                lambda s, middle=middle: 1 / inverse_erf((s + middle) ** 2),
                low,
                high,
                terms,
            )
        )
    for format_, terms in (("f32", 10), ("f64", 21)):
        out.append(
            Fit(
                "gamma.NEAR_1",
                format_,
                lambda u: loggamma(1 + u) / (u * (u - 1)),
                lambda u: u * (u - 1) / loggamma(1 + u),
                mpf("1e-9"),
                1 - mpf("1e-9"),
                terms,
            )
        )
    return out


def fits() -> list[Fit]:
    """Every polynomial."""
    out = of_special_functions()
    for format_, terms in (("f32", 5), ("f64", 10)):
        out.append(
            Fit(
                "exponential.TAIL",
                format_,
                lambda r: (expm1(r) - r) / r**2,
                lambda r: r**2 / exp(r),
                -HALF_LOG_2 * SLACK,
                HALF_LOG_2 * SLACK,
                terms,
            )
        )
    out.append(
        Fit(
            "logarithm.IN_F",
            "f32",
            lambda f: (log1p(f) - f + f * f / 2) / f**3,
            lambda f: f**3 / log1p(f),
            sqrt(mpf(0.5)) - 1,
            sqrt(mpf(2)) - 1,
            8,
        )
    )
    out.append(
        Fit(
            "logarithm.IN_S",
            "f64",
            of_root(lambda s: 2 * (atanh(s) - s) / s**3),
            of_root(lambda s: s**3 / (2 * atanh(s))),
            mpf(0),
            ATANH_END,
            7,
        )
    )
    for format_, terms in (("f32", 4), ("f64", 8)):
        out.append(
            Fit(
                "trigonometric.TAIL",
                format_,
                of_root(lambda r: (sin(r) - r) / r**3),
                of_root(lambda r: r**3 / sin(r)),
                mpf(0),
                SINE_END,
                terms,
            )
        )
    for format_, terms in (("f32", 5), ("f64", 10)):
        out.append(
            Fit(
                "exponential.TANH",
                format_,
                of_root(lambda x: (tanh(x) - x) / x**3),
                of_root(lambda x: x**3 / tanh(x)),
                mpf("1e-12"),
                TANH_END,
                terms,
            )
        )
    for format_, end, terms in (("f32", "3.95", 9), ("f64", "5.95", 25)):
        out.append(
            Fit(
                "error_function.RATE",
                format_,
                lambda a: -log(erfc(a)) / a - 1,
                lambda a: a * erfc(a) / erf(a),
                mpf("1e-6"),
                mpf(end),
                terms,
            )
        )
    for format_, terms in (("f32", 3), ("f64", 7)):
        out.append(
            Fit(
                "power.IN_S",
                format_,
                of_root(lambda s: (3 * atanh(s) / s - 3 - s**2) / s**4),
                of_root(lambda s: s**5 / (3 * atanh(s))),
                mpf("1e-12"),
                ATANH_END,
                terms,
            )
        )
    for format_, terms in (("f32", 6), ("f64", 12)):
        out.append(
            Fit(
                "power.EXP2",
                format_,
                lambda r: (mpf(2) ** r - 1) / r,
                lambda r: r / mpf(2) ** r,
                mpf(-0.5) * SLACK,
                mpf(0.5) * SLACK,
                terms,
            )
        )
    return out


def sums() -> Iterator[tuple[str, str, tuple[float, ...]]]:
    """Every constant that is a sum of several: name, format, parts."""
    wanted = {
        # 15 and 41 bits: times a k of 8 and 11 bits exact.
        "exponential.LOG_2": (log(mpf(2)), {"f32": (-15,), "f64": (-41,)}),
        # At most 8 and 27 bits, for an h of 16 and 26; the last of them ends where r does: that sum is exact too.
        "trigonometric.PI": (+pi, {"f32": (-6, -18, -22), "f64": (-25, -51)}),
        # 12 and 26 bits: half of a significand.
        "power.SCALE": (2 / (3 * log(mpf(2))), {"f32": (-12,), "f64": (-26,)}),
    }
    for name, (value, formats) in wanted.items():
        for format_, ends in formats.items():
            yield name, format_, tuple(float(p) for p in parts(value, ends, BITS[format_]))


def main(wanted: Sequence[str]) -> None:
    """Print what was asked for, or everything."""
    for fit in fits():
        if not wanted or fit.name in wanted:
            coefficients, error = polynomial(fit)
            print(f"{fit.name}[{fit.format}]: error 2**{float(log(error, 2)):.1f}")
            print("".join(f"    {float(c)!r},\n" for c in coefficients))
    for name, format_, values in sums():
        if not wanted or name in wanted:
            print(f"{name}[{format_}]: {values}")


if __name__ == "__main__":
    main(sys.argv[1:])
