"""Loops and branches in graphs, of Python functions or Functions: `scan`, `fori_loop`, `while_loop`, `cond`."""

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.errors import InvalidValueError, TypeRuleError, kind_of
from adjoint.ir.function import Function, is_param, rebuild
from adjoint.ir.value import Value, param, toposort
from adjoint.ops.control import Branch, Scan, While, items, uniquely_named
from adjoint.ops.create import full, iota
from adjoint.ops.shape import BroadcastTo, Reshape

__all__ = ["cond", "fori_loop", "scan", "while_loop"]


def scan(body: Any, init: Any, xs: Any = None, length: int | None = None, reverse: bool = False) -> Any:
    """A loop with a fixed number of iterations, as a loop in the compiled program.

    The convention is that of JAX. It can be differentiated in both directions and vectorized.

    Parameters
    ----------
    body : callable or Function
        ``body(carry, x)`` returns the new carry and an output, or None for no output. The carry keeps its types. It may
        use other values of the graph. A Function takes the values of the carry and of `x` one after the other, and
        returns the new carry and the outputs, as ``(*carry, *outputs)``.
    init : Value, or tuple, list or dict of them
        The initial carry.
    xs : Value, or tuple, list or dict of them, optional
        What the iterations walk over, along axis 0; `x` is a row of each.
    length : int, optional
        Number of iterations; required without `xs`.
    reverse : bool, default False
        Whether to walk from the last row to the first; outputs have the order of the rows.

    Returns
    -------
    carry : as `init`
        The final carry.
    outputs : as the outputs of `body`, or None
        Those of all iterations, stacked along axis 0.

    Raises
    ------
    TypeRuleError
        If the body does not return a carry of the same structure and types, or an operand is not a graph value.
    InvalidValueError
        If there is no length, or several.
    """
    carry, rows = _leaves("scan: init", init), _leaves("scan: xs", xs)
    steps = _length(rows, length)
    inside = [param(f"carry{n}", v.shape, v.dtype) for n, v in enumerate(carry)]
    row_params = [param(f"x{n}", v.shape[1:], v.dtype) for n, v in enumerate(rows)]
    if isinstance(body, Function):
        consts: list[Value] = []
        made, outs = body, None
        fresh: tuple[Value, ...] = (*body.results[len(carry) :],)
    else:
        found = body(_like(init, inside), _like(xs, row_params))
        if not isinstance(found, tuple) or len(found) != 2:
            raise TypeRuleError(
                f"scan: the body must return a pair of the new carry and an output, got {kind_of(found)}; return "
                "(carry, None) for no output"
            )
        after = _matching("scan", found[0], init, inside)
        outs = found[1]
        fresh = tuple(_leaves("scan: the output of the body", outs))
        made, consts = _closed(_name(body, "body"), (*inside, *row_params), (*after, *fresh))
    if not steps:
        return init, _like(outs, [full(v.dtype.type(0), (0, *v.shape), v.dtype) for v in fresh])
    if not made.results:
        return init, outs
    results = items(Scan(made, steps, len(consts), len(carry), reverse), *consts, *carry, *rows)
    last, stacked = results[: len(carry)], list(results[len(carry) :])
    if isinstance(body, Function):
        return _like(init, last), (stacked[0] if len(stacked) == 1 else tuple(stacked) or None)
    return _like(init, last), _like(outs, stacked)


def fori_loop(lower: Any, upper: Any, body: Callable[[Value, Any], Any], init: Any) -> Any:
    """A loop over the integers from `lower` to `upper`, without `upper`.

    With ints as bounds it is a `scan`, which can be differentiated backwards; with graph values a `while_loop`, which
    cannot.

    Parameters
    ----------
    lower, upper : int or Value
        The bounds; values are i64 scalars.
    body : callable
        ``body(i, carry)`` returns the new carry, of the same types; i is an i64 scalar.
    init : Value, or tuple, list or dict of them
        The initial carry.

    Returns
    -------
    as `init`
        The final carry.
    """
    if isinstance(lower, Value) or isinstance(upper, Value):
        bounds = [b if isinstance(b, Value) else full(b, (), "i64") for b in (lower, upper)]
        _, _, made = while_loop(
            lambda state: state[0] < state[1],
            lambda state: (state[0] + 1, state[1], body(state[0], state[2])),
            (bounds[0], bounds[1], init),
        )
        return made
    count = max(upper - lower, 0)
    numbers = iota((count,), 0, "i64") + lower
    return scan(lambda carry, i: (body(i, carry), None), init, numbers)[0]


def while_loop(condition: Callable[[Any], Value], body: Callable[[Any], Any], init: Any) -> Any:
    """A loop that runs as long as a condition of its carry holds.

    It has forward derivatives. Reverse derivatives would have to store the values of an unknown number of iterations;
    they are refused, so use `scan` or `fori_loop` for them.

    Parameters
    ----------
    condition : callable
        Takes the carry; returns a bool scalar.
    body : callable
        Takes the carry; returns the new one, of the same types.
    init : Value, or tuple, list or dict of them
        The initial carry.

    Returns
    -------
    as `init`
        The final carry.

    Raises
    ------
    TypeRuleError
        If the condition is not a bool scalar, or the body does not return a carry of the same structure and types.
    """
    carry = _leaves("while_loop: init", init)
    inside = [param(f"carry{n}", v.shape, v.dtype) for n, v in enumerate(carry)]
    test = condition(_like(init, inside))
    if not isinstance(test, Value):
        raise TypeRuleError(
            f"while_loop: the condition must return a graph value, got {kind_of(test)}; compare scalars"
        )
    after = _matching("while_loop", body(_like(init, inside)), init, inside)
    own = tuple(inside)
    captured = _captured(own, (test, *after))
    going = _closed_over(_name(condition, "condition"), captured, own, (test,))
    made = _closed_over(_name(body, "body"), captured, own, after)
    return _like(init, items(While(going, made, len(captured)), *captured, *carry))


def cond(condition: Value, then: Callable[..., Any], other: Callable[..., Any], *operands: Any) -> Any:
    """The results of one of two functions, of which only that one runs.

    Parameters
    ----------
    condition : Value
        A bool scalar.
    then, other : callable
        Functions of the operands: which to run if the condition holds, and if not. They return values of the same
        types, alone or in tuples, lists or dicts of the same structure. They may use other values of the graph.
    *operands : Value, or tuple, list or dict of them
        Their operands.

    Returns
    -------
    as the results of the functions
        Those of one of them.

    Raises
    ------
    TypeRuleError
        If the condition is not a bool scalar, or the functions return different structures or types.
    """
    if not isinstance(condition, Value):
        raise TypeRuleError(f"cond: the condition must be a graph value, got {kind_of(condition)}; use Python's if")
    given = _leaves("cond: the operands", operands)
    inside = [param(f"x{n}", v.shape, v.dtype) for n, v in enumerate(given)]
    own = tuple(inside)
    made = [function(*_like(operands, inside)) for function in (then, other)]
    found = [_leaves("cond: the result of a function", result) for result in made]
    if _form(made[0]) != _form(made[1]):
        raise TypeRuleError(
            f"cond: both functions must return the same structure, got {_form(made[0])} and {_form(made[1])}; return "
            "the same containers"
        )
    captured = _captured(own, (*found[0], *found[1]))
    bodies = [
        _closed_over(_name(function, name), captured, own, tuple(results))
        for function, name, results in zip((then, other), ("then", "other"), found, strict=True)
    ]
    return _like(made[0], items(Branch(*bodies), condition, *captured, *given))


def _length(rows: Sequence[Value], length: int | None) -> int:
    sizes = {v.shape[0] if v.shape else -1 for v in rows} | ({length} if length is not None else set())
    if len(sizes) != 1 or -1 in sizes or min(sizes) < 0:
        given = ", ".join("a scalar" if n == -1 else str(n) for n in sorted(sizes)) or "none"
        raise InvalidValueError(
            f"scan: length and the first axes of xs must be one number, got {given}; make them equal"
        )
    return sizes.pop()


def _name(function: Any, default: str) -> str:
    name = getattr(function, "__name__", default)
    return name if name.isidentifier() else default


# Containers: tuples, lists, dicts and None.


def _leaves(what: str, tree: Any) -> list[Value]:
    if tree is None:
        return []
    if isinstance(tree, Value):
        return [tree]
    if isinstance(tree, dict):
        return [leaf for item in tree.values() for leaf in _leaves(what, item)]
    if isinstance(tree, tuple | list):
        return [leaf for item in tree for leaf in _leaves(what, item)]
    raise TypeRuleError(f"{what} must be graph values, alone or in tuples, lists and dicts, got {kind_of(tree)}")


def _like(tree: Any, leaves: Sequence[Value]) -> Any:
    """The leaves in the containers of a tree."""
    return _filled(tree, list(leaves)[::-1])


def _filled(tree: Any, left: list[Value]) -> Any:
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {key: _filled(item, left) for key, item in tree.items()}
    if isinstance(tree, tuple | list):
        made = [_filled(item, left) for item in tree]
        if isinstance(tree, list):
            return made
        return type(tree)(*made) if hasattr(tree, "_fields") else tuple(made)
    return left.pop()


def _form(tree: Any) -> str:
    """The containers of a tree, as text."""
    if tree is None:
        return "None"
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{key!r}: {_form(item)}" for key, item in tree.items()) + "}"
    if isinstance(tree, tuple | list):
        inner = ", ".join(map(_form, tree))
        return f"[{inner}]" if isinstance(tree, list) else f"({inner})"
    return "*"


def _matching(name: str, found: Any, init: Any, inside: Sequence[Value]) -> tuple[Value, ...]:
    """The values of a new carry, in which numbers are constants."""
    if _form(found) != _form(init):
        raise TypeRuleError(
            f"{name}: the body must return a carry of the structure of init, {_form(init)}, got {_form(found)}; return "
            "the same containers"
        )
    return tuple(_numbers_filled(found, list(inside)[::-1]))


def _numbers_filled(tree: Any, left: list[Value]) -> list[Value]:
    if tree is None:
        return []
    if isinstance(tree, dict | tuple | list):
        parts = tree.values() if isinstance(tree, dict) else tree
        return [leaf for part in parts for leaf in _numbers_filled(part, left)]
    like = left.pop()
    return [full(tree, like.shape, like.dtype) if isinstance(tree, bool | int | float) else _leaves("carry", tree)[0]]


# Functions that use values of the graph around them.


def _captured(own: Sequence[Value], results: Sequence[Value]) -> list[Value]:
    """The values around a body that it reads: what does not depend on its parameters, except constants."""
    inner, mine = set(own), set(own)
    order = toposort(results)
    for value in order:
        if any(v in inner for v in value.inputs):
            inner.add(value)
    reached = [v for value in order if value in inner for v in value.inputs] + [*results]
    reached = [v if v in inner else _base(v) for v in reached]
    return list(dict.fromkeys(v for v in reached if v not in inner and v not in mine and (v.inputs or is_param(v))))


def _base(value: Value) -> Value:
    """What a value repeats or reshapes, which the body does itself, so that less is kept in memory."""
    while isinstance(value.op, BroadcastTo | Reshape):
        value = value.inputs[0]
    return value


def _closed_over(name: str, captured: Sequence[Value], own: Sequence[Value], results: tuple[Value, ...]) -> Function:
    """A function of the captured values and its own parameters."""
    consts = [param(f"const{n}", v.shape, v.dtype) for n, v in enumerate(captured)]
    known = dict(zip(captured, consts, strict=True)) | {p: p for p in own}
    made = rebuild(results, lambda _value, _inputs: None, known)
    return uniquely_named(Function(name, (*consts, *own), made))


def _closed(name: str, own: Sequence[Value], results: tuple[Value, ...]) -> tuple[Function, list[Value]]:
    captured = _captured(own, results)
    return _closed_over(name, captured, own, results), captured
