"""Flatten calls: every body that is called takes the place of its call.

Before::

    func @scale(%v: f32[3], %by: f32[3]) -> (f32[3], f32[]) {
      %w: f32[3] = multiply(%v, %by)
      %1: f32[] = sum(%w) {axes = (0,), keepdims = False}
      return %w, %1
    }

    func @main(%x: f32[3]) -> f32[3] {
      %0: (f32[3], f32[]) = call(%x, %x) {callee = @scale}
      %1: f32[3] = tuple_get(%0) {index = 0}
      return %1
    }

After ``inline_calls(main)``::

    func @main(%x: f32[3]) -> f32[3] {
      %w: f32[3] = multiply(%x, %x)
      return %w
    }
"""

from adjoint.ir import Function, Value, closure, rebuild
from adjoint.ops.calls import Call, TupleGet

__all__ = ["inline_calls"]


def inline_calls(function: Function) -> Function:
    """The function without calls.

    Parameters
    ----------
    function : Function
        Its callees may call others, as deeply as they like.

    Returns
    -------
    Function
        The same name, parameters, attributes and meaning. A body that is called n times is there n times; `cse`
        merges what is the same in them.
    """
    flat: dict[Function, tuple[Value, ...]] = {}
    for callee in closure((function,)):
        flat[callee] = _flatten(callee, flat)
    results = flat[function]
    if all(a is b for a, b in zip(results, function.results, strict=True)):
        return function
    return Function(function.name, function.params, results, function.attrs)


def _flatten(function: Function, flat: dict[Function, tuple[Value, ...]]) -> tuple[Value, ...]:
    """The results of a function whose callees are flat already."""
    items: dict[Value, tuple[Value, ...]] = {}

    def replace(value: Value, inputs: tuple[Value, ...]) -> Value | None:
        if isinstance(value.op, TupleGet):
            return items[value.inputs[0]][value.op.index]
        if not isinstance(value.op, Call):
            return None
        callee = value.op.callee
        made = rebuild(flat[callee], lambda _value, _inputs: None, dict(zip(callee.params, inputs, strict=True)))
        if len(made) == 1:
            return made[0]
        items[value] = made
        return None  # the tuple itself: only tuple_get uses it, and that is replaced

    return rebuild(function.results, replace)
