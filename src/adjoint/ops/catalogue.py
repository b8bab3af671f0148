"""CATALOGUE: an explicit list of all operators, used by the contract tests and the parser."""

from collections.abc import Mapping
from itertools import chain
from types import MappingProxyType

from adjoint.ops import (
    arithmetic,
    attention,
    attention_gradients,
    bitwise,
    calls,
    centred,
    contract,
    control,
    convert,
    convolution,
    create,
    cumulative,
    dynamic,
    factorizations,
    gaussian,
    index,
    logic,
    piecewise,
    pooling,
    powers,
    present,
    recurrence,
    reduce,
    scattering,
    shape,
    sizes,
    sorting,
    special,
    threefry,
    transcendental,
    trigonometric,
    window_places,
)
from adjoint.ops.base import Operator

__all__ = ["CATALOGUE", "FAMILIES", "OPERATORS"]

#: Operator classes by family.
FAMILIES: Mapping[str, tuple[type[Operator], ...]] = MappingProxyType(
    {
        "arithmetic": (
            arithmetic.Add,
            arithmetic.Subtract,
            arithmetic.Multiply,
            arithmetic.Divide,
            arithmetic.Negative,
        ),
        "powers": (
            powers.Power,
            powers.Square,
            powers.Sqrt,
            powers.Rsqrt,
            powers.Reciprocal,
        ),
        "piecewise": (
            piecewise.Maximum,
            piecewise.Minimum,
            piecewise.Abs,
            piecewise.Sign,
            piecewise.Relu,
            piecewise.Clip,
            piecewise.Floor,
            piecewise.Round,
        ),
        "transcendental": (
            transcendental.Exp,
            transcendental.Expm1,
            transcendental.Log,
            transcendental.Log1p,
            transcendental.Tanh,
            transcendental.Sigmoid,
            transcendental.Sin,
            transcendental.Cos,
            transcendental.Erf,
        ),
        "trigonometric": (
            trigonometric.Tan,
            trigonometric.Asin,
            trigonometric.Acos,
            trigonometric.Atan,
            trigonometric.Atan2,
            trigonometric.Sinh,
            trigonometric.Cosh,
            trigonometric.Asinh,
            trigonometric.Acosh,
            trigonometric.Atanh,
        ),
        "special": (
            special.Exp2,
            special.Log2,
            special.Erfc,
            special.Erfinv,
            special.Lgamma,
            special.Polygamma,
        ),
        "gaussian": (gaussian.Gelu,),
        "logic": (
            logic.Equal,
            logic.NotEqual,
            logic.Less,
            logic.LessEqual,
            logic.Greater,
            logic.GreaterEqual,
            logic.LogicalAnd,
            logic.LogicalOr,
            logic.LogicalXor,
            logic.LogicalNot,
            logic.Where,
        ),
        "bitwise": (
            bitwise.BitwiseAnd,
            bitwise.BitwiseOr,
            bitwise.BitwiseXor,
            bitwise.BitwiseNot,
            bitwise.LeftShift,
            bitwise.RightShift,
        ),
        "convert": (
            convert.Cast,
            convert.StopGradient,
            convert.CheckRange,
            convert.After,
        ),
        "create": (
            create.Full,
            create.Iota,
            create.Constant,
        ),
        "shape": (
            shape.BroadcastTo,
            shape.Reshape,
            shape.Permute,
            shape.Flip,
            shape.Slice,
            shape.Pad,
            shape.Concat,
        ),
        "reduce": (
            shape.ReduceSum,
            reduce.ReduceMax,
            reduce.ReduceMin,
            reduce.ReduceProd,
            reduce.ArgMax,
        ),
        "sizes": (sizes.Count,),
        "cumulative": (
            cumulative.CumSum,
            cumulative.CumProd,
            cumulative.CumMax,
            cumulative.CumMin,
            recurrence.LinearRecurrence,
        ),
        "centred": (
            centred.CentredSquares,
            centred.Normalize,
            centred.SumExp,
        ),
        "present": (
            present.PresentSum,
            present.PresentSquares,
        ),
        "contract": (contract.MatMul,),
        "attention": (
            attention.Attention,
            attention.AttentionLogSum,
            attention_gradients.AttentionQueryGradient,
            attention_gradients.AttentionKeyGradient,
            attention_gradients.AttentionValueGradient,
        ),
        "convolution": (
            convolution.Conv2d,
            convolution.Conv2dWeightGradient,
            convolution.ConvTranspose2d,
            convolution.Conv3d,
            convolution.Conv3dWeightGradient,
            convolution.ConvTranspose3d,
        ),
        "pooling": (
            pooling.MaxPool2d,
            pooling.SumPool2d,
            window_places.WindowArgMax,
            window_places.WindowPick,
            window_places.WindowSpread,
        ),
        "index": (
            index.OneHot,
            index.Take,
            index.TakeAlong,
            index.ScatterAdd,
            scattering.Gather,
            scattering.Scatter,
            dynamic.DynamicSlice,
            dynamic.DynamicUpdateSlice,
        ),
        "sorting": (
            sorting.ArgSort,
            sorting.SearchSorted,
        ),
        "linalg": (
            factorizations.Cholesky,
            factorizations.SolveTriangular,
            factorizations.Solve,
            factorizations.Determinant,
        ),
        "random": (
            threefry.Threefry,
            threefry.RandomBits,
        ),
    }
)

#: Every operator class.
CATALOGUE: tuple[type[Operator], ...] = tuple(chain.from_iterable(FAMILIES.values()))

_NAMED: tuple[type[Operator], ...] = (
    *CATALOGUE,
    calls.Call,
    calls.CustomCall,
    calls.TupleGet,
    control.Scan,
    control.Branch,
    control.While,
)

#: Operators by their name in graph text: those of CATALOGUE and those that hold functions, which transforms
#: handle separately.
OPERATORS: Mapping[str, type[Operator]] = MappingProxyType({op.name: op for op in _NAMED})
