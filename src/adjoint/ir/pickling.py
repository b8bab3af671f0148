"""Pickling of values, functions and modules as flat tables, because pickle would recurse through deep graphs.

A graph becomes one row for each value, inputs before users, in which inputs are numbers of rows, and called functions
numbers of functions. What the functions of a module share is one row, so it stays shared. Importing this module
registers it with `copyreg`.
"""

import copyreg
from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import cache
from typing import Any

from adjoint.ir.function import Attribute, Function, IRModule, called_by, reached
from adjoint.ir.value import Op, Value, toposort
from adjoint.lazy_dataclass import dataclass

__all__: list[str] = []


@dataclass(frozen=True, slots=True)
class _Reference:
    """A function in the attributes of an op, by its number."""

    number: int


@dataclass(frozen=True, slots=True)
class _Call:
    """An op with functions among its attributes."""

    kind: type[Op]
    attributes: tuple[Any, ...]


#: The fields of a value, with an op or a `_Call` and the numbers of the inputs.
_Row = tuple[Any, ...]

#: A function: the rows that those before it do not have, its name, parameters, results and attributes.
_Section = tuple[list[_Row], str, tuple[int, ...], tuple[int, ...], dict[str, Attribute]]


class _Writer:
    """Numbers values and functions in the order of their rows and sections."""

    def __init__(self) -> None:
        self.values: dict[Value, int] = {}
        self.functions: dict[int, int] = {}

    def rows(self, values: Iterable[Value]) -> list[_Row]:
        """Rows for all values reached that have none yet."""
        rows = []
        for value in toposort(values):
            if value not in self.values:
                self.values[value] = len(self.values)
                rows.append(tuple(self._field(value, name) for name in _fields()))
        return rows

    def sections(self, functions: Iterable[Function]) -> list[_Section]:
        """Sections for functions in an order in which callees come first."""
        sections = []
        for function in functions:
            rows = self.rows((*function.params, *function.results))
            params, results = (tuple(self.values[v] for v in group) for group in (function.params, function.results))
            sections.append((rows, function.name, params, results, dict(function.attrs)))
            self.functions[id(function)] = len(self.functions)
        return sections

    def _field(self, value: Value, name: str) -> Any:
        if name == "inputs":
            return tuple(self.values[v] for v in value.inputs)
        if name == "op":
            given = tuple(value.op.attributes().values())
            found = _mapped(given, Function, lambda f: _Reference(self.functions[id(f)]))
            return value.op if found is given else _Call(type(value.op), found)
        return getattr(value, name)


class _Reader:
    """Makes values and functions again, in the same order."""

    def __init__(self, sections: Iterable[_Section]) -> None:
        self.values: list[Value] = []
        self.functions: list[Function] = []
        for rows, name, params, results, attrs in sections:
            self.add(rows)
            self.functions.append(Function(name, self._chosen(params), self._chosen(results), attrs))

    def add(self, rows: Iterable[_Row]) -> None:
        """Make the values of rows."""
        for row in rows:
            named = dict(zip(_fields(), row, strict=True))
            named["inputs"] = self._chosen(named["inputs"])
            if isinstance(op := named["op"], _Call):
                named["op"] = op.kind(*_mapped(op.attributes, _Reference, lambda r: self.functions[r.number]))
            self.values.append(Value(**named))

    def _chosen(self, numbers: Iterable[int]) -> tuple[Value, ...]:
        return tuple(self.values[number] for number in numbers)


def _mapped(attribute: Any, kind: type, change: Callable[[Any], object]) -> Any:
    """An attribute with everything of a kind in it changed; itself if there is nothing."""
    if isinstance(attribute, kind):
        return change(attribute)
    if isinstance(attribute, tuple):
        items = tuple(_mapped(item, kind, change) for item in attribute)
        return attribute if all(a is b for a, b in zip(items, attribute, strict=True)) else items
    return attribute


@cache
def _fields() -> tuple[str, ...]:
    return tuple(field.name for field in fields(Value))


def _reduce_function(function: Function) -> tuple[Any, ...]:
    return _function, (_Writer().sections(reached((function,))),)


def _function(sections: list[_Section]) -> Function:
    return _Reader(sections).functions[-1]


def _reduce_module(module: IRModule) -> tuple[Any, ...]:
    writer = _Writer()
    sections = writer.sections(reached(module.functions))
    return _module, (sections, tuple(writer.functions[id(f)] for f in module.functions), dict(module.attrs))


def _module(sections: list[_Section], numbers: tuple[int, ...], attrs: dict[str, Attribute]) -> IRModule:
    functions = _Reader(sections).functions
    return IRModule(tuple(functions[number] for number in numbers), attrs)


def _reduce_value(value: Value) -> tuple[Any, ...]:
    writer = _Writer()
    sections = writer.sections(reached(called_by(toposort((value,)))))
    rows = writer.rows((value,))
    return _value, (sections, rows, writer.values[value])


def _value(sections: list[_Section], rows: list[_Row], number: int) -> Value:
    reader = _Reader(sections)
    reader.add(rows)
    return reader.values[number]


copyreg.pickle(Function, _reduce_function)
copyreg.pickle(IRModule, _reduce_module)
copyreg.pickle(Value, _reduce_value)
