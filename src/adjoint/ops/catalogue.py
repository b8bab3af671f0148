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
    decompositions,
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
            powers.Power,
            powers.Square,
            powers.Sqrt,
            powers.Rsqrt,
            powers.Reciprocal,
            piecewise.Maximum,
            piecewise.Minimum,
            piecewise.Abs,
            piecewise.Sign,
            piecewise.Clip,
        ),
        "rounding": (
            piecewise.Floor,
            piecewise.Round,
        ),
        "exponential": (
            transcendental.Exp,
            transcendental.Expm1,
            special.Exp2,
            transcendental.Log,
            transcendental.Log1p,
            special.Log2,
        ),
        "trigonometric": (
            transcendental.Sin,
            transcendental.Cos,
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
            transcendental.Tanh,
        ),
        "special": (
            transcendental.Erf,
            special.Erfc,
            special.Erfinv,
            special.Lgamma,
            special.Polygamma,
        ),
        "activation": (
            piecewise.Relu,
            transcendental.Sigmoid,
            gaussian.Gelu,
        ),
        "comparison": (
            logic.Equal,
            logic.NotEqual,
            logic.Less,
            logic.LessEqual,
            logic.Greater,
            logic.GreaterEqual,
        ),
        "logic": (
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
        "conversion": (
            convert.Cast,
            convert.StopGradient,
            convert.CheckRange,
            convert.After,
        ),
        "creation": (
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
        "reduction": (
            shape.ReduceSum,
            reduce.ReduceMax,
            reduce.ReduceMin,
            reduce.ReduceProd,
            reduce.ArgMax,
            sizes.Count,
            centred.CentredSquares,
            centred.SumExp,
            present.PresentSum,
            present.PresentSquares,
        ),
        "cumulative": (
            cumulative.CumSum,
            cumulative.CumProd,
            cumulative.CumMax,
            cumulative.CumMin,
            recurrence.LinearRecurrence,
        ),
        "normalization": (centred.Normalize,),
        "contraction": (contract.MatMul,),
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
        "indexing": (
            index.OneHot,
            index.Take,
            index.TakeAlong,
            index.ScatterAdd,
            scattering.Gather,
            scattering.Scatter,
            dynamic.DynamicSlice,
            dynamic.DynamicUpdateSlice,
        ),
        "ordering": (
            sorting.ArgSort,
            sorting.SearchSorted,
        ),
        "linear algebra": (
            factorizations.Cholesky,
            factorizations.SolveTriangular,
            factorizations.Solve,
            factorizations.Determinant,
            decompositions.OrthonormalFactor,
            decompositions.SymmetricEigen,
            decompositions.SingularValues,
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
