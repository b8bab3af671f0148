"""What fusion must know of a value, found by asking its operator for one element and watching what it reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from adjoint.ir import Value
from adjoint.kernel.index import Index, Var, as_index, flatten
from adjoint.kernel.ir import Apply, Expr, postorder
from adjoint.kernel.scalars import SCALARS
from adjoint.lower.pull import ExprBuilder, Reduction, Scatter, Source, Stream, compute_dtype, output_vars
from adjoint.ops.base import Operator

__all__ = ["Facts", "facts_of"]


@dataclass(frozen=True, eq=False)
class _Probe(Expr):
    """Stands for an operand's element."""

    operand: int
    dtype: np.dtype


@dataclass(frozen=True, slots=True)
class Facts:
    """How a value's elements come from those of its operands.

    Parameters
    ----------
    kind : {"param", "pull", "view", "reduce", "scatter", "stream"}
        ``pull``: computed from a fixed number of elements. ``view``: *is* an operand's element, elsewhere.
        ``reduce``, ``scatter``, ``stream``: combines many, so it is the root of a kernel.
    flat : tuple of bool
        For each operand: only ever read at the same row-major position as the result's.
    product : bool
        A sum of products of two operands: a contraction.
    flops : float
        Operations an element costs, not counting operands.
    """

    kind: Literal["param", "pull", "view", "reduce", "scatter", "stream"]
    flat: tuple[bool, ...]
    product: bool = False
    flops: float = 0.0


def facts_of(value: Value) -> Facts:
    """Probe the operator of a value."""
    op = value.op
    if not isinstance(op, Operator):
        return Facts("param", ())
    vars_ = output_vars(value.shape)
    index = tuple(as_index(v) for v in vars_)
    here = flatten(index, value.shape)
    flat = [True] * len(value.inputs)

    def operand(position: int) -> Source:
        source = value.inputs[position]

        def read(at: Sequence[Index | int]) -> Expr:
            same_size = source.type.size == value.type.size
            if not same_size or flatten(map(as_index, at), source.shape) != here:
                flat[position] = False
            return _Probe(position, compute_dtype(source.dtype))

        return Source(source.type, read)

    made: Any = op.lower(ExprBuilder(), index, *(operand(i) for i in range(len(value.inputs))))
    if isinstance(made, Reduction):
        body = made.body
        product = (
            made.kind == "add"
            and isinstance(body, Apply)
            and body.function == "mul"
            and all(isinstance(x, _Probe) for x in body.operands)
        )
        return Facts("reduce", tuple(flat), product)
    if isinstance(made, Scatter):
        return Facts("scatter", tuple(flat))
    if isinstance(made, Stream):
        _read(made)
        return Facts("stream", tuple(flat))
    if isinstance(made, _Probe):
        return Facts("view", tuple(flat))
    return Facts("pull", tuple(flat), False, flops_of([made]))


def _read(stream: Stream) -> None:
    """Ask a stream for everything that one step of it reads."""
    n = as_index(Var("n", stream.count))
    dots = []
    for dot in stream.dots:
        d = as_index(Var("d", dot.depth))
        dots.append(dot.row(d))
        dot.step(n, d)
    stream.weight(n, dots)
    if stream.values is not None:
        stream.values(n)


def flops_of(exprs: Sequence[Expr]) -> float:
    """Floating-point operations of expressions, shared ones counted once."""
    total = 0.0
    for expr in postorder(list(exprs)):
        if isinstance(expr, Apply):
            total += SCALARS[expr.function].flops if expr.function in SCALARS else 1.0
    return total
