"""Print graphs as text, one value per line; `adjoint.ir.parser` parses it.

::

    func @linear(%x: f32[2,3], %w: f32[3,4]) -> f32[2,4] {
      %y: f32[2,4] = matmul(%x, %w) {transpose_a = False, transpose_b = False}
      %1: f32[2,4] = negative(%y)
      return %1
    }

A value is printed under its label; if several values share a label, the later ones get ``_1``, ``_2``, ... A value
without a label is printed under its number. If it has none, that is the number of its line in the body, from 0, or the
next one above all numbers before it and all that other values have. Where a value's line is known, `print_functions`
can append it as a comment, which `adjoint.ir.parser` skips.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from adjoint.errors import short_line
from adjoint.ir.literals import attribute_hints, convert, literal, quoted_name
from adjoint.ir.value import Op, Value

if TYPE_CHECKING:  # function.py imports this module, so that its classes print themselves
    from adjoint.ir.function import Function, IRModule

__all__ = ["label_values", "print_functions", "print_module", "value_names"]


def value_names(function: "Function") -> dict[Value, str]:
    """The printed name of every value of a function, including ``%``, parameters first.

    Names are unique, and equal functions with equal labels and numbers get the same names.
    """
    named = label_values(function)
    return {value: f"%{name}" if isinstance(name, int) else "%" + quoted_name(name) for value, name in named.items()}


def label_values(function: "Function", first: int = 0) -> dict[Value, str | int]:
    """The unique label or number of every value of a function, parameters first.

    Parameters
    ----------
    function : Function
        The function.
    first : int, default 0
        The least number for values that have neither a label nor a number.
    """
    values = function.values()
    labels = {value.label for value in values}
    taken: set[str | int] = set()
    tries: dict[str, int] = {}
    names: dict[Value, str | int] = {}
    next_number = max(first, 1 + max((value.number for value in values if value.number is not None), default=-1))
    for line, value in enumerate(values, -len(function.params)):
        label = value.label
        if not label:
            number = value.number
            if number is None or number in taken:
                number = max(next_number, line)
                next_number = number + 1
            taken.add(number)
            names[value] = number
            continue
        if label in taken:
            # A suffixed name that is already some value's own label is skipped, so unique labels stay unchanged.
            count = tries.get(label, 0) + 1
            while f"{label}_{count}" in labels or f"{label}_{count}" in taken:
                count += 1
            tries[label] = count
            label = f"{label}_{count}"
        taken.add(label)
        names[value] = label
    return names


def _braces(pairs: Iterable[tuple[str, str]]) -> str:
    inner = ", ".join(f"{quoted_name(name)} = {text}" for name, text in pairs)
    return f" {{{inner}}}" if inner else ""


def _mapping(attrs: Mapping[str, Any]) -> str:
    return _braces((name, literal(value)) for name, value in attrs.items())


def _attributes(op: Op) -> str:
    return _braces((name, _attribute(getattr(op, name), hint)) for name, hint in attribute_hints(type(op)))


def _attribute(value: Any, hint: Any) -> str:
    try:
        return literal(convert(value, hint))
    except ValueError:
        return literal(value)  # invalid attributes print too: rejecting them is the verifier's job


def print_function(function: "Function", show_lines: bool = False) -> str:
    """One function, without the functions that it calls."""
    names = value_names(function)
    params = set(function.params)
    header = ", ".join(f"{names[p]}: {p.type}" for p in function.params)
    types = ", ".join(str(r.type) for r in function.results)
    result = types if len(function.results) == 1 else f"({types})"
    lines = [f"func @{quoted_name(function.name)}({header}) -> {result}{_mapping(function.attrs)} {{"]
    for value, name in names.items():
        if value in params:
            continue
        inputs = ", ".join(names[v] for v in value.inputs)
        where = f"  # {short_line(value.line)}" if show_lines and value.line else ""
        lines.append(f"  {name}: {value.type} = {value.op.name}({inputs}){_attributes(value.op)}{where}")
    lines.append(f"  return {', '.join(names[r] for r in function.results)}")
    lines.append("}")
    return "\n".join(lines)


def print_functions(functions: Iterable["Function"], show_lines: bool = False) -> str:
    """Several functions, separated by blank lines; `show_lines` appends the line that created each value."""
    return "\n\n".join(print_function(function, show_lines) for function in functions)


def print_module(module: "IRModule", show_lines: bool = False) -> str:
    """A module: its attributes, then its functions; `show_lines` appends the line that created each value."""
    body = print_functions(module.functions, show_lines)
    return f"module{_mapping(module.attrs)} {{\n\n{body}\n\n}}" if body else f"module{_mapping(module.attrs)} {{\n}}"
