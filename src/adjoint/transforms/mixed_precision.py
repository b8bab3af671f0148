"""Mixed precision: products in half floats, what needs the range or the digits in f32.

Before::

    func @main(%x: f32[2,3], %w: f32[3,4], %b: f32[4]) -> f32[2,4] {
      %0: f32[2,4] = matmul(%x, %w) {transpose_a = False, transpose_b = False}
      %1: f32[2,4] = broadcast_to(%b) {shape = (2, 4)}
      %2: f32[2,4] = add(%0, %1)
      return %2
    }

After, with `MixedPrecision("O1")` and the weights ``w`` and ``b``::

    func @main(%x: f32[2,3], %w: f32[3,4], %b: f32[4]) -> f32[2,4] {
      %0: bf16[2,3] = cast(%x) {dtype = bf16}
      %1: bf16[3,4] = cast(%w) {dtype = bf16}
      %2: bf16[2,4] = matmul(%0, %1) {transpose_a = False, transpose_b = False}
      %3: f32[2,4] = broadcast_to(%b) {shape = (2, 4)}
      %4: bf16[2,4] = cast(%3) {dtype = bf16}
      %5: bf16[2,4] = add(%2, %4)
      %6: f32[2,4] = cast(%5) {dtype = f32}
      return %6
    }

The pass does not preserve bits, so it is no part of the pipeline: `adjoint.SetupTrainer` applies it to a backbone
before the loss is appended and gradients are derived. Parameters stay f32: they are the master weights. The loss and
the optimizer compute in f32, and gradients are those of the casts.
"""

from collections.abc import Iterable

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.ir import DTYPES, Function, TensorType, Value, apply, is_float, is_param, rebuild
from adjoint.ir.types import as_dtype
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.control import on_bodies
from adjoint.ops.convert import Cast, cast
from adjoint.transforms.inline_calls import inline_calls

__all__ = ["MixedPrecision", "mixed_precision"]

_F32 = DTYPES["f32"]

#: How the names of products begin, which add their terms in f32.
_LOW = ("matmul", "conv", "attention")

#: Operators whose result has the dtype of their operands, and is as good in half floats. All others compute in f32.
_FOLLOW = frozenset(
    [
        "abs",
        "add",
        "after",
        "argmax",
        "argsort",
        "broadcast_to",
        "check_range",
        "clip",
        "concat",
        "cos",
        "cummax",
        "cummin",
        "divide",
        "dynamic_slice",
        "dynamic_update_slice",
        "equal",
        "erf",
        "flip",
        "floor",
        "gather",
        "gelu",
        "greater",
        "greater_equal",
        "less",
        "less_equal",
        "max_pool2d",
        "maximum",
        "minimum",
        "multiply",
        "negative",
        "not_equal",
        "one_hot",
        "pad",
        "permute",
        "relu",
        "reshape",
        "round",
        "scatter",
        "searchsorted",
        "sigmoid",
        "sign",
        "sin",
        "slice",
        "stop_gradient",
        "subtract",
        "take_along_last",
        "tanh",
        "where",
        "window_argmax",
        "window_pick",
    ]
)

#: Operators that compute in f32: exponentials, logarithms, powers, inverse functions, sums and linear systems. Each
#: operator is in one of these sets, or a product, so that a new one is classified (`tests/transforms`).
_FULL = frozenset(
    [
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "centred_squares",
        "cholesky",
        "cosh",
        "cumprod",
        "cumsum",
        "determinant",
        "erfc",
        "erfinv",
        "exp",
        "exp2",
        "expm1",
        "lgamma",
        "linear_recurrence",
        "log",
        "log1p",
        "log2",
        "max",
        "min",
        "normalize",
        "orthonormal_factor",
        "polygamma",
        "power",
        "present_squares",
        "present_sum",
        "prod",
        "reciprocal",
        "rsqrt",
        "scatter_add",
        "singular_values",
        "sinh",
        "solve",
        "solve_triangular",
        "sqrt",
        "square",
        "sum",
        "sum_exp",
        "sum_pool2d",
        "symmetric_eigen",
        "take",
        "tan",
        "window_spread",
    ]
)

#: Operators without float operands, or whose result has the dtype that they name.
_OTHER = frozenset(
    [
        "bitwise_and",
        "bitwise_left_shift",
        "bitwise_not",
        "bitwise_or",
        "bitwise_right_shift",
        "bitwise_xor",
        "cast",
        "count",
        "iota",
        "logical_and",
        "logical_not",
        "logical_or",
        "logical_xor",
        "random_bits",
        "threefry",
    ]
)

#: Of these, operators that compute in the widest dtype with O2 too: what a softmax takes exponentials of.
_WIDEST = frozenset(("subtract", "divide"))

#: Constants, which take the dtype of what they are combined with.
_CONSTANT = frozenset(("full", "constant"))

#: With O2, operators whose f32 result is rounded: activations that are kept for the backward pass.
_ROUNDED = frozenset(("normalize", "take"))


@dataclass(frozen=True, slots=True)
class MixedPrecision:
    """What is computed in half floats.

    With both levels, the operands of matrix products, convolutions and attention are half floats, and the terms are
    added in f32. Sums, means, normalization, softmax, exponentials, logarithms and powers are computed in f32.

    Parameters
    ----------
    level : {"O1", "O2"}, default "O1"
        ``"O1"``: other elementwise operators compute in the widest dtype of their operands, weights aside, as
        `adjoint.autocast` and PyTorch's do. ``"O2"``: in half floats if one of their operands is, except for
        differences and quotients; the inputs of the model, embeddings and the results of normalization are half floats
        too.
    dtype : dtype, default "bf16"
        ``"bf16"``, which has the range of f32, or ``"f16"``, which has three bits more of precision, and usually needs
        `adjoint.optim.scale_loss`.

    Raises
    ------
    InvalidValueError
        If the level or the dtype is something else.

    Notes
    -----
    The levels have the names of NVIDIA's Apex. Micikevicius et al. (2018), "Mixed precision training".
    """

    level: str = "O1"
    dtype: np.dtype = DTYPES["bf16"]

    def __post_init__(self) -> None:
        if self.level not in ("O1", "O2"):
            raise InvalidValueError(f"MixedPrecision: level must be 'O1' or 'O2', got {self.level!r}")
        dtype = as_dtype(self.dtype)
        if dtype not in (DTYPES["bf16"], DTYPES["f16"]):
            raise InvalidValueError(f"MixedPrecision: dtype must be 'bf16' or 'f16', got {dtype}; use one of them")
        object.__setattr__(self, "dtype", dtype)


def mixed_precision(
    function: Function, policy: MixedPrecision, weights: Iterable[str] = (), inputs: Iterable[str] = ()
) -> Function:
    """Compute a function of f32 tensors partly in half floats.

    Parameters
    ----------
    function : Function
        The function. What computes in other floats than f32 stays as it is.
    policy : MixedPrecision
        What is computed in half floats.
    weights : iterable of str
        The parameters that take the dtype of what they are combined with.
    inputs : iterable of str
        The parameters that level O2 rounds: the inputs of a model, but not its states.

    Returns
    -------
    Function
        Same name, parameters, attributes and types of results, without calls.
    """
    flat = on_bodies(inline_calls(function), lambda body: mixed_precision(body, policy))
    casts = _Casts(policy, frozenset(weights), frozenset(inputs))
    results = rebuild(flat.results, casts.replaced)
    # Results that are parameters or constants have their types already.
    found = tuple(casts.to(new, old.dtype) for new, old in zip(results, flat.results, strict=True))
    return Function(flat.name, flat.params, found, flat.attrs)


class _Casts:
    """Rewrites values one after the other, and knows which of the new ones take any dtype."""

    def __init__(self, policy: MixedPrecision, weights: frozenset[str], inputs: frozenset[str]) -> None:
        self._half = policy.dtype
        self._narrow = policy.level == "O2"
        self._weights = weights
        self._inputs = inputs
        self._weak: set[Value] = set()
        self._cast: dict[tuple[Value, np.dtype], Value] = {}

    def to(self, x: Value, dtype: np.dtype) -> Value:
        """The value in a dtype."""
        if x.dtype == dtype:
            return x
        key = (x, dtype)
        if key not in self._cast:
            self._cast[key] = cast(x, dtype)
        return self._cast[key]

    def replaced(self, value: Value, inputs: tuple[Value, ...]) -> Value | None:
        """The value with operands in the dtypes of the policy."""
        name = value.op.name
        if is_param(value):
            if value.label in self._weights:
                self._weak.add(value)
            elif self._narrow and value.label in self._inputs and value.dtype == _F32:
                return self.to(value, self._half)
            return None
        if name in _CONSTANT:
            self._weak.add(value)
            return None
        if not all(isinstance(v.type, TensorType) for v in (value, *value.inputs)):
            # Loops and branches keep the types of their operands; their bodies are rewritten by themselves.
            return self._made(value, tuple(self._restored(x, o) for x, o in zip(inputs, value.inputs, strict=True)))
        floats = [old.dtype for old in value.inputs if is_float(old.dtype)]
        if not floats:
            return None
        if isinstance(value.op, Cast) or any(dtype != _F32 for dtype in floats):
            return self._made(value, tuple(self.to(x, o.dtype) for x, o in zip(inputs, value.inputs, strict=True)))
        target = self._target(name, inputs)
        made = self._made(value, tuple(self.to(x, target) if is_float(x.dtype) else x for x in inputs))
        if name in _FOLLOW and all(x in self._weak for x in inputs if is_float(x.dtype)):
            self._weak.add(made)
        return self.to(made, self._half) if self._narrow and name in _ROUNDED else made

    def _restored(self, x: Value, old: Value) -> Value:
        """An operand in its dtype before the pass."""
        return self.to(x, old.dtype) if isinstance(old.type, TensorType) else x

    def _target(self, name: str, inputs: tuple[Value, ...]) -> np.dtype:
        """The dtype of the operands of an operator."""
        if name.startswith(_LOW):
            return self._half
        if name not in _FOLLOW:
            return _F32
        dtypes = {x.dtype for x in inputs if is_float(x.dtype) and x not in self._weak}
        if self._narrow and name not in _WIDEST:
            return self._half if self._half in dtypes else _F32
        return self._half if dtypes == {self._half} else _F32

    def _made(self, value: Value, inputs: tuple[Value, ...]) -> Value:
        return apply(value.op, *inputs).in_place_of(value)
