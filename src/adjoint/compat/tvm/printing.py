"""Graphs as TVMScript.

Operators that Relax has in the same form have its names. All others are ``R.adjoint("name", operands, attributes)``,
which the parser reads too, so that every graph without loops and calls survives printing and parsing.
"""

from typing import Any

import numpy as np

from adjoint.compat.uncovered import uncovered
from adjoint.errors import TypeRuleError
from adjoint.ir import Function, TensorType, Value
from adjoint.ir.printer import value_names

__all__ = ["function_text", "module_text"]
__getattr__ = uncovered(__name__, {}, "adjoint.ir.printer")

#: Operators with the same name and operands, and no attributes.
_SAME = {
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "divide", "equal", "erf",
    "exp", "floor", "greater", "greater_equal", "less", "less_equal", "log", "maximum", "minimum", "multiply",
    "negative", "not_equal", "power", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "square", "subtract",
    "tan", "tanh", "where",
}  # fmt: skip
#: Those of ``R.nn``.
_NETWORK = {"relu", "silu"}


def module_text(functions: dict[str, tuple[Function, Any]], attrs: dict[str, Any], name: str = "Module") -> str:
    """A module.

    Parameters
    ----------
    functions : dict of str to (Function, outputs)
        The graphs, and how their results form tuples.
    attrs : dict
        Attributes of the module.
    name : str
        Name of the class.
    """
    lines = ["@I.ir_module", f"class {name}:"]
    if attrs:
        lines.append(f"    I.module_attrs({attrs!r})\n")
    texts = ["\n".join(_lines(graph, outputs)) for graph, outputs in functions.values()]
    return "\n".join(lines) + "\n" + "\n\n".join(texts) + "\n"


def function_text(graph: Function, outputs: Any) -> str:
    """A function by itself."""
    return "\n".join(line.removeprefix("    ") for line in _lines(graph, outputs)) + "\n"


def _lines(graph: Function, outputs: Any) -> list[str]:
    names = {value: _word(name.removeprefix("%")) for value, name in value_names(graph).items()}
    names |= {value: names[value.inputs[0]] for value in _implied(graph)}
    params = ", ".join(f"{names[p]}: {_type(p.type)}" for p in graph.params)
    returned = _nested(outputs, [names[result] for result in graph.results])
    info = _nested(outputs, [_type(result.type) for result in graph.results], "R.Tuple")
    lines = ["    @R.function", f"    def {graph.name}({params}) -> {info}:", "        with R.dataflow():"]
    inner = set(graph.params)
    implied = set(_implied(graph))
    body = [value for value in graph.values() if value not in inner and value not in implied]
    for value in body:
        lines.append(f"            {names[value]}: {_type(value.type)} = {_call(value, names)}")
    kept = dict.fromkeys(names[result] for result in graph.results if result not in inner)
    lines.append(f"            R.output({', '.join(kept)})")
    return [*lines, f"        return {returned}"] if body else [*lines[:2], f"        return {returned}"]


def _implied(graph: Function) -> list[Value]:
    """Broadcasts that operators imply: of values with a single use, in an operator that broadcasts."""
    uses: dict[Value, list[Value]] = {}
    for value in graph.values():
        for operand in value.inputs:
            uses.setdefault(operand, []).append(value)
    return [
        value
        for value in graph.values()
        if value.op.name == "broadcast_to"
        and value not in graph.results
        and [user.op.name in _SAME and len(user.inputs) == 2 for user in uses.get(value, ())] == [True]
        and _broadcasts(value, uses[value][0])
    ]


def _broadcasts(value: Value, user: Value) -> bool:
    """Whether the user would broadcast what is broadcast here: its other operand has the whole shape."""
    other = user.inputs[1] if user.inputs[0] is value else user.inputs[0]
    return other is not value and other.shape == value.shape and other.op.name != "broadcast_to"


def _call(value: Value, names: dict[Value, str]) -> str:
    name, attributes = value.op.name, value.op.attributes()
    operands = [names[x] for x in value.inputs]
    if name == "constant":
        operator: Any = value.op
        array = operator.reference()
        return f"R.const({array.tolist()!r}, {str(array.dtype)!r})"
    if name in _SAME or name in _NETWORK:
        return f"R.{'nn.' if name in _NETWORK else ''}{name}({', '.join(operands)})"
    if name == "matmul" and not any(attributes.values()):
        return f"R.matmul({', '.join(operands)})"
    if any(isinstance(one, Function) for one in attributes.values()):
        raise TypeRuleError(
            f"script: calls and loops have no form in TVMScript, got {name}; print the module with str()"
        )
    settings = [f"{key}={_literal(one)}" for key, one in attributes.items()]
    return f"R.adjoint({', '.join([repr(name), *operands, *settings])})"


def _literal(attribute: Any) -> str:
    if isinstance(attribute, TensorType):
        return _type(attribute)
    return repr(str(attribute)) if isinstance(attribute, np.dtype) else repr(attribute)


def _type(type_: Any) -> str:
    if not isinstance(type_, TensorType):
        return f"R.Tuple({', '.join(map(_type, type_.items))})"
    return f'R.Tensor({type_.shape}, dtype="{type_.dtype}")'


def _nested(outputs: Any, items: list[str], make: str = "") -> str:
    if isinstance(outputs, int):
        return items[outputs]
    inner = [_nested(one, items, make) for one in outputs]
    return f"{make}({', '.join(inner)}{',' if len(inner) == 1 and not make else ''})"


def _word(name: str) -> str:
    """A name as an identifier: values without one have numbers."""
    return name.replace(".", "_") if name.isidentifier() else f"lv{name.replace('.', '_')}"
