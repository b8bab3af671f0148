"""Loops and branches without what nothing reads; loops over the same operands that carry the same values become one.

The gradient of a loop needs values of its iterations and contains the loop again, with these as additional outputs
(`adjoint.transforms.loop_gradients`), as the gradient of a call contains the callee again. Merged, they run once.

A carry that no iteration changes becomes a constant. Legal always, because the operators have no effects; pays off
always, because nothing is computed that was not computed before.

Before::

    func @s(%s: f32[], %x: f32[]) -> (f32[], f32[]) {
      %0: f32[] = add(%s, %x)
      %1: f32[] = exp(%0)
      return %0, %1
    }

    func @also(%s: f32[], %x: f32[]) -> (f32[], f32[]) {
      %0: f32[] = add(%s, %x)
      %1: f32[] = multiply(%x, %x)
      return %0, %1
    }

    func @main(%s: f32[], %x: f32[9]) -> (f32[], f32[9]) {
      %0: (f32[], f32[9]) = scan(%s, %x) {body = @s, length = 9, consts = 0, carries = 1, reverse = False}
      %1: f32[] = tuple_get(%0) {index = 0}
      %2: (f32[], f32[9]) = scan(%s, %x) {body = @also, length = 9, consts = 0, carries = 1, reverse = False}
      %3: f32[9] = tuple_get(%2) {index = 1}
      return %1, %3
    }

After::

    func @s_at_0eed9512(%s: f32[], %x: f32[]) -> (f32[], f32[]) {
      %0: f32[] = add(%s, %x)
      %1: f32[] = multiply(%x, %x)
      return %0, %1
    }

    func @main(%s: f32[], %x: f32[9]) -> (f32[], f32[9]) {
      %0: (f32[], f32[9]) = scan(%s, %x) {body = @s_at_0eed9512, length = 9, consts = 0, carries = 1, reverse = False}
      %1: f32[] = tuple_get(%0) {index = 0}
      %3: f32[9] = tuple_get(%0) {index = 1}
      return %1, %3
    }
"""

from collections.abc import Sequence
from dataclasses import replace

from adjoint.ir import Function, Value, is_param, rebuild, toposort
from adjoint.ir.value import apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.calls import TupleGet
from adjoint.ops.control import Branch, Control, Scan, While, is_control, uniquely_named
from adjoint.transforms.cse import cse

__all__ = ["merge_loops"]


def merge_loops(function: Function) -> Function:
    """Merge loops of the same operands, and remove results, carries and operands that nothing depends on.

    Parameters
    ----------
    function : Function
        Any function after `cse`, also those that its loops and branches hold.

    Returns
    -------
    Function
        Same name, parameters, attributes and results.
    """
    if not any(map(is_control, function.values())):
        return function
    while True:
        made = _merged(function)
        if made is function:
            break
        function = cse(made)
    while True:
        made = _pruned(function)
        if made is function:
            return function
        function = made


@dataclass(frozen=True, slots=True)
class _New:
    """What takes the place of a loop or branch.

    Parameters
    ----------
    op : Control
        The operator.
    operands : tuple of int
        Which of the operands it keeps.
    items : mapping of int to int
        For a result, which result it is now.
    same : mapping of int to int
        For a result that is an operand, which one.
    """

    op: Control
    operands: tuple[int, ...]
    items: dict[int, int]
    same: dict[int, int]


def _replaced(function: Function, new: dict[Value, _New], first: dict[Value, Value]) -> Function:
    """The function with other loops and branches; `first` maps those that are merged to the one that they become."""
    values: dict[Value, Value] = {}
    operands: dict[Value, tuple[Value, ...]] = {}

    def replacement(value: Value, inputs: tuple[Value, ...]) -> Value | None:
        if value in new:
            leader = first.get(value, value)
            operands[value] = inputs
            if leader not in values:
                plan = new[leader]
                made = apply(plan.op, *(inputs[n] for n in plan.operands))
                values[leader] = made.in_place_of(leader) if leader.label or leader.number is not None else made
            return values[leader]
        if isinstance(value.op, TupleGet) and value.inputs[0] in new:
            plan = new[value.inputs[0]]
            if value.op.index in plan.same:
                return operands[value.inputs[0]][plan.same[value.op.index]]
            got = apply(TupleGet(plan.items[value.op.index]), inputs[0])
            return got.in_place_of(value)
        return None

    return Function(function.name, function.params, rebuild(function.results, replacement), function.attrs)


# Merging.


def _merged(function: Function) -> Function:
    groups: dict[tuple[object, ...], list[Value]] = {}
    for value in function.values():
        op = value.op
        if isinstance(op, Scan):
            groups.setdefault((value.inputs, op.length, op.consts, op.carries, op.reverse), []).append(value)
    new: dict[Value, _New] = {}
    first: dict[Value, Value] = {}
    for group in groups.values():
        while len(group) > 1:
            together, group = _fitting(group)
            for value, plan in together.items():
                new[value], first[value] = plan, next(iter(together))
    return _replaced(function, new, first) if new else function


def _fitting(group: Sequence[Value]) -> tuple[dict[Value, _New], list[Value]]:
    """The loops that can be merged with the first of them, and the others."""
    op = group[0].op
    assert isinstance(op, Scan)
    together, left = [group[0]], []
    results = op.body.results
    bounds = [0]
    for value in group[1:]:
        assert isinstance(value.op, Scan)
        other = value.op.body
        more = rebuild(other.results, lambda _v, _i: None, dict(zip(other.params, op.body.params, strict=True)))
        body = cse(Function(op.body.name, op.body.params, (*results, *more)))
        start = len(results)
        if body.results[: op.carries] == body.results[start : start + op.carries]:
            together.append(value)
            bounds.append(start)
            results = body.results
        else:
            left.append(value)
    if len(together) == 1:
        return {}, left
    outs = dict.fromkeys(
        r
        for value, start in zip(together, bounds, strict=True)
        for r in results[start + op.carries : start + len(value.type.items)]
    )
    places = {v: n for n, v in enumerate(outs, op.carries)}
    body = uniquely_named(Function(op.body.name, op.body.params, (*results[: op.carries], *outs)))
    merged = replace(op, body=body)
    plans = {}
    for value, start in zip(together, bounds, strict=True):
        count = len(value.type.items)
        items = {n: n if n < op.carries else places[results[start + n]] for n in range(count)}
        plans[value] = _New(merged, tuple(range(len(value.inputs))), items, {})
    return plans, left


# Removing what nothing reads.


def _pruned(function: Function) -> Function:
    """One round: removed operands may leave other results without a reader."""
    read: dict[Value, set[int]] = {}
    for value in function.values():
        if isinstance(value.op, Control):
            read.setdefault(value, set())
        elif isinstance(value.op, TupleGet):
            read.setdefault(value.inputs[0], set()).add(value.op.index)
    new = {}
    for value, used in read.items():
        op = value.op
        if isinstance(op, Scan):
            plan = _pruned_loop(op, used)
        elif isinstance(op, While):
            plan = _pruned_while(op, used, len(value.inputs))
        else:
            assert isinstance(op, Branch)
            plan = _pruned_branch(op, used, len(value.inputs))
        if plan is not None:
            new[value] = plan
    return _replaced(function, new, {}) if new else function


def _reached(results: Sequence[Value]) -> set[Value]:
    return {v for v in toposort(results) if is_param(v)}


def _pruned_loop(op: Scan, used: set[int]) -> _New | None:
    body, fixed = op.body, op.consts + op.carries
    constant = {n for n in range(op.carries) if body.results[n] is body.params[op.consts + n]}
    live = set(used) - constant
    while True:
        reached = _reached([body.results[n] for n in live])
        more = {n for n in range(op.carries) if body.params[op.consts + n] in reached} - constant - live
        if not more:
            break
        live |= more
    consts = [n for n in range(op.consts) if body.params[n] in reached]
    consts += [op.consts + n for n in sorted(constant) if body.params[op.consts + n] in reached]
    carries = [n for n in range(op.carries) if n in live]
    rows = [n for n in range(fixed, len(body.params)) if body.params[n] in reached]
    outs = [n for n in range(op.carries, len(body.results)) if n in live]
    operands = (*consts, *(op.consts + n for n in carries), *rows)
    kept = (*carries, *outs)
    same = {n: op.consts + n for n in constant}
    if not kept or (len(operands) == len(body.params) and len(kept) == len(body.results) and not constant):
        return None if not same or used - constant else _New(op, tuple(range(len(body.params))), {}, same)
    made = _inner(body, operands, kept)
    loop = Scan(made, op.length, len(consts), len(carries), op.reverse)
    return _New(loop, operands, {n: place for place, n in enumerate(kept)}, same)


def _inner(body: Function, operands: Sequence[int], kept: Sequence[int]) -> Function:
    """A body with some of its parameters and results."""
    made = Function(body.name, tuple(body.params[n] for n in operands), tuple(body.results[n] for n in kept))
    return uniquely_named(merge_loops(made))


def _pruned_while(op: While, used: set[int], count: int) -> _New | None:
    live = set(used)
    while True:
        reached = _reached([op.body.results[n] for n in live])
        needed = _reached(op.condition.results)
        more = {
            n
            for n in range(count - op.consts)
            if op.body.params[op.consts + n] in reached or op.condition.params[op.consts + n] in needed
        } - live
        if not more:
            break
        live |= more
    consts = [n for n in range(op.consts) if op.body.params[n] in reached or op.condition.params[n] in needed]
    kept = sorted(live)
    operands = (*consts, *(op.consts + n for n in kept))
    if not kept or len(operands) == count:
        return None
    loop = While(_inner(op.condition, operands, (0,)), _inner(op.body, operands, kept), len(consts))
    return _New(loop, operands, {n: place for place, n in enumerate(kept)}, {})


def _pruned_branch(op: Branch, used: set[int], count: int) -> _New | None:
    kept = sorted(used)
    reached = [_reached([body.results[n] for n in kept]) for body in op.bodies()]
    operands = [n for n in range(count - 1) if any(b.params[n] in r for b, r in zip(op.bodies(), reached, strict=True))]
    if not kept or (len(operands) == count - 1 and len(kept) == len(op.then.results)):
        return None
    made = Branch(*(_inner(body, operands, kept) for body in op.bodies()))
    return _New(made, (0, *(n + 1 for n in operands)), {n: place for place, n in enumerate(kept)}, {})
