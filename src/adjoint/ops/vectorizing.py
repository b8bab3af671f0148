"""Helpers of the operators' `vectorize` rules, which place a mapped axis beside the axes of an operand.

Methods of values build the graph here, because the modules of the operators import this one.
"""

from collections.abc import Sequence
from math import prod

from adjoint.ir.value import Op, Value, apply

__all__ = ["all_mapped", "folded", "joined", "moved", "separated"]


def all_mapped(mapped: Sequence[bool], inputs: Sequence[Value]) -> tuple[Value, ...]:
    """The operands, all with the mapped axis as axis 0: those that lack it are broadcast.

    Parameters
    ----------
    mapped : sequence of bool
        Whether each operand has the mapped axis; at least one does.
    inputs : sequence of Value
        The operands.
    """
    size = next(x.shape[0] for has, x in zip(mapped, inputs, strict=True) if has)
    return tuple(x if has else x.broadcast_to(size, *x.shape) for has, x in zip(mapped, inputs, strict=True))


def moved(x: Value, source: int, target: int) -> Value:
    """`x` with an axis moved, and the others in their order; a reshape if that moves no element."""
    order = [axis for axis in range(len(x.shape)) if axis != source]
    order.insert(target, source)
    kept = [axis for axis in order if x.shape[axis] != 1]
    if kept == sorted(kept) or not prod(x.shape):
        return x.reshape(*(x.shape[axis] for axis in order))
    return x.permute(*order)


def folded(op: Op, inputs: Sequence[Value], *others: Value) -> Value:
    """An operator that treats the positions along axis 0 independently, applied to two axes merged into one.

    Parameters
    ----------
    op : Op
        The operator.
    inputs : sequence of Value
        The operands with that axis, and in front of it the mapped one.
    *others : Value
        The operands without either.
    """
    size = inputs[0].shape[0]
    result = apply(op, *(x.reshape(size * x.shape[1], *x.shape[2:]) for x in inputs), *others)
    return result.reshape(size, result.shape[0] // size, *result.shape[1:])


def joined(x: Value, axis: int, groups: int = 1) -> Value:
    """The mapped axis merged with another one.

    Parameters
    ----------
    x : Value
        Has the mapped axis as axis 0.
    axis : int
        The other axis, as counted without the mapped one.
    groups : int, default 1
        Number of groups into which the other axis is divided. The mapped axis is placed inside of them, so that
        the merged axis has the same number of groups.
    """
    size, *shape = x.shape
    each = shape[axis] // groups
    split = x.reshape(size, *shape[:axis], groups, each, *shape[axis + 1 :])
    return moved(split, 0, axis + 1).reshape(*shape[:axis], size * shape[axis], *shape[axis + 1 :])


def separated(x: Value, axis: int, size: int, groups: int = 1) -> Value:
    """The inverse of `joined`, where `size` is that of the mapped axis."""
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    each = x.shape[axis] // (groups * size)
    split = x.reshape(*before, groups, size, each, *after)
    return moved(split, axis + 1, 0).reshape(size, *before, groups * each, *after)
