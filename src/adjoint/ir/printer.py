"""Print graphs as text, one value per line; `adjoint.ir.parser` parses it.

::

    func @linear(%x: f32[2,3], %w: f32[3,4]) -> f32[2,4] {
      %y: f32[2,4] = matmul(%x, %w) {transpose_a = False, transpose_b = False}
      %1: f32[2,4] = negative(%y)
      return %1
    }

A value is printed under its label; if several values share a label, the later ones get ``_1``, ``_2``, ... A value
without a label is printed under its line number.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from adjoint.ir.literals import attribute_hints, convert, literal, quoted_name
from adjoint.ir.value import Op, Value

if TYPE_CHECKING:  # function.py imports this module, so that its classes print themselves
    from adjoint.ir.function import Function, IRModule

__all__ = ["print_functions", "print_module", "value_names"]


def value_names(function: "Function") -> dict[Value, str]:
    """The printed name of every value of a function, including ``%``, parameters first.

    Names are unique, and equal functions with equal labels get the same names.
    """
    values = function.values()
    labels = {value.label for value in values}
    taken: set[str] = set()
    tries: dict[str, int] = {}
    names: dict[Value, str] = {}
    for position, value in enumerate(values):
        label = value.label
        if not label:
            names[value] = f"%{position - len(function.params)}"
            continue
        if label in taken:
            # A suffixed name that is already some value's own label is skipped, so unique labels stay unchanged.
            count = tries.get(label, 0) + 1
            while f"{label}_{count}" in labels or f"{label}_{count}" in taken:
                count += 1
            tries[label] = count
            label = f"{label}_{count}"
        taken.add(label)
        names[value] = "%" + quoted_name(label)
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


def print_function(function: "Function") -> str:
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
        lines.append(f"  {name}: {value.type} = {value.op.name}({inputs}){_attributes(value.op)}")
    lines.append(f"  return {', '.join(names[r] for r in function.results)}")
    lines.append("}")
    return "\n".join(lines)


def print_functions(functions: Iterable["Function"]) -> str:
    """Several functions, separated by blank lines."""
    return "\n\n".join(print_function(function) for function in functions)


def print_module(module: "IRModule") -> str:
    """A module: its attributes, then its functions."""
    body = print_functions(module.functions)
    return f"module{_mapping(module.attrs)} {{\n\n{body}\n\n}}" if body else f"module{_mapping(module.attrs)} {{\n}}"
