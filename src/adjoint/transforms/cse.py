"""Common subexpression elimination: values with the same operator and the same operands become one.

Before::

    func @main(%x: f32[3], %y: f32[3]) -> f32[3] {
      %a: f32[3] = multiply(%x, %y)
      %1: f32[3] = exp(%a)
      %b: f32[3] = multiply(%x, %y)
      %3: f32[3] = exp(%b)
      %4: f32[3] = add(%1, %3)
      return %4
    }

After::

    func @main(%x: f32[3], %y: f32[3]) -> f32[3] {
      %a: f32[3] = multiply(%x, %y)
      %1: f32[3] = exp(%a)
      %4: f32[3] = add(%1, %1)
      return %4
    }
"""

from collections.abc import Hashable

from adjoint.ir import Function, Value, is_param, rebuild

__all__ = ["cse"]


def cse(function: Function) -> Function:
    """Merge structurally equal values.

    Parameters
    ----------
    function : Function
        Any function. Functions that it calls are unchanged; equal calls are merged.

    Returns
    -------
    Function
        Same name, parameters, attributes and bitwise equal results: 0.0 is not merged with -0.0. A single traversal,
        with a table keyed by operator, attributes and inputs.
    """
    table: dict[Hashable, Value] = {}

    def replace(value: Value, inputs: tuple[Value, ...]) -> Value | None:
        if is_param(value):
            return None
        key = (value.op.key(), inputs)
        found = table.get(key)
        if found is None:
            found = table[key] = value.with_inputs(inputs)
        return found

    return Function(function.name, function.params, rebuild(function.results, replace), function.attrs)
