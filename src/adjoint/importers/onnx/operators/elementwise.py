"""Operators of each element on its own."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from adjoint.importers.onnx.graph import Node
from adjoint.importers.onnx.operators.base import Array, Rule, Table, as_tensor, plain, refuse
from adjoint.importers.onnx.tensors import dtype_of_code
from adjoint.tensor import arithmetic, comparison, elementwise

__all__ = ["ELEMENTWISE"]


def _both(function: Callable[..., Any], fold: Callable[..., Any]) -> Rule:
    return plain(function, fold, scalars=True)


def _quotient(x: Array, y: Array) -> Array:
    """Integers are divided with truncation, as in C."""
    dtype = x.dtype if hasattr(x, "dtype") else y.dtype
    return x / y if dtype.kind not in "iu" else arithmetic.div(x, y, rounding_mode="trunc")


def _known_quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind not in "iu":
        return np.asarray(x / y)
    if not y.all():
        raise ZeroDivisionError("division by zero")
    towards_zero = np.abs(x) // np.abs(y) * np.sign(x) * np.sign(y)
    return np.asarray(towards_zero.astype(x.dtype))


def _power(x: Array, y: Array) -> Array:
    """The exponent may have a dtype of its own; the result has that of the base."""
    if hasattr(y, "dtype") and hasattr(x, "dtype") and y.dtype != x.dtype:
        y = y.to(x.dtype)
    return x**y


def _mod(node: Node, x: Array, y: Array) -> Array:
    return arithmetic.fmod(x, y) if node.attrs["fmod"] else arithmetic.remainder(x, y)


def _known_mod(node: Node, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray(np.fmod(x, y) if node.attrs["fmod"] else np.mod(x, y))


def _variadic(function: Callable[..., Any], fold: Callable[..., Any]) -> Rule:
    return Rule(
        lambda _node, *xs: reduce(function, map(as_tensor, xs)),
        fold=lambda _node, *xs: reduce(fold, xs),
    )


def _mean(_node: Node, *xs: Array) -> Array:
    return reduce(arithmetic.add, map(as_tensor, xs)) / len(xs)


def _clip(node: Node, x: Array, low: Array = None, high: Array = None) -> Array:
    limits = [None if one is None else _number(node, one) for one in (low, high)]
    return x if limits == [None, None] else arithmetic.clamp(x, *limits)


def _number(node: Node, given: np.ndarray) -> Any:
    if given.size != 1:
        raise refuse(node, "must have one number as each of its limits", list(given.shape))
    return given.item()


def _known_clip(_node: Node, x: np.ndarray, low: Array = None, high: Array = None) -> np.ndarray:
    return np.clip(x, low, high) if low is not None or high is not None else x


def _cast(node: Node, x: Array) -> Array:
    return x.to(dtype_of_code(node.attrs["to"], str(node)))


def _known_cast(node: Node, x: np.ndarray) -> np.ndarray:
    return x.astype(dtype_of_code(node.attrs["to"], str(node)))


def _isinf(node: Node, x: Array) -> Array:
    if node.attrs["detect_negative"] and node.attrs["detect_positive"]:
        return comparison.isinf(x)
    return comparison.isposinf(x) if node.attrs["detect_positive"] else comparison.isneginf(x)


def _shift(node: Node, x: Array, y: Array) -> Array:
    left = node.attrs["direction"] == "LEFT"
    return (comparison.bitwise_left_shift if left else comparison.bitwise_right_shift)(x, y)


def _round(x: Array) -> Array:
    return elementwise.round(x)


#: Functions of one tensor that have the same meaning in adjoint and NumPy.
_ONE: dict[str, tuple[Callable[..., Any], Callable[..., Any] | None]] = {
    "Abs": (elementwise.abs, np.abs),
    "Acos": (elementwise.acos, None),
    "Acosh": (elementwise.acosh, None),
    "Asin": (elementwise.asin, None),
    "Asinh": (elementwise.asinh, None),
    "Atan": (elementwise.atan, None),
    "Atanh": (elementwise.atanh, None),
    "BitwiseNot": (comparison.bitwise_not, np.bitwise_not),
    "Ceil": (elementwise.ceil, np.ceil),
    "Cos": (elementwise.cos, np.cos),
    "Cosh": (elementwise.cosh, None),
    "Erf": (elementwise.erf, None),
    "Exp": (elementwise.exp, np.exp),
    "Floor": (elementwise.floor, np.floor),
    "IsNaN": (comparison.isnan, np.isnan),
    "Log": (elementwise.log, np.log),
    "Neg": (arithmetic.neg, np.negative),
    "Not": (comparison.logical_not, np.logical_not),
    "Reciprocal": (elementwise.reciprocal, np.reciprocal),
    "Round": (_round, np.round),
    "Sign": (elementwise.sign, np.sign),
    "Sin": (elementwise.sin, np.sin),
    "Sinh": (elementwise.sinh, None),
    "Sqrt": (elementwise.sqrt, np.sqrt),
    "Tan": (elementwise.tan, None),
}

#: Functions of two tensors that broadcast.
_TWO: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "Add": (lambda x, y: x + y, np.add),
    "And": (comparison.logical_and, np.logical_and),
    "BitwiseAnd": (comparison.bitwise_and, np.bitwise_and),
    "BitwiseOr": (comparison.bitwise_or, np.bitwise_or),
    "BitwiseXor": (comparison.bitwise_xor, np.bitwise_xor),
    "Div": (_quotient, _known_quotient),
    "Equal": (lambda x, y: x == y, np.equal),
    "Greater": (lambda x, y: x > y, np.greater),
    "GreaterOrEqual": (lambda x, y: x >= y, np.greater_equal),
    "Less": (lambda x, y: x < y, np.less),
    "LessOrEqual": (lambda x, y: x <= y, np.less_equal),
    "Mul": (lambda x, y: x * y, np.multiply),
    "Or": (comparison.logical_or, np.logical_or),
    "Pow": (_power, lambda x, y: np.power(x, y).astype(x.dtype)),
    "Sub": (lambda x, y: x - y, np.subtract),
    "Xor": (comparison.logical_xor, np.logical_xor),
}

ELEMENTWISE: Table = {
    **{op: plain(*pair) for op, pair in _ONE.items()},
    **{op: _both(*pair) for op, pair in _TWO.items()},
    "BitShift": Rule(_shift),
    "Cast": Rule(_cast, fold=_known_cast),
    "CastLike": plain(lambda x, like: x.to(like.dtype), lambda x, like: x.astype(like.dtype)),
    "Clip": Rule(_clip, known=frozenset({1, 2}), fold=_known_clip),
    "Identity": plain(lambda x: x, lambda x: x),
    "IsInf": Rule(_isinf),
    "Max": _variadic(arithmetic.maximum, np.maximum),
    "Mean": Rule(_mean),
    "Min": _variadic(arithmetic.minimum, np.minimum),
    "Mod": Rule(_mod, fold=_known_mod, scalars=True),
    "Sum": _variadic(arithmetic.add, np.add),
    "Where": plain(comparison.where, np.where, scalars=True),
}
