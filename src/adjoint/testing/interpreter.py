"""The reference interpreter: evaluate a graph value by value with the operators' NumPy references.

It is simple and slow; compiled code is compared with it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np

from adjoint.errors import TypeRuleError, VerifyError, plural
from adjoint.ir import Function, TensorType, TupleType, Value, is_param
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.base import Operator
from adjoint.ops.calls import Call, TupleGet
from adjoint.ops.control import Control

__all__ = ["interpret"]

#: The result of evaluating a value: an array, or several for a call with several results.
Result = np.ndarray | tuple[np.ndarray, ...]


def interpret(function: Function, *arrays: Any) -> tuple[np.ndarray, ...]:
    """Evaluate a function on arrays.

    Parameters
    ----------
    function : Function
        The function. Neither the depth of the graph nor that of calls is limited by Python's recursion limit.
    *arrays : array_like
        One argument per parameter, of exactly its shape and dtype.

    Returns
    -------
    tuple of numpy.ndarray
        The results, always as a tuple. They may share memory with arguments and each other.

    Raises
    ------
    TypeRuleError
        If an argument is missing or has the wrong type.
    VerifyError
        If an operator's reference contradicts its type rule, or a value has no reference.

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
    """A function's values in order, with their numbers of uses."""

    function: Function
    order: list[Value]
    uses: Counter[Value]


def _planned(function: Function, plans: dict[int, _Plan]) -> _Plan:
    """The plan of a function, computed once."""
    if id(function) not in plans:
        order = function.values()
        uses = Counter(operand for value in order for operand in value.inputs)
        uses.update(function.results)
        plans[id(function)] = _Plan(function, order, uses)
    return plans[id(function)]


@dataclass
class _Frame:
    """An active call."""

    plan: _Plan
    arguments: tuple[np.ndarray, ...]
    at: int = 0
    known: dict[Value, Result] = field(default_factory=dict)
    left: Counter[Value] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.known = dict(zip(self.plan.function.params, self.arguments, strict=True))
        self.left = self.plan.uses.copy()

    def run(self) -> tuple[Function, tuple[np.ndarray, ...]] | None:
        """Evaluate up to the next call and return its callee and arguments, or None at the end."""
        order = self.plan.order
        while self.at < len(order):
            value = order[self.at]
            if not is_param(value):
                inputs = tuple(self.known[operand] for operand in value.inputs)
                if isinstance(value.op, Call):
                    return value.op.callee, inputs  # type: ignore[return-value]
                self._finish(value, _computed(value, inputs))
            self.at += 1
        return None

    def resume(self, results: tuple[np.ndarray, ...]) -> None:
        """Store the results of the call at which `run` stopped."""
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
        """The function's results, after `run` has reached the end."""
        return tuple(self.known[value] for value in self.plan.function.results)  # type: ignore[misc]


def _computed(value: Value, inputs: tuple[Result, ...]) -> Result:
    """The value computed by its operator's reference, checked against its type."""
    if isinstance(value.op, TupleGet):
        return inputs[0][value.op.index]
    if not isinstance(value.op, Operator):
        raise VerifyError(f"{value.op.name} is not an operator with a reference; create the value with adjoint.ops")
    made: Any = value.op.reference(*inputs)
    if isinstance(value.op, Control):
        return tuple(np.asarray(item) for item in made)
    _agree(value, made)
    return made  # type: ignore[no-any-return]


def _agree(value: Value, made: object) -> None:
    if not isinstance(made, np.ndarray) or made.shape != value.type.shape or made.dtype != value.type.dtype:
        given = _described(made) if isinstance(made, np.ndarray) else type(made).__name__
        raise VerifyError(f"{value.op.name}: infer returns {value.type}, but reference returns {given}; correct one")


def _arguments(function: Function, arrays: Sequence[Any]) -> tuple[np.ndarray, ...]:
    """Convert the arguments to arrays; raises if their number or types are wrong."""
    if len(arrays) != len(function.params):
        names = ", ".join(p.label for p in function.params) or "nothing"
        raise TypeRuleError(f"@{function.name} takes {names}, got {plural(len(arrays), 'array')}; pass one for each")
    found = tuple(np.asarray(array) for array in arrays)
    for parameter, array in zip(function.params, found, strict=True):
        if array.shape != parameter.shape or array.dtype != parameter.dtype:
            raise TypeRuleError(
                f"@{function.name}: %{parameter.label} must be {parameter.type}, got {_described(array)}; convert "
                "the array"
            )
    return found


def _described(array: np.ndarray) -> str:
    """The type of an array, whose dtype need not be supported by graphs."""
    try:
        return str(TensorType(array.shape, array.dtype))
    except TypeRuleError:
        return f"{array.dtype}{list(array.shape)}"
