"""Loops and indices that kernel builders share: vector loops, tiling with a remainder, collapsed axes."""

from collections.abc import Callable, Iterable, Sequence

from adjoint.kernel.index import Index, Var, as_index, unflatten
from adjoint.kernel.ir import Coordinate, Expr, For, Load, Stmt, Store, When, postorder, walk
from adjoint.kernel.rewrite import rewritten

__all__ = [
    "collapse_axes",
    "divisors",
    "indices_in",
    "indices_of",
    "nest",
    "pieces",
    "ravel",
    "tiled",
    "uncollapse",
    "unravel",
    "unroll_around",
    "vector_loops",
    "vector_runs",
]


def vector_loops(
    count: int, lanes: int, body: Callable[[Index, Index], Iterable[Stmt]], base: Index | int = 0
) -> tuple[Stmt, ...]:
    """Loops over ``base + 0..count`` in vectors; the remainder is one shorter vector.

    `body` takes the coordinate and the lane.
    """
    out: list[Stmt] = []
    whole, rest = divmod(count, lanes)
    if whole:
        step, lane = Var("v", whole), Var("l", lanes)
        at = as_index(base) + as_index(step) * lanes + as_index(lane)
        inner = For(lane, tuple(body(at, as_index(lane))), "vector")
        out.append(For(step, (inner,)) if whole > 1 else inner)
    if rest:
        lane = Var("l", rest)
        at = as_index(base) + whole * lanes + as_index(lane)
        out.append(For(lane, tuple(body(at, as_index(lane))), "vector"))
    return tuple(out)


def vector_runs(count: int, tile: int, lanes: int) -> list[tuple[int, int, int]]:
    """`count` columns of a tile as ``(first column, vectors, lanes)`` runs: full vectors, then a shorter one."""
    out = []
    full, rest = divmod(min(count, tile), lanes)
    if full:
        out.append((0, full, lanes))
    if rest:
        out.append((full * lanes, 1, rest))
    return out


def indices_of(body: Iterable[Stmt]) -> list[Index]:
    """Every index with which statements read or write."""
    found: list[Index] = []
    for statement in walk(tuple(body)):
        if isinstance(statement, Store):
            found.extend(i for _, i, _ in statement.targets)
            found.extend(indices_in([v for _, _, v in statement.targets]))
    return found


def indices_in(exprs: list[Expr]) -> list[Index]:
    """Every index in expressions."""
    return [e.index for e in postorder(exprs) if isinstance(e, Load | Coordinate)]


def collapse_axes(vars_: Sequence[Var], indices: Sequence[Index]) -> list[list[Var]]:
    """Runs of neighbouring axes that every index walks as a single axis."""
    runs: list[list[Var]] = []
    for var in vars_:
        # Axes of extent 1 are neutral: the last longer one decides.
        last = next((v for v in reversed(runs[-1]) if v.extent != 1), var) if runs else var
        if runs and _one_axis(last, var, indices):
            runs[-1].append(var)
        else:
            runs.append([var])
    return runs


def _one_axis(outer: Var, inner: Var, indices: Sequence[Index]) -> bool:
    if outer is inner or inner.extent == 1:
        return True
    for index in indices:
        far, near = index.coefficient(outer), index.coefficient(inner)
        if far is None or near is None:
            return False
        if far != near * inner.extent:
            return False
    return True


def uncollapse(runs: Sequence[Sequence[Var]], at: Sequence[Index]) -> tuple[Index, ...]:
    """The full index, from one coordinate for each run of axes."""
    out: list[Index] = []
    for run, coordinate in zip(runs, at, strict=True):
        out.extend(unflatten(coordinate, tuple(v.extent for v in run)))
    return tuple(out)


def divisors(extent: int, most: int | None = None) -> list[int]:
    """The divisors of an extent, at most `most`, smallest first."""
    return [d for d in range(1, min(extent, most or extent) + 1) if extent % d == 0]


def nest(vars_: Sequence[Var], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """A loop nest of serial loops, outermost first."""
    for var in reversed(vars_):
        body = (For(var, body),) if var.extent != 1 else body
    return body


def unroll_around(inner: Var, statement: Stmt) -> Stmt:
    """Insert an unrolled loop around a vector loop, inside the serial one."""
    if isinstance(statement, For) and statement.kind == "serial":
        return For(statement.var, tuple(unroll_around(inner, s) for s in statement.body))
    return For(inner, (statement,), "unroll")


def tiled(piece: Index, extent: int, tile: int, body: Callable[[int, Index], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
    """Tiling with a remainder: code for whole tiles of an axis, and for the shorter one at its end, if there is one.

    `body` takes the size of the tile and its first coordinate.
    """
    many, rest = divmod(extent, tile)
    if not rest:
        return body(tile, piece * tile)
    edge = body(rest, as_index(many * tile))
    if not many:
        return edge
    # No whole tile reaches the end of the axis, so remainders vanish if the number of the tile is known to be whole.
    whole = Var("whole", many)
    statements = body(tile, as_index(whole) * tile)
    statements = rewritten(statements, lambda index: index.substitute({whole: piece}))
    return (When(piece, 0, many, statements, edge),)


def pieces(extent: int, tile: int) -> list[tuple[int, int, int]]:
    """The tiles of an axis as ``(first coordinate, number, size)`` runs: whole tiles, and a shorter one at its end."""
    many, rest = divmod(extent, tile)
    return [(0, many, tile)] * (many > 0) + [(many * tile, 1, rest)] * (rest > 0)


def ravel(vars_: Sequence[Var], at: dict[Var, Index]) -> Index:
    """The row-major position of coordinates."""
    flat = as_index(0)
    for var in vars_:
        flat = flat * var.extent + at[var]
    return flat


def unravel(vars_: Sequence[Var], flat: Index) -> dict[Var, Index]:
    """The coordinates of a row-major position."""
    at: dict[Var, Index] = {}
    for position in range(len(vars_) - 1, -1, -1):
        var = vars_[position]
        at[var] = flat % var.extent if position else flat
        flat = flat // var.extent
    return at
