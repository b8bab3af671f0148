"""Which values vary with which others: the analysis in front of `adjoint.transforms.differentiate`.

A value varies with what its inputs vary with, where it is a float. Integers, bool and ``stop_gradient`` cut. A call
passes on what its callee does, result by result, so that a function of two parameters does not join what it keeps
apart; one with a derivative of its own passes on all arguments to which derivatives flow.
"""

from collections.abc import Callable, Iterable, Mapping

from adjoint.ir import Function, TensorType, Value, closure, is_float
from adjoint.ops.calls import Call, CustomCall, TupleGet
from adjoint.ops.control import Branch, Scan, While
from adjoint.ops.convert import StopGradient

__all__ = ["Dependence", "Reach", "dependence", "flow"]

#: For each item of a value (one, unless it is a tuple), the set of seeds that it depends on, as a bit mask.
Reach = tuple[int, ...]

#: For each function and each of its results, the parameters that the result depends on, as a bit mask.
Dependence = dict[Function, Reach]


def flow(values: Iterable[Value], seeds: Mapping[Value, Reach], through: Dependence) -> dict[Value, Reach]:
    """The seeds that each value depends on.

    Parameters
    ----------
    values : iterable of Value
        Inputs before users, as returned by `toposort`.
    seeds : mapping
        The starting values with their bit masks.
    through : mapping
        The `dependence` of every called function.
    """
    reach: dict[Value, Reach] = {}
    for value in values:
        if value in seeds:
            reach[value] = seeds[value]
            continue
        rule = _RULES.get(type(value.op), _any_input)
        reach[value] = rule(value, [reach[v] for v in value.inputs], through)
    return reach


def dependence(function: Function) -> Dependence:
    """The parameters that each result depends on, for `function` and all functions that it calls.

    The time is linear in the size of all bodies, times the number of machine words per bit mask.
    """
    found: Dependence = {}
    for callee in closure((function,)):
        seeds = {p: (1 << i,) if is_float(p.dtype) else (0,) for i, p in enumerate(callee.params)}
        reach = flow(callee.values(), seeds, found)
        found[callee] = tuple(reach[r][0] for r in callee.results)
    return found


def _any_input(value: Value, inputs: list[Reach], through: Dependence) -> Reach:  # noqa: ARG001
    union = 0
    for reach in inputs:
        for bits in reach:
            union |= bits
    items = (value.type,) if isinstance(value.type, TensorType) else value.type.items
    return tuple(union if is_float(item.dtype) else 0 for item in items)


def _nothing(value: Value, inputs: list[Reach], through: Dependence) -> Reach:  # noqa: ARG001
    return (0,)


def _item(value: Value, inputs: list[Reach], through: Dependence) -> Reach:  # noqa: ARG001
    assert isinstance(value.op, TupleGet)
    return (inputs[0][value.op.index],)


def _called(value: Value, inputs: list[Reach], through: Dependence) -> Reach:
    assert isinstance(value.op, Call)
    return tuple(_mapped(bits, inputs) for bits in through[value.op.callee])


def _scanned(value: Value, inputs: list[Reach], through: Dependence) -> Reach:
    op = value.op
    assert isinstance(op, Scan)
    return _repeated(through[op.body], inputs, op.consts, op.carries)


def _while(value: Value, inputs: list[Reach], through: Dependence) -> Reach:
    op = value.op
    assert isinstance(op, While)
    return _repeated(through[op.body], inputs, op.consts, len(inputs) - op.consts)


def _repeated(body: Reach, inputs: list[Reach], consts: int, carries: int) -> Reach:
    """What a loop passes on: carries depend on what they depended on in earlier iterations too."""
    now = list(inputs)
    while True:
        found = tuple(_mapped(bits, now) for bits in body)
        more = [(now[consts + n][0] | found[n],) for n in range(carries)]
        if more == now[consts : consts + carries]:
            return tuple(now[consts + n][0] if n < carries else bits for n, bits in enumerate(found))
        now[consts : consts + carries] = more


def _chosen(value: Value, inputs: list[Reach], through: Dependence) -> Reach:
    assert isinstance(value.op, Branch)
    sides = [[_mapped(bits, inputs[1:]) for bits in through[body]] for body in value.op.bodies()]
    return tuple(then | other for then, other in zip(*sides, strict=True))


def _ruled(value: Value, inputs: list[Reach], through: Dependence) -> Reach:  # noqa: ARG001
    op = value.op
    assert isinstance(op, CustomCall)
    union = _mapped(sum(1 << n for n in op.wrt), inputs)
    return tuple(union if is_float(r.dtype) else 0 for r in op.callee.results)


def _mapped(bits: int, inputs: list[Reach]) -> int:
    """The union of the masks of the arguments selected by `bits`."""
    union = 0
    for number, reach in enumerate(inputs):
        if bits >> number & 1:
            union |= reach[0]
    return union


_RULES: dict[type, Callable[[Value, list[Reach], Dependence], Reach]] = {
    StopGradient: _nothing,
    TupleGet: _item,
    Call: _called,
    Scan: _scanned,
    While: _while,
    Branch: _chosen,
    CustomCall: _ruled,
}
