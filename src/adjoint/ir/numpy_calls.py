"""What NumPy does with a graph value: its operators beside an array build graphs, its functions are refused."""

from importlib import import_module
from typing import Any

import numpy as np

from adjoint.errors import TypeRuleError

__all__ = ["called_by_numpy", "refused_by_numpy"]

#: For each operator, by the name of NumPy's function, the method of the value that Python calls for ``array * value``.
_REFLECTED = {
    "add": "__radd__",
    "subtract": "__rsub__",
    "multiply": "__rmul__",
    "divide": "__rtruediv__",
    "floor_divide": "__rfloordiv__",
    "power": "__rpow__",
    "matmul": "__rmatmul__",
    "bitwise_and": "__rand__",
    "bitwise_or": "__ror__",
    "bitwise_xor": "__rxor__",
    "less": "__gt__",
    "less_equal": "__ge__",
    "greater": "__lt__",
    "greater_equal": "__le__",
}

#: ``array == value`` and ``array != value``, which compare objects, as ``value == array`` does.
_OF_OBJECTS = {"equal": False, "not_equal": True}

#: Functions of `adjoint.ops` that have another name in NumPy.
_RENAMED = {
    "absolute": "abs",
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
    "bitwise_xor": "logical_xor",
    "concatenate": "concat",
    "divide": "true_divide",
    "invert": "logical_not",
    "var": "variance",
}


def called_by_numpy(value: Any, ufunc: Any, method: str, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """The result of an operator of NumPy beside a graph value; the protocol of ``__array_ufunc__``.

    NumPy calls it for its operators and its functions alike, so ``numpy.multiply(array, value)`` is ``array * value``.

    Raises
    ------
    TypeRuleError
        For any other function, with that of `adjoint.ops` in the message, and for ``array += value``.
    """
    name = ufunc.__name__
    beside = len(inputs) == 2 and inputs[1] is value and isinstance(inputs[0], np.ndarray | np.generic)
    if settings.get("out"):
        raise TypeRuleError(
            f"an array cannot take the result of numpy.{name} with a graph value, got {value.type}; write "
            "total = total + x instead of total += x"
        )
    if method == "__call__" and beside and not settings:
        if name in _REFLECTED:
            return getattr(value, _REFLECTED[name])(inputs[0])
        if name in _OF_OBJECTS:
            return _OF_OBJECTS[name]
    raise refused_by_numpy(value, name if method == "__call__" else f"{name}.{method}", len(inputs))


def refused_by_numpy(value: Any, name: str, operands: int = 0) -> TypeRuleError:
    """The error for a function of NumPy that was called with a graph value.

    Parameters
    ----------
    value : Value
        The graph value.
    name : str
        Name of the function in NumPy.
    operands : int, default 0
        Number of its operands, which the fix then shows.
    """
    own = _RENAMED.get(name, name)
    fix = "use the functions of adjoint.ops or the methods of the value"
    if own in import_module("adjoint.ops").__all__:
        fix = f"use ops.{own}" + f"({', '.join(('x', 'y', 'z')[:operands])})" * bool(operands)
        methods = [each for each in (own, name) if callable(getattr(type(value), each, None))]
        if methods and operands < 2:
            fix += f" or x.{methods[0]}" + "()" * operands
    return TypeRuleError(f"numpy.{name} does not take graph values, got {value.type}; {fix}")
