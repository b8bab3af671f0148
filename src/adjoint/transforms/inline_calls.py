"""Inlining of calls: the body of the called function takes the place of each call.

Before::

    func @scale(%v: f32[3], %by: f32[3]) -> (f32[3], f32[]) {
      %w: f32[3] = multiply(%v, %by)
      %1: f32[] = sum(%w) {axes = (0,), keepdims = False}
      return %w, %1
    }

    func @main(%x: f32[3]) -> f32[3] {
      %0: (f32[3], f32[]) = call(%x, %x) {callee = @scale}
      %1: f32[3] = tuple_get(%0) {index = 0}
      return %1
    }

After::

    func @main(%x: f32[3]) -> f32[3] {
      %1: f32[3] = multiply(%x, %x)
      return %1
    }
"""

from collections.abc import Iterator, Mapping

from adjoint.ir import Function, Value, callees, unnumbered
from adjoint.ops.calls import Call, TupleGet

__all__ = ["inline_calls"]


def inline_calls(function: Function) -> Function:
    """Replace every call by the body of its callee.

    Parameters
    ----------
    function : Function
        Its callees may contain calls too, nested to any depth. What loops and branches hold is left as it is.

    Returns
    -------
    Function
        Same name, parameters, attributes and meaning. A body that is called n times is copied n times; `cse` merges
        what the copies have in common. The work is linear in the size of the result.

        Values of `function` keep their names. Results of callees get those of the calls, or items of calls, whose
        place they take. Other copied values keep their labels, with a number appended to one that is in use, and lose
        their numbers, which belong to the callee.
    """
    if not callees(function):
        return function
    orders: dict[int, list[Value]] = {}
    frames = [_Frame(function, function.params, orders, None, {})]
    names = _Names({value.label for value in function.values()})
    while True:
        frame = frames[-1]
        call = frame.run()
        if call is not None:
            frames.append(_Frame(*call, orders, names, frame.result_names()))
            continue
        frames.pop()
        results = frame.results()
        if not frames:
            return Function(function.name, function.params, results, function.attrs)
        frames[-1].returned(results)


class _Names:
    """Labels that are in use, and for each the last number that was appended to it."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self._tries: dict[str, int] = {}

    def unused(self, label: str) -> str:
        """The label, with a number appended if it is in use."""
        made = label
        while made in self._taken:
            self._tries[label] = self._tries.get(label, 0) + 1
            made = f"{label}_{self._tries[label]}"
        self._taken.add(made)
        return made


class _Frame:
    """A body being copied with arguments in place of its parameters: the copied values, and those pending."""

    def __init__(
        self,
        function: Function,
        arguments: tuple[Value, ...],
        orders: dict[int, list[Value]],
        names: _Names | None,
        given: Mapping[Value, Value],
    ) -> None:
        self.function = function
        self.names = names
        self.given = given  # for results, values of the outermost function whose names they get
        self.new: dict[Value, Value] = dict(zip(function.params, arguments, strict=True))
        self.returns: dict[Value, tuple[Value, ...]] = {}
        if id(function) not in orders:
            orders[id(function)] = function.values()
        self.items: dict[Value, list[tuple[Value, int]]] = {}
        for value in orders[id(function)]:
            if isinstance(value.op, TupleGet):
                self.items.setdefault(value.inputs[0], []).append((value, value.op.index))
        self.pending: Iterator[Value] = iter(orders[id(function)])
        self.waiting: Value | None = None

    def run(self) -> tuple[Function, tuple[Value, ...]] | None:
        """Copy up to the next call and return its callee and arguments, or None at the end."""
        for value in self.pending:
            if value in self.new:
                continue
            if isinstance(value.op, TupleGet) and value.inputs[0] in self.returns:
                self.new[value] = self.returns[value.inputs[0]][value.op.index]
                continue
            inputs = tuple(self.new[v] for v in value.inputs)
            if isinstance(value.op, Call):
                self.waiting = value
                return value.op.callee, inputs
            self.new[value] = self._copied(value, inputs)
        return None

    def _copied(self, value: Value, inputs: tuple[Value, ...]) -> Value:
        """The value with other inputs, and if it is a callee's, with a name that is not in use."""
        if self.names is None:
            return value.with_inputs(inputs)
        if value in self.given:
            name = self.given[value]
            return Value(value.op, inputs, value.type, name.label, name.number, value.line)
        if not value.label:
            return unnumbered(value, inputs)
        return value.with_inputs(inputs).named(self.names.unused(value.label))

    def result_names(self) -> dict[Value, Value]:
        """For results of the call at which `run` stopped, values of the outermost function that are equal to them."""
        call = self.waiting
        assert call is not None
        assert isinstance(call.op, Call)
        results = call.op.callee.results
        items = [(call, 0)] if len(results) == 1 else self.items.get(call, [])
        found: dict[Value, Value] = {}
        for value, index in items:
            name = value if self.names is None else self.given.get(value)
            if name is not None and (name.label or name.number is not None):
                found.setdefault(results[index], name)
        return found

    def returned(self, results: tuple[Value, ...]) -> None:
        """Store the results of the call at which `run` stopped."""
        assert self.waiting is not None
        self.returns[self.waiting] = results
        self.new[self.waiting] = results[0]  # only tuple_get uses a call with several results, and it reads `returns`

    def results(self) -> tuple[Value, ...]:
        """The results of the copied body."""
        return tuple(self.new[r] for r in self.function.results)
