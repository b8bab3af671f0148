"""Partial vector loads: load the leading lanes of a vector, on CPUs without masked loads.

On those CPUs, LLVM loads the lanes of a mask one by one. If the mask is the edge of a matrix and known at compile time,
the active lanes are loaded in parts that are powers of two instead: three of four lanes with two loads.
"""

from collections.abc import Callable

from adjoint.codegen.types import vector
from adjoint.codegen.writer import Writer
from adjoint.kernel.index import Index, Var
from adjoint.kernel.ir import Apply, Const, Coordinate, Expr

__all__ = ["active_prefix", "load_prefix"]


def active_prefix(guard: Expr | None, var: Var, active: int, text: Callable[[Index], str]) -> int:
    """Number of lanes that a guard activates, if they are the leading ones; 0 if unknown.

    Parameters
    ----------
    guard : Expr or None
        The guard of the load, if any.
    var, active : Var, int
        The vector loop's variable and extent.
    text : callable
        Returns the text of an index, which is a number if the index is known.
    """
    if guard is None:
        return active
    if not isinstance(guard, Apply) or guard.function != "lt":
        return 0
    place, limit = guard.operands
    if not isinstance(place, Coordinate) or not isinstance(limit, Const) or place.index.coefficient(var) != 1:
        return 0
    first = text(place.index.without(var))
    return 0 if first.startswith("%") else max(min(active, int(limit.value) - int(first)), 0)


def load_prefix(w: Writer, count: int, width: int, type_: str, load: Callable[[str, int], str]) -> str:
    """A vector with the first `count` lanes loaded and the others 0.

    Parameters
    ----------
    w : Writer
        Where to emit instructions.
    count, width : int
        Number of lanes to load, at least one, and number of lanes of the vector.
    type_ : str
        LLVM's type of an element.
    load : callable
        Loads a value of a given type, starting at a given element.
    """
    wide, made, done = vector(type_, width), "zeroinitializer", 0
    while done < count:
        size = 1 << ((count - done).bit_length() - 1)
        piece = load(vector(type_, size), done)
        if size == 1:
            made = w.pure(f"insertelement {wide} {made}, {type_} {piece}, i64 {done}")
        else:
            spread = _picks([i if i < size else -1 for i in range(width)])
            narrow = vector(type_, size)
            grown = w.pure(f"shufflevector {narrow} {piece}, {narrow} poison, {spread}")
            lanes = [width + i - done if done <= i < done + size else i for i in range(width)]
            made = w.pure(f"shufflevector {wide} {made}, {wide} {grown}, {_picks(lanes)}")
        done += size
    return made


def _picks(lanes: list[int]) -> str:
    """A shuffle mask; lanes below 0 are poison."""
    return f"<{len(lanes)} x i32> <{', '.join(f'i32 {i}' if i >= 0 else 'i32 poison' for i in lanes)}>"
