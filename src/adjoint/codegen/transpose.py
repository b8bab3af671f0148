"""In-register transposes: copies of a square that exchange rows and columns.

The pattern is an unrolled loop around a vector loop of the same extent, containing one unconditional copy whose source
has stride 1 along the *outer* variable and whose destination has stride 1 along the *inner* one::

    for i in 0..16 unroll:
      for l in 0..16 vector:
        panel[i*32 + l] = w[l*128 + i]

Lane by lane this takes 16 gathers. As a transpose it takes 16 vector loads, four rounds of shuffles that exchange
halves, quarters, ... between rows, and 16 vector stores. A copy that converts (16-bit floats to float32) converts each
row after it is loaded.
"""

from dataclasses import dataclass

from adjoint.codegen.writer import Writer
from adjoint.kernel.index import Var
from adjoint.kernel.ir import Apply, Expr, For, Load, Store

__all__ = ["Transpose", "emit_transpose", "match_transpose"]


@dataclass(frozen=True, slots=True)
class Transpose:
    """A copy of a `load` that transposes a square of `size`, and the variables of its loops."""

    store: Store
    load: Load
    outer: Var
    inner: Var
    size: int


def match_transpose(loop: For) -> Transpose | None:
    """The transpose that a loop performs, or None."""
    if loop.kind != "unroll" or len(loop.body) != 1:
        return None
    (inner,) = loop.body
    if not isinstance(inner, For) or inner.kind != "vector" or len(inner.body) != 1:
        return None
    (store,) = inner.body
    size = loop.var.extent
    if not isinstance(store, Store) or len(store.targets) != 1 or size != inner.var.extent or size & (size - 1):
        return None
    ((target, place, value),) = store.targets
    load = _copied(value)
    if load is None or load.guard is not None or load.buffer is target or size < 4:
        return None
    transposed = load.index.coefficient(loop.var) == 1 and place.coefficient(inner.var) == 1
    steady = load.index.coefficient(inner.var) is not None and place.coefficient(loop.var) is not None
    plain = target.dtype == value.dtype and "b" not in (target.dtype.kind, load.dtype.kind)
    return Transpose(store, load, loop.var, inner.var, size) if transposed and steady and plain else None


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
