"""What a guard says about a load: the elements that it may read."""

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Apply, Const, Coordinate, Load

__all__ = ["guarded_index"]


def guarded_index(load: Load) -> Index:
    """The index of a load, with the range of the iterations for which its guard holds, if it limits one variable.

    The index of ``x[v*16 + l if l < 8]`` then has a variable of eight iterations in place of ``l``.
    """
    guard = load.guard
    if not isinstance(guard, Apply) or guard.function != "lt":
        return load.index
    place, limit = guard.operands
    if not isinstance(place, Coordinate) or not isinstance(limit, Const) or len(place.index.terms) != 1:
        return load.index
    ((atom, step),) = place.index.terms
    count = int(limit.value) - place.index.constant
    if not isinstance(atom, Var) or step != 1 or not 0 < count < atom.extent:
        return load.index
    return load.index.substitute({atom: as_index(Var(atom.name, count))})
