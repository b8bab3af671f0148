"""The epilogue of swapped tiles: sums with lanes along the rows of a result are transposed before it.

A tile that has all columns of a result has consecutive elements of it, but each lane of its vectors is in another row::

    for i in 0..10 unroll:                           for l in 0..16 unroll:              a square, in registers
      for l in 0..16 vector:                           for i in 0..10 vector:
        out[l*10 + i] = f(sums[i*16 + l], w[l*10 + i])    turned[l*10 + i] = sums[i*16 + l]
                                                ->   for v in 0..10:
                                                       for l in 0..16 vector:
                                                         out[v*16 + l] = f(turned[v*16 + l], w[v*16 + l])

Otherwise every lane is stored by itself, and what the epilogue reads is gathered.
"""

from collections.abc import Callable

from adjoint.kernel.index import Index, as_index, flatten
from adjoint.kernel.ir import Buffer, Expr, For, Load, Stmt, Store, walk
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.split_k_reduction import transpose_squares
from adjoint.lower.loops import indices_of, vector_loops

__all__ = ["is_transposed", "transposed_epilogue"]

#: The store of an element of the result, from its row, its column and its value.
_Epilogue = Callable[[Index, Index, Expr], Store]


def is_transposed(c: Contraction, shape: tuple[int, ...]) -> bool:
    """Whether the result, which has this shape, is in memory column by column, where lanes run along rows of `c`."""
    if c.m is None or c.rows == 1:
        return False
    flat = flatten(c.place, shape)
    return flat.coefficient(c.m) == 1 and flat.coefficient(c.n) == c.rows


def transposed_epilogue(
    sums: Buffer, rows: int, columns: int, column: Index, lanes: int, epilogue: _Epilogue
) -> tuple[Stmt, ...] | None:
    """Transpose the sums of a tile with all rows, and store them; None if the epilogue reads other than runs.

    `sums` are row by row in whole vectors, `columns` those of the tile from `column` on.
    """
    turned = Buffer("turned", sums.dtype, rows * columns, "scratch")

    def store(place: Index, _: Index) -> tuple[Stmt, ...]:
        return (epilogue(place % rows, column + place // rows, Load(turned, place)),)

    loops = vector_loops(rows * columns, lanes, store)
    inner = [s for s in walk(loops) if isinstance(s, For) and s.kind == "vector"]
    if any(index.coefficient(s.var) not in (0, 1) for s in inner for index in indices_of(s.body)):
        return None
    return (*transpose_squares(sums, as_index(0), sums.size // rows, turned, rows, columns, lanes), *loops)
