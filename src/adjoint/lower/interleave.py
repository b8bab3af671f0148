"""Interleaving of long chains: vectors whose values take a chain of operations are computed several at a time.

Before::

    kernel y: computes %y
      4 units, on one thread; 4096 flops, 32768 bytes
      reads x f32[4096] by 1024; writes y f32[4096] by 1024
      for u in 0..4 units:
        for v in 0..64:
          for l in 0..16 vector:
            t0 = fma(x[u*1024 + v*16 + l], 0.5, 1.0)
            t1 = fma(fma(fma(fma(fma(fma(fma(fma(t0, t0, 1.0), t0, 1.0), t0, 1.0), t0, 1.0), t0, 1.0), t0, 1.0), t0, 1.0), t0, 1.0)
            y[u*1024 + v*16 + l] = fma(fma(fma(fma(fma(t1, t0, 1.0), t0, 1.0), t0, 1.0), t0, 1.0), t0, 1.0)

After::

    kernel y: computes %y
      4 units, on one thread; 4096 flops, 32768 bytes
      reads x f32[4096] by 1024; writes y f32[4096] by 1024
      for u in 0..4 units:
        for v in 0..16:
          for v.1 in 0..4 interleave:
            for l in 0..16 vector:
              t0 = fma(x[u*1024 + v*64 + v.1*16 + l], 0.5, 1.0)
              t1 = fma(fma(fma(fma(fma(fma(fma(fma(t0, t0, 1.0), t0, 1.0), t0, 1.0), t0, 1.0), t0, 1.0), t0, 1.0), t0, 1.0), t0, 1.0)
              y[u*1024 + v*64 + v.1*16 + l] = fma(fma(fma(fma(fma(t1, t0, 1.0), t0, 1.0), t0, 1.0), t0, 1.0), t0, 1.0)

Each operation of such a chain waits for the one before. The loop's iterations are independent of each other, but a core
only overlaps as many as its schedulers hold. Of an ``interleave`` loop each
operation is done for all iterations before the next (the interleave count of LLVM's loop vectorizer, and the gangs of
several vectors of ISPC).

A sum of such values is a chain itself, in a fixed order of additions. Its terms are computed beforehand, in registers,
together with what else the loop stores::

    for v in 0..4:                                      for v in 0..4 interleave:
      for l in 0..16 vector:                              for l in 0..16 vector:
        acc[l] = add(acc[l], exp(x[v*16 + l]))    ->        terms[v*16 + l] = exp(x[v*16 + l])
                                                        for v in 0..4 unroll:
                                                          for l in 0..16 vector:
                                                            acc[l] = add(acc[l], terms[v*16 + l])
"""  # noqa: E501, the printer breaks lines at expressions only

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Literal

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index, is_injective
from adjoint.kernel.ir import (
    Across,
    Apply,
    Buffer,
    Expr,
    For,
    Kernel,
    Load,
    Stmt,
    Store,
    When,
    dynamics,
    postorder,
    roots_of,
)
from adjoint.kernel.rewrite import rewritten
from adjoint.lazy_dataclass import dataclass

__all__ = ["interleave"]

#: Makes the statements of a block from its variable and its body.
_Block = Callable[[Var, tuple[Stmt, ...]], tuple[Stmt, ...]]


def interleave(kernel: Kernel) -> Kernel:
    """The kernel with loops over long chains interleaved; the same kernel if it has none."""
    body = _statements(kernel.body)
    return kernel if body is kernel.body else replace(kernel, body=body)


def _statements(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements with their loops interleaved; the same ones if none is."""
    made = [_statement(of) for of in body]
    same = all(len(new) == 1 and new[0] is old for new, old in zip(made, body, strict=True))
    return body if same else tuple(statement for new in made for statement in new)


def _statement(of: Stmt) -> tuple[Stmt, ...]:
    if isinstance(of, When):
        then, other = _statements(of.then), _statements(of.other)
        same = then is of.then and other is of.other
        return (of if same else replace(of, then=then, other=other),)
    if not isinstance(of, For) or of.kind in ("vector", "interleave"):
        return (of,)
    body = _statements(of.body)
    loop = of if body is of.body else replace(of, body=body)
    nest = _nest(loop)
    together = min(costs.INTERLEAVED_VECTORS // prod(inner.var.extent for inner in nest[1:-1]), loop.var.extent)
    if len(nest) < 2 or loop.until is not None or together < 2 or not any(map(_has_long_chain, _stores(nest[-1]))):
        return (loop,)
    if _is_independent(nest):
        return _in_blocks(loop, together, lambda var, block: (For(var, block, "interleave"),))
    if (sum_ := _sum(nest)) is not None:
        return _in_blocks(loop, together, lambda var, block: _terms_first(var, block, sum_))
    return (loop,)


def _nest(loop: For) -> list[For]:
    """The loop, the ``interleave`` loops in it, and the ``vector`` loop in these; only the loop if it holds more."""
    nest = [loop]
    while len(nest[-1].body) == 1 and isinstance(inner := nest[-1].body[0], For):
        if inner.kind not in ("interleave", "vector"):
            break
        nest.append(inner)
        if inner.kind == "vector":
            return nest
    return [loop]


def _stores(vector: For) -> list[Store]:
    return [of for of in vector.body if isinstance(of, Store)]


def _has_long_chain(store: Store) -> bool:
    """Whether a value takes so many operations, one after the other, that a core overlaps too few of them by itself.

    Not where most of them have an operand from memory, as the additions of partial sums do.
    """
    computed = postorder([value for _, _, value in store.targets])
    if len(computed) < costs.LONG_CHAIN:
        return False
    length: dict[int, int] = {}
    for expr in computed:
        length[id(expr)] = max((length[id(a)] for a in expr.args), default=0) + isinstance(expr, Apply)
    loads = len({(expr.buffer, expr.index) for expr in computed if isinstance(expr, Load)})
    return max(length.values()) >= max(costs.LONG_CHAIN, costs.CHAIN_PER_LOAD * loads)


def _is_independent(nest: Sequence[For]) -> bool:
    """Whether iterations of the outermost loop of a nest access no place that another stores to."""
    variables = {loop.var for loop in nest}
    stored: dict[Buffer, Index] = {}
    read: list[Expr] = []
    for store in _stores(nest[-1]):
        read += postorder(roots_of(store))
        for buffer, index, _ in store.targets:
            if stored.setdefault(buffer, index) != index or not _is_apart(index, variables, nest[0].var):
                return False
    read += postorder([number for e in read if isinstance(e, Load) for number in dynamics(e.index)])
    if any(isinstance(e, Across) and e.buffer in stored for e in read):
        return False
    return all(stored.get(e.buffer, e.index) == e.index for e in read if isinstance(e, Load))


def _is_apart(index: Index, variables: set[Var], var: Var) -> bool:
    """Whether iterations over `var` have places of their own, whatever the other variables of the nest are."""
    return is_injective(index, variables) and any(atom is var for atom, _ in index.terms)


def _in_blocks(loop: For, together: int, made: _Block) -> tuple[Stmt, ...]:
    """The loop in blocks of so many iterations, and one of those that are left."""
    whole, rest = divmod(loop.var.extent, together)

    def block(size: int, first: Index) -> tuple[Stmt, ...]:
        var = Var(loop.var.name, size)
        at = {loop.var: first + as_index(var) if size > 1 else first}
        body = rewritten(loop.body, index=lambda index: index.substitute(at))
        return made(var, body) if size > 1 else body

    outer = Var(loop.var.name, whole)
    blocks = block(together, as_index(outer) * together) if whole > 1 else block(together, as_index(0))
    loops = (replace(loop, var=outer, body=blocks),) if whole > 1 else blocks
    return (*loops, *block(rest, as_index(whole * together))) if rest else loops


@dataclass(frozen=True, slots=True)
class _Sum:
    """A store that adds to a register, and stores what else it computes.

    Parameters
    ----------
    number : int
        Number of the target that is the sum.
    operand : int
        Which operand of the addition is the term.
    """

    number: int
    operand: int


def _sum(nest: Sequence[For]) -> _Sum | None:
    """The sum, if the store of a nest adds to a register in every iteration of the outermost loop; else None."""
    (store, *others) = _stores(nest[-1])
    found = [n for n, (_, place, _) in enumerate(store.targets) if nest[0].var not in place.variables()]
    if others or len(found) != 1:
        return None
    ((acc, place, value),) = (store.targets[n] for n in found)
    if acc.space != "register" or not isinstance(value, Apply) or len(value.operands) != 2:
        return None
    uses_sum = [_reads(operand, acc) for operand in value.operands]
    total = value.operands[uses_sum.index(True)] if True in uses_sum else None
    if False not in uses_sum or not isinstance(total, Load) or total.index != place:
        return None
    made = _Sum(found[0], uses_sum.index(False))
    terms = _terms(nest, made)[0]
    apart = not any(_reads(computed, acc) for _, _, computed in terms.targets)
    return made if apart and _is_independent([*nest[:-1], replace(nest[-1], body=(terms,))]) else None


def _reads(expr: Expr, buffer: Buffer) -> bool:
    return any(isinstance(e, Load | Across) and e.buffer is buffer for e in postorder([expr]))


def _terms(nest: Sequence[For], sum_: _Sum) -> tuple[Store, Store]:
    """The store of a sum in two: of the terms in registers and of what else is stored, and of the sum."""
    (store,) = _stores(nest[-1])
    acc, place, value = store.targets[sum_.number]
    assert isinstance(value, Apply)
    term = value.operands[sum_.operand]
    pitch = 1 << (nest[-1].var.extent - 1).bit_length()
    spot = as_index(0)
    for loop in nest[:-1]:
        spot = spot * loop.var.extent + as_index(loop.var)
    spot = spot * pitch + as_index(nest[-1].var)
    terms = Buffer("terms", term.dtype, prod(loop.var.extent for loop in nest[:-1]) * pitch, "register")
    added = tuple(Load(terms, spot) if n == sum_.operand else operand for n, operand in enumerate(value.operands))
    others = (target for n, target in enumerate(store.targets) if n != sum_.number)
    return Store((*others, (terms, spot, term))), Store(((acc, place, replace(value, operands=added)),))


def _terms_first(var: Var, body: tuple[Stmt, ...], sum_: _Sum) -> tuple[Stmt, ...]:
    """A block of such a sum: the terms interleaved, then their additions in order."""
    nest = _nest(For(var, body, "interleave"))
    compute, add = _terms(nest, sum_)

    def loops(store: Store, kind: Literal["interleave", "unroll"]) -> Stmt:
        made: Stmt = replace(nest[-1], body=(store,))
        for loop in reversed(nest[:-1]):
            made = For(loop.var, (made,), kind)
        return made

    return loops(compute, "interleave"), loops(add, "unroll")
