"""Decompositions of small matrices: QR by reflections, eigenvalues and singular values by rotations.

G. Golub, C. Van Loan, "Matrix Computations", 4th edition, 2013: Householder reflections, algorithm 5.2.1; cyclic Jacobi
rotations of a symmetric matrix, algorithm 8.5.3; one-sided rotations, section 8.6.4 (M. Hestenes, 1958).
"""

from collections.abc import Callable

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Buffer, Expr, For, Stmt, Store
from adjoint.lower.rows.workspace import I64, Workspace
from adjoint.ops.decompositions import SWEEPS

__all__ = ["qr", "singular_values", "symmetric_eigen"]


def qr(work: Workspace) -> tuple[Stmt, ...]:
    """Operand: a matrix with at least as many rows as columns. The orthonormal factor is computed."""
    ((rows, columns),) = work.description.shapes
    matrix, factor = work.scratch("matrix", rows * columns), work.scratch("factor", rows * columns)
    vectors, scales = work.scratch("vectors", rows * columns), work.scratch("scales", columns)
    sums, tail, beta = work.scratch("sums", columns), work.register("tail"), work.register("beta")
    zero, one = work.number(0), work.number(1)

    def below(name: str, k: Index, body: Callable[[Index], tuple[Stmt, ...]], first: int = 0) -> Stmt:
        """Statements for each row from ``k + first`` on, from the last one up."""
        var = Var(name, rows)
        return For(var, body(-as_index(var) + (rows - 1)), until=-k + (rows - first))

    def reflect(target: Buffer, k: Index) -> tuple[Stmt, ...]:
        """Apply reflection k to the rows from k on."""

        def add(i: Index) -> tuple[Stmt, ...]:
            v = work.load(vectors, i * columns + k)
            return work.each(
                columns,
                lambda j: work.store(
                    sums, j, work.call("fma", v, work.load(target, i * columns + j), work.load(sums, j))
                ),
            )

        def subtract(i: Index) -> tuple[Stmt, ...]:
            scaled = work.call("neg", work.call("mul", work.load(scales, k), work.load(vectors, i * columns + k)))
            return work.each(
                columns,
                lambda j: work.store(
                    target,
                    i * columns + j,
                    work.call("fma", scaled, work.load(sums, j), work.load(target, i * columns + j)),
                ),
            )

        clear = work.each(columns, lambda j: work.store(sums, j, zero))
        return (*clear, below("a", k, add), below("b", k, subtract))

    def square(i: Index) -> tuple[Stmt, ...]:
        x = work.load(matrix, i * columns + k)
        return (work.store(tail, 0, work.call("fma", x, x, work.load(tail))),)

    def keep(i: Index) -> tuple[Stmt, ...]:
        quotient = work.call("div", work.load(matrix, i * columns + k), work.call("sub", alpha, work.load(beta)))
        kept = work.select(work.call("eq", work.load(tail), zero), zero, quotient)
        return (work.store(vectors, i * columns + k, kept),)

    step, back, line = Var("k", columns), Var("r", columns), Var("i", rows)
    k, row = as_index(step), as_index(line)
    alpha = work.load(matrix, k * (columns + 1))
    norm = work.call("sqrt", work.call("fma", alpha, alpha, work.load(tail)))
    signed = work.select(work.call("ge", alpha, zero), work.call("neg", norm), norm)
    scale = work.call("div", work.call("sub", work.load(beta), alpha), work.load(beta))
    factoring = (
        work.store(tail, 0, zero),
        below("s", k, square, 1),
        # Without a tail there is nothing to reflect, as in LAPACK.
        work.store(beta, 0, work.select(work.call("eq", work.load(tail), zero), one, signed)),
        work.store(scales, k, work.select(work.call("eq", work.load(tail), zero), zero, scale)),
        below("v", k, keep, 1),
        work.store(vectors, k * (columns + 1), one),
        *reflect(matrix, k),
    )

    def identity(j: Index) -> Stmt:
        same = work.call("eq", work.coordinate(row), work.coordinate(j))
        return work.store(factor, row * columns + j, work.select(same, one, zero))

    fill = work.each(columns, lambda j: work.store(matrix, row * columns + j, work.operand(0, row, j)))
    give = work.each(columns, lambda j: work.give(work.load(factor, row * columns + j), row, j))
    return (
        For(line, (*fill, *work.each(columns, identity))),
        For(step, factoring),
        For(back, reflect(factor, -as_index(back) + (columns - 1))),
        For(line, give),
    )


class _Rotations:
    """Sweeps over all pairs of rows of a matrix of vectors, which are rotated together with the rows of others."""

    def __init__(self, work: Workspace, size: int, width: int) -> None:
        self.work, self.size, self.width = work, size, width
        #: The rows that are rotated, and those of the product of all rotations.
        self.matrix, self.vectors = work.scratch("matrix", size * width), work.scratch("vectors", size * size)
        self.values = work.scratch("values", size)
        self.cosine, self.sine, self.tangent = (work.register(name) for name in ("cosine", "sine", "tangent"))

    def load(self, i: Index, j: Index) -> Expr:
        return self.work.load(self.matrix, i * self.width + j)

    def fill(self, element: Callable[[Index, Index], Expr]) -> Stmt:
        """Begin with a matrix, and with no rotation."""
        work, line = self.work, Var("i", self.size)
        i = as_index(line)

        def identity(j: Index) -> Stmt:
            same = work.call("eq", work.coordinate(i), work.coordinate(j))
            return work.store(self.vectors, i * self.size + j, work.select(same, work.number(1), work.number(0)))

        fill = work.each(self.width, lambda j: work.store(self.matrix, i * self.width + j, element(i, j)))
        return For(line, (*fill, *work.each(self.size, identity)))

    def angle(self, low: Expr, high: Expr, between: Expr) -> tuple[Stmt, ...]:
        """The rotation by which a symmetric matrix of two rows becomes diagonal; none if it is."""
        work = self.work
        zero, one = work.number(0), work.number(1)
        ratio = work.call("div", work.call("sub", high, low), work.call("mul", work.number(2), between))
        length = work.call("sqrt", work.call("fma", ratio, ratio, one))
        size = work.call("div", one, work.call("add", work.call("abs", ratio), length))
        tangent = work.select(work.call("lt", ratio, zero), work.call("neg", size), size)
        t = work.load(self.tangent)
        return (
            work.store(self.tangent, 0, work.select(work.call("eq", between, zero), zero, tangent)),
            work.store(self.cosine, 0, work.call("div", one, work.call("sqrt", work.call("fma", t, t, one)))),
            work.store(self.sine, 0, work.call("mul", t, work.load(self.cosine))),
        )

    def rotated(self, buffer: Buffer, one: Index, other: Index) -> Stmt:
        """Rotate two elements."""
        work, c, s = self.work, self.work.load(self.cosine), self.work.load(self.sine)
        x, y = work.load(buffer, one), work.load(buffer, other)
        first = work.call("sub", work.call("mul", c, x), work.call("mul", s, y))
        second = work.call("add", work.call("mul", s, x), work.call("mul", c, y))
        return Store(((buffer, one, first), (buffer, other, second)))

    def rows(self, p: Index, q: Index) -> tuple[Stmt, ...]:
        """Rotate two rows of the matrix and of the vectors."""
        return (
            *self.work.each(self.width, lambda j: self.rotated(self.matrix, p * self.width + j, q * self.width + j)),
            *self.work.each(self.size, lambda j: self.rotated(self.vectors, p * self.size + j, q * self.size + j)),
        )

    def sweeps(self, pair: Callable[[Index, Index], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
        """Statements for all pairs of rows, several times."""
        if self.size < 2:
            return ()
        first, second = Var("p", self.size), Var("q", self.size)
        p, q = as_index(first), -as_index(second) + (self.size - 1)
        pairs = For(first, (For(second, pair(p, q), until=-p + (self.size - 1)),))
        return (For(Var("sweep", SWEEPS), (pairs,)),)

    def ordered(self, is_better: str, *moved: tuple[Buffer, int]) -> tuple[Stmt, ...]:
        """Order the values, and with them the rows of buffers of a width, by selection."""
        if self.size < 2:
            return ()
        work, step, candidate = self.work, Var("s", self.size), Var("c", self.size)
        best, row = work.register("best"), work.register("row", I64)
        s, at = as_index(step), -as_index(candidate) + (self.size - 1)
        better = work.call(is_better, work.load(self.values, at), work.load(best))
        search = Store(
            (
                (best, as_index(0), work.select(better, work.load(self.values, at), work.load(best))),
                (row, as_index(0), work.select(better, work.coordinate(at), work.load(row))),
            )
        )
        chosen = work.place(work.load(row), self.size)

        def exchange(buffer: Buffer, width: int) -> Callable[[Index], Stmt]:
            def body(j: Index) -> Stmt:
                here, there = s * width + j, chosen * width + j
                return Store(((buffer, here, work.load(buffer, there)), (buffer, there, work.load(buffer, here))))

            return body

        body = (
            work.store(best, 0, work.load(self.values, s)),
            work.store(row, 0, work.coordinate(s)),
            For(candidate, (search,), until=-s + self.size),
            exchange(self.values, 1)(as_index(0)),
            *(part for buffer, width in moved for part in work.each(width, exchange(buffer, width))),
        )
        return (For(step, body),)

    def give(self, row: int, count: int, element: Callable[[Index, Index], Expr]) -> Stmt:
        """Write rows of the result from one on."""
        line = Var("i", count)
        i = as_index(line)
        return For(line, self.work.each(self.size, lambda j: self.work.give(element(i, j), i + row, j)))


def symmetric_eigen(work: Workspace) -> tuple[Stmt, ...]:
    """Operand: a matrix, of which the symmetric part is decomposed. The eigenvalues, then the vectors as columns."""
    ((size, _),) = work.description.shapes
    made = _Rotations(work, size, size)
    half, line = work.number(0.5), Var("i", size)
    i = as_index(line)

    def pair(p: Index, q: Index) -> tuple[Stmt, ...]:
        column = Var("j", size)
        at = as_index(column) * size
        return (
            *made.angle(made.load(p, p), made.load(q, q), made.load(p, q)),
            *made.rows(p, q),
            For(column, (made.rotated(made.matrix, at + p, at + q),)),
        )

    return (
        made.fill(lambda i, j: work.call("mul", work.call("add", work.operand(0, i, j), work.operand(0, j, i)), half)),
        *made.sweeps(pair),
        For(line, (work.store(made.values, i, made.load(i, i)),)),
        *made.ordered("lt", (made.vectors, size)),
        *work.each(size, lambda j: work.give(work.load(made.values, j), 0, j)),
        made.give(1, size, lambda i, j: work.load(made.vectors, j * size + i)),
    )


def singular_values(work: Workspace) -> tuple[Stmt, ...]:
    """Operand: a matrix with at least as many rows as columns. The left vectors, the values, the right vectors."""
    ((rows, size),) = work.description.shapes
    made = _Rotations(work, size, rows)
    low, high, between = (work.register(name) for name in ("low", "high", "between"))
    zero, line = work.number(0), Var("i", size)
    i = as_index(line)

    def pair(p: Index, q: Index) -> tuple[Stmt, ...]:
        column = Var("j", rows)
        x, y = made.load(p, as_index(column)), made.load(q, as_index(column))
        products = Store(
            tuple(
                (total, as_index(0), work.call("fma", one, other, work.load(total)))
                for total, one, other in ((low, x, x), (high, y, y), (between, x, y))
            )
        )
        return (
            *(work.store(total, 0, zero) for total in (low, high, between)),
            For(column, (products,)),
            *made.angle(work.load(low), work.load(high), work.load(between)),
            *made.rows(p, q),
        )

    column = Var("j", rows)
    x = made.load(i, as_index(column))
    lengths = (
        work.store(low, 0, zero),
        For(column, (work.store(low, 0, work.call("fma", x, x, work.load(low))),)),
        work.store(made.values, i, work.call("sqrt", work.load(low))),
    )

    def left(i: Index, j: Index) -> Expr:
        length = work.load(made.values, j)
        return work.select(work.call("eq", length, zero), zero, work.call("div", made.load(j, i), length))

    return (
        made.fill(lambda i, j: work.operand(0, j, i)),
        *made.sweeps(pair),
        For(line, lengths),
        *made.ordered("gt", (made.vectors, size), (made.matrix, rows)),
        made.give(0, rows, left),
        *work.each(size, lambda j: work.give(work.load(made.values, j), rows, j)),
        made.give(rows + 1, size, lambda i, j: work.load(made.vectors, j * size + i)),
    )
