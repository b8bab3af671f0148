"""Winograd's minimal filtering (Toom-Cook) along one axis, for windows of two to ten rows.

Four neighbouring results of a window of three rows take twelve multiplications when each is summed on its own. As a
product of two polynomials, evaluated at six points, they take six::

    out[h] = sum over r of w[r] * x[h + r]      u = weight @ w           6 from 3
    12 multiplications for h = 0..3         ->  v = data @ x             6 from 6
                                                out = result @ (u * v)   4 from 6, 6 multiplications

In a convolution, all pixels share `u`, all output channels share `v`, and all input channels share the last step, so
that half of the multiply-adds remain. As only one axis is transformed, lanes stay along the other.

The gradient of the weight is the transposed algorithm and takes the same six multiplications:
``weight.T @ ((result.T @ ct) * (data @ x))``.

In the same way, any number of results takes one multiplication each, and as many more as the window has rows beyond the
first: three results of four rows six instead of twelve, two of five rows six instead of ten. Longer windows are sums of
two, of the first rows and of the others: four results of five rows take eleven instead of 20, three of seven rows
eleven instead of 21. A window at stride 2 is one on the even rows plus one on the odd rows, each at stride 1: four
results of three rows take nine instead of twelve, and longer windows as many as at stride 1.

Source: S. Winograd, "Arithmetic complexity of computations" (1980); A. Lavin and S. Gray, "Fast algorithms for
convolutional neural networks" (2016). Other points than 0, 1, -1, 2, -2 and infinity may round less: B. Barabasz et
al., "Error analysis and improving the accuracy of Winograd convolution" (2020). The error, measured on random numbers
with 64 channels, is 1.35 times that of direct sums for four results of three rows (twice with 1 and 2 in place of 3/4
and 3/2), 1.30 for four of two rows, 1.17 for three of four, 1.15 for two of five, and 1.03 at most for the others.
With more points, three results of five rows (seven multiplications) would round 1.7 times as much with the best ones
found, two of seven rows (eight) 1.9 times.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from math import ceil, prod

from adjoint.kernel.ir import Const, Expr, apply
from adjoint.lazy_dataclass import dataclass

__all__ = ["Algorithm", "algorithm", "matrix_times", "transposed"]

Matrix = tuple[tuple[Fraction, ...], ...]

#: Finite evaluation points, by the number of multiplications; the last one is at infinity.
_POINTS: dict[int, tuple[Fraction | int, ...]] = {
    3: (0, 1),
    4: (0, 1, -1),
    5: (Fraction(1, 2), Fraction(-1, 2), Fraction(5, 4), Fraction(-5, 4)),
    6: (0, Fraction(3, 4), Fraction(-3, 4), Fraction(3, 2), Fraction(-3, 2)),
}

#: Most results that are computed together, and most rows of a window for two of them.
_MOST_RESULTS, _LONGEST = 4, max(_POINTS) - 1


@dataclass(frozen=True, slots=True)
class Algorithm:
    """The transform matrices F(outputs, taps).

    Parameters
    ----------
    outputs : int
        Neighbouring results that are computed together.
    stride : int
        Distance of the windows of two neighbouring results, in rows.
    data, weight, result : tuple of tuple of Fraction
        The transforms of the data, the weight and the result: ``products x lines(outputs)``, ``products x taps`` and
        ``outputs x products``.
    """

    outputs: int
    stride: int
    data: Matrix
    weight: Matrix
    result: Matrix

    @property
    def products(self) -> int:
        """Multiplications for `outputs` results."""
        return len(self.data)

    @property
    def taps(self) -> int:
        """Rows of the window."""
        return len(self.weight[0])

    def lines(self, outputs: int) -> int:
        """Data rows that so many results need."""
        return (outputs - 1) * self.stride + self.taps


def algorithm(extent: int, taps: int, stride: int = 1) -> Algorithm | None:
    """The algorithm with the fewest multiplications for so many results of a window of so many rows.

    None where there is none, or where direct sums take no more.
    """
    known: list[Algorithm] = []
    if stride == 1 and 2 <= taps <= _LONGEST:
        known = [_at_stride_one(outputs, taps) for outputs in _outputs(taps)]
    longer = ceil(taps / 2)
    if (stride == 1 and _LONGEST <= taps <= 2 * _LONGEST) or (stride == 2 and 2 <= longer <= _LONGEST):
        known += [_in_two_parts(outputs, taps, stride) for outputs in _outputs(longer)]

    def products(by: Algorithm) -> int:
        return ceil(extent / by.outputs) * by.products

    best = min(known, key=lambda by: (products(by), by.outputs), default=None)
    return best if best is not None and products(best) < extent * taps else None


def _outputs(taps: int) -> range:
    """Possible numbers of results for windows of so many rows."""
    return range(2, min(_MOST_RESULTS, max(_POINTS) + 1 - taps) + 1)


@cache
def _at_stride_one(outputs: int, taps: int) -> Algorithm:
    """The algorithm at stride 1, from its evaluation points; for windows of one row, the multiplications themselves."""
    if taps == 1:
        unit = tuple(tuple(Fraction(i == n) for i in range(outputs)) for n in range(outputs))
        return Algorithm(outputs, 1, unit, ((Fraction(1),),) * outputs, unit)
    points = [Fraction(p) for p in _POINTS[outputs + taps - 1]]
    last = (Fraction(0),) * (taps - 1) + (Fraction(1),)
    others = [[q for q in points if q != p] for p in points]
    scales = [prod(p - q for q in rest) for p, rest in zip(points, others, strict=True)]
    weight = [tuple(p**k / scale for k in range(taps)) for p, scale in zip(points, scales, strict=True)]
    data = [(*_coefficients(rest), Fraction(0)) for rest in others]
    result = [(*(p**i for p in points), Fraction(i == outputs - 1)) for i in range(outputs)]
    return Algorithm(outputs, 1, (*data, _coefficients(points)), (*weight, last), tuple(result))


@cache
def _in_two_parts(outputs: int, taps: int, stride: int) -> Algorithm:
    """Windows as sums of two: of the even rows and the odd rows at stride 2, else of the first rows and the others."""
    longer = ceil(taps / 2)
    starts = (0, 1) if stride == 2 else (0, longer)
    parts = [(_at_stride_one(outputs, longer), starts[0]), (_at_stride_one(outputs, taps - longer), starts[1])]
    rows = (outputs - 1) * stride + taps
    data = [_spread(row, start, stride, rows) for by, start in parts for row in by.data]
    weight = [_spread(row, start, stride, taps) for by, start in parts for row in by.weight]
    result = [(*one, *other) for one, other in zip(*(by.result for by, _ in parts), strict=True)]
    return Algorithm(outputs, stride, tuple(data), tuple(weight), tuple(result))


def _spread(row: Sequence[Fraction], start: int, step: int, count: int) -> tuple[Fraction, ...]:
    """So many numbers: those of a row from a start on in steps, and zeros elsewhere."""
    made = [Fraction(0)] * count
    made[start : start + step * len(row) : step] = row
    return tuple(made)


def _coefficients(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """The coefficients of the polynomial with these roots, constant first."""
    found = [Fraction(1)]
    for root in roots:
        found = [low - root * high for low, high in zip([Fraction(0), *found], [*found, Fraction(0)], strict=True)]
    return tuple(found)


def transposed(matrix: Matrix) -> Matrix:
    """The transpose of a matrix."""
    return tuple(zip(*matrix, strict=True))


def matrix_times(matrix: Matrix, terms: Sequence[Expr]) -> list[Expr]:
    """The product of a matrix with a vector of expressions.

    Points that differ only in sign make pairs of rows (of `data`, `weight`) or columns (of `result`) that do so too:
    such a pair is the sum and the difference of two common subexpressions.
    """
    pairs = _mirrored(transposed(matrix))
    if pairs:
        left = [j for j in range(len(terms)) if not any(j in pair for pair in pairs)]
        columns = [transposed(matrix)[j] for j in left]
        inputs = [terms[j] for j in left]
        for i, j in pairs:
            first, second = transposed(matrix)[i], transposed(matrix)[j]
            columns += [_where(first, second, 1), _where(first, second, -1)]
            inputs += [apply("add", terms[i], terms[j]), apply("sub", terms[i], terms[j])]
        return [_sum(row, inputs) for row in transposed(tuple(columns))]
    out: dict[int, Expr] = {}
    for i, j in _mirrored(matrix):
        same, other = (_sum(_where(matrix[i], matrix[j], sign), terms) for sign in (1, -1))
        out[i], out[j] = apply("add", same, other), apply("sub", same, other)
    return [out[i] if i in out else _sum(row, terms) for i, row in enumerate(matrix)]


def _mirrored(rows: Matrix) -> list[tuple[int, int]]:
    """Pairs of neighbouring rows that differ in the signs of some elements, neither of all nor of none."""
    return [
        (i, i + 1)
        for i in range(len(rows) - 1)
        if [abs(a) for a in rows[i]] == [abs(b) for b in rows[i + 1]]
        and any(_where(rows[i], rows[i + 1], 1))
        and any(_where(rows[i], rows[i + 1], -1))
    ]


def _where(row: Sequence[Fraction], other: Sequence[Fraction], sign: int) -> tuple[Fraction, ...]:
    """The elements of a row that equal those of another one times a sign; 0 elsewhere."""
    return tuple(a if a == sign * b else Fraction(0) for a, b in zip(row, other, strict=True))


def _sum(row: Sequence[Fraction], terms: Sequence[Expr]) -> Expr:
    """A dot product with constants: additions first, then fused multiply-adds."""
    total: Expr | None = None
    for c, term in sorted(((c, t) for c, t in zip(row, terms, strict=True) if c), key=lambda pair: abs(pair[0]) != 1):
        if total is None:
            total = term if c == 1 else apply("mul", term, Const(float(c), term.dtype))
        elif abs(c) == 1:
            total = apply("add" if c == 1 else "sub", total, term)
        else:
            total = apply("fma", term, Const(float(c), term.dtype), total)
    return Const(0.0, terms[0].dtype) if total is None else total
