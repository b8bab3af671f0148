"""Reverse-mode differentiation of a whole function, graph to graph.

`gradient` adds to a function the derivatives of one of its results; `vjp` makes the function that takes cotangents
of the results to cotangents of the parameters. Both give ordinary functions, which can be differentiated again.

Before::

    func @main(%x: f32[3], %w: f32[3]) -> f32[] {
      %y: f32[3] = multiply(%x, %w)
      %1: f32[3] = sin(%y)
      %2: f32[] = sum(%1) {axes = (0,), keepdims = False}
      return %2
    }

After::

    func @main_adjoint(%x: f32[3], %w: f32[3]) -> (f32[], f32[3], f32[3]) {
      %y: f32[3] = multiply(%x, %w)
      %1: f32[3] = sin(%y)
      %2: f32[] = sum(%1) {axes = (0,), keepdims = False}
      %3: f32[] = full() {value = 1.0, shape = (), dtype = f32}
      %4: f32[1] = reshape(%3) {shape = (1,)}
      %5: f32[3] = broadcast_to(%4) {shape = (3,)}
      %6: f32[3] = cos(%y)
      %y_adjoint: f32[3] = multiply(%5, %6)
      %x_adjoint: f32[3] = multiply(%y_adjoint, %w)
      %w_adjoint: f32[3] = multiply(%y_adjoint, %x)
      return %2, %x_adjoint, %w_adjoint
    }

How: an analysis finds what varies with the wanted parameters (`adjoint.transforms.activity`); only that is
differentiated. Then the body is walked once backwards. Each value hands its cotangent to its operator's `vjp`,
and what comes back is added to the cotangents of the inputs. A call is differentiated through its callee: a function
``vjp_<name>``, made once for each combination of results and parameters that matter, computes the forward pass of the
callee again and its cotangents; after `inline_calls`, `cse` merges the two forward passes. Iterative, linear in the
number of values; calls may nest deeply too.
"""

from collections.abc import Generator, Iterable, Sequence
from typing import Any

from adjoint.errors import DifferentiationError, InvalidValueError, TypeRuleError, described, located, plural
from adjoint.ir import Function, Value, apply, is_float, is_param, param, rebuild, toposort, value_names
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import add
from adjoint.ops.base import Operator
from adjoint.ops.calls import Call, CustomCall, TupleGet, call
from adjoint.ops.control import Branch, Control, Scan, items, uniquely_named
from adjoint.ops.convert import after
from adjoint.ops.create import full
from adjoint.transforms.activity import dependence, flow
from adjoint.transforms.loop_gradients import LoopGradient, active_carries

__all__ = ["Chosen", "chosen_params", "chosen_results", "cotangents", "gradient", "unused_prefix", "vjp"]

#: Parameters given by name or position, one or several.
Chosen = str | int | Sequence[str | int] | None


def gradient(function: Function, wrt: Chosen = None, result: int = 0, name: str | None = None) -> Function:
    """Add the derivatives of one result to a function.

    Parameters
    ----------
    function : Function
        The function to differentiate.
    wrt : str, int or sequence of them, optional
        Parameters, by name or position, to differentiate with respect to; default: all float parameters.
    result : int, default 0
        Index of the result to differentiate, a float scalar.
    name : str, optional
        Name of the new function; default: ``<name>_adjoint``.

    Returns
    -------
    Function
        Same parameters and attributes. The results are the original ones, followed by one derivative per parameter in
        `wrt`, of its type; zeros if the result does not depend on it. What is added has the lines of the values that it
        is the derivative of.

    Raises
    ------
    TypeRuleError
        If the result is not a float scalar, or a parameter is not float.
    NameLookupError, InvalidValueError
        If there is no such parameter or result.
    DifferentiationError
        If operators on the path have no gradient; the error lists all of them.
    """
    wanted = chosen_params(function, wrt)
    loss = function.results[chosen_results(function, (result,))[0]]
    if loss.shape:
        with located(loss.line):
            raise TypeRuleError(
                f"gradient: result {result} of @{function.name} must be a scalar, got {loss.type}; reduce it with "
                "ops.sum or ops.mean, or use vjp"
            )
    made = name or f"{function.name}_adjoint"
    session = _Session(function, made)
    with located(loss.line):
        seed = full(1.0, (), loss.dtype)
    cotangents = session.cotangents(function, [(loss, seed)], wanted)
    derivatives = [_or_zeros(cotangent, p) for cotangent, p in zip(cotangents, wanted, strict=True)]
    return Function(made, function.params, (*function.results, *derivatives), function.attrs)


def vjp(
    function: Function, wrt: Chosen = None, results: int | Sequence[int] | None = None, name: str | None = None
) -> Function:
    """The function that maps cotangents of the results to cotangents of the parameters.

    Parameters
    ----------
    function : Function
        The function to differentiate.
    wrt : str, int or sequence of them, optional
        Parameters whose cotangents are computed, by name or position; default: all float parameters.
    results : int or sequence of int, optional
        Results whose cotangents are given; default: all float results. Those of the others are zeros.
    name : str, optional
        Name of the new function; default: ``vjp_<name>``.

    Returns
    -------
    Function
        Its parameters are those of `function`, followed by a cotangent ``ct_<index>`` for each of `results`, of its
        type; it returns the cotangents of `wrt`, zeros if no result depends on the parameter.

    Raises
    ------
    TypeRuleError, NameLookupError, InvalidValueError, DifferentiationError
        As for `gradient`, except that results may have any shape.
    """
    wanted = chosen_params(function, wrt)
    given = chosen_results(function, results)
    made = name or f"vjp_{function.name}"
    session = _Session(function, made)
    cts = _ct_params(function, given)
    seeds = [(function.results[i], ct) for i, ct in zip(given, cts, strict=True)]
    cotangents = session.cotangents(function, seeds, wanted)
    found = [_or_zeros(cotangent, p) for cotangent, p in zip(cotangents, wanted, strict=True)]
    return Function(made, (*function.params, *cts), tuple(found))


def cotangents(seeds: Sequence[tuple[Value, Value]], wanted: Sequence[Value]) -> list[Value | None]:
    """The cotangents of values of a graph that belongs to no function.

    Parameters
    ----------
    seeds : sequence of (Value, Value)
        Results and their cotangents, of the same types.
    wanted : sequence of Value
        Values of the graph, parameters or not, whose cotangents are computed.

    Returns
    -------
    list of Value or None
        None for a value that no result depends on.

    Raises
    ------
    DifferentiationError
        If operators on the path have no gradient; the error lists all of them.
    """
    results = tuple(result for result, _ in seeds)
    params = tuple(value for value in toposort(results) if is_param(value))
    whole = Function("recorded", params, results)
    return _Session(whole, whole.name).cotangents(whole, list(seeds), list(wanted))


def chosen_params(function: Function, wrt: Chosen) -> list[Value]:
    """The parameters selected by `wrt`."""
    if wrt is None:
        found = [p for p in function.params if is_float(p.dtype)]
    else:
        found = [_parameter(function, key) for key in ([wrt] if isinstance(wrt, str | int) else wrt)]
    if not found:
        raise InvalidValueError(
            f"@{function.name} has no float parameter to differentiate with respect to; list some in wrt"
        )
    for p in found:
        if not is_float(p.dtype):
            raise TypeRuleError(f"derivatives require float parameters, got %{p.label}: {p.type}; omit it from wrt")
    if len(set(found)) != len(found):
        given = ", ".join(f"%{p.label}" for p in found)
        raise InvalidValueError(f"wrt must not repeat parameters, got {given}; remove the repeated one")
    return found


def _parameter(function: Function, key: str | int) -> Value:
    if isinstance(key, str):
        return function.param(key)
    if not 0 <= key < len(function.params):
        raise InvalidValueError(
            f"@{function.name} has parameters 0 to {len(function.params) - 1}, got {key} in wrt; use its name instead"
        )
    return function.params[key]


def chosen_results(function: Function, results: int | Sequence[int] | None) -> tuple[int, ...]:
    """The indices of the float results selected by `results`, which must be distinct; all of them if it is None."""
    if results is None:
        results = [i for i, result in enumerate(function.results) if is_float(result.dtype)]
    indices = (results,) if isinstance(results, int) else tuple(results)
    if not indices or len(set(indices)) != len(indices):
        raise InvalidValueError(
            f"results must be at least one distinct float result, got {indices} for @{function.name}; correct them"
        )
    for i in indices:
        if not 0 <= i < len(function.results):
            raise InvalidValueError(f"@{function.name} has results 0 to {len(function.results) - 1}, got {i}; name one")
        if not is_float(function.results[i].dtype):
            raise TypeRuleError(
                f"result {i} of @{function.name} must be a float, got {function.results[i].type}; cast its operands"
            )
    return indices


def _or_zeros(cotangent: Value | None, p: Value) -> Value:
    if cotangent is not None:
        return cotangent
    with located(p.line):
        return full(0.0, p.shape, p.dtype).named(f"{p.label}_adjoint")


def unused_prefix(function: Function, prefix: str) -> str:
    """The prefix, after as many underscores that no name of a parameter begins with it."""
    while any(p.label.startswith(prefix) for p in function.params):
        prefix = "_" + prefix
    return prefix


def _ct_params(function: Function, results: Iterable[int]) -> tuple[Value, ...]:
    """Parameters for the cotangents of these results, with names that the function does not use."""
    prefix = unused_prefix(function, "ct_")
    return tuple(param(f"{prefix}{i}", function.results[i].shape, function.results[i].dtype) for i in results)


@dataclass(frozen=True, slots=True)
class _Request:
    """A callee, the results whose cotangents are given, and the parameters whose cotangents are needed."""

    callee: Function
    results: tuple[int, ...]
    params: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Answer:
    """The vjp function for a request, with the parameters whose cotangents it returns; None if there are none."""

    function: Function | None
    params: tuple[int, ...]


#: A coroutine that differentiates a body: it yields a request per call and is sent the answer.
_Walk = Generator[_Request, _Answer, list[Value | None]]


class _Session:
    """One differentiation: information about callees, their vjp functions, and the operators without a gradient."""

    def __init__(self, root: Function, name: str) -> None:
        self.through = dependence(root)
        self.taken = {function.name for function in self.through} | {name}
        self.answers: dict[_Request, _Answer] = {}
        self.missing: dict[Value, Function] = {}

    def cotangents(
        self, function: Function, seeds: list[tuple[Value, Value]], wanted: list[Value]
    ) -> list[Value | None]:
        """Cotangents of `wanted` given those of some results, or None for parameters that are not reached.

        Callees are differentiated with an explicit stack of generators, so nested calls need no recursion.
        """
        walk = self._walk(function, seeds, wanted)
        pending: list[tuple[_Request, Generator[_Request, _Answer, _Answer]]] = []
        reply: Any = None
        while True:
            try:
                request = (pending[-1][1] if pending else walk).send(reply)
            except StopIteration as done:
                if not pending:
                    self._refuse_missing()
                    found: list[Value | None] = done.value
                    return found
                reply = self.answers[pending.pop()[0]] = done.value
                continue
            reply = self.answers.get(request)
            if reply is None:
                pending.append((request, self._answer(request)))

    def _answer(self, request: _Request) -> Generator[_Request, _Answer, _Answer]:
        """Build the vjp function of a callee."""
        callee = request.callee
        cts = _ct_params(callee, request.results)
        seeds = [(callee.results[i], ct) for i, ct in zip(request.results, cts, strict=True)]
        found = yield from self._walk(callee, seeds, [callee.params[j] for j in request.params])
        reached = tuple(j for j, ct in zip(request.params, found, strict=True) if ct is not None)
        if not reached:
            return _Answer(None, ())
        results = tuple(ct for ct in found if ct is not None)
        return _Answer(Function(self._fresh(f"vjp_{callee.name}"), (*callee.params, *cts), results), reached)

    def _fresh(self, base: str) -> str:
        name, count = base, 0
        while name in self.taken:
            count += 1
            name = f"{base}_{count}"
        self.taken.add(name)
        return name

    def _walk(self, function: Function, seeds: list[tuple[Value, Value]], wanted: list[Value]) -> _Walk:
        """Traverse a body backwards."""
        values = toposort(result for result, _ in seeds)
        reach = flow(values, dict.fromkeys(wanted, (1,)), self.through)
        cts = _Cotangents({v for v, items in reach.items() if any(items)})
        for result, ct in seeds:
            cts.add(result, ct)
        for value in reversed(values):
            given = cts.of(value)
            if not given or not value.inputs:
                continue
            if isinstance(value.op, CustomCall):
                self._through_rule(value, value.op, given, cts)
            elif isinstance(value.op, Call):
                yield from self._through_call(value, value.op.callee, given, cts)
            elif isinstance(value.op, Control):
                yield from self._through_control(function, value, given, cts)
            elif isinstance(value.op, TupleGet):
                cts.add(value.inputs[0], given[0], value.op.index)
            else:
                self._through_op(function, value, given[0], cts)
        return cts.labelled(values, wanted)

    def _through_call(
        self, value: Value, callee: Function, given: dict[int, Value], cts: "_Cotangents"
    ) -> Generator[_Request, _Answer, None]:
        """Differentiate the callee for the given cotangents and the arguments that need one.

        The vjp of a callee computes what it needs of the callee's body itself. Inlined, this is merged with the body,
        except for a callee with the attribute ``recompute``: its vjp reads arguments that wait for the cotangent.
        """
        active = tuple(j for j, argument in enumerate(value.inputs) if argument in cts.active)
        answer = yield _Request(callee, tuple(sorted(given)), active)
        if answer.function is None:
            return
        seeds = [given[i] for i in sorted(given)]
        with located(value.line):
            read = [after(v, seeds[0]) for v in value.inputs] if callee.attrs.get("recompute") else value.inputs
            found = call(answer.function, *read, *seeds)
        for j, ct in zip(answer.params, found if isinstance(found, tuple) else (found,), strict=True):
            cts.add(value.inputs[j], ct)

    def _through_control(
        self, function: Function, value: Value, given: dict[int, Value], cts: "_Cotangents"
    ) -> Generator[_Request, _Answer, None]:
        """Differentiate the functions that a loop or branch holds."""
        if isinstance(value.op, Scan):
            active = active_carries(value.op, [v in cts.active for v in value.inputs], self.through)
            loop = LoopGradient(value, given, active)
            with located(value.line):
                found = yield from self._walk(value.op.body, loop.seeds(), loop.wanted())
                made = loop.cotangents(found)
        elif isinstance(value.op, Branch):
            made = yield from self._through_branch(value, value.op, given, cts)
        else:
            with located(value.line):
                raise DifferentiationError(
                    "reverse derivatives need the number of iterations before they run, got a while_loop on the path "
                    f"to the gradient at {value_names(function)[value]} in @{function.name}; use scan or fori_loop, or "
                    "insert stop_gradient"
                )
        for number, ct in made.items():
            cts.add(value.inputs[number], ct)

    def _through_branch(
        self, value: Value, op: Branch, given: dict[int, Value], cts: "_Cotangents"
    ) -> Generator[_Request, _Answer, dict[int, Value]]:
        """A branch between the gradients of both functions, which compute them again."""
        numbers = sorted(given)
        active = tuple(n for n, v in enumerate(value.inputs[1:]) if v in cts.active)
        bodies = []
        for body in op.bodies():
            seeds = _ct_params(body, numbers)
            pairs = [(body.results[n], ct) for n, ct in zip(numbers, seeds, strict=True)]
            wanted = [body.params[n] for n in active]
            found = yield from self._walk(body, pairs, wanted)
            results = tuple(_or_zeros(ct, p) for ct, p in zip(found, wanted, strict=True))
            bodies.append(uniquely_named(Function(f"vjp_{body.name}", (*body.params, *seeds), results)))
        if not active:
            return {}
        with located(value.line):
            made = items(Branch(*bodies), *value.inputs, *(given[n] for n in numbers))
        return dict(zip((n + 1 for n in active), made, strict=True))

    def _through_rule(self, value: Value, op: CustomCall, given: dict[int, Value], cts: "_Cotangents") -> None:
        """Call the derivative that a function has of its own; cotangents that are not given are zeros."""
        results = op.callee.results
        with located(value.line):
            results_of = [value] if len(results) == 1 else [apply(TupleGet(n), value) for n in range(len(results))]
            seeds = [
                given[n] if n in given else full(0.0, r.shape, r.dtype)
                for n, r in enumerate(results)
                if is_float(r.dtype)
            ]
            found = call(op.rule, *value.inputs, *results_of, *seeds)
        for n, ct in zip(op.wrt, found if isinstance(found, tuple) else (found,), strict=True):
            cts.add(value.inputs[n], ct)

    def _through_op(self, function: Function, value: Value, ct: Value, cts: "_Cotangents") -> None:
        """Apply the operator's own vjp rule to the cotangent."""
        op = value.op
        if not isinstance(op, Operator) or type(op).vjp is Operator.vjp:
            # Continue with zeros, so that the error can list all operators without a gradient.
            self.missing.setdefault(value, function)
            for v in value.inputs:
                if v in cts.active:
                    cts.add(v, full(0.0, v.shape, v.dtype))
            return
        with located(value.line):
            self._apply_rule(op, value, ct, cts)

    def _apply_rule(self, op: Operator, value: Value, ct: Value, cts: "_Cotangents") -> None:
        """Add what an operator's vjp rule returns to the cotangents of its operands."""
        found: object = op.vjp(ct, value, *value.inputs)
        if not isinstance(found, tuple) or len(found) != len(value.inputs):
            raise DifferentiationError(
                f"the vjp of {op.name} must return a tuple with a cotangent or None for each of "
                f"{plural(len(value.inputs), 'operand')}, got {described(found)}; correct the operator"
            )
        for v, part in zip(value.inputs, found, strict=True):
            if part is None:
                continue
            if not isinstance(part, Value):
                raise DifferentiationError(
                    f"the vjp of {op.name} must return graph values, got {described(part)}; compute them with operators"
                )
            if part.type != v.type:
                raise DifferentiationError(
                    f"the vjp of {op.name} must return a cotangent of the operand's type {v.type}, got {part.type}; "
                    "correct the operator"
                )
            cts.add(v, part)

    def _refuse_missing(self) -> None:
        if not self.missing:
            return
        names = {id(function): value_names(function) for function in self.missing.values()}
        places = ", ".join(
            f"{value.op.name} at {names[id(function)][value]} in @{function.name}"
            for value, function in self.missing.items()
        )
        with located(next(iter(self.missing)).line):
            raise DifferentiationError(
                f"operators on the path to the gradient must have a vjp, got none for {places}; define one, or insert "
                "stop_gradient before them"
            )


class _Cotangents:
    """Cotangents of the values of one body, accumulated."""

    def __init__(self, active: set[Value]) -> None:
        self.active = active
        self._found: dict[Value, dict[int, Value]] = {}

    def add(self, value: Value, ct: Value, item: int = 0) -> None:
        """Accumulate the cotangent of a value, or of an item of a tuple; ignored if nothing wanted depends on it."""
        if value in self.active:
            items = self._found.setdefault(value, {})
            with located(value.line):
                items[item] = add(items[item], ct) if item in items else ct

    def of(self, value: Value) -> dict[int, Value]:
        """The cotangents of a value by item; empty if there are none."""
        return self._found.get(value, {})

    def labelled(self, forward: list[Value], wanted: list[Value]) -> list[Value | None]:
        """The cotangents of `wanted`, with the cotangent of each value ``%x`` labelled ``%x_adjoint``."""
        known = {v: v for v in forward}
        labels: dict[Value, str] = {}
        for v in (*wanted, *reversed(forward)):
            ct = self.of(v).get(0)
            if ct is not None and v.label and not ct.label and ct not in known:
                labels.setdefault(ct, f"{v.label}_adjoint")

        def relabel(value: Value, inputs: tuple[Value, ...]) -> Value | None:
            return value.with_inputs(inputs).named(labels[value]) if value in labels else None

        results = [self.of(p).get(0) for p in wanted]
        renamed = iter(rebuild(tuple(ct for ct in results if ct is not None), relabel, known))
        return [None if ct is None else next(renamed) for ct in results]
