"""Forward-mode differentiation of a whole function, graph to graph: the derivative along a direction.

Before::

    func @main(%x: f32[3], %w: f32[3]) -> f32[] {
      %y: f32[3] = multiply(%x, %w)
      %1: f32[3] = sin(%y)
      %2: f32[] = sum(%1) {axes = (0,), keepdims = False}
      return %2
    }

After::

    func @jvp_main(%x: f32[3], %w: f32[3], %t_x: f32[3], %t_w: f32[3]) -> (f32[], f32[]) {
      %y: f32[3] = multiply(%x, %w)
      %1: f32[3] = sin(%y)
      %2: f32[] = sum(%1) {axes = (0,), keepdims = False}
      %3: f32[3] = multiply(%t_w, %x)
      %4: f32[3] = multiply(%t_x, %w)
      %y_tangent: f32[3] = add(%3, %4)
      %6: f32[3] = cos(%y)
      %7: f32[3] = multiply(%y_tangent, %6)
      %8: f32[] = sum(%7) {axes = (0,), keepdims = False}
      %9: f32[1] = reshape(%8) {shape = (1,)}
      %10: f32[] = reshape(%9) {shape = ()}
      return %2, %10
    }

How: the function of `adjoint.transforms.differentiate.vjp` is linear in the cotangents, so its own vjp with respect to
them is the transpose of the transpose: the derivative itself, in which the cotangents no longer occur. Operators need
no rule of their own for it, only a vjp whose derivative with respect to the cotangent is right, which higher
derivatives need anyway. The backward pass in between is discarded, because no result depends on it. The construction is
from J. Townsend, "A new trick for calculating Jacobian vector products", 2017.

In a function with loops or branches, that is the rule for single operators only (`adjoint.transforms.forward_mode`).
"""

from collections.abc import Sequence

from adjoint.errors import located
from adjoint.ir import Function, Value, param, rebuild
from adjoint.ir.function import reached
from adjoint.ops.calls import CustomCall
from adjoint.ops.control import is_control
from adjoint.ops.create import full
from adjoint.transforms.differentiate import Chosen, chosen_params, chosen_results, unused_prefix, vjp
from adjoint.transforms.forward_mode import forward_mode

__all__ = ["jvp"]

#: What the label of a value ends with after two differentiations, the second of which is the transpose of the first.
_TWICE = "_adjoint_adjoint"


def jvp(
    function: Function, wrt: Chosen = None, results: int | Sequence[int] | None = None, name: str | None = None
) -> Function:
    """Add the derivatives of results along a direction, given by tangents of parameters, to a function.

    Parameters
    ----------
    function : Function
        The function to differentiate.
    wrt : str, int or sequence of them, optional
        Parameters whose tangents are given, by name or position; default: all float parameters. Those of the others
        are zeros.
    results : int or sequence of int, optional
        Results whose tangents are computed; default: all float results.
    name : str, optional
        Name of the new function; default: ``jvp_<name>``.

    Returns
    -------
    Function
        Its parameters are those of `function`, followed by a tangent ``t_<name>`` for each of `wrt`, of its type. Its
        results are the original ones, followed by one tangent for each of `results`, of its type; zeros if the result
        does not depend on `wrt`.

    Raises
    ------
    TypeRuleError, NameLookupError, InvalidValueError, DifferentiationError
        As for `adjoint.transforms.vjp`.
    """
    inside = [v for f in reached((function,)) for v in f.values()]
    # A derivative of its own is one in reverse mode, so that of a function with one is transposed.
    if any(map(is_control, inside)) and not any(isinstance(v.op, CustomCall) for v in inside):
        return _along_loops(function, wrt, results, name or f"jvp_{function.name}")
    wanted = chosen_params(function, wrt)
    given = chosen_results(function, results)
    made = name or f"jvp_{function.name}"
    backward = vjp(function, [p.label for p in wanted], given, made)
    cotangents = backward.params[len(function.params) :]
    forward = vjp(backward, [ct.label for ct in cotangents], name=made)
    prefix = unused_prefix(function, "t_")
    tangents = tuple(param(f"{prefix}{p.label}", p.shape, p.dtype) for p in wanted)
    known: dict[Value, Value] = dict(zip(forward.params[len(backward.params) :], tangents, strict=True))
    for ct in cotangents:
        # The derivative of a linear function is the same everywhere, so this passes cotangents only on to calls, whose
        # callees do not read them.
        with located(ct.line):
            known[ct] = full(0.0, ct.shape, ct.dtype)
    labels = {f"{ct.label}_adjoint": function.results[i].label for i, ct in zip(given, cotangents, strict=True)}

    def labelled(value: Value, inputs: tuple[Value, ...]) -> Value | None:
        """The tangent of ``%x`` is labelled ``%x_tangent``."""
        own = labels.get(value.label, value.label.removesuffix(_TWICE))
        if own == value.label:
            return None
        return value.with_inputs(inputs).named(f"{own}_tangent" if own else "")

    found = rebuild(forward.results, labelled, known)
    return Function(made, (*function.params, *tangents), (*function.results, *found), function.attrs)


def _along_loops(function: Function, wrt: Chosen, results: int | Sequence[int] | None, name: str) -> Function:
    """The same for a function with loops or branches, which need not be differentiable backwards."""
    wanted = chosen_params(function, wrt)
    given = chosen_results(function, results)
    prefix = unused_prefix(function, "t_")
    tangents = {p: param(f"{prefix}{p.label}", p.shape, p.dtype) for p in wanted}
    primal, found = forward_mode(function, tangents, lambda one, params: jvp(one, params))
    derivatives = []
    for i in given:
        tangent = found[i]
        derivatives.append(full(0.0, primal[i].shape, primal[i].dtype) if tangent is None else tangent)
    return Function(name, (*function.params, *tangents.values()), (*primal, *derivatives), function.attrs)
