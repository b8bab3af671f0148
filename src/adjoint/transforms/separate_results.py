"""Make the results of a function distinct values that it computes.

Before::

    func @f(%x: f32[2]) -> (f32[2], f32[2], f32[2]) {
      %y: f32[2] = exp(%x)
      return %x, %y, %y
    }

After::

    func @f(%x: f32[2]) -> (f32[2], f32[2], f32[2]) {
      %0: f32[2] = stop_gradient(%x)
      %y: f32[2] = exp(%x)
      %2: f32[2] = stop_gradient(%y)
      return %0, %y, %2
    }

Compiled code gives every result a place of its own, so a result that is a parameter or another result is copied.
"""

from adjoint.ir import Function, Value, is_param
from adjoint.ops import stop_gradient

__all__ = ["separate_results"]


def separate_results(function: Function) -> Function:
    """Put an identity behind results that are parameters or come twice."""
    seen: set[Value] = set()
    results = []
    for value in function.results:
        made = stop_gradient(value) if is_param(value) or value in seen else value
        seen.add(made)
        results.append(made)
    return Function(function.name, function.params, tuple(results), function.attrs)
