"""Numbers that stay: one numbering from the graph that was written to the kernels that compute it.

A value without a label prints under a number. What `numbered` returns has all of its names stored in its values, and
transformations keep the name of a value that they copy or replace by an equal one. So a value is called the same in the
model, in the functions derived from it, after every pass, and in the list of values that a kernel computes.
"""

from adjoint.ir.function import Function, is_param
from adjoint.ir.printer import label_values
from adjoint.ir.value import Value

__all__ = ["free_number", "numbered", "unnumbered"]


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
    names = label_values(function, first)
    if all(name == (value.label or value.number) for value, name in names.items()):
        return function
    new: dict[Value, Value] = {p: p for p in function.params}
    for value, name in names.items():
        if value in new:
            continue
        inputs = tuple(new[v] for v in value.inputs)
        if is_param(value) or name == (value.label or value.number):
            new[value] = value.with_inputs(inputs)
        elif isinstance(name, int):
            new[value] = Value(value.op, inputs, value.type, "", name, value.line)
        else:
            new[value] = Value(value.op, inputs, value.type, name, None, value.line)
    return Function(function.name, function.params, tuple(new[r] for r in function.results), function.attrs)


def free_number(function: Function) -> int:
    """The least number above those of all values."""
    return 1 + max((value.number for value in function.values() if value.number is not None), default=-1)


def unnumbered(value: Value, inputs: tuple[Value, ...]) -> Value:
    """A copy of a value with other inputs and without its number, for use in another function."""
    if value.number is None:
        return value.with_inputs(inputs)
    return Value(value.op, inputs, value.type, "", None, value.line)
