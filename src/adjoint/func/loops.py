"""Loops and branches of tensors: `scan`, `fori_loop`, `while_loop`, `cond`.

The functions are traced once, with tensors without elements; the operation that is recorded holds their graphs, and
becomes a loop or branch of the compiled program. Other tensors that they use are operands of it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError, described, kind_of
from adjoint.func.tracing import (
    Tracing,
    carry_out,
    function_of,
    refuse_changed_examples,
    refuse_changes,
    refuse_gradients,
    traced,
)
from adjoint.func.tree import Structure, tree_flatten, tree_unflatten
from adjoint.ir import Function, TensorType, Value, param
from adjoint.ops.control import Branch, Control, Scan, While, items, uniquely_named
from adjoint.tensor.creation import arange, zeros
from adjoint.tensor.record import record
from adjoint.tensor.structure import Node, Operation
from adjoint.tensor.tensor import Tensor, from_array
from adjoint.tensor.trace import growing, lock

__all__ = ["cond", "fori_loop", "scan", "while_loop"]

#: Dtypes of tensors that Python's numbers become.
_OF_NUMBERS = {bool: np.bool_, int: np.int64, float: np.float32}


def scan(
    body: Callable[[Any, Any], Any], init: Any, xs: Any = None, length: int | None = None, reverse: bool = False
) -> Any:
    """A loop with a fixed number of iterations, as a loop in the compiled program: its size does not depend on them.

    The convention is that of JAX: ``body(carry, x) -> (carry, y)``. All derivatives, `vmap`, `jit` and `checkpoint`
    work with it, inside and outside.

    Parameters
    ----------
    body : callable
        Takes the carry and a row of each of `xs`; returns the new carry, of the same structure, shapes and dtypes, and
        an output, any tree of tensors. It may use other tensors, such as parameters. Those that it changes in place,
        such as the generator of a dropout, are carried along.
    init : tree of tensors
        The initial carry. Python's numbers are tensors with f32, i64 or bool.
    xs : tree of tensors, optional
        What the iterations walk over, along axis 0; without, `x` is None.
    length : int, optional
        Number of iterations; required without `xs`.
    reverse : bool, default False
        Whether to walk from the last row to the first; outputs have the order of the rows.

    Returns
    -------
    carry : tree of tensors
        The final carry.
    outputs : tree of tensors
        The outputs of all iterations, stacked along axis 0.

    Raises
    ------
    TypeRuleError
        If the body returns something else, or changes an argument.
    InvalidValueError
        If there is no length, or several.
    """
    carry, carried = _tensors("scan: init", init)
    rows, rowed = _tensors("scan: xs", xs)
    steps = _length(rows, length)
    with lock, traced(Tracing(growing.root)) as trace:
        inside = _examples(trace, "carry", [x._spec.type for x in carry], carry)
        of_rows = _examples(trace, "x", [x._spec.type.with_shape(x.shape[1:]) for x in rows], rows)
        found = body(tree_unflatten(carried, inside), tree_unflatten(rowed, of_rows))
        refuse_gradients("scan", trace)
        refuse_changed_examples("scan", trace)
        if not isinstance(found, tuple) or len(found) != 2:
            raise TypeRuleError(
                f"scan: the body must return a pair of the new carry and an output, got {kind_of(found)}; return "
                "(carry, None) for no output"
            )
        after = _carry("scan", found[0], carried, carry)
        outs, made = _tensors("scan: the output of the body", found[1])
        changed = [(x, trace.operand(x)) for x in trace.changed()]
        states = [x for x, _ in changed]
        wanted = [*map(trace.operand, after), *(node for _, node in changed), *map(trace.operand, outs)]
        if not wanted:
            return init, found[1]
        fixed = len(carry) + len(changed)
        key = ("scan", *wanted, *(e._node for e in (*inside, *of_rows)), len(carry), fixed, steps, reverse)

        def build() -> tuple[Operation, list[int]]:
            (function,), consts = _bodies(trace, [(wanted, _name(body, "body"))], [*inside, *states, *of_rows])
            op = Scan(function, max(steps, 1), len(consts), fixed, reverse)
            return Operation(_applying(op), numbers=False), consts

        entry, captured = _entry(trace, key, build)
        consts = [trace.entered[place] for place in captured]
        types = [x._spec.type for x in outs]
    if not steps:
        return init, tree_unflatten(made, [zeros((0, *t.shape), dtype=t.dtype) for t in types])
    results = record(entry, [*consts, *carry, *states, *rows])
    carry_out(changed, results[len(carry) : fixed])
    return tree_unflatten(carried, results[: len(carry)]), tree_unflatten(made, results[fixed:])


def fori_loop(lower: Any, upper: Any, body: Callable[[Tensor, Any], Any], init: Any) -> Any:
    """A loop over the integers from `lower` to `upper`, without `upper`: ``carry = body(i, carry)``.

    With ints as bounds it is a `scan`, which has all derivatives; with tensors a `while_loop`, which has forward
    derivatives.

    Parameters
    ----------
    lower, upper : int or Tensor
        The bounds; tensors are i64 scalars.
    body : callable
        Takes the number of the iteration, an i64 scalar, and the carry; returns the new carry. With ints as bounds, it
        may change tensors in place, as in `scan`.
    init : tree of tensors
        The initial carry.

    Returns
    -------
    tree of tensors
        The final carry.
    """
    if isinstance(lower, Tensor) or isinstance(upper, Tensor):
        return while_loop(
            lambda state: state[0] < upper, lambda state: (state[0] + 1, body(state[0], state[1])), (lower, init)
        )[1]
    return scan(lambda carry, i: (body(i, carry), None), init, arange(lower, max(lower, upper)))[0]


def while_loop(condition: Callable[[Any], Any], body: Callable[[Any], Any], init: Any) -> Any:
    """A loop that runs as long as a condition of its carry holds: ``while condition(carry): carry = body(carry)``.

    It has forward derivatives. Reverse derivatives would have to store the values of an unknown number of iterations;
    they are refused, so use `scan` or `fori_loop` for them. With `vmap`, it runs until the condition holds for no
    example.

    Parameters
    ----------
    condition : callable
        Takes the carry; returns a bool scalar.
    body : callable
        Takes the carry; returns the new one, of the same structure, shapes and dtypes.
    init : tree of tensors
        The initial carry. Python's numbers are tensors with f32, i64 or bool.

    Returns
    -------
    tree of tensors
        The final carry.

    Raises
    ------
    TypeRuleError
        If the functions return something else, or change a tensor.
    """
    carry, carried = _tensors("while_loop: init", init)
    with lock, traced(Tracing(growing.root)) as trace:
        inside = _examples(trace, "carry", [x._spec.type for x in carry], carry)
        test = condition(tree_unflatten(carried, inside))
        if not isinstance(test, Tensor):
            raise TypeRuleError(
                f"while_loop: the condition must return a tensor, got {described(test)}; compare tensors of the carry"
            )
        after = _carry("while_loop", body(tree_unflatten(carried, inside)), carried, carry)
        refuse_changes("while_loop", trace)
        going, wanted = [trace.operand(test)], [trace.operand(x) for x in after]
        key = ("while_loop", *going, *wanted, *(e._node for e in inside))

        def build() -> tuple[Operation, list[int]]:
            parts = [(going, _name(condition, "condition")), (wanted, _name(body, "body"))]
            functions, consts = _bodies(trace, parts, inside)
            return Operation(_applying(While(functions[0], functions[1], len(consts))), numbers=False), consts

        entry, captured = _entry(trace, key, build)
        consts = [trace.entered[place] for place in captured]
    return tree_unflatten(carried, record(entry, [*consts, *carry]))


def cond(condition: Any, then: Callable[..., Any], other: Callable[..., Any], *operands: Any) -> Any:
    """The results of one of two functions, of which only that one runs.

    With `vmap` over the condition, both run, and every example takes the results of one.

    Parameters
    ----------
    condition : Tensor
        A bool scalar.
    then, other : callable
        Functions of the operands: which to run if the condition holds, and if not. They return trees of tensors of the
        same structure, shapes and dtypes. They may use other tensors, and must not change any.
    *operands : tree of tensors
        Their operands.

    Returns
    -------
    tree of tensors
        The results of one of them.

    Raises
    ------
    TypeRuleError
        If the condition is no bool scalar, or the functions return different structures or types, or change a tensor.
    """
    if not isinstance(condition, Tensor):
        raise TypeRuleError(f"cond: the condition must be a tensor, got {described(condition)}; use Python's if")
    given, structure = _tensors("cond: the operands", operands)
    with lock, traced(Tracing(growing.root)) as trace:
        inside = _examples(trace, "x", [x._spec.type for x in given], given)
        parts, structures = [], []
        for function, default in ((then, "then"), (other, "other")):
            outs, made = _tensors("cond: the result of a function", function(*tree_unflatten(structure, inside)))
            refuse_changes("cond", trace)
            parts.append(([trace.operand(x) for x in outs], _name(function, default)))
            structures.append(made)
        if structures[0] != structures[1]:
            raise TypeRuleError(
                f"cond: both functions must return the same structure, got {structures[0]} and {structures[1]}; return "
                "the same containers"
            )
        if not parts[0][0]:
            raise TypeRuleError("cond: the functions must return tensors, got none; return what they compute")
        key = ("cond", *parts[0][0], None, *parts[1][0], *(e._node for e in inside))

        def build() -> tuple[Operation, list[int]]:
            (one, two), consts = _bodies(trace, parts, inside)
            return Operation(_applying(Branch(one, two)), numbers=False), consts

        entry, captured = _entry(trace, key, build)
        consts = [trace.entered[place] for place in captured]
    return tree_unflatten(structures[0], record(entry, [condition, *consts, *given]))


def _tensors(what: str, tree: Any) -> tuple[list[Tensor], Structure]:
    """The leaves of a tree, as tensors."""
    leaves, structure = tree_flatten(tree)
    return [_tensor(what, leaf) for leaf in leaves], structure


def _tensor(what: str, leaf: Any, dtype: Any = None) -> Tensor:
    if isinstance(leaf, Tensor):
        return leaf
    if isinstance(leaf, np.ndarray):
        return from_array(leaf)
    if type(leaf) in _OF_NUMBERS:
        return from_array(np.array(leaf, _OF_NUMBERS[type(leaf)] if dtype is None else dtype))
    raise TypeRuleError(f"{what} must be tensors, got {kind_of(leaf)}; pass tensors")


def _carry(name: str, found: Any, structure: Structure, before: Sequence[Tensor]) -> list[Tensor]:
    """The new carry, with the structure and the types of the old one."""
    leaves, made = tree_flatten(found)
    if made != structure:
        raise TypeRuleError(
            f"{name}: the body must return a carry of the structure of init, {structure}, got {made}; return the same "
            "containers"
        )
    after = [_tensor(f"{name}: the carry", leaf, x._spec.type.dtype) for leaf, x in zip(leaves, before, strict=True)]
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        if old._spec.type != new._spec.type:
            raise TypeRuleError(
                f"{name}: the body must return each part of the carry with the type that it takes, got "
                f"{old._spec.type} and then {new._spec.type} for part {number}; cast or reshape it"
            )
    return after


def _length(rows: Sequence[Tensor], length: int | None) -> int:
    sizes = {x.shape[0] if x.shape else -1 for x in rows} | ({length} if length is not None else set())
    if len(sizes) != 1 or min(sizes) < 0:
        given = ", ".join("a scalar" if n == -1 else str(n) for n in sorted(sizes)) or "none"
        raise InvalidValueError(
            f"scan: length and the first axes of xs must be one number, got {given}; make them equal"
        )
    return int(sizes.pop())


def _name(function: Any, default: str) -> str:
    name = getattr(function, "__name__", default)
    return name if name.isidentifier() else default


def _examples(trace: Tracing, name: str, types: Sequence[TensorType], like: Sequence[Tensor]) -> list[Tensor]:
    """Tensors without elements in place of operands."""
    return [
        trace.example(type_, x._spec.requires_grad, not x._spec.requires_grad, f"{name}{n}")
        for n, (type_, x) in enumerate(zip(types, like, strict=True))
    ]


def _entry(
    trace: Tracing, key: tuple[Any, ...], build: Callable[[], tuple[Operation, list[int]]]
) -> tuple[Operation, list[int]]:
    """What is recorded, and the positions of the tensors around it that it uses; built once for a program."""
    node = trace.node.children.get(key)
    if node is None:
        node = Node(trace.node)
        node.made = build()
        node = trace.node.child(key, node)
    made: tuple[Operation, list[int]] = node.made
    return made


def _bodies(
    trace: Tracing, parts: Sequence[tuple[Sequence[Node], str]], examples: Sequence[Tensor]
) -> tuple[list[Function], list[int]]:
    """Functions of the tensors around them that any of them uses, then of the examples."""
    made = [function_of(trace, wanted, name) for wanted, name in parts]
    own = {id(example) for example in examples}
    captured = sorted({place for _, places in made for place in places if id(trace.entered[place]) not in own})
    bodies = []
    for function, places in made:
        at = {id(trace.entered[place]): p for place, p in zip(places, function.params, strict=True)}
        entered = [*(trace.entered[place] for place in captured), *examples]
        taken = {p.label for p in function.params}
        params = tuple(at[id(x)] if id(x) in at else _unused(n, x, taken) for n, x in enumerate(entered))
        bodies.append(uniquely_named(Function(function.name, params, function.results)))
    return bodies, captured


def _unused(number: int, tensor: Any, taken: set[str]) -> Value:
    """A parameter that a function does not read."""
    label = f"unused{number}"
    while label in taken:
        label = f"_{label}"
    return param(label, tensor._spec.type.shape, tensor._spec.type.dtype)


def _applying(op: Control) -> Callable[..., tuple[Value, ...]]:
    """The graph function that applies a loop or branch."""

    def build(*values: Value) -> tuple[Value, ...]:
        return items(op, *values)

    build.__name__ = op.name
    return build
