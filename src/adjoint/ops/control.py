"""Loops and branches: operators that hold functions, which run zero or more times inside the compiled program.

Like `adjoint.ops.calls.Call`, they return tuples, and transformations handle them through the functions that they hold:
`adjoint.transforms.differentiate` and `adjoint.transforms.vectorize` make loops and branches of the derivatives and of
the vectorized bodies, and lowering makes regions of the program of them (docs/design/control-flow.md).
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from adjoint.errors import TypeRuleError, plural
from adjoint.ir.function import Function
from adjoint.ir.types import DTYPES, TensorType, TupleType
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.base import Operator
from adjoint.ops.calls import TupleGet, evaluated

__all__ = ["Branch", "Control", "Scan", "While", "is_control", "items", "on_bodies", "uniquely_named"]


@dataclass(frozen=True, slots=True)
class Control(Operator):
    """Base class of the operators that run functions; their result is always a tuple."""

    flops: ClassVar[float] = 0.0

    def bodies(self) -> tuple[Function, ...]:
        """The functions that it holds."""
        raise NotImplementedError

    def with_bodies(self, *bodies: Function) -> "Control":
        """The same operator with other functions in their place."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Scan(Control):
    """A loop with a fixed number of iterations, which carries values along and walks over the rows of others.

    The operands are `consts` constants, which every iteration reads; the initial values of `carries` carries; and
    stacked inputs, of which each iteration takes one row, along axis 0. The results are the final carries, then the
    stacked outputs.

    Parameters
    ----------
    body : Function
        Takes the constants, the carries and a row of each stacked input; returns the new carries and a row of each
        stacked output.
    length : int
        Number of iterations, at least 1.
    consts, carries : int
        Numbers of operands.
    reverse : bool, default False
        Whether the iterations walk over the rows, of inputs and outputs, from the last to the first.
    """

    name: ClassVar[str] = "scan"
    body: Function
    length: int
    consts: int
    carries: int
    reverse: bool = False

    def bodies(self) -> tuple[Function, ...]:
        """The body."""
        return (self.body,)

    def with_bodies(self, *bodies: Function) -> "Scan":
        """The same loop around another body."""
        return replace(self, body=bodies[0])

    def infer(self, *inputs: TensorType) -> TupleType:
        """Carries of the same types as before each iteration; stacked outputs with a leading axis."""
        body, fixed = self.body, self.consts + self.carries
        if self.length < 1:
            raise TypeRuleError(f"scan: the length must be at least 1, got {self.length}; use the initial carries")
        rows = []
        for x in inputs[fixed:]:
            if not x.shape or x.shape[0] != self.length:
                raise TypeRuleError(
                    f"scan: stacked inputs must have {plural(self.length, 'row')} along axis 0, got {x}; stack as many"
                )
            rows.append(x.with_shape(x.shape[1:]))
        _takes("scan", body, (*inputs[:fixed], *rows))
        made = tuple(r.type for r in body.results)
        for number, (before, after) in enumerate(zip(inputs[self.consts : fixed], made, strict=False)):
            if before != after:
                raise TypeRuleError(
                    f"scan: @{body.name} must return each carry with the type that it takes, got {before} and then "
                    f"{after} for carry {number}; cast or reshape it"
                )
        if len(made) < self.carries:
            raise TypeRuleError(
                f"scan: @{body.name} must return the new values of its {self.carries} carries first, got "
                f"{plural(len(made), 'result')}; return one for each"
            )
        stacked = (t.with_shape((self.length, *t.shape)) for t in made[self.carries :])
        return TupleType((*made[: self.carries], *stacked))

    def reference(self, *inputs: np.ndarray) -> Any:
        """A Python loop."""
        fixed = self.consts + self.carries
        consts, carry, xs = inputs[: self.consts], inputs[self.consts : fixed], inputs[fixed:]
        steps = [self.length - 1 - i for i in range(self.length)] if self.reverse else range(self.length)
        rows: dict[int, tuple[np.ndarray, ...]] = {}
        for i in steps:
            made = evaluated(self.body, (*consts, *carry, *(np.asarray(x[i]) for x in xs)))
            carry, rows[i] = made[: self.carries], made[self.carries :]
        return (*carry, *(np.stack(column) for column in zip(*(rows[i] for i in range(self.length)), strict=True)))


@dataclass(frozen=True, slots=True)
class Branch(Control):
    """One of two functions of the same operands: `then` where the bool scalar, the first operand, holds.

    Only that one is computed.

    Parameters
    ----------
    then, other : Function
        Functions with the same types of parameters and results.
    """

    name: ClassVar[str] = "cond"
    then: Function
    other: Function

    def bodies(self) -> tuple[Function, ...]:
        """Both functions."""
        return self.then, self.other

    def with_bodies(self, *bodies: Function) -> "Branch":
        """The same choice of other functions."""
        return Branch(*bodies)

    def infer(self, *inputs: TensorType) -> TupleType:
        """The results of both functions, which have equal types."""
        _condition("cond: the condition", inputs[0])
        for body in self.bodies():
            _takes("cond", body, inputs[1:])
        then, other = (tuple(r.type for r in body.results) for body in self.bodies())
        if then != other:
            raise TypeRuleError(
                "cond: both functions must return the same types, got "
                f"{_listed(then)} from @{self.then.name} and {_listed(other)} from @{self.other.name}; cast or reshape "
                "the results of one"
            )
        return TupleType(then)

    def reference(self, *inputs: np.ndarray) -> Any:
        """A Python branch."""
        return evaluated(self.then if bool(inputs[0]) else self.other, inputs[1:])


@dataclass(frozen=True, slots=True)
class While(Control):
    """A loop that runs as long as a condition of its carries holds.

    The operands are `consts` constants and the initial carries, and the results the final carries.

    Parameters
    ----------
    condition : Function
        Takes the constants and the carries; returns a bool scalar.
    body : Function
        Takes the same; returns the new carries.
    consts : int
        Number of constants.
    """

    name: ClassVar[str] = "while_loop"
    condition: Function
    body: Function
    consts: int = 0

    def bodies(self) -> tuple[Function, ...]:
        """The condition and the body."""
        return self.condition, self.body

    def with_bodies(self, *bodies: Function) -> "While":
        """The same loop with another condition and body."""
        return While(bodies[0], bodies[1], self.consts)

    def infer(self, *inputs: TensorType) -> TupleType:
        """Carries of the same types as before each iteration."""
        for body in self.bodies():
            _takes("while_loop", body, inputs)
        for result in self.condition.results[:2]:
            _condition(f"while_loop: the result of @{self.condition.name}", result.type)
        before, after = inputs[self.consts :], tuple(r.type for r in self.body.results)
        if before != after:
            raise TypeRuleError(
                f"while_loop: @{self.body.name} must return the carries with the types that it takes, got "
                f"{_listed(before)} and then {_listed(after)}; cast or reshape them"
            )
        return TupleType(after)

    def reference(self, *inputs: np.ndarray) -> Any:
        """A Python loop."""
        consts, carry = inputs[: self.consts], inputs[self.consts :]
        while bool(evaluated(self.condition, (*consts, *carry))[0]):
            carry = evaluated(self.body, (*consts, *carry))
        return tuple(carry)


def _listed(types: Sequence[TensorType]) -> str:
    return ", ".join(map(str, types)) or "nothing"


def _takes(name: str, body: Function, given: Sequence[TensorType]) -> None:
    """Raise if a function does not take operands of these types."""
    expected = tuple(p.type for p in body.params)
    if expected != tuple(given):
        raise TypeRuleError(
            f"{name}: @{body.name} must take {_listed(given)}, got parameters of types {_listed(expected)}; match them"
        )


def _condition(what: str, given: TensorType) -> None:
    if given != TensorType((), DTYPES["bool"]):
        raise TypeRuleError(f"{what} must be a bool scalar, got {given}; compare scalars")


def is_control(value: Value) -> bool:
    """Whether a value is that of a loop or a branch."""
    return isinstance(value.op, Control)


def items(op: Control, *operands: Value) -> tuple[Value, ...]:
    """The results of a loop or branch."""
    made = apply(op, *operands)
    return tuple(apply(TupleGet(index), made) for index in range(len(made.type.items)))


def uniquely_named(function: Function, name: str | None = None) -> Function:
    """The function under a name that only equal functions get: a digest of its text follows it.

    The name is that of a body which is made on the way, of which one program may contain many.
    """
    base = (name or function.name).split("_at_")[0]
    plain = function.renamed(base)
    digest = hashlib.sha256(str(plain).encode()).hexdigest()[:8]
    return plain.renamed(f"{base}_at_{digest}")


def on_bodies(function: Function, change: Callable[[Function], Function]) -> Function:
    """The function after a change of every function that its loops and branches hold, and of theirs, inner ones first.

    What calls hold stays as it is.
    """
    return _changed(function, change, {})


def _changed(function: Function, change: Callable[[Function], Function], known: dict[int, Function]) -> Function:
    values = function.values()
    if not any(map(is_control, values)):
        return function
    new: dict[Value, Value] = {}
    for value in values:
        inputs = tuple(new.get(v, v) for v in value.inputs)
        made = value.with_inputs(inputs)
        if isinstance(value.op, Control):
            bodies = []
            for body in value.op.bodies():
                if id(body) not in known:
                    known[id(body)] = change(_changed(body, change, known))
                bodies.append(known[id(body)])
            if any(a is not b for a, b in zip(bodies, value.op.bodies(), strict=True)):
                op = value.op.with_bodies(*bodies)
                made = Value(op, inputs, value.type, value.label, value.number, value.line)
        if made is not value:
            new[value] = made
    if not new:
        return function
    return Function(function.name, function.params, tuple(new.get(r, r) for r in function.results), function.attrs)
