"""Access analysis: how an operator reads its operands, found by asking it for one element with probes as operands."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, Literal

import numpy as np

from adjoint.errors import CompileError
from adjoint.ir import Value, is_param
from adjoint.kernel.index import Index, Var, as_index, flatten
from adjoint.kernel.ir import Apply, Const, Expr, dynamics, postorder
from adjoint.kernel.scalars import SCALARS
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.inlining import (
    ExprBuilder,
    FusedAttention,
    PrefixScan,
    Reduction,
    RowAlgorithm,
    Scatter,
    Source,
    compute_dtype,
    output_vars,
)
from adjoint.ops.base import Operator
from adjoint.ops.calls import TupleGet
from adjoint.ops.control import Control

__all__ = ["AccessPattern", "access_pattern", "access_patterns"]


@dataclass(frozen=True, eq=False)
class _Probe(Expr):
    """Stands for an element of an operand."""

    operand: int
    dtype: np.dtype
    at: tuple[Index | int, ...]


@dataclass(frozen=True, slots=True)
class AccessPattern:
    """How a value's elements depend on those of its operands.

    Parameters
    ----------
    kind : {"param", "pointwise", "view", "reduce", "scatter", "prefix_scan", "attention", "rows", "control",
        "item"}
        ``pointwise``: computed from a fixed number of elements. ``view``: *is* an operand's element, at another index.
        ``reduce``, ``scatter``, ``prefix_scan``, ``attention``, ``rows``: combines many elements, and is the root of a
        kernel. ``control``: a loop or branch, which is the root of a kernel too, and ``item``: one of its results.
    flat : tuple of bool
        For each operand: whether it is only ever read at the same row-major position as the result.
    product : bool
        Whether it is a sum of products of two operands, one of which may be 0 where it does not exist: a contraction.
    flops : float
        Operations per element, not counting those of operands.
    attention_key : tuple
        Equal for attention operators over the same rows and steps: these, and the operands of the first dot product.
    exchanged_key : tuple
        Of an attention operator that adds up weights: equal also where rows and steps are exchanged.
    literals : tuple of (bytes, numpy.dtype)
        Literal arrays that it reads.
    repeats : tuple of int
        For each operand: how many elements of the result read the same element of it at least, as all elements of a
        random tensor read its key. What is read where a condition holds, or at a coordinate from memory, counts once.
    """

    kind: Literal[
        "param", "pointwise", "view", "reduce", "scatter", "prefix_scan", "attention", "rows", "control", "item"
    ]
    flat: tuple[bool, ...]
    product: bool = False
    flops: float = 0.0
    attention_key: tuple[Hashable, ...] = ()
    exchanged_key: tuple[Hashable, ...] = ()
    literals: tuple[tuple[bytes, np.dtype], ...] = ()
    repeats: tuple[int, ...] = ()


def access_patterns(values: Iterable[Value]) -> dict[Value, AccessPattern]:
    """The access patterns of values, found once for those with equal operators and types.

    The keys of attention operators name their operands, so each of these has its own.
    """
    known: dict[Hashable, AccessPattern] = {}
    found: dict[Value, AccessPattern] = {}
    for value in values:
        key = value.op.key(), value.type, *[v.type for v in value.inputs]
        if key not in known:
            made = access_pattern(value)
            if made.kind == "attention":
                found[value] = made
                continue
            known[key] = made
        found[value] = known[key]
    return found


def access_pattern(value: Value) -> AccessPattern:
    """Probe the operator of a value.

    Raises
    ------
    CompileError
        If it has no lowering.
    """
    op = value.op
    if is_param(value):
        return AccessPattern("param", ())
    if not isinstance(op, Operator):
        raise CompileError(
            f"{op.name}: only operators derived from adjoint.ops.base.Operator can be compiled, got "
            f"{type(op).__name__}; derive it from Operator and define lower"
        )
    if isinstance(op, Control | TupleGet):
        kind: Literal["control", "item"] = "control" if isinstance(op, Control) else "item"
        return AccessPattern(kind, (False,) * len(value.inputs), repeats=(1,) * len(value.inputs))
    vars_ = output_vars(value.shape)
    index = tuple(as_index(v) for v in vars_)
    here = flatten(index, value.shape)
    flat = [True] * len(value.inputs)
    repeats = [value.type.size] * len(value.inputs)
    builder = ExprBuilder()

    def operand(position: int) -> Source:
        source = value.inputs[position]

        def read(at: Sequence[Index | int]) -> Expr:
            same_size = source.type.size == value.type.size
            if not same_size or flatten(map(as_index, at), source.shape) != here:
                flat[position] = False
            where = [as_index(i) for i in at]
            chosen = builder.guard is not None or any(True for i in where for _ in dynamics(i))
            used = set().union(*(i.variables() for i in where))
            others = 1 if chosen else prod(v.extent for v in vars_ if v not in used)
            repeats[position] = min(repeats[position], others)
            return _Probe(position, compute_dtype(source.dtype), tuple(at))

        return Source(source.type, read)

    made: Any = op.lower(builder, index, *(operand(i) for i in range(len(value.inputs))))
    return replace(_pattern(value, made, flat), literals=tuple(builder.literals), repeats=tuple(repeats))


def _pattern(value: Value, made: Any, flat: Sequence[bool]) -> AccessPattern:
    """The access pattern of a value, from one element of it."""
    if isinstance(made, Reduction):
        body = made.body
        product = (
            made.kind == "add"
            and isinstance(body, Apply)
            and body.function == "mul"
            and all(isinstance(_where_it_exists(x), _Probe) for x in body.operands)
        )
        return AccessPattern("reduce", tuple(flat), product)
    if isinstance(made, Scatter):
        return AccessPattern("scatter", tuple(flat))
    if isinstance(made, RowAlgorithm):
        return AccessPattern("rows", tuple(flat))
    if isinstance(made, PrefixScan):
        return AccessPattern("prefix_scan", tuple(flat))
    if isinstance(made, FusedAttention):
        own, exchanged = _attention_keys(value, made)
        return AccessPattern("attention", tuple(flat), attention_key=own, exchanged_key=exchanged)
    if isinstance(made, _Probe):
        return AccessPattern("view", tuple(flat))
    return AccessPattern("pointwise", tuple(flat), False, flops_of([made]))


def _where_it_exists(factor: Expr) -> Expr:
    """What a factor is where it is not a constant."""
    if isinstance(factor, Apply) and factor.function == "select" and isinstance(factor.operands[2], Const):
        return factor.operands[1]
    return factor


def _attention_keys(value: Value, attention: FusedAttention) -> tuple[tuple[Hashable, ...], tuple[Hashable, ...]]:
    """Probe everything that one step of an attention operator reads; what `AccessPattern` says of its keys."""
    n, dots, factors = as_index(Var("n", attention.count)), [], []
    for dot in attention.dots:
        d = as_index(Var("d", dot.depth))
        factors.append((dot.row(d), dot.step(n, d)))
        dots.append(factors[-1][0])
    attention.weight(n, dots)
    if attention.factor is not None:
        attention.factor(n)
    if attention.values is not None:
        attention.values(n)
    rows = value.shape if attention.values is None else value.shape[:-1]
    probes = [x for x in factors[0] if isinstance(x, _Probe)]
    # Text only here: that of a position which a binary search computes doubles with each of its steps.
    first = [(value.inputs[x.operand], ", ".join(map(str, x.at))) for x in probes]
    span = None if attention.span is None else tuple(map(str, attention.span))
    if len(first) < len(factors[0]):
        return (), ()
    depth = attention.dots[0].depth
    sizes = zip((rows[-1], attention.count), (value.inputs[x.operand] for x in probes), strict=True)
    exchanged = (rows[:-1], depth, span is None, frozenset(sizes)) if attention.kind == "sum" else ()
    return (rows, attention.count, span, depth, *first), exchanged


def flops_of(exprs: Sequence[Expr]) -> float:
    """Floating-point operations of expressions; shared ones count once."""
    total = 0.0
    for expr in postorder(list(exprs)):
        if isinstance(expr, Apply):
            total += SCALARS[expr.function].flops if expr.function in SCALARS else 1.0
    return total
