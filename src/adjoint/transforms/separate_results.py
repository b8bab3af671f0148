"""Make the results of a function distinct values that it computes.

Before::

    func @main(%x: f32[2]) -> (f32[2], f32[2], f32[2]) {
      %y: f32[2] = exp(%x)
      return %x, %y, %y
    }

After::

    func @main(%x: f32[2]) -> (f32[2], f32[2], f32[2]) {
      %0: f32[2] = stop_gradient(%x)
      %y: f32[2] = exp(%x)
      %2: f32[2] = stop_gradient(%y)
      return %0, %y, %2
    }

Compiled code gives every result a place of its own, so a result that is a parameter or another result is copied.

A result that is written over a parameter (attribute ``donate``) is copied too where other values read it. So nothing
ever reads the new contents of such a place, and to order kernels it is enough that all readers of the old ones come
before the update. The copy costs nothing where it is made beside the value, from the register that holds it.
"""

from typing import Any

from adjoint.errors import located
from adjoint.ir import Function, Value, is_param
from adjoint.ops import stop_gradient

__all__ = ["separate_results"]


def separate_results(function: Function) -> Function:
    """Insert an identity for results that are parameters, repeated, or donated and also read by other values."""
    pairs: Any = function.attrs.get("donate", ())
    donated = {index for _, index in pairs}
    read = {operand for value in function.values() for operand in value.inputs}
    seen: set[Value] = set()
    results = []
    for index, value in enumerate(function.results):
        made = value
        with located(value.line):
            if is_param(value) or value in seen:
                made = stop_gradient(value)
            elif index in donated and value in read:
                made = stop_gradient(value).named(value.label)
        seen.add(made)
        results.append(made)
    return Function(function.name, function.params, tuple(results), function.attrs)
