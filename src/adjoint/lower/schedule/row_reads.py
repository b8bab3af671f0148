"""Which rows of a batch a kernel reads, given the rows that its loops leave out."""

from collections.abc import Iterator, Mapping, Sequence

from adjoint.kernel.index import Index, as_index
from adjoint.kernel.ir import Apply, Buffer, Expr, For, Load, Stmt, Store, When, postorder, roots_of
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.schedule.row_layouts import Place, Places
from adjoint.lower.schedule.rows import Batch

__all__ = ["RowRead", "row_reads"]


@dataclass(frozen=True, slots=True)
class RowRead:
    """A load of a buffer with rows.

    Parameters
    ----------
    load : Load
        The load.
    store : Store
        What it is read for.
    tile : int
        How many rows at most, beginning with one that is computed, the iterations around it read; 1 if only rows that
        are computed are read.
    aligned : bool
        Whether the first of these rows is a multiple of their number.
    selected : bool
        Whether what is read of absent rows is discarded by a selection that compares the number of rows.
    """

    load: Load
    store: Store
    tile: int
    aligned: bool
    selected: bool


def row_reads(
    body: Sequence[Stmt],
    batch: Batch,
    begins: Mapping[Stmt, Index],
    places: Places,
    exact: frozenset[Load] = frozenset(),
    known: tuple[Index, ...] = (),
) -> Iterator[RowRead]:
    """All loads of buffers with rows.

    Parameters
    ----------
    body : sequence of Stmt
        Where to look for them.
    batch : Batch
        The rows.
    begins : mapping of Stmt to Index
        Rows that are computed where statements run.
    places : mapping of Store to Place
        Where stores are.
    exact : frozenset of Load
        Loads that read rows that are computed only, whatever is around them.
    known : tuple of Index
        Rows that are computed here.
    """
    for statement in body:
        here = (*known, begins[statement]) if statement in begins else known
        if isinstance(statement, Store):
            yield from _loads(statement, batch, places[statement], exact, known)
        elif isinstance(statement, For):
            yield from row_reads(statement.body, batch, begins, places, exact, here)
        elif isinstance(statement, When):
            yield from row_reads(statement.then, batch, begins, places, exact, here)
            yield from row_reads(statement.other, batch, begins, places, exact, known)


def _loads(
    store: Store, batch: Batch, place: Place, exact: frozenset[Load], known: Sequence[Index]
) -> Iterator[RowRead]:
    loads = [load for load in place.loads if load.buffer in batch.layouts]
    unselected = _unselected(roots_of(store), batch.rows) if loads else set()
    for load in loads:
        row = batch.row(load.buffer, load.index, place.facts, load.guard is not None)
        tile = (1, True) if load in exact else _tile(row, known, batch.most)
        yield RowRead(load, store, *tile, id(load) not in unselected)


def _tile(row: Index | None, known: Sequence[Index], most: int) -> tuple[int, bool]:
    """How many rows a row is one of, of which the first is computed, and whether that is a multiple of their number."""
    tiles = [(most, True)]
    for first in known:
        if row is None:
            break
        after = row - first
        if after.low >= 0:
            size = after.high + 1
            tiles.append((size, first % size == as_index(0)))
    return min(tiles, key=lambda tile: tile[0])


def _unselected(roots: Sequence[Expr], rows: Buffer) -> set[int]:
    """The expressions, by identity, that have an influence where a row is absent."""
    seen: set[int] = set()
    stack = list(roots)
    while stack:
        expr = stack.pop()
        if id(expr) not in seen:
            seen.add(id(expr))
            stack += _influences(expr, rows)
    return seen


def _influences(expr: Expr, rows: Buffer) -> Sequence[Expr]:
    """The operands that have an influence where a row is absent: not what a selection is for rows that are present."""
    if isinstance(expr, Apply) and expr.function == "select":
        test = expr.operands[0]
        compares = isinstance(test, Apply) and test.function == "lt"
        if compares and any(isinstance(e, Load) and e.buffer is rows for e in postorder([test.args[1]])):
            return (test, expr.operands[2])
    return expr.args
