"""Algebraic simplification: fewer operators that compute the same results, to the bit.

Before::

    func @main(%x: f32[2,3], %w: f32[4,3]) -> f32[2,4] {
      %one: f32[] = full() {value = 1.0, shape = (), dtype = f32}
      %1: f32[2,3] = broadcast_to(%one) {shape = (2, 3)}
      %2: f32[2,3] = multiply(%x, %1)
      %t: f32[3,4] = permute(%w) {axes = (1, 0)}
      %y: f32[2,4] = matmul(%2, %t) {transpose_a = False, transpose_b = False}
      %5: f32[2,4] = negative(%y)
      %6: f32[2,4] = add(%5, %y)
      return %6
    }

After::

    func @main(%x: f32[2,3], %w: f32[4,3]) -> f32[2,4] {
      %y: f32[2,4] = matmul(%x, %w) {transpose_a = False, transpose_b = True}
      %6: f32[2,4] = subtract(%y, %y)
      return %6
    }

Floats are not numbers, so ``x * 0`` stays (x may be NaN), ``x + 0.0`` stays (x may be -0.0) and sums are not
reordered. Two exceptions: the payload and sign of a NaN, which are unspecified, and powers by 2 and -1 (see
`small_power`).
"""

from collections.abc import Mapping
from types import MappingProxyType

from adjoint.ir import Function, Op, Value, rebuild
from adjoint.ops import arithmetic, contract, convert, convolution, logic, piecewise, powers, shape, sizes
from adjoint.transforms import rewrites
from adjoint.transforms.rewrites import Rule

__all__ = ["RULES", "simplify"]

#: The rules of each operator, in the order in which they are tried; the first that applies is used.
RULES: Mapping[type[Op], tuple[Rule, ...]] = MappingProxyType(
    {
        arithmetic.Add: (rewrites.fold, rewrites.add_nothing, rewrites.add_negative),
        arithmetic.Subtract: (rewrites.fold, rewrites.subtract_nothing, rewrites.subtract_negative),
        arithmetic.Multiply: (
            rewrites.fold,
            rewrites.multiply_by_one,
            rewrites.multiply_by_minus_one,
            rewrites.multiply_negatives,
            rewrites.multiply_same,
        ),
        arithmetic.Divide: (rewrites.fold, rewrites.divide_by_one, rewrites.divide_by_power_of_two),
        arithmetic.Negative: (rewrites.fold, rewrites.twice_is_nothing),
        powers.Power: (rewrites.small_power,),
        powers.Square: (rewrites.fold, rewrites.sign_is_lost),
        powers.Sqrt: (rewrites.fold,),
        powers.Reciprocal: (rewrites.fold,),
        piecewise.Abs: (rewrites.fold, rewrites.sign_is_lost, rewrites.twice_is_once),
        piecewise.Relu: (rewrites.twice_is_once,),
        piecewise.Floor: (rewrites.fold,),
        piecewise.Maximum: (rewrites.same_operands,),
        piecewise.Minimum: (rewrites.same_operands,),
        logic.Equal: (rewrites.fold,),
        logic.NotEqual: (rewrites.fold,),
        logic.Less: (rewrites.fold,),
        logic.LessEqual: (rewrites.fold,),
        logic.Greater: (rewrites.fold,),
        logic.GreaterEqual: (rewrites.fold,),
        logic.LogicalAnd: (rewrites.fold, rewrites.same_operands),
        logic.LogicalOr: (rewrites.fold, rewrites.same_operands),
        logic.LogicalXor: (rewrites.fold,),
        logic.LogicalNot: (rewrites.fold, rewrites.twice_is_nothing),
        logic.Where: (rewrites.where_known, rewrites.where_not, rewrites.where_again),
        convert.Cast: (rewrites.fold, rewrites.same_type, rewrites.cast_twice),
        sizes.Count: (rewrites.count_known,),
        shape.BroadcastTo: (
            rewrites.same_type,
            rewrites.view_of_constant,
            rewrites.broadcast_twice,
            rewrites.broadcast_leading_ones,
        ),
        shape.Reshape: (rewrites.same_type, rewrites.view_of_constant, rewrites.reshape_twice),
        shape.Permute: (rewrites.permute_nothing, rewrites.view_of_constant, rewrites.permute_twice),
        shape.Slice: (rewrites.same_type, rewrites.view_of_constant),
        shape.Pad: (rewrites.same_type, rewrites.pad_twice),
        shape.Flip: (rewrites.view_of_constant,),
        contract.MatMul: (rewrites.matmul_of_transposed,),
        convolution.Conv2d: (rewrites.pad_before,),
        convolution.Conv2dWeightGradient: (rewrites.pad_before,),
        convolution.Conv3d: (rewrites.pad_before,),
        convolution.Conv3dWeightGradient: (rewrites.pad_before,),
    }
)


def simplify(function: Function) -> Function:
    """Rewrite by `RULES` until none applies.

    Parameters
    ----------
    function : Function
        Any function. Functions that it calls are unchanged; to simplify those too, run `inline_calls` first.

    Returns
    -------
    Function
        Same name, parameters, attributes and meaning. A single traversal, inputs before users.
    """

    def replace(value: Value, inputs: tuple[Value, ...]) -> Value:
        current = value.with_inputs(inputs)
        while True:
            made = _rewritten(current)
            if made is None:
                return current
            current = made

    return Function(function.name, function.params, rebuild(function.results, replace), function.attrs)


def _rewritten(value: Value) -> Value | None:
    """The value after the first rule that applies, or None."""
    for rule in RULES.get(type(value.op), ()):
        made = rule(value)
        if made is not None:
            return made
    return None
