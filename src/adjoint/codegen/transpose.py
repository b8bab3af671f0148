"""In-register transposes: copies of a square that exchange rows and columns.

The pattern is an unrolled loop around a vector loop, containing one unconditional copy whose source has stride 1 along
the *outer* variable and whose destination has stride 1 along the *inner* one::

    for i in 0..16 unroll:
      for l in 0..16 vector:
        panel[i*32 + l] = w[l*128 + i]

Lane by lane this takes 16 gathers. As a transpose it takes 16 vector loads, four rounds of shuffles that exchange
halves, quarters, ... between rows, and 16 vector stores. A copy that converts (16-bit floats to float32) converts each
row after it is loaded. Where every second element of a row is copied, it takes two loads and a shuffle. Extents may
differ, as at the edges of a matrix: rows and columns that a square lacks are not loaded or stored, if enough of it
remains for the shuffles to pay off.
"""

from adjoint.codegen.writer import Writer
from adjoint.kernel.index import Var
from adjoint.kernel.ir import Apply, Expr, For, Load, Store
from adjoint.lazy_dataclass import dataclass

__all__ = ["Transpose", "emit_transpose", "load_row", "match_transpose", "resized"]


@dataclass(frozen=True, slots=True)
class Transpose:
    """A copy of a `load` that transposes a square of `size`, a power of 2, and the variables of its loops."""

    store: Store
    load: Load
    outer: Var
    inner: Var

    @property
    def stride(self) -> int:
        """Elements from one column of the source to the next: 1 or 2."""
        stride = self.load.index.coefficient(self.outer)
        assert stride in (1, 2)
        return stride

    @property
    def size(self) -> int:
        """Rows and columns of the square that holds the rows, along `inner`, and the columns, along `outer`."""
        return 1 << (max(self.outer.extent, self.inner.extent) - 1).bit_length()

    @property
    def pays_off(self) -> bool:
        """Whether the elements are at least half as many as the shuffles of a square.

        Those of rows that are missing vanish: a product with three columns took a fifth of the time that it took lane
        by lane (Cascade Lake).
        """
        return 2 * self.outer.extent * self.inner.extent >= self.size * (self.size.bit_length() - 1)


def match_transpose(loop: For) -> Transpose | None:
    """The transpose that a loop performs, or None."""
    if loop.kind != "unroll" or len(loop.body) != 1:
        return None
    (inner,) = loop.body
    if not isinstance(inner, For) or inner.kind != "vector" or len(inner.body) != 1:
        return None
    (store,) = inner.body
    if not isinstance(store, Store) or len(store.targets) != 1 or not loop.var.extent or not inner.var.extent:
        return None
    ((target, place, value),) = store.targets
    load = _copied(value)
    if load is None or load.guard is not None or load.buffer is target:
        return None
    # Two loads of every second element of a shorter row would reach beyond it.
    strides = (1, 2) if loop.var.extent & (loop.var.extent - 1) == 0 else (1,)
    transposed = load.index.coefficient(loop.var) in strides and place.coefficient(inner.var) == 1
    steady = load.index.coefficient(inner.var) is not None and place.coefficient(loop.var) is not None
    plain = target.dtype == value.dtype and "b" not in (target.dtype.kind, load.dtype.kind)
    made = Transpose(store, load, loop.var, inner.var)
    return made if transposed and steady and plain and made.size >= 4 and made.pays_off else None


def _copied(value: Expr) -> Load | None:
    """What is copied, as it is or converted; None for anything else."""
    if isinstance(value, Apply) and value.function == "cast":
        (value,) = value.operands
    return value if isinstance(value, Load) else None


def emit_transpose(w: Writer, rows: list[str], type_: str) -> list[str]:
    """The columns of a square given by its rows, as vectors of `type_`."""
    size = len(rows)
    distance = size // 2
    while distance:
        transposed = list(rows)
        for low in range(size):
            if low & distance:
                continue
            high = low | distance
            for out, start in ((low, 0), (high, distance)):
                # Interleave in runs the lanes of both rows whose bit `distance` equals that of `start`.
                picks = [(lane & ~distance) + start + (size if lane & distance else 0) for lane in range(size)]
                mask = f"<{size} x i32> <{', '.join(f'i32 {p}' for p in picks)}>"
                transposed[out] = w.pure(
                    f"shufflevector <{size} x {type_}> {rows[low]}, <{size} x {type_}> {rows[high]}, {mask}"
                )
        rows = transposed
        distance //= 2
    return rows


def resized(w: Writer, row: str, type_: str, size: int, wanted: int) -> str:
    """The first lanes of a vector of so many, or with as many undefined ones as it lacks."""
    if size == wanted:
        return row
    picks = ", ".join(f"i32 {i}" if i < size else "i32 poison" for i in range(wanted))
    return w.pure(f"shufflevector <{size} x {type_}> {row}, <{size} x {type_}> poison, <{wanted} x i32> <{picks}>")


def load_row(w: Writer, type_: str, size: int, stride: int, where: str, pointer: str, align: int) -> str:
    """The vector of so many elements from an address on, or of every second one; nothing beyond the last is read."""
    wide = f"<{size} x {type_}>"
    row = w.load(pointer, f"load {wide}, ptr {where}, align {align}")
    if stride == 1:
        return row
    beyond = w.pure(f"getelementptr inbounds {type_}, ptr {where}, i64 {size - 1}")
    rest = w.load(pointer, f"load {wide}, ptr {beyond}, align {align}")
    # The second vector begins one element early, so its even elements are at odd places.
    picks = ", ".join(f"i32 {2 * i if 2 * i < size else 2 * i + 1}" for i in range(size))
    return w.pure(f"shufflevector {wide} {row}, {wide} {rest}, <{size} x i32> <{picks}>")
