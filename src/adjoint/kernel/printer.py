"""Kernels as text: loops indented, shared subexpressions named where they are first needed.

::

    kernel active: computes hidden, active
      # 4 units, shared by threads; 1024 flops, 448 bytes
      # reads x f32[64]; writes y f32[64]
      for u in 0..4 units:
        for l in 0..16 vector:
          t0 = tanh(x[u*16 + l])
          y[u*16 + l] = mul(t0, sub(1.0, t0))

The text is for people; it does not parse back. ``x[i if c]`` is a load with a guard, ``[e]`` inside an index a
number read from memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from adjoint.kernel.index import Atom, Dynamic, Index, Quotient, Var
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
    Prefetch,
    Stmt,
    Store,
    dynamics,
    postorder,
    walk,
)

__all__ = ["print_kernel"]

#: Longer expressions are broken up, so that no line grows without bounds.
_WIDTH = 100


def print_kernel(kernel: Kernel) -> str:
    """The text of a kernel, in time linear in its size.

    Variables of nested loops and buffers that share a name are told apart by a number behind it: ``i``, ``i.1``.
    """
    printer = _Printer(kernel)
    printer.body(kernel.body, "    ")
    return "\n".join(printer.lines)


def _dtype(dtype: np.dtype) -> str:
    """``f32``, ``i64``, ``bool``."""
    if dtype.kind in "fiu":
        return f"{dtype.kind}{dtype.itemsize * 8}"
    return "bf16" if dtype.name == "bfloat16" else dtype.name


class _Printer:
    """Lines so far, and the names that are taken."""

    def __init__(self, kernel: Kernel) -> None:
        self.names: dict[Var | Buffer, str] = {}
        self.taken: Counter[str] = Counter()
        shared = "shared by threads" if kernel.parallel else "on one thread"
        computes = f": computes {', '.join(kernel.values)}" if kernel.values else ""
        self.lines = [
            f"kernel {kernel.name}{computes}",
            f"  # {kernel.unit.extent} units, {shared}; {kernel.flops} flops, {kernel.bytes} bytes",
            f"  # {self.buffers(kernel)}",
            f"  for {self.name(kernel.unit)} in 0..{kernel.unit.extent} units:",
        ]

    def buffers(self, kernel: Kernel) -> str:
        """What the kernel reads and writes, and the registers it keeps."""
        groups = {"reads": kernel.reads, "writes": kernel.writes, "registers": _registers(kernel)}
        return "; ".join(
            f"{verb} " + ", ".join(f"{self.name(b)} {_dtype(b.dtype)}[{b.size}]" for b in found)
            for verb, found in groups.items()
            if found
        )

    def name(self, of: Var | Buffer) -> str:
        """Its own name, with a number behind it where something else has that."""
        if of not in self.names:
            count = self.taken[of.name]
            self.taken[of.name] += 1
            self.names[of] = f"{of.name}.{count}" if count else of.name
        return self.names[of]

    def release(self, var: Var) -> None:
        """The loop over `var` is over: its name is free again."""
        self.taken[var.name] -= 1
        del self.names[var]

    def body(self, body: Sequence[Stmt], indent: str) -> None:
        for statement in body:
            if isinstance(statement, Store):
                self.store(statement, indent)
            elif isinstance(statement, For):
                kind = "" if statement.kind == "serial" else f" {statement.kind}"
                known = statement.var in self.names
                self.lines.append(f"{indent}for {self.name(statement.var)} in 0..{statement.var.extent}{kind}:")
                self.body(statement.body, indent + "  ")
                if not known:
                    self.release(statement.var)
            elif isinstance(statement, Prefetch):
                text = self.expressions(list(dynamics(statement.index)), set(), indent)
                place = f"{self.name(statement.buffer)}[{self.index(statement.index, text)}]"
                self.lines.append(f"{indent}prefetch {place}{' to write' if statement.write else ''}")
            else:
                text = self.expressions(list(dynamics(statement.index)), set(), indent)
                index = self.index(statement.index, text)
                self.lines.append(f"{indent}if {statement.low} <= {index} < {statement.high}:")
                self.body(statement.then, indent + "  ")
                if statement.other:
                    self.lines.append(f"{indent}else:")
                    self.body(statement.other, indent + "  ")

    def store(self, store: Store, indent: str) -> None:
        values = [value for _, _, value in store.targets]
        roots = values + [e for _, index, _ in store.targets for e in dynamics(index)]
        written = {buffer for buffer, _, _ in store.targets}
        # Values that read what the same statement stores are named before anything is stored.
        stale = len(store.targets) > 1 and any(
            e.buffer in written for e in postorder(roots) if isinstance(e, Load | Across)
        )
        text = self.expressions(roots, {id(v) for v in values} if stale else set(), indent)
        for buffer, index, value in store.targets:
            self.lines.append(f"{indent}{self.name(buffer)}[{self.index(index, text)}] = {text[id(value)]}")

    def expressions(self, roots: list[Expr], named: set[int], indent: str) -> dict[int, str]:
        """The text of every expression by identity; long ones, shared ones and those in `named` get a line."""
        order = postorder(roots)
        readers = Counter(id(a) for expr in order for a in expr.args)
        readers.update(id(r) for r in roots)
        text: dict[int, str] = {}
        count = 0
        for expr in order:
            made = self.text(expr, text)
            plain = isinstance(expr, Const | Coordinate) or (isinstance(expr, Load) and expr.guard is None)
            if (
                (id(expr) in named and not isinstance(expr, Const))
                or len(made) > _WIDTH
                or (readers[id(expr)] > 1 and not plain)
            ):
                self.lines.append(f"{indent}t{count} = {made}")
                made = f"t{count}"
                count += 1
            text[id(expr)] = made
        return text

    def text(self, expr: Expr, text: dict[int, str]) -> str:
        """One expression, from the texts of its parts."""
        if isinstance(expr, Apply):
            to = f" as {_dtype(expr.dtype)}" if expr.function in ("cast", "bitcast") else ""
            return f"{expr.function}({', '.join(text[id(a)] for a in expr.operands)}{to})"
        if isinstance(expr, Load):
            guard = f" if {text[id(expr.guard)]}" if expr.guard is not None else ""
            return f"{self.name(expr.buffer)}[{self.index(expr.index, text)}{guard}]"
        if isinstance(expr, Coordinate):
            return self.index(expr.index, text)
        if isinstance(expr, Across):
            return f"across({expr.function}, {self.name(expr.buffer)}[0..{expr.count}] in {expr.width} lanes)"
        return str(expr)

    def index(self, index: Index, text: dict[int, str]) -> str:
        """An index, terms with large coefficients first."""
        terms = [(self.atom(atom, text), atom, c) for atom, c in index.terms]
        terms.sort(key=lambda t: (-abs(t[2]), t[0]))
        parts = []
        for made, atom, c in terms:
            whole = made if isinstance(atom, Var | Dynamic) or c == 1 else f"({made})"
            parts.append(whole if c == 1 else f"{whole}*{c}")
        if index.constant or not parts:
            parts.append(str(index.constant))
        return " + ".join(parts).replace("+ -", "- ")

    def atom(self, atom: Atom, text: dict[int, str]) -> str:
        if isinstance(atom, Var):
            return self.name(atom)
        if isinstance(atom, Dynamic):
            return f"[{text[id(atom.expr)]}]"
        sign = "//" if isinstance(atom, Quotient) else "%"
        return f"({self.index(atom.of, text)}) {sign} {atom.by}"


def _registers(kernel: Kernel) -> tuple[Buffer, ...]:
    """Register buffers, in order of first use."""
    found: dict[Buffer, None] = {}
    for statement in walk(kernel.body):
        if isinstance(statement, Store):
            roots = [v for _, _, v in statement.targets]
            roots += [e for _, i, _ in statement.targets for e in dynamics(i)]
            used = [e.buffer for e in postorder(roots) if isinstance(e, Load | Across)]
            for buffer in used + [b for b, _, _ in statement.targets]:
                if buffer.space == "register":
                    found[buffer] = None
    return tuple(found)
