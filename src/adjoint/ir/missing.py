"""Attributes that arrays of NumPy and PyTorch have and graph values do not, with what to use instead.

They are descriptors that raise, rather than a ``__getattr__``, which would slow down the attributes that exist: with
one, the interpreter no longer specializes the access to them.
"""

from collections.abc import Iterable
from typing import NoReturn

from adjoint.errors import MissingAttributeError

__all__ = ["MISSING", "Missing"]

_READ = "compile the function and read its result, because a value has no elements before that"
_GRADIENT = "use adjoint.transforms.gradient, or train with SetupTrainer and Trainer"
_CONVERTED = "use cast('{}')"
_SORTED = "sort in NumPy, because there is no operator for it"

#: What to do instead, by name.
MISSING = {
    "view": "use reshape",
    "view_as": "use reshape",
    "reshape_as": "use reshape",
    "ravel": "use flatten",
    "expand": "use broadcast_to",
    "expand_as": "use broadcast_to",
    "repeat": "use broadcast_to and reshape, or ops.concat",
    "tile": "use broadcast_to and reshape, or ops.concat",
    "moveaxis": "use permute",
    "movedim": "use permute",
    "t": "use T",
    "dim": "use ndim",
    "numel": "use size",
    "to": "use cast",
    "float": _CONVERTED.format("f32"),
    "double": _CONVERTED.format("f64"),
    "half": _CONVERTED.format("f16"),
    "bfloat16": _CONVERTED.format("bf16"),
    "int": _CONVERTED.format("i32"),
    "long": _CONVERTED.format("i64"),
    "bool": _CONVERTED.format("bool"),
    "mm": "use matmul",
    "bmm": "use matmul",
    "dot": "use matmul",
    "sub": "use ops.subtract",
    "mul": "use ops.multiply",
    "div": "use ops.divide",
    "pow": "use ops.power",
    "neg": "use ops.negative",
    "eq": "use ops.equal",
    "clamp": "use clip",
    "amax": "use max",
    "amin": "use min",
    "std": "use var and sqrt",
    "masked_fill": "use ops.where",
    "gather": "use ops.take_along_last",
    "index_select": "use ops.take",
    "chunk": "use slices, as in x[:, :2]",
    "split": "use slices, as in x[:, :2]",
    "dropout": "use ops.dropout",
    "contiguous": "omit it, because values are not arrays with a layout in memory",
    "detach": "use ops.stop_gradient",
    "clone": "omit it, because a value never changes",
    "copy": "omit it, because a value never changes",
    "backward": _GRADIENT,
    "grad": _GRADIENT,
    "requires_grad": _GRADIENT,
    "requires_grad_": _GRADIENT,
    "item": _READ,
    "numpy": _READ,
    "tolist": _READ,
    "cpu": _READ,
    "data": _READ,
    "sort": _SORTED,
    "argsort": _SORTED,
    "topk": _SORTED,
} | {
    name: f"use ops.{name}"
    for name in (
        *("add", "cos", "divide", "equal", "erf", "expm1", "floor", "gelu", "greater", "less", "leaky_relu", "log1p"),
        *("logsumexp", "maximum", "minimum", "multiply", "negative", "power", "reciprocal", "sign", "silu", "sin"),
        *("softplus", "subtract", "take", "where", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "asinh"),
        *("acosh", "atanh", "exp2", "log2", "log10", "erfc", "erfinv", "lgamma", "digamma", "polygamma", "sinc"),
        *("logit", "ceil", "trunc", "frac", "isnan", "isinf", "isfinite", "signbit", "copysign", "nan_to_num"),
        *("hypot", "logaddexp", "fmod", "remainder", "xlogy", "fmax", "fmin", "heaviside", "ldexp", "bitwise_and"),
        *("bitwise_or", "bitwise_xor", "bitwise_not", "cummax", "cummin", "logcumsumexp", "diff", "count_nonzero"),
        *("nansum", "nanmean"),
    )
}


class _Absent:
    """An attribute that raises when it is read, so that `hasattr` finds none."""

    __slots__ = ("_fix", "_name")

    def __init__(self, name: str, fix: str) -> None:
        self._name, self._fix = name, fix

    def __get__(self, instance: object, owner: object = None) -> NoReturn:
        raise MissingAttributeError(f"a graph value has no attribute {self._name}; {self._fix}")


class Missing:
    """The part of `Value` that explains what to use instead of attributes that it does not have."""

    __slots__ = ()

    def __dir__(self) -> Iterable[str]:
        """The attributes that there are."""
        return [name for name in object.__dir__(self) if name not in MISSING]


for _name, _fix in MISSING.items():
    setattr(Missing, _name, _Absent(_name, _fix))
