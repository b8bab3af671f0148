"""The reference interpreter: a graph computed value by value with every operator's NumPy reference.

It is slow and obvious. What the compiler makes is compared with it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from adjoint.errors import TypeRuleError, VerifyError
from adjoint.ir import Function, TensorType, TupleType, Value, is_param
from adjoint.ops.base import Operator
from adjoint.ops.calls import Call, TupleGet

__all__ = ["interpret"]

#: What a value is while interpreting: an array, or several where a call returned them.
Result = np.ndarray | tuple[np.ndarray, ...]


def interpret(function: Function, *arrays: Any) -> tuple[np.ndarray, ...]:
    """Run a function on arrays.

    Parameters
    ----------
    function : Function
        What to run; the functions that it calls are run with it. Neither depth of the graph nor of the calls is
        limited by Python's recursion limit.
    *arrays : array_like
        An argument for each parameter, of exactly its shape and dtype.

    Returns
    -------
    tuple of numpy.ndarray
        The results, always as a tuple. They may share memory with arguments and each other.

    Raises
    ------
    TypeRuleError
        If an argument is missing or of another type than its parameter.
    VerifyError
        If an operator's reference disagrees with its type rule, or a value has no reference.

    Notes
    -----
    Values are freed after their last use. Overflow, division by 0 and invalid operations give infinities and NaN
    without a warning.
    """
    plans: dict[int, _Plan] = {}
    frames = [_Frame(_planned(function, plans), _arguments(function, arrays))]
    with np.errstate(all="ignore"):
        while True:
            call = frames[-1].run()
            if call is not None:
                callee, inputs = call
                frames.append(_Frame(_planned(callee, plans), inputs))
                continue
            results = frames.pop().results()
            if not frames:
                return results
            frames[-1].resume(results)


@dataclass(frozen=True)
class _Plan:
    """A function's values in order, and how often each is used."""

    function: Function
    order: list[Value]
    uses: Counter[Value]


def _planned(function: Function, plans: dict[int, _Plan]) -> _Plan:
    """The plan of a function, made once however often it is called."""
    if id(function) not in plans:
        order = function.values()
        uses = Counter(operand for value in order for operand in value.inputs)
        uses.update(function.results)
        plans[id(function)] = _Plan(function, order, uses)
    return plans[id(function)]


@dataclass
class _Frame:
    """One call that is under way."""

    plan: _Plan
    arguments: tuple[np.ndarray, ...]
    at: int = 0
    known: dict[Value, Result] = field(default_factory=dict)
    left: Counter[Value] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.known = dict(zip(self.plan.function.params, self.arguments, strict=True))
        self.left = self.plan.uses.copy()

    def run(self) -> tuple[Function, tuple[np.ndarray, ...]] | None:
        """Compute up to the next call, which is returned with its arguments, or to the end."""
        order = self.plan.order
        while self.at < len(order):
            value = order[self.at]
            if is_param(value):
                if value not in self.known:
                    name = self.plan.function.name
                    raise VerifyError(f"function @{name} uses %{value.label}, which is not in its params; add it there")
            else:
                inputs = tuple(self.known[operand] for operand in value.inputs)
                if isinstance(value.op, Call):
                    return value.op.callee, inputs  # type: ignore[return-value]
                self._finish(value, _computed(value, inputs))
            self.at += 1
        return None

    def resume(self, results: tuple[np.ndarray, ...]) -> None:
        """Take the results of the call that `run` stopped at."""
        value = self.plan.order[self.at]
        made: Result = results if isinstance(value.type, TupleType) else results[0]
        self._finish(value, made)
        self.at += 1

    def _finish(self, value: Value, made: Result) -> None:
        self.known[value] = made
        for operand in value.inputs:
            self.left[operand] -= 1
            if not self.left[operand]:
                self.known.pop(operand, None)

    def results(self) -> tuple[np.ndarray, ...]:
        """The function's results, all of which are known now."""
        return tuple(self.known[value] for value in self.plan.function.results)  # type: ignore[misc]


def _computed(value: Value, inputs: tuple[Result, ...]) -> Result:
    """The value by its operator's reference, checked against its type."""
    if isinstance(value.op, TupleGet):
        return inputs[0][value.op.index]
    if not isinstance(value.op, Operator):
        raise VerifyError(f"{value.op.name} is not an operator with a reference; create the value with adjoint.ops")
    made = value.op.reference(*inputs)
    _agree(value, made)
    return made


def _agree(value: Value, made: object) -> None:
    if not isinstance(made, np.ndarray) or made.shape != value.type.shape or made.dtype != value.type.dtype:
        given = _described(made) if isinstance(made, np.ndarray) else type(made).__name__
        raise VerifyError(f"{value.op.name}: infer returns {value.type}, but reference returns {given}; correct one")


def _arguments(function: Function, arrays: Sequence[Any]) -> tuple[np.ndarray, ...]:
    """The arguments as arrays, or the refusal."""
    if len(arrays) != len(function.params):
        names = ", ".join(p.label for p in function.params) or "nothing"
        raise TypeRuleError(f"@{function.name} takes {names}, got {len(arrays)} arrays; pass one for each")
    found = tuple(np.asarray(array) for array in arrays)
    for parameter, array in zip(function.params, found, strict=True):
        if array.shape != parameter.shape or array.dtype != parameter.dtype:
            raise TypeRuleError(
                f"@{function.name}: %{parameter.label} must be {parameter.type}, got {_described(array)}; convert "
                "the array"
            )
    return found


def _described(array: np.ndarray) -> str:
    """The type of an array, also of one whose dtype graphs do not have."""
    try:
        return str(TensorType(array.shape, array.dtype))
    except TypeRuleError:
        return f"{array.dtype}{list(array.shape)}"
