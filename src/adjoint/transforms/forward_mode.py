"""Forward-mode differentiation of functions with loops and branches: tangents are computed along with the values.

A loop stays one loop, which carries the tangents of its carries, so nothing is stored for the derivative, and the
number of iterations may depend on data. The tangents of all other operators are those of `adjoint.transforms.jvp` for
the operator alone.
"""

from collections.abc import Callable, Mapping, Sequence

from adjoint.errors import located
from adjoint.ir import Function, Value, apply, is_float, param, rebuild
from adjoint.ops.calls import TupleGet
from adjoint.ops.control import Branch, Control, Scan, While, on_bodies, uniquely_named
from adjoint.ops.convert import StopGradient
from adjoint.ops.create import full
from adjoint.transforms.activity import Dependence, dependence, flow
from adjoint.transforms.inline_calls import inline_calls

__all__ = ["forward_mode"]

#: The derivative of a function along the tangents of some of its parameters, as `adjoint.transforms.jvp` makes it.
_OfOperator = Callable[[Function, list[str]], Function]


def forward_mode(
    function: Function, tangents: Mapping[Value, Value], of_operator: _OfOperator
) -> tuple[list[Value], list[Value | None]]:
    """The results of a function and their tangents, None for those that do not depend on the parameters.

    Parameters
    ----------
    function : Function
        The function.
    tangents : mapping of Value to Value
        The tangents of some of its parameters.
    of_operator : callable
        The derivative of a function of one operator.
    """
    numbers = {p: n for n, p in enumerate(function.params)}
    plain = on_bodies(inline_calls(function), inline_calls)
    given = {plain.params[numbers[p]]: t for p, t in tangents.items()}
    return _Forward(plain.name, dependence(plain), of_operator).results(plain, given)


class _Forward:
    def __init__(self, name: str, through: Dependence, of_operator: _OfOperator) -> None:
        self.name, self.through, self.of_operator = name, through, of_operator

    def results(self, function: Function, given: Mapping[Value, Value]) -> tuple[list[Value], list[Value | None]]:
        """The results and their tangents, in terms of the parameters and the given tangents."""
        new: dict[Value, Value] = {p: p for p in function.params}
        tangents: dict[Value, Value | None] = {p: given.get(p) for p in function.params}
        places: dict[Value, dict[int, tuple[int, int | None]]] = {}
        for value in function.values():
            if value in new:
                continue
            inputs = [new[v] for v in value.inputs]
            along = [tangents[v] for v in value.inputs]
            with located(value.line):
                if isinstance(value.op, Control):
                    new[value], places[value] = self._control(value.op, inputs, along)
                    tangents[value] = None
                elif isinstance(value.op, TupleGet):
                    own, of_tangent = places[value.inputs[0]][value.op.index]
                    new[value] = apply(TupleGet(own), inputs[0]).named(value.label)
                    tangents[value] = None if of_tangent is None else apply(TupleGet(of_tangent), inputs[0])
                else:
                    new[value] = value.with_inputs(tuple(inputs))
                    tangents[value] = self._operator(value, new[value], along)
        return [new[r] for r in function.results], [tangents[r] for r in function.results]

    def _operator(self, value: Value, made: Value, along: Sequence[Value | None]) -> Value | None:
        """The tangent of an operator's result."""
        active = [
            n for n, (v, t) in enumerate(zip(value.inputs, along, strict=True)) if t is not None and is_float(v.dtype)
        ]
        if not active or isinstance(value.op, StopGradient) or not is_float(value.dtype):
            return None
        params = tuple(param(f"x{n}", v.shape, v.dtype) for n, v in enumerate(value.inputs))
        out = apply(value.op, *params)
        derived = self.of_operator(Function(self.name, params, (out,)), [f"x{n}" for n in active])
        known: dict[Value, Value] = dict(zip(params, made.inputs, strict=True))
        known[out] = known[derived.results[0]] = made
        directions = derived.params[len(params) :]
        known |= {p: t for p, n in zip(directions, active, strict=True) if (t := along[n]) is not None}
        (tangent,) = rebuild(derived.results[1:], lambda _value, _inputs: None, known)
        return tangent

    def _control(
        self, op: Control, inputs: list[Value], along: Sequence[Value | None]
    ) -> tuple[Value, dict[int, tuple[int, int | None]]]:
        """A loop or branch of values and tangents; for each old result, the places of it and of its tangent."""
        if isinstance(op, Branch):
            return self._branch(op, inputs, along)
        assert isinstance(op, Scan | While)
        carries = op.carries if isinstance(op, Scan) else len(inputs) - op.consts
        fixed = op.consts + carries
        active = self._active(op.body, [t is not None for t in along], op.consts, carries)
        params, doubled, given = _doubled(op.body, active)
        results, tangents = self.results(op.body, given)
        new_carries = results[:carries]
        t_carries = [_or_zeros(tangents[n], results[n]) for n in range(carries) if active[op.consts + n]]
        t_outs = [(n, t) for n, t in enumerate(tangents) if n >= carries and t is not None]
        operands = [
            inputs[n] if p is op.body.params[n] else _or_zeros(along[n], inputs[n])
            for n, p in _order(params, doubled, op.consts, fixed)
        ]
        ordered = tuple(p for _, p in _order(params, doubled, op.consts, fixed))
        body = uniquely_named(
            Function(
                f"jvp_{op.body.name}",
                ordered,
                (*new_carries, *t_carries, *results[carries:], *(t for _, t in t_outs)),
            )
        )
        consts = op.consts + sum(active[: op.consts])
        count = carries + len(t_carries)
        made: Control
        if isinstance(op, Scan):
            made = Scan(body, op.length, consts, count, op.reverse)
        else:
            at = dict(zip(op.condition.params, op.body.params, strict=True))
            test = rebuild(op.condition.results, lambda _value, _inputs: None, at)
            made = While(uniquely_named(Function(op.condition.name, ordered, test)), body, consts)
        return apply(made, *operands), _places(active[op.consts : fixed], len(results), [n for n, _ in t_outs])

    def _active(self, body: Function, given: Sequence[bool], consts: int, carries: int) -> list[bool]:
        """For each operand of a loop whether it has a tangent: a carry may get one in an iteration."""
        active = list(given)
        while True:
            seeds = {p: (int(has),) for p, has in zip(body.params, active, strict=True)}
            reach = flow(body.values(), seeds, self.through)
            more = [n for n in range(carries) if reach[body.results[n]][0] and not active[consts + n]]
            if not more:
                return active
            for n in more:
                active[consts + n] = True

    def _branch(
        self, op: Branch, inputs: list[Value], along: Sequence[Value | None]
    ) -> tuple[Value, dict[int, tuple[int, int | None]]]:
        active = [t is not None for t in along[1:]]
        sides = []
        for body in op.bodies():
            params, doubled, given = _doubled(body, active)
            sides.append((body, (*params, *(p for p in doubled if p is not None)), *self.results(body, given)))
        count = len(op.then.results)
        having = [n for n in range(count) if any(tangents[n] is not None for *_, tangents in sides)]
        bodies = [
            uniquely_named(
                Function(f"jvp_{body.name}", params, (*results, *(_or_zeros(tangents[n], results[n]) for n in having)))
            )
            for body, params, results, tangents in sides
        ]
        made = apply(Branch(*bodies), *inputs, *(t for t in along[1:] if t is not None))
        return made, {n: (n, count + having.index(n) if n in having else None) for n in range(count)}


def _doubled(
    body: Function, active: Sequence[bool]
) -> tuple[tuple[Value, ...], list[Value | None], dict[Value, Value]]:
    """The parameters of a body, those for their tangents, and which belongs to which."""
    prefix = "t_"
    while any(p.label.startswith(prefix) for p in body.params):
        prefix = f"_{prefix}"
    doubled = [
        param(f"{prefix}{p.label}", p.shape, p.dtype) if has else None
        for p, has in zip(body.params, active, strict=True)
    ]
    return body.params, doubled, {p: t for p, t in zip(body.params, doubled, strict=True) if t is not None}


def _order(
    params: Sequence[Value], doubled: Sequence[Value | None], consts: int, fixed: int
) -> list[tuple[int, Value]]:
    """Constants and their tangents, carries and theirs, rows and theirs: each with the number of the operand."""
    found: list[tuple[int, Value]] = []
    for part in (range(consts), range(consts, fixed), range(fixed, len(params))):
        found += [(n, params[n]) for n in part]
        found += [(n, t) for n in part if (t := doubled[n]) is not None]
    return found


def _places(active: Sequence[bool], count: int, outs: Sequence[int]) -> dict[int, tuple[int, int | None]]:
    """Where the results of a loop and their tangents are among those of the doubled loop."""
    carries, tangents = len(active), sum(active)
    having = [n for n, has in enumerate(active) if has]
    found: dict[int, tuple[int, int | None]] = {}
    for n in range(count):
        if n < carries:
            found[n] = (n, carries + having.index(n) if n in having else None)
        else:
            found[n] = (n + tangents, count + tangents + outs.index(n) if n in outs else None)
    return found


def _or_zeros(tangent: Value | None, like: Value) -> Value:
    return full(0.0, like.shape, like.dtype) if tangent is None else tangent
