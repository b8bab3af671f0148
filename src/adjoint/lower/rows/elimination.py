"""Gaussian elimination with partial pivoting of small matrices: linear systems and determinants.

G. Golub, C. Van Loan, "Matrix Computations", 4th edition, 2013, section 3.4.
"""

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Const, Expr, For, Stmt, Store
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.rows.workspace import I64, Workspace

__all__ = ["determinant", "solve"]


@dataclass
class _Elimination:
    """A matrix of `size` rows and `width` columns in scratch memory, of which the first `size` are eliminated."""

    work: Workspace
    size: int
    width: int

    def __post_init__(self) -> None:
        work = self.work
        self.matrix = work.scratch("matrix", self.size * self.width)
        self.best, self.row, self.factor = work.register("best"), work.register("row", I64), work.register("factor")

    def at(self, i: Index, j: Index) -> Index:
        return i * self.width + j

    def load(self, i: Index, j: Index) -> Expr:
        return self.work.load(self.matrix, self.at(i, j))

    def fill(self, number: int, start: int, columns: int) -> Stmt:
        """Copy an operand into columns of the matrix."""
        work, i = self.work, Var("i", self.size)
        line = as_index(i)
        return For(
            i,
            work.each(
                columns, lambda j: work.store(self.matrix, self.at(line, j + start), work.operand(number, line, j))
            ),
        )

    def steps(self, *between: Stmt, step: Var, skip_zeros: bool = False) -> Stmt:
        """The loop over pivots; statements run between the exchange of rows and the elimination of a column."""
        work, size = self.work, self.size
        s = as_index(step)
        candidate, below = Var("c", size), Var("e", size)
        # From the last row up, so that of several candidates the first row is the pivot, as in LAPACK.
        line, target = -as_index(candidate) + (size - 1), -as_index(below) + (size - 1)
        magnitude = work.call("abs", self.load(line, s))
        better = work.call("ge", magnitude, work.load(self.best))
        search = Store(
            (
                (self.best, as_index(0), work.select(better, magnitude, work.load(self.best))),
                (self.row, as_index(0), work.select(better, work.coordinate(line), work.load(self.row))),
            )
        )
        chosen = work.place(work.load(self.row), size)

        def exchange(j: Index) -> Stmt:
            upper, lower = self.at(s, j), self.at(chosen, j)
            return Store(
                (
                    (self.matrix, upper, work.load(self.matrix, lower)),
                    (self.matrix, lower, work.load(self.matrix, upper)),
                )
            )

        pivot = self.load(s, s)
        quotient = work.call("div", self.load(target, s), pivot)
        if skip_zeros:  # all candidates are 0, and nothing is left to eliminate
            zero = work.number(0)
            quotient = work.select(work.call("eq", pivot, zero), zero, quotient)

        def eliminate(j: Index) -> Stmt:
            negated = work.call("neg", work.load(self.factor))
            return work.store(
                self.matrix, self.at(target, j), work.call("fma", negated, self.load(s, j), self.load(target, j))
            )

        return For(
            step,
            (
                work.store(self.best, 0, work.number(-1)),
                work.store(self.row, 0, work.coordinate(s)),
                For(candidate, (search,), until=-s + size),
                *(work.each(self.width, exchange) if size > 1 else ()),
                *between,
                For(
                    below,
                    (work.store(self.factor, 0, quotient), *work.each(self.width, eliminate)),
                    until=-s + (size - 1),
                ),
            ),
        )


def solve(work: Workspace) -> tuple[Stmt, ...]:
    """Operands: a matrix and right sides, which are the columns of the second one."""
    (size, _), (_, columns) = work.description.shapes
    made = _Elimination(work, size, size + columns)
    s, t = Var("s", size), Var("t", size)
    row, other = (-as_index(v) + (size - 1) for v in (s, t))

    def divided(j: Index, value: Expr) -> Stmt:
        return work.store(made.matrix, made.at(row, j + size), work.call("div", value, made.load(row, row)))

    substitution = work.accumulate(
        columns,
        (t, as_index(s)),
        lambda j: made.load(row, j + size),
        lambda j: (made.load(row, other), made.load(other, j + size)),
        divided,
    )
    line = Var("i", size)
    copy = work.each(columns, lambda j: work.give(made.load(as_index(line), j + size), as_index(line), j))
    return (
        made.fill(0, 0, size),
        made.fill(1, size, columns),
        made.steps(step=Var("p", size)),
        For(s, substitution),
        For(line, copy),
    )


def determinant(work: Workspace) -> tuple[Stmt, ...]:
    """Operand: a matrix; the option says what of the determinant is wanted: ``value``, ``log_magnitude``, ``sign``."""
    ((size, _),) = work.description.shapes
    (wanted,) = work.description.options
    start = work.number(0 if wanted == "log_magnitude" else 1)
    if not size:
        return (work.give(start),)
    made, total, step = _Elimination(work, size, size), work.register("total"), Var("p", size)
    s = as_index(step)
    pivot, so_far = made.load(s, s), work.load(total)
    if wanted == "log_magnitude":
        new = work.call("add", so_far, work.call("log", work.call("abs", pivot)))
    else:
        factor = pivot if wanted == "value" else _sign(work, pivot)
        stays = work.call("eq", work.load(made.row), work.coordinate(s))
        new = work.call("mul", so_far, work.select(stays, factor, work.call("neg", factor)))
    return (
        work.store(total, 0, start),
        made.fill(0, 0, size),
        made.steps(work.store(total, 0, new), step=step, skip_zeros=True),
        work.give(work.load(total)),
    )


def _sign(work: Workspace, x: Expr) -> Expr:
    """1, -1, or the element itself if it is 0 or NaN."""
    zero: Const = work.number(0)
    negative = work.select(work.call("lt", x, zero), work.number(-1), x)
    return work.select(work.call("gt", x, zero), work.number(1), negative)
