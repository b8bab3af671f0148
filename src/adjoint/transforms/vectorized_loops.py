"""Loops and branches along a mapped axis.

A loop with a fixed number of iterations stays one loop, whose body is vectorized; stacked operands have the mapped axis
after that of the rows. So does a branch whose condition is the same for all examples. Otherwise both of its sides are
computed, and each example takes one of them. A loop whose condition differs between examples runs until it holds for
none, and leaves those alone for which it does not hold.
"""

from collections.abc import Callable, Sequence

from adjoint.ir import Function, Value, apply
from adjoint.ops.calls import TupleGet, call
from adjoint.ops.control import Branch, Control, Scan, While, uniquely_named
from adjoint.ops.convert import cast
from adjoint.ops.logic import where
from adjoint.ops.reduce import max as max_of
from adjoint.ops.shape import broadcast_to, reshape
from adjoint.ops.vectorizing import moved

__all__ = ["control_depends", "inner_patterns", "vectorized_control", "vectorized_item"]

#: For each operand, parameter or result whether it has the mapped axis.
Pattern = tuple[bool, ...]

#: From a function and the pattern of its parameters to the vectorized function and the pattern of its results.
Vectorized = Callable[[Function, Pattern], tuple[Function, Pattern]]

#: From a function to the masks of its results, each over its parameters.
Reads = Callable[[Function], Sequence[int]]


def control_depends(op: Control, given: Sequence[int], reads: Reads) -> tuple[int, ...]:
    """What each result of a loop or branch depends on, given the masks of the operands."""

    def through(body: Function, masks: Sequence[int]) -> list[int]:
        return [_union(masks, bits) for bits in reads(body)]

    if isinstance(op, Branch):
        sides = [through(body, given[1:]) for body in op.bodies()]
        return tuple(given[0] | then | other for then, other in zip(*sides, strict=True))
    assert isinstance(op, Scan | While)
    consts = op.consts
    carries = op.carries if isinstance(op, Scan) else len(given) - consts
    now = list(given)
    while True:
        found = through(op.body, now)
        # With a condition that differs between examples, so do all carries.
        test = through(op.condition, now)[0] if isinstance(op, While) else 0
        more = [now[consts + n] | found[n] | test for n in range(carries)]
        if more == now[consts : consts + carries]:
            return (*more, *found[carries:])
        now[consts : consts + carries] = more


def _union(masks: Sequence[int], bits: int) -> int:
    found = 0
    for number, mask in enumerate(masks):
        if bits >> number & 1:
            found |= mask
    return found


def inner_patterns(op: Control, mapped: Pattern, items: Pattern) -> list[tuple[Function, Pattern]]:
    """The functions that a loop or branch holds, with the patterns of their parameters."""
    if isinstance(op, Branch):
        return [(body, mapped[1:]) for body in op.bodies()]
    assert isinstance(op, Scan | While)
    carries = op.carries if isinstance(op, Scan) else len(mapped) - op.consts
    inside = (*mapped[: op.consts], *items[:carries], *mapped[op.consts + carries :])
    return [(body, inside) for body in op.bodies()]


def vectorized_control(
    op: Control, mapped: Pattern, items: Pattern, inputs: Sequence[Value], size: int, vectorized: Vectorized
) -> Value | tuple[Value, ...]:
    """A loop or branch along a mapped axis, or the results of a branch that became a choice for each example."""
    inner = inner_patterns(op, mapped, items)
    if isinstance(op, Scan):
        body = _with_axis(*vectorized(*inner[0]), items, size)
        fixed = op.consts + op.carries
        first = _carried(inputs[op.consts : fixed], mapped[op.consts :], items, size)
        rows = [moved(x, 0, 1) if has else x for x, has in zip(inputs[fixed:], mapped[fixed:], strict=True)]
        return apply(op.with_bodies(body), *inputs[: op.consts], *first, *rows)
    if isinstance(op, Branch):
        if mapped[0]:
            return _choice(inner, inputs, size, vectorized)
        return apply(op.with_bodies(*(_with_axis(*vectorized(*one), items, size) for one in inner)), *inputs)
    assert isinstance(op, While)
    first = _carried(inputs[op.consts :], mapped[op.consts :], items, size)
    condition, (differs,) = vectorized(*inner[0])
    body = _with_axis(*vectorized(*inner[1]), items, size)
    if differs:
        condition, body = _until_none(op, condition, body)
    return apply(While(condition, body, op.consts), *inputs[: op.consts], *first)


def vectorized_item(op: Control, index: int, has: bool, made: Value | tuple[Value, ...]) -> Value:
    """One result of what `vectorized_control` has made, with the mapped axis first if it has it."""
    if isinstance(made, tuple):
        return made[index]
    item = apply(TupleGet(index), made)
    return moved(item, 1, 0) if has and isinstance(op, Scan) and index >= op.carries else item


def _with_axis(body: Function, have: Pattern, wanted: Pattern, size: int) -> Function:
    """A function whose results have the mapped axis where they are to have it."""
    results = tuple(
        _repeated(result, size) if wants and not has else result
        for result, has, wants in zip(body.results, have, wanted, strict=True)
    )
    return uniquely_named(Function(body.name, body.params, results))


def _carried(values: Sequence[Value], have: Sequence[bool], wanted: Sequence[bool], size: int) -> list[Value]:
    return [_repeated(v, size) if w and not h else v for v, h, w in zip(values, have, wanted, strict=False)]


def _repeated(value: Value, size: int) -> Value:
    return broadcast_to(value, (size, *value.shape))


def _choice(
    inner: Sequence[tuple[Function, Pattern]],
    inputs: Sequence[Value],
    size: int,
    vectorized: Vectorized,
) -> tuple[Value, ...]:
    """Both sides of a branch, and for each example the results of one."""
    sides = []
    for body, pattern in inner:
        made, have = vectorized(body, pattern)
        found = call(made, *inputs[1:])
        results = found if isinstance(found, tuple) else (found,)
        sides.append([r if has else _repeated(r, size) for r, has in zip(results, have, strict=True)])
    return tuple(where(_beside(inputs[0], then), then, other) for then, other in zip(*sides, strict=True))


def _beside(condition: Value, value: Value) -> Value:
    """A condition per example, with as many axes as a value."""
    return reshape(condition, (condition.shape[0], *(1 for _ in value.shape[1:])))


def _until_none(op: While, condition: Function, body: Function) -> tuple[Function, Function]:
    """The functions of a loop that goes on as long as the condition holds for any example."""
    (test,) = condition.results
    any_left = uniquely_named(Function(condition.name, condition.params, (cast(max_of(cast(test, "i32")), "bool"),)))
    holds = call(condition, *body.params)
    kept = tuple(
        where(_beside(holds, new), new, old) for new, old in zip(body.results, body.params[op.consts :], strict=True)
    )
    return any_left, uniquely_named(Function(body.name, body.params, kept))
