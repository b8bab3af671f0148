"""Vectorization (`vmap`): a function of single examples becomes a function of many, along a mapped axis.

Before::

    func @main(%x: f32[3], %w: f32[4,3]) -> f32[4] {
      %column: f32[3,1] = reshape(%x) {shape = (3, 1)}
      %product: f32[4,1] = matmul(%w, %column) {transpose_a = False, transpose_b = False}
      %row: f32[4] = reshape(%product) {shape = (4,)}
      %half: f32[] = full() {value = 0.5, shape = (), dtype = f32}
      %halves: f32[4] = broadcast_to(%half) {shape = (4,)}
      %y: f32[4] = multiply(%row, %halves)
      return %y
    }

After::

    func @vectorized_main(%x: f32[5,3], %w: f32[4,3]) -> f32[5,4] {
      %column: f32[5,3,1] = reshape(%x) {shape = (5, 3, 1)}
      %1: f32[5,3] = reshape(%column) {shape = (5, 3)}
      %2: f32[5,4] = matmul(%1, %w) {transpose_a = False, transpose_b = True}
      %product: f32[5,4,1] = reshape(%2) {shape = (5, 4, 1)}
      %row: f32[5,4] = reshape(%product) {shape = (5, 4)}
      %half: f32[] = full() {value = 0.5, shape = (), dtype = f32}
      %halves: f32[4] = broadcast_to(%half) {shape = (4,)}
      %7: f32[5,4] = broadcast_to(%halves) {shape = (5, 4)}
      %y: f32[5,4] = multiply(%row, %7)
      return %y
    }

The text shows 5 examples of `x` for one `w`. How: every operator has a rule, its method `vectorize`, that applies it
to operands of which some have the mapped axis, as axis 0, and others are the same for all examples. Values that depend
on no mapped parameter are computed once. So a product of a mapped and an unmapped matrix becomes a single larger
product. A call is vectorized through its callee, once for each combination of mapped arguments. Iterative, linear in
the number of values; calls may nest deeply too.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from adjoint.errors import InvalidValueError, VectorizationError, described, located, plural
from adjoint.ir import Function, Value, apply, param, rebuild, value_names
from adjoint.ir.function import reached
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.axes import axis_of
from adjoint.ops.base import Operator
from adjoint.ops.calls import Call, CustomCall, TupleGet
from adjoint.ops.control import Control
from adjoint.ops.create import full
from adjoint.ops.shape import broadcast_to
from adjoint.ops.vectorizing import all_mapped, moved
from adjoint.transforms.vectorized_loops import control_depends, inner_patterns, vectorized_control, vectorized_item

__all__ = ["vectorize"]

#: For one axis argument of all parameters or results, or one of each.
AxesOf = int | Sequence[int | None] | None

#: For each parameter or result of a function, whether it has the mapped axis.
Pattern = tuple[bool, ...]


def vectorize(
    function: Function,
    in_axes: AxesOf,
    size: int,
    out_axes: AxesOf = 0,
    name: str | None = None,
) -> Function:
    """The function applied to `size` examples at once.

    Parameters
    ----------
    function : Function
        The function of one example.
    in_axes : int, None or sequence of them
        For each parameter, or for all of them, the position of the mapped axis in the new function's parameter,
        negative counting from the end; None for a parameter that all examples share.
    size : int
        Number of examples, the size of the mapped axis, at least 1.
    out_axes : int, None or sequence of them, default 0
        For each result, or for all of them, the position of the mapped axis in the new function's result. Results that
        are the same for all examples are repeated along it. With None, the result has no mapped axis, which requires
        that it does not depend on a mapped parameter.
    name : str, optional
        Name of the new function; default: ``vectorized_<name>``.

    Returns
    -------
    Function
        Parameters have the names of those of `function`. The function has no attributes.

    Raises
    ------
    InvalidValueError
        If the number of axes is wrong, an axis is out of range, `size` is not an integer of at least 1, or a result
        without a mapped axis depends on a mapped parameter.
    VectorizationError
        If operators that depend on mapped parameters have no rule; the error lists all of them.
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise InvalidValueError(f"vectorize: size must be an integer of at least 1, got {size!r}; count the examples")
    entering = _axes("in_axes", "parameter", in_axes, function.params, function.name)
    leaving = _axes("out_axes", "result", out_axes, function.results, function.name)
    pattern = tuple(axis is not None for axis in entering)
    made = name or f"vectorized_{function.name}"
    session = _Session(function, pattern, size, made)
    params = tuple(_with_axis(p, axis, size) for p, axis in zip(function.params, entering, strict=True))
    arguments = []
    for p, axis in zip(params, entering, strict=True):
        with located(p.line):
            arguments.append(p if axis is None else moved(p, axis, 0))
    found = session.body(function, pattern, arguments)
    session.refuse_missing()
    mapped = session.mapped(function, pattern)
    has_axis = [mapped[result][0] for result in function.results]
    results = []
    for number, (result, has, axis) in enumerate(zip(found, has_axis, leaving, strict=True)):
        with located(result.line):
            results.append(_placed(function, number, result, has, axis, size))
    return Function(made, params, tuple(results))


def _axes(what: str, of: str, given: AxesOf, values: Sequence[Value], name: str) -> tuple[int | None, ...]:
    """One position of the mapped axis for each value, counted from the start."""
    axes = (given,) * len(values) if given is None or isinstance(given, int) else tuple(given)
    if len(axes) != len(values):
        raise InvalidValueError(
            f"vectorize: {what} must have one axis or None for each {of} of @{name}, got {len(axes)} for "
            f"{plural(len(values), of)}; correct it"
        )
    pairs = zip(axes, values, strict=True)
    return tuple(None if axis is None else axis_of("vectorize", axis, len(v.shape) + 1) for axis, v in pairs)


def _with_axis(p: Value, axis: int | None, size: int) -> Value:
    if axis is None:
        return p
    with located(p.line):
        return param(p.label, (*p.shape[:axis], size, *p.shape[axis:]), p.dtype)


def _placed(function: Function, number: int, result: Value, has: bool, axis: int | None, size: int) -> Value:
    """A result with the mapped axis where it is wanted."""
    if axis is None:
        if has:
            raise InvalidValueError(
                f"vectorize: result {number} of @{function.name} depends on a mapped parameter, so its axis in "
                "out_axes must be an integer, got None; pass 0"
            )
        return result
    made = moved(result if has else broadcast_to(result, (size, *result.shape)), 0, axis)
    return made if made is result or not result.label else made.named(result.label)


#: For each item of a value (one, unless it is a tuple), the parameters that it depends on, as a bit mask.
_Masks = dict[Value, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class _Request:
    """A called function, and which of its parameters are mapped."""

    callee: Function
    mapped: Pattern
    #: Whether all results get the mapped axis, whatever they depend on.
    whole: bool = False


def _requested(op: Call, mapped: Pattern) -> tuple[_Request, ...]:
    """The functions that a call with these arguments mapped needs.

    A function with a derivative of its own and its rule have the mapped axis everywhere, so that they still match.
    """
    if not isinstance(op, CustomCall):
        return (_Request(op.callee, mapped),)
    return tuple(_Request(f, (any(mapped),) * len(f.params), whole=True) for f in (op.callee, op.rule))


class _Session:
    """One vectorization: what depends on which parameters, vectorized callees, and the operators without a rule."""

    def __init__(self, root: Function, mapped: Pattern, size: int, name: str) -> None:
        self.size = size
        functions = reached((root,))
        self.masks = _dependence(functions)
        self.missing: dict[Value, Function] = {}
        self.made: dict[_Request, Function] = {}
        self.taken = {function.name for function in functions} | {name}
        self.order = {id(function): number for number, function in enumerate(functions)}
        for request in self._requests(root, mapped):
            self.made[request] = self._callee(request)

    def mapped(self, function: Function, pattern: Pattern) -> dict[Value, Pattern]:
        """For each value of a body, whether its items are mapped if these parameters are."""
        chosen = sum(1 << number for number, has in enumerate(pattern) if has)
        return {v: tuple(bool(mask & chosen) for mask in masks) for v, masks in self.masks[id(function)].items()}

    def _requests(self, root: Function, pattern: Pattern) -> list[_Request]:
        """The functions to vectorize because of calls with mapped arguments, callees before callers."""
        found: dict[_Request, None] = {}
        pending = [_Request(root, pattern)]
        while pending:
            function = pending[-1].callee
            mapped = self.mapped(function, pending.pop().mapped)
            for value in mapped:
                for request in _inner_requests(value, mapped):
                    if any(request.mapped) and request not in found:
                        found[request] = None
                        pending.append(request)
        return sorted(found, key=lambda request: self.order[id(request.callee)])

    def _callee(self, request: _Request) -> Function:
        """The vectorized function of a request: the mapped axis of parameters and results is axis 0."""
        callee = request.callee
        axes = tuple(0 if has else None for has in request.mapped)
        params = tuple(_with_axis(p, axis, self.size) for p, axis in zip(callee.params, axes, strict=True))
        base = name = f"vectorized_{callee.name}"
        count = 0
        while name in self.taken:
            count += 1
            name = f"{base}_{count}"
        self.taken.add(name)
        results = self.body(callee, request.mapped, params)
        if request.whole:
            has = self.mapped(callee, request.mapped)
            pairs = zip(callee.results, results, strict=True)
            results = tuple(r if has[v][0] else broadcast_to(r, (self.size, *r.shape)) for v, r in pairs)
        return Function(name, params, results)

    def body(self, function: Function, pattern: Pattern, arguments: Sequence[Value]) -> tuple[Value, ...]:
        """The results of a body for arguments of which some are mapped."""
        mapped = self.mapped(function, pattern)
        controls: dict[Value, Value | tuple[Value, ...]] = {}

        def replace(value: Value, inputs: tuple[Value, ...]) -> Value | None:
            if isinstance(value.op, TupleGet):
                source = value.inputs[0]
                if source in controls:
                    assert isinstance(source.op, Control)
                    has = mapped[value][0]
                    made = vectorized_item(source.op, value.op.index, has, controls[source])
                else:
                    made = apply(value.op, *inputs)
            elif not any(mapped[v][0] for v in value.inputs):
                return None
            elif isinstance(value.op, Control):
                own = tuple(mapped[v][0] for v in value.inputs)
                found = vectorized_control(value.op, own, mapped[value], inputs, self.size, self._made)
                controls[value] = found
                return found[0] if isinstance(found, tuple) else found  # its items read `controls`
            elif isinstance(value.op, Call):
                made = self._called(value.op, tuple(mapped[v][0] for v in value.inputs), inputs)
            else:
                made = self._through(function, value, tuple(mapped[v][0] for v in value.inputs), inputs)
            return made.named(value.label) if value.label and made not in inputs else made

        return rebuild(function.results, replace, dict(zip(function.params, arguments, strict=True)))

    def _made(self, function: Function, pattern: Pattern) -> tuple[Function, Pattern]:
        """The vectorized function for a pattern of parameters, and the pattern of its results."""
        mapped = self.mapped(function, pattern)
        have = tuple(mapped[result][0] for result in function.results)
        return (self.made[_Request(function, pattern)] if any(pattern) else function), have

    def _called(self, op: Call, mapped: Pattern, inputs: tuple[Value, ...]) -> Value:
        """A call of the vectorized callee, and of the vectorized rule if it has a derivative of its own."""
        made = [self.made[request] for request in _requested(op, mapped)]
        if isinstance(op, CustomCall):
            return apply(CustomCall(made[0], made[1], op.wrt), *all_mapped(mapped, inputs))
        return apply(Call(made[0]), *inputs)

    def _through(self, function: Function, value: Value, mapped: Pattern, inputs: tuple[Value, ...]) -> Value:
        """Apply the operator's own rule."""
        op = value.op
        wanted = value.type.with_shape((self.size, *value.shape))
        if not isinstance(op, Operator) or type(op).vectorize is Operator.vectorize:
            # Continue with zeros, so that the error can list all operators without a rule.
            self.missing.setdefault(value, function)
            return full(wanted.dtype.type(0), wanted.shape, wanted.dtype)
        found: object = op.vectorize(mapped, *inputs)
        if not isinstance(found, Value):
            raise VectorizationError(
                f"the vectorize of {op.name} must return a graph value, got {described(found)}; compute it with "
                "operators"
            )
        if found.type != wanted:
            raise VectorizationError(
                f"the vectorize of {op.name} must return a value of type {wanted}, with the mapped axis first, got "
                f"{found.type}; correct the operator"
            )
        return found

    def refuse_missing(self) -> None:
        """Raise if operators without a rule were found."""
        if not self.missing:
            return
        names = {id(function): value_names(function) for function in self.missing.values()}
        places = ", ".join(
            f"{value.op.name} at {names[id(function)][value]} in @{function.name}"
            for value, function in self.missing.items()
        )
        with located(next(iter(self.missing)).line):
            raise VectorizationError(
                f"operators that depend on a mapped parameter must have a rule to vectorize them, got none for "
                f"{places}; define the method vectorize"
            )


def _dependence(functions: Sequence[Function]) -> dict[int, _Masks]:
    """The parameters that each value depends on, for functions of which callees come first, by their identity."""
    found: dict[int, _Masks] = {}
    for function in functions:
        masks: _Masks = {p: (1 << number,) for number, p in enumerate(function.params)}
        for value in function.values():
            if value not in masks:
                masks[value] = _depends(value, [masks[v] for v in value.inputs], found)
        found[id(function)] = masks
    return found


def _inner_requests(value: Value, mapped: dict[Value, Pattern]) -> list[_Request]:
    """The functions that a value runs, and which of their parameters are mapped."""
    if not isinstance(value.op, Call | Control):
        return []
    own = tuple(mapped[v][0] for v in value.inputs)
    if isinstance(value.op, Call):
        return list(_requested(value.op, own))
    return [_Request(*one) for one in inner_patterns(value.op, own, mapped[value])] if any(own) else []


def _depends(value: Value, inputs: Sequence[tuple[int, ...]], known: dict[int, _Masks]) -> tuple[int, ...]:
    if isinstance(value.op, TupleGet):
        return (inputs[0][value.op.index],)
    given = [mask for (mask,) in inputs]
    if isinstance(value.op, Control):
        return control_depends(value.op, given, lambda body: [known[id(body)][r][0] for r in body.results])
    if not isinstance(value.op, Call):
        return (_union(given),)
    callee = value.op.callee
    if isinstance(value.op, CustomCall):
        return (_union(given),) * len(callee.results)
    reads = [known[id(callee)][result][0] for result in callee.results]
    return tuple(_union(mask for number, mask in enumerate(given) if bits >> number & 1) for bits in reads)


def _union(masks: Iterable[int]) -> int:
    return reduce(or_, masks, 0)
