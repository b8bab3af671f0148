"""Calls of other functions, and the items of the tuples that they return.

`adjoint.transforms.inline_calls` removes these operators before lowering, so they have no `lower`. They have no vjp
either: `adjoint.transforms.differentiate` differentiates the callee itself, or calls the rule of a `CustomCall`.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from adjoint.errors import TypeRuleError, plural
from adjoint.ir.function import Function
from adjoint.ir.types import TensorType, TupleType, is_float
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.base import Operator

__all__ = ["Call", "CustomCall", "TupleGet", "call", "custom_call", "evaluated"]


@dataclass(frozen=True, slots=True)
class Call(Operator):
    """A call of another function.

    Parameters
    ----------
    callee : Function
        The function. The result is a tensor if it has one result, otherwise a tuple of its results.
    """

    name: ClassVar[str] = "call"
    flops: ClassVar[float] = 0.0
    callee: Function

    def infer(self, *inputs: TensorType) -> TensorType | TupleType:
        """Arguments of the parameters' types; returns the type of the function."""
        callee = self.callee
        expected = ", ".join(f"%{p.label}: {p.type}" for p in callee.params)
        if len(inputs) != len(callee.params):
            raise TypeRuleError(
                f"call: @{callee.name} takes {plural(len(callee.params), 'argument')} ({expected}), got {len(inputs)}; "
                "pass one per parameter"
            )
        for p, given in zip(callee.params, inputs, strict=True):
            if given != p.type:
                raise TypeRuleError(
                    f"call: %{p.label} of @{callee.name} must be {p.type}, got {given}; cast, reshape or broadcast it"
                )
        return callee.type

    def reference(self, *inputs: np.ndarray) -> Any:
        """Evaluate the callee by its ops' references; returns a tuple of arrays if it has several results."""
        return _evaluate(self.callee, inputs)


@dataclass(frozen=True, slots=True)
class CustomCall(Call):
    """A call of a function that has a derivative of its own, which need not be that of its body.

    Parameters
    ----------
    callee : Function
        The function.
    rule : Function
        Its derivative. It takes the arguments, the results, and the cotangents of the float results, and returns the
        cotangents of the arguments in `wrt`.
    wrt : tuple of int
        The positions of the arguments to which derivatives flow, all float.
    """

    name: ClassVar[str] = "custom_call"
    rule: Function
    wrt: tuple[int, ...]

    def infer(self, *inputs: TensorType) -> TensorType | TupleType:
        """As for a call; the rule must fit the function."""
        made = Call.infer(self, *inputs)
        results = tuple(r.type for r in self.callee.results)
        takes = (*inputs, *results, *(t for t in results if is_float(t.dtype)))
        gives = tuple(inputs[n] for n in self.wrt)
        for what, wanted, values in (("take", takes, self.rule.params), ("return", gives, self.rule.results)):
            given = tuple(v.type for v in values)
            if given != wanted:
                raise TypeRuleError(
                    f"custom_call: the rule of @{self.callee.name} must {what} ({', '.join(map(str, wanted))}), got "
                    f"({', '.join(map(str, given))}); correct @{self.rule.name}"
                )
        return made


@dataclass(frozen=True, slots=True)
class TupleGet(Operator):
    """One item of a tuple.

    Parameters
    ----------
    index : int
        Index of the item, from 0.
    """

    name: ClassVar[str] = "tuple_get"
    flops: ClassVar[float] = 0.0
    index: int

    def infer(self, x: TupleType) -> TensorType:
        """Takes a tuple; returns the type of the item."""
        if not isinstance(x, TupleType):
            raise TypeRuleError(f"tuple_get: the operand must be a tuple, got {x}; use the value itself")
        if not 0 <= self.index < len(x.items):
            raise TypeRuleError(f"tuple_get: index must be from 0 to {len(x.items) - 1} for {x}, got {self.index}")
        return x.items[self.index]

    def reference(self, x: tuple[np.ndarray, ...]) -> np.ndarray:
        """The item."""
        return x[self.index]


def evaluated(function: Function, arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """The results of a function by the references of its operators, always as a tuple."""
    found = _evaluate(function, arrays)
    return found if len(function.results) > 1 else (found,)


def _evaluate(function: Function, arrays: tuple[np.ndarray, ...]) -> Any:
    """Evaluate a function; nested calls use an explicit stack of frames, so they may be deep."""
    frames = [_Frame(function, arrays)]
    while True:
        frame = frames[-1]
        nested = frame.run()
        if nested is not None:
            frames.append(nested)
            continue
        frames.pop()
        if not frames:
            return frame.result()
        frames[-1].returned(frame.result())


class _Frame:
    """A function under evaluation: the values computed so far, and those still pending."""

    def __init__(self, function: Function, arrays: tuple[np.ndarray, ...]) -> None:
        self.function = function
        self.known: dict[Value, Any] = dict(zip(function.params, arrays, strict=True))
        self.pending: Iterator[Value] = iter(function.values())
        self.waiting: Value | None = None

    def run(self) -> "_Frame | None":
        """Evaluate up to the next call and return its frame, or None at the end."""
        for value in self.pending:
            if value in self.known:
                continue
            inputs = tuple(self.known[v] for v in value.inputs)
            if isinstance(value.op, Call):
                self.waiting = value
                return _Frame(value.op.callee, inputs)
            self.known[value] = value.op.reference(*inputs)  # type: ignore[attr-defined]
        return None

    def returned(self, result: Any) -> None:
        """Take the result of the call that `run` stopped at."""
        assert self.waiting is not None
        self.known[self.waiting] = result

    def result(self) -> Any:
        """The function's return value."""
        results = tuple(self.known[r] for r in self.function.results)
        return results[0] if len(results) == 1 else results


def call(function: Function, *args: Value) -> Any:
    """Call a function.

    Parameters
    ----------
    function : Function
        The callee.
    *args : Value
        One value for each parameter, of its type.

    Returns
    -------
    Value or tuple of Value
        The result, or a tuple if the function has several results.

    Raises
    ------
    TypeRuleError
        If the number or the types of the arguments do not match the parameters.
    """
    return _items(apply(Call(function), *args))


def custom_call(function: Function, rule: Function, wrt: tuple[int, ...], *args: Value) -> Any:
    """Call a function that has a derivative of its own.

    Parameters
    ----------
    function : Function
        The callee.
    rule : Function
        Takes the arguments, the results, and the cotangents of the float results; returns the cotangents of the
        arguments in `wrt`.
    wrt : tuple of int
        The positions of the arguments to which derivatives flow; there are none with respect to the others.
    *args : Value
        One value for each parameter, of its type.

    Returns
    -------
    Value or tuple of Value
        The result, or a tuple if the function has several results.

    Raises
    ------
    TypeRuleError
        If arguments do not match the parameters, or the rule does not match the function.
    """
    return _items(apply(CustomCall(function, rule, wrt), *args))


def _items(result: Value) -> Any:
    if not isinstance(result.type, TupleType):
        return result
    return tuple(apply(TupleGet(index), result) for index in range(len(result.type.items)))
