"""The reference interpreter of kernel IR, simple and slow: tests compare generated code with it.

`run_kernel` runs a kernel on NumPy arrays, one scalar at a time, and rejects every access outside a buffer. `evaluate`
computes one expression, over scalars or over whole arrays. Both flush subnormal numbers where kernel IR does, unless
told otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from adjoint.errors import VerifyError
from adjoint.kernel.index import Dynamic, Index, Quotient, Remainder, Var
from adjoint.kernel.ir import (
    Across,
    Apply,
    Buffer,
    Const,
    Coordinate,
    Expr,
    For,
    Kernel,
    Load,
    Stmt,
    Store,
    When,
    postorder,
)
from adjoint.kernel.scalars import SCALARS
from adjoint.lazy_dataclass import dataclass

__all__ = ["Environment", "convert", "evaluate", "run_kernel"]

#: Inputs of an evaluation: values of variables and expressions, and contents of buffers.
Environment = Mapping[Var | Buffer | Expr, Any]

#: Scalar functions that replace those of SCALARS.
Functions = Mapping[str, Callable[..., Any]]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

#: The smallest normal number of each dtype whose subnormal numbers are flushed.
_SMALLEST_NORMAL = {np.dtype(t): np.finfo(t).smallest_normal for t in (np.float32, np.float64)}

#: Scalar functions that only change the sign of a float.
_SIGN_ONLY = ("neg", "abs")


def run_kernel(kernel: Kernel, memory: Mapping[Buffer, np.ndarray], flush_subnormals: bool = True) -> None:
    """Run a kernel, one unit after another.

    Parameters
    ----------
    kernel : Kernel
        The kernel. ``vector`` and ``unroll`` loops run as scalar loops.
    memory : mapping of Buffer to numpy.ndarray
        A flat array of the right dtype and size for every buffer except registers; modified in place.
    flush_subnormals : bool, default True
        Whether arithmetic treats subnormal operands and results as zeros (`adjoint.kernel.ir`).

    Raises
    ------
    VerifyError
        If an access is outside its buffer, with the buffer's name and the index; if a buffer has no matching array; if
        no loop binds a variable.
    """
    for buffer, array in memory.items():
        if array.shape != (buffer.size,) or array.dtype != buffer.dtype:
            raise VerifyError(
                f"buffer {buffer} needs a flat array of {buffer.size} {buffer.dtype} elements, "
                f"got {array.dtype}{list(array.shape)}; reshape(-1) it"
            )
    run = _Run(memory, flush_subnormals)
    with np.errstate(all="ignore"):
        for unit in range(run.least(kernel.unit, kernel.until)):
            # Registers must not carry values from unit to unit: another thread may have run the previous unit.
            run.forget_registers()
            run.env[kernel.unit] = unit
            run.body(kernel.body)


@dataclass(frozen=True, slots=True)
class _Rules:
    """How to compute scalar functions: with which replacements, and whether to flush subnormal numbers."""

    functions: Functions
    flush: bool

    def call(self, name: str, args: Sequence[Any]) -> Any:
        function = self.functions[name] if name in self.functions else SCALARS[name].numpy
        if not self.flush or name in _SIGN_ONLY:
            return function(*args)
        return _flushed(function(*map(_flushed, args)))


class _Run:
    """The state of a running kernel: memory, registers, loop variables."""

    def __init__(self, memory: Mapping[Buffer, np.ndarray], flush: bool) -> None:
        self.env: dict[Any, Any] = dict(memory)
        self.rules = _Rules({}, flush)
        self._roots: dict[Store, tuple[list[Expr], list[Expr]]] = {}

    def forget_registers(self) -> None:
        for buffer in [b for b in self.env if isinstance(b, Buffer) and b.space == "register"]:
            del self.env[buffer]

    def body(self, body: Sequence[Stmt]) -> None:
        for statement in body:
            if isinstance(statement, For):
                for step in range(self.least(statement.var, statement.until)):
                    self.env[statement.var] = step
                    self.body(statement.body)
                self.env.pop(statement.var, None)
            elif isinstance(statement, When):
                self.when(statement)
            elif isinstance(statement, Store):
                self.store(statement)

    def least(self, var: Var, until: Index | None) -> int:
        """How many iterations of a loop, or units, run now."""
        return var.extent if until is None else min(var.extent, self.number(until))

    def when(self, statement: When) -> None:
        holds = statement.low <= self.number(statement.index) < statement.high
        self.body(statement.then if holds else statement.other)

    def number(self, index: Index) -> int:
        """The value of an index."""
        value = Coordinate(index, np.dtype(np.int64))
        return int(_values(postorder([value]), self.env, self.rules)[value])

    def store(self, statement: Store) -> None:
        if statement not in self._roots:
            values = [v for _, _, v in statement.targets]
            # Evaluate indices together with values, so that shared subexpressions are computed once.
            places: list[Expr] = [Coordinate(i, np.dtype(np.int64)) for _, i, _ in statement.targets]
            self._roots[statement] = (postorder(values + places), values + places)
        order, roots = self._roots[statement]
        for buffer in _registers(order, statement):
            # A register buffer starts with values that no kernel may rely on.
            self.env.setdefault(buffer, _poison(buffer))
        found = _values(order, self.env, self.rules)
        count = len(statement.targets)
        for (buffer, _, _), value, place in zip(statement.targets, roots[:count], roots[count:], strict=True):
            array = _contents(buffer, self.env)
            array[_inside(buffer, found[place])] = found[value]


def _registers(order: Sequence[Expr], statement: Store) -> list[Buffer]:
    read = [e.buffer for e in order if isinstance(e, Load | Across)]
    return [b for b in read + [b for b, _, _ in statement.targets] if b.space == "register"]


def _poison(buffer: Buffer) -> np.ndarray:
    kind = buffer.dtype.kind
    if kind == "b":
        return np.ones(buffer.size, buffer.dtype)
    return np.full(buffer.size, np.iinfo(buffer.dtype).max if kind in "iu" else np.nan, buffer.dtype)


def evaluate(expr: Expr, env: Environment, functions: Functions | None = None, flush_subnormals: bool = True) -> Any:
    """Evaluate an expression.

    Parameters
    ----------
    expr : Expr
        The expression; shared subexpressions are computed once.
    env : mapping
        Values by `Var`, contents by `Buffer`, and values by `Expr`, which are then not computed. Values may be arrays,
        in which case the computation is elementwise with broadcasting.
    functions : mapping of str to callable, optional
        Scalar functions that replace those of SCALARS, for example a fused ``fma``, which NumPy would round twice.
    flush_subnormals : bool, default True
        As in `run_kernel`.

    Returns
    -------
    numpy scalar or array of the expression's dtype

    Raises
    ------
    VerifyError
        If a load is outside its buffer, or `env` lacks something that the expression needs.
    """
    with np.errstate(all="ignore"):
        return _values(postorder([expr]), env, _Rules(functions or {}, flush_subnormals))[expr]


def _flushed(x: Any) -> Any:
    """Replace subnormal numbers by zeros of the same sign, if the dtype is flushed."""
    given = np.asarray(x)
    limit = _SMALLEST_NORMAL.get(given.dtype)
    if limit is None:
        return x
    small = np.abs(given) < limit
    return np.where(small, np.copysign(given.dtype.type(0), given), given)[()] if small.any() else x


def convert(x: Any, dtype: np.dtype) -> Any:
    """The semantics of ``cast``, in NumPy.

    To bool by ``!= 0``; from float to integer by truncation, saturating, with NaN as 0; between integers modulo the
    width; otherwise rounded to nearest.
    """
    with np.errstate(all="ignore"):
        given = np.asarray(x)
        if dtype.kind == "b":
            return (given != 0)[()]
        if dtype.kind in "iu" and given.dtype.kind not in "iub":
            return _saturated(given.astype(np.float64), dtype)[()]
        return given.astype(dtype)[()]


def _saturated(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    limits = np.iinfo(dtype)
    # The largest 64-bit integer is not a float, so compare with the next power of two.
    high, low = x >= float(limits.max) + 1.0, x <= float(limits.min)
    inside = np.where(high | low | np.isnan(x), 0.0, np.trunc(x)).astype(dtype)
    return np.where(high, dtype.type(limits.max), np.where(low, dtype.type(limits.min), inside))


def _values(order: Sequence[Expr], env: Environment, rules: _Rules) -> dict[Expr, Any]:
    """Values of expressions given in order, operands first."""
    found: dict[Expr, Any] = {}
    for expr in order:
        found[expr] = env[expr] if expr in env else _value(expr, found, env, rules)
    return found


def _value(expr: Expr, found: Mapping[Expr, Any], env: Environment, rules: _Rules) -> Any:
    if isinstance(expr, Const):
        return np.asarray(expr.value).astype(expr.dtype)[()]
    if isinstance(expr, Apply):
        return _apply(expr, [found[a] for a in expr.operands], rules)
    if isinstance(expr, Coordinate):
        return np.asarray(_position(expr.index, found, env, True)).astype(expr.dtype)[()]
    if isinstance(expr, Load):
        return _load(expr, found, env)
    if isinstance(expr, Across):
        return _across(expr, _contents(expr.buffer, env), rules)
    raise VerifyError(f"kernel IR has no expression {type(expr).__name__}; see adjoint.kernel.ir for those it has")


def _apply(expr: Apply, args: list[Any], rules: _Rules) -> Any:
    if expr.function in rules.functions:
        return rules.call(expr.function, args)
    if expr.function == "select":
        return np.where(args[0], args[1], args[2]).astype(expr.dtype)[()]
    if expr.function == "cast":
        # Conversions from and to bfloat16 do not flush.
        moved = not rules.flush or BFLOAT16 in (expr.dtype, expr.operands[0].dtype)
        return convert(args[0], expr.dtype) if moved else _flushed(convert(_flushed(args[0]), expr.dtype))
    if expr.function == "bitcast":
        return np.asarray(args[0]).view(expr.dtype)[()]
    if expr.function not in SCALARS:
        raise VerifyError(f"{expr.function} is no scalar function; adjoint.kernel.scalars lists those there are")
    return np.asarray(rules.call(expr.function, args)).astype(expr.dtype)[()]


def _load(expr: Load, found: Mapping[Expr, Any], env: Environment) -> Any:
    array = _contents(expr.buffer, env)
    live = True if expr.guard is None else found[expr.guard]
    index, live = np.broadcast_arrays(_position(expr.index, found, env, live), live)
    if not live.any():
        return np.zeros(live.shape, expr.dtype)[()]
    _inside(expr.buffer, index[live])
    # Where the guard does not hold, read some element within bounds and discard it.
    some = index[live].flat[0]
    return np.where(live, array[np.where(live, index, some)], expr.dtype.type(0)).astype(expr.dtype)[()]


def _position(index: Index, found: Mapping[Expr, Any], env: Environment, live: Any) -> Any:
    """The value of an index; numbers read from memory must be in range where `live` holds."""
    total: Any = index.constant
    for atom, coefficient in index.terms:
        if isinstance(atom, Var):
            if atom not in env:
                raise VerifyError(f"no loop binds the variable {atom} of the index {index}; put it inside its loop")
            value = env[atom]
        elif isinstance(atom, Quotient):
            value = _position(atom.of, found, env, live) // atom.by
        elif isinstance(atom, Remainder):
            value = _position(atom.of, found, env, live) % atom.by
        else:
            value = _dynamic(atom, found[atom.expr], live)
        total = total + value * coefficient
    return total


def _dynamic(atom: Dynamic, value: Any, live: Any) -> Any:
    wide = np.asarray(value).astype(np.int64)
    wrong = np.logical_and(live, (wide < 0) | (wide >= atom.size))
    if wrong.any():
        first = np.broadcast_to(wide, wrong.shape)[wrong].flat[0]
        raise VerifyError(f"a number read as a coordinate must be in [0, {atom.size}), got {first}; clamp it first")
    return wide[()]


def _contents(buffer: Buffer, env: Environment) -> np.ndarray:
    if buffer not in env:
        raise VerifyError(f"no memory was given for buffer {buffer}; pass an array of {buffer.size} elements for it")
    array: np.ndarray = env[buffer]
    return array


def _inside(buffer: Buffer, index: Any) -> Any:
    """The index, checked to be inside the buffer."""
    wrong = np.asarray((index < 0) | (index >= buffer.size))
    if wrong.any():
        first = np.asarray(index)[wrong].flat[0]
        raise VerifyError(f"an access must be inside its buffer: {buffer}[{first}] of {buffer.size} elements")
    return index


def _identity(function: str, dtype: np.dtype) -> Any:
    """The identity element of the function."""
    if function in ("max", "min"):
        if dtype.kind in "iu":
            return np.iinfo(dtype).min if function == "max" else np.iinfo(dtype).max
        if dtype.kind == "b":
            return function == "min"
        return -np.inf if function == "max" else np.inf
    identities = {"add": 0, "mul": 1, "or": 0, "xor": 0, "and": 1 if dtype.kind == "b" else -1}
    if function not in identities:
        raise VerifyError(f"across combines by add, mul, max, min, and, or, xor, got {function}; use one of those")
    return identities[function]


def _across(expr: Across, array: np.ndarray, rules: _Rules) -> Any:
    """Combine halves until one lane is left; any other order would round differently."""
    lanes = np.full(expr.width, np.asarray(_identity(expr.function, expr.dtype)).astype(expr.dtype), expr.dtype)
    lanes[: expr.count] = array[: expr.count]
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = rules.call(expr.function, (lanes[:half], lanes[half:]))
    return lanes[0]
