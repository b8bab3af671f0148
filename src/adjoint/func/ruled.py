"""Functions of tensors that have a derivative of their own: what `custom_vjp` and `autograd.Function` have in common.

The function and its derivative are traced together, with tensors that have a type and no elements, and become one call
with a rule (`adjoint.ops.custom_call`). So both are compiled into the program, and the rule is differentiated itself
for higher derivatives.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from adjoint import ops
from adjoint.errors import TypeRuleError, described
from adjoint.func.tracing import Tracing, function_of, refuse_changes, sources, traced
from adjoint.func.variables import is_differentiable
from adjoint.ir import Function, Value, is_float, param, rebuild
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.record import operation, record
from adjoint.tensor.structure import Node, Operation
from adjoint.tensor.tensor import Tensor
from adjoint.tensor.trace import growing, lock

__all__ = ["Pull", "call_with_rule"]

#: Maps cotangents of the float results to those of the arguments, None for no derivative.
Pull = Callable[[list[Tensor]], Sequence[Any]]

_stop_gradient: Callable[..., Any] = operation(ops.stop_gradient)
_cast: Callable[..., Any] = operation(ops.cast)


def call_with_rule(
    caller: str,
    name: str,
    tensors: Sequence[Tensor],
    run: Callable[[list[Tensor]], tuple[Sequence[Any], Pull]],
    constant: Callable[[Tensor], bool] = lambda _out: False,
) -> tuple[Tensor, ...]:
    """Call a function that says itself what its derivative is.

    Parameters
    ----------
    caller : str
        What error messages begin with.
    name : str
        The name of the function in graphs.
    tensors : sequence of Tensor
        The arguments.
    run : callable
        Takes tensors in their places; returns the results, and the function that maps the cotangents of the float
        results to those of the arguments.
    constant : callable, optional
        Whether a result has no derivative; is called with the results of `run`.

    Returns
    -------
    tuple of Tensor
        The results.

    Raises
    ------
    TypeRuleError
        If a result is not a tensor, a tensor is changed in place, or a cotangent does not fit its argument.
    """
    with lock, traced(Tracing(growing.root)) as trace, no_grad():
        examples = [trace.example(t._spec.type, label=t._label) for t in tensors]
        outs, pull = run(examples)
        wrong = next((out for out in outs if not isinstance(out, Tensor)), None)
        if wrong is not None or not outs:
            raise TypeRuleError(f"{caller}: the function must return tensors, got {described(wrong)}; return tensors")
        fixed = tuple(constant(out) for out in outs)
        cts = [trace.example(out._spec.type, label="ct") for out in outs if is_differentiable(out)]
        given = pull(cts)
        refuse_changes(caller, trace)
        found = [_fitting(caller, ct, example) for ct, example in zip(given, examples, strict=True)]
        entry, places = _entry(trace, name, [trace.operand(out) for out in outs], fixed, examples, cts, found)
        replaced = {id(e): tensor for e, tensor in zip(examples, tensors, strict=True)}
        taken = sources(trace, places, replaced)
    closed = {id(tensor) for tensor in tensors}
    operands = [t if id(t) in closed or not t._spec.requires_grad else _stop_gradient(t) for t in taken]
    made: tuple[Tensor, ...] = record(entry, operands)
    return made


def _fitting(caller: str, ct: Any, example: Tensor) -> Tensor | None:
    """The cotangent of an argument; None if there is none."""
    if ct is None or not is_differentiable(example):
        return None
    wanted = example._spec.type
    if not isinstance(ct, Tensor) or not is_float(ct.dtype) or ct._spec.type.shape != wanted.shape:
        given = ct._spec.type if isinstance(ct, Tensor) else described(ct)
        raise TypeRuleError(
            f"{caller}: the derivative must return a cotangent of the argument's type {wanted}, got {given}; "
            "sum over the axes that were broadcast"
        )
    made: Tensor = ct if ct.dtype == wanted.dtype else _cast(ct, wanted.dtype)
    return made


def _entry(
    trace: Tracing,
    name: str,
    outs: list[Node],
    fixed: tuple[bool, ...],
    examples: list[Tensor],
    cts: list[Tensor],
    found: list[Tensor | None],
) -> tuple[Operation, list[int]]:
    """The operation that calls the traced function with its rule, and the positions of its operands."""
    wrt = tuple(n for n, ct in enumerate(found) if ct is not None)
    wanted = [*outs, *(trace.operand(ct) for ct in found if ct is not None)]
    first = [trace.first[id(example)] for example in (*examples, *cts)]
    key = ("custom", name, fixed, wrt, *first, *wanted)
    node = trace.node.children.get(key)
    if node is None:
        node = Node(trace.node)
        node.made = _made(trace, name, wanted, fixed, [first[n] for n in wrt], first[len(examples) :])
        node = trace.node.child(key, node)
    made: tuple[Operation, list[int]] = node.made
    return made


def _made(
    trace: Tracing, name: str, wanted: list[Node], fixed: tuple[bool, ...], wrt: list[Node], cts: list[Node]
) -> tuple[Operation, list[int]]:
    whole, places = function_of(trace, wanted, name)
    seeds = tuple(ct.graph for ct in cts)
    entering = [(p, place) for p, place in zip(whole.params, places, strict=True) if p not in seeds]
    entering += [(one.graph, one.index) for one in wrt if one.graph not in whole.params]
    inputs = tuple(p for p, _ in entering)
    results, cotangents = whole.results[: len(fixed)], whole.results[len(fixed) :]
    outs = tuple(param(f"out{n}", r.shape, r.dtype) for n, r in enumerate(results))
    # The rule reads results instead of computing them again, so that higher derivatives use it too.
    known = {r: out for r, out in zip(results, outs, strict=True) if r not in inputs}
    forward = _distinct(name, inputs, results)
    rule = _distinct(f"vjp_{name}", (*inputs, *outs, *seeds), rebuild(cotangents, lambda _value, _inputs: None, known))
    numbers = tuple(inputs.index(one.graph) for one in wrt)

    def build(*values: Value) -> tuple[Value, ...]:
        if numbers:
            made = ops.custom_call(forward, rule, numbers, *values)
        else:
            made = ops.call(forward, *map(ops.stop_gradient, values))
        items = made if isinstance(made, tuple) else (made,)
        return tuple(ops.stop_gradient(x) if constant else x for x, constant in zip(items, fixed, strict=True))

    build.__name__ = name
    return Operation(build), [place for _, place in entering]


def _distinct(name: str, params: tuple[Value, ...], results: tuple[Value, ...]) -> Function:
    """A function whose parameters have different labels, and whose name no other function has."""
    own: dict[Value, Value] = {}
    taken: set[str] = set()
    for p in params:
        label = p.label or "x"
        number = 0
        while label in taken:
            number += 1
            label = f"{p.label or 'x'}_{number}"
        taken.add(label)
        own[p] = param(label, p.shape, p.dtype)
    made = Function(name, tuple(own.values()), rebuild(results, lambda _value, _inputs: None, own))
    digest = hashlib.sha256(str(made).encode()).hexdigest()[:8]  # functions of one name must be equal
    return made.renamed(f"{name}_{digest}")
