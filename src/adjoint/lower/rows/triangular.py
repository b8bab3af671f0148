"""Cholesky factorizations and triangular solves of small matrices, row by row.

Both compute a row as a given one minus a sum of multiples of earlier rows, in vectors along the row. G. Golub, C. Van
Loan, "Matrix Computations", 4th edition, 2013, algorithms 3.1.1 and 4.2.1.
"""

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import For, Stmt
from adjoint.lower.rows.workspace import Workspace

__all__ = ["cholesky", "solve_triangular"]


def cholesky(work: Workspace) -> tuple[Stmt, ...]:
    """Operand: a matrix, of which the lower triangle is read. The transpose of the factor is computed.

    From the first pivot that is not positive on, what is computed is NaN.
    """
    ((size, _),) = work.description.shapes
    upper, root = work.scratch("upper", size * size), work.register("root")
    s, t = Var("s", size), Var("t", size)
    row = as_index(s)
    pivot = work.load(upper, row * (size + 1))
    positive = work.call("gt", pivot, work.number(0))

    def result(i: Index, j: Index) -> Stmt:
        below = work.call("le", work.coordinate(j), work.coordinate(i))
        return work.give(work.select(below, work.load(upper, j * size + i), work.number(0)), i, j)

    step = (
        *work.accumulate(
            size,
            (t, row),
            lambda j: work.operand(0, j, row),
            lambda j: (work.load(upper, as_index(t) * size + row), work.load(upper, as_index(t) * size + j)),
            lambda j, value: work.store(upper, row * size + j, value),
        ),
        work.store(root, 0, work.select(positive, work.call("sqrt", pivot), work.number(float("nan")))),
        *work.each(
            size,
            lambda j: work.store(
                upper, row * size + j, work.call("div", work.load(upper, row * size + j), work.load(root))
            ),
        ),
    )
    line = Var("i", size)
    return (For(s, step), For(line, work.each(size, lambda j: result(as_index(line), j))))


def solve_triangular(work: Workspace) -> tuple[Stmt, ...]:
    """Operands: a triangular matrix and right sides, which are the columns of the second one.

    Options: ``upper``, ``transposed`` and ``unit`` (a diagonal of ones, which is not read).
    """
    (size, _), (_, columns) = work.description.shapes
    options = work.description.options
    transposed = "transposed" in options
    forward = ("upper" in options) == transposed
    x = work.scratch("x", size * columns)
    s, t = Var("s", size), Var("t", size)
    row, other = (as_index(v) if forward else -as_index(v) + (size - 1) for v in (s, t))

    def matrix(i: Index, j: Index) -> tuple[Index, Index]:
        return (j, i) if transposed else (i, j)

    def finish(j: Index, value: object) -> Stmt:
        return work.store(x, row * columns + j, value)  # type: ignore[arg-type]

    step: tuple[Stmt, ...] = work.accumulate(
        columns,
        (t, as_index(s)),
        lambda j: work.operand(1, row, j),
        lambda j: (work.operand(0, *matrix(row, other)), work.load(x, other * columns + j)),
        finish,
    )
    if "unit" not in options:
        pivot = work.register("pivot")
        step = (
            *step,
            work.store(pivot, 0, work.operand(0, row, row)),
            *work.each(
                columns,
                lambda j: finish(j, work.call("div", work.load(x, row * columns + j), work.load(pivot))),
            ),
        )
    line = Var("i", size)
    copy = work.each(columns, lambda j: work.give(work.load(x, as_index(line) * columns + j), as_index(line), j))
    return (For(s, step), For(line, copy))
