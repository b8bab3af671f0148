"""Numbers that stay: one numbering from the graph that was written to the kernels that compute it.

A value without a label prints under a number. What `numbered` returns has all of its names stored in its values, and
transformations keep the name of a value that they copy or replace by an equal one. So a value is called the same in the
model, in the functions derived from it, after every pass, and in the list of values that a kernel computes.
"""

from collections.abc import Iterable

from adjoint.ir.function import Function
from adjoint.ir.printer import label_values
from adjoint.ir.value import Value

__all__ = ["free_number", "numbered", "numbered_from", "unnumbered"]


def numbered(function: Function, first: int = 0) -> Function:
    """The same function with the name that each value prints under stored in the value.

    Parameters
    ----------
    function : Function
        Any function. Parameters are unchanged, and values that have a unique label or number keep it. Functions that it
        calls are unchanged.
    first : int, default 0
        The least number for other values. A pass that removes values frees their numbers; passing the `free_number` of
        the function before the pass prevents new values from getting them.

    Returns
    -------
    Function
        Prints the same text; `function` itself if nothing has to be stored.
    """
    return numbered_from(function, first)[0]


def numbered_from(function: Function, first: int) -> tuple[Function, int]:
    """The result of `numbered`, and the least number that is at least `first` and above those of all values."""
    values = function.values()
    stored = [value.label or value.number for value in values]
    if None not in stored and len(set(stored)) == len(stored):
        return function, _above(stored, first)
    names = label_values(function, first)
    new: dict[Value, Value] = {}
    for value, before in zip(values, stored, strict=True):
        inputs, name = value.inputs, names[value]
        if new:
            inputs = tuple([new.get(v, v) for v in inputs])
        if name == before:
            made = value.with_inputs(inputs)
        elif isinstance(name, int):
            made = Value(value.op, inputs, value.type, "", name, value.line)
        else:
            made = Value(value.op, inputs, value.type, name, None, value.line)
        if made is not value:
            new[value] = made
    results = tuple(new.get(r, r) for r in function.results)
    return Function(function.name, function.params, results, function.attrs), _above(names.values(), first)


def _above(names: Iterable[str | int | None], first: int) -> int:
    return max(first, 1 + max((name for name in names if isinstance(name, int)), default=-1))


def free_number(function: Function) -> int:
    """The least number above those of all values."""
    return _above((value.number for value in function.values()), 0)


def unnumbered(value: Value, inputs: tuple[Value, ...]) -> Value:
    """A copy of a value with other inputs and without its number, for use in another function."""
    if value.number is None:
        return value.with_inputs(inputs)
    return Value(value.op, inputs, value.type, "", None, value.line)
