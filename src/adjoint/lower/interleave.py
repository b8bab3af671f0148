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

A sum of such values is a chain itself, in a fixed order of additions. Its terms are computed beforehand, in registers::

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

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index, uses
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
    if (term := _term(nest)) is not None:
        return _in_blocks(loop, together, lambda var, block: _terms_first(var, block, term))
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
    loads = sum(isinstance(expr, Load) for expr in computed)
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
    moving = [(abs(c), atom) for atom, c in index.terms if any(uses(atom, v) for v in variables)]
    reach = 0
    for stride, atom in sorted(moving, key=lambda found: found[0]):
        if stride <= reach or not isinstance(atom, Var):
            return False
        reach += stride * (atom.extent - 1)
    return any(atom is var for _, atom in moving)


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


def _term(nest: Sequence[For]) -> int | None:
    """Which operand is the term, if a nest of two adds one to a register in every iteration."""
    (store, *others) = _stores(nest[-1])
    ((acc, place, value), *more) = store.targets
    if others or more or len(nest) > 2 or acc.space != "register" or nest[0].var in place.variables():
        return None
    if not isinstance(value, Apply) or len(value.operands) != 2:
        return None
    uses_sum = [any(isinstance(e, Load | Across) and e.buffer is acc for e in postorder([o])) for o in value.operands]
    total = value.operands[uses_sum.index(True)] if True in uses_sum else None
    return uses_sum.index(False) if isinstance(total, Load) and False in uses_sum and total.index == place else None


def _terms_first(var: Var, body: tuple[Stmt, ...], term: int) -> tuple[Stmt, ...]:
    """A block of such a sum: the terms interleaved, then their additions in order."""
    (vector,) = body
    assert isinstance(vector, For)
    (store,) = _stores(vector)
    ((acc, place, value),) = store.targets
    assert isinstance(value, Apply)
    pitch = 1 << (vector.var.extent - 1).bit_length()
    terms = Buffer("terms", value.operands[term].dtype, var.extent * pitch, "register")

    spot = as_index(var) * pitch + as_index(vector.var)
    added = tuple(Load(terms, spot) if n == term else operand for n, operand in enumerate(value.operands))
    compute = Store(((terms, spot, value.operands[term]),))
    add = Store(((acc, place, replace(value, operands=added)),))
    return (
        For(var, (replace(vector, body=(compute,)),), "interleave"),
        For(var, (replace(vector, body=(add,)),), "unroll"),
    )
