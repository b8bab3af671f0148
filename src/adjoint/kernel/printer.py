"""Print kernels as text: loops are indented, and shared subexpressions get names where they are first used.

::

    kernel active: computes hidden, active
      4 units, shared by threads; 1024 flops, 448 bytes
      reads x f32[64]; writes y f32[64]
      for u in 0..4 units:
        for l in 0..16 vector:
          t0 = tanh(x[u*16 + l])
          y[u*16 + l] = mul(t0, sub(1.0, t0))

`adjoint.kernel.parser` parses it. Buffers are external unless their type is followed by ``arena`` or ``literal``. ``x[i
if c]`` is a load with a guard, and ``[e in 0..n]`` inside an index is a number read from memory. A loop ``in
0..min(64, n)`` ends at run time. An assignment that ends with a comma belongs to the same statement as the next one:
all values are computed before any is stored. A
constant or index has the dtype of the other operands, or of the buffer that it is stored to; if neither determines it,
it is written like a call: ``f32(1.0)``. If all operands are constants and indices, they are i64. ``at(3)`` is a
constant index.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence

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
    roots_of,
    walk,
)
from adjoint.kernel.program import Program
from adjoint.kernel.regions import Carried, Nested, Place, Region, Rows

__all__ = ["PLAIN_NAME", "describe_region", "dtype_name", "print_kernel", "print_kernels", "print_program"]

#: Maximum width of an expression; longer ones are split, so that lines have bounded length.
_WIDTH = 100

#: Names that are printed unchanged; any other is printed as a JSON string, such as one that would start like a number.
PLAIN_NAME = re.compile(r"(?:%\w|[A-Za-z_])[\w.$]*")

_I64 = np.dtype(np.int64)

#: Names with another meaning in the text: temporaries, keywords.
_RESERVED = re.compile(r"t\d+|inf|nan|True|False|if|in|as|at")


#: Names of shared or long expressions.
_TEMPORARY = re.compile(r"t\d+")


def print_kernel(kernel: Kernel) -> str:
    """Print a kernel, in time linear in its size.

    Variables of nested loops and buffers with the same name are distinguished by a suffix: ``i``, ``i.1``.
    """
    return print_kernels((kernel,))


def print_kernels(kernels: Iterable[Kernel]) -> str:
    """Print several kernels, in which a buffer has the same name throughout."""
    printer = _Printer()
    for kernel in kernels:
        printer.kernel(kernel)
    return "\n".join(printer.lines)


def print_program(program: Program) -> str:
    """Print a program: the locations of its buffers, its barriers, and its kernels."""
    printer = _Printer()
    lines = [f"program {_quoted(program.name)}"]
    lines += [f"  slot {n}: {printer.buffer(buffer)}" for n, buffer in enumerate(program.slots)]
    lines += [f"  arena at {at}: {printer.buffer(buffer)}" for buffer, at in program.offsets.items()]
    lines.append(f"  arena of {program.arena_bytes} bytes; {program.scratch_bytes} bytes of scratch for each thread")
    waits = ", ".join(_quoted(program.kernels[n].name) for n in sorted(program.barriers))
    lines.append(f"  barriers before: {waits or 'none'}")
    for region in program.regions:
        first, last = (_quoted(program.kernels[n].name) for n in (region.start, region.stop - 1))
        lines.append(f"  {describe_region(region)}, from {first} to {last}")
        lines += [f"    {printer.place(buffer, place)}" for buffer, place in region.places.items()]
    for kernel in program.kernels:
        printer.kernel(kernel)
    return "\n".join([*lines, "", *printer.lines])


def describe_region(region: Region) -> str:
    """What a region is: ``loop scan_4: 7 iterations``."""
    if region.trips is None:
        assert region.test is not None
        return f"loop {_quoted(region.name)}: while {region.test.name} holds"
    if region.test is not None:
        return f"branch {_quoted(region.name)}: if {region.test.name} is {region.want}"
    return f"loop {_quoted(region.name)}: {region.trips} iteration{'s' * (region.trips != 1)}"


def dtype_name(dtype: np.dtype) -> str:
    """``f32``, ``i64``, ``bool``."""
    if dtype.kind in "fiu":
        return f"{dtype.kind}{dtype.itemsize * 8}"
    return "bf16" if dtype.name == "bfloat16" else dtype.name


def _quoted(name: str) -> str:
    return name if PLAIN_NAME.fullmatch(name) else json.dumps(name)


class _Printer:
    """The lines printed so far, and the names in use."""

    def __init__(self) -> None:
        self.names: dict[Var | Buffer, str] = {}
        self.taken: Counter[str] = Counter()
        self.lines: list[str] = []

    def place(self, buffer: Buffer, place: Place) -> str:
        """Where a buffer of a region is."""
        name = self.buffer(buffer)
        if isinstance(place, Rows):
            back = ", from the last to the first" if place.stride < 0 else ""
            return f"{name} is a row of {self.buffer(place.base)}{back}"
        if isinstance(place, Carried):
            outside = place.last if place.written else place.first
            ends = "" if outside is None else f" and {self.buffer(outside)} {'last' if place.written else 'first'}"
            return f"{name} is in turn in {self.buffer(place.pair)}{ends}"
        return f"{name} is {self.buffer(place)}"

    def kernel(self, kernel: Kernel) -> None:
        if isinstance(kernel, Nested):
            self.nested(kernel)
            return
        shared = "shared by threads" if kernel.parallel else "on one thread"
        computes = f": computes {', '.join(map(_quoted, kernel.values))}" if kernel.values else ""
        buffers = self.buffers(kernel)
        if self.lines:
            self.lines.append("")
        self.lines += [
            f"kernel {_quoted(kernel.name)}{computes}",
            f"  {kernel.unit.extent} units, {shared}; {kernel.flops} flops, {kernel.bytes} bytes",
            *([f"  {buffers}"] if buffers else []),
        ]
        end = self.end(kernel.unit, kernel.until, "  ")
        self.lines.append(f"  for {self.name(kernel.unit)} in 0..{end} units:")
        self.body(kernel.body, "    ")
        self.release(kernel.unit)

    def nested(self, kernel: Nested) -> None:
        """The kernels of a loop or branch."""
        for part in kernel.parts:
            for number, inner in enumerate(part.kernels):
                self.kernel(inner)
                if not number:
                    what = f"{part.trips} times" if part.test is None else f"while {part.test.name} holds"
                    if part.trips == 1 and part.test is not None:
                        what = f"if {part.test.name} is {part.want}"
                    at = max(n for n, line in enumerate(self.lines) if line.startswith("kernel "))
                    self.lines.insert(at, f"# {_quoted(part.name)}, {what}:")

    def buffers(self, kernel: Kernel) -> str:
        """The buffers that the kernel reads and writes, and those private to a thread."""
        own = {"registers": _registers(kernel), "scratch": kernel.scratch}
        groups = {"reads": kernel.reads, "writes": kernel.writes, **own}
        tiles = dict(kernel.tiles)

        def text(buffer: Buffer) -> str:
            return f"{self.buffer(buffer)} by {tiles[buffer]}" if buffer in tiles else self.buffer(buffer)

        return "; ".join(f"{verb} " + ", ".join(map(text, found)) for verb, found in groups.items() if found)

    def buffer(self, buffer: Buffer) -> str:
        """A buffer's name, type and, unless it is external, its space."""
        space = f" {buffer.space}" if buffer.space in ("arena", "literal") else ""
        return f"{self.name(buffer)} {dtype_name(buffer.dtype)}[{buffer.size}]{space}"

    def name(self, of: Var | Buffer) -> str:
        """The name of a variable or buffer, with a numeric suffix if another one has the same name."""
        if of not in self.names:
            count = self.taken[of.name] or int(_RESERVED.fullmatch(of.name) is not None)
            self.taken[of.name] = count + 1
            self.names[of] = _quoted(f"{of.name}.{count}" if count else of.name)
        return self.names[of]

    def release(self, var: Var) -> None:
        """End the scope of a loop variable, so that its name can be reused."""
        self.taken[var.name] -= 1
        del self.names[var]

    def body(self, body: Sequence[Stmt], indent: str) -> None:
        for statement in body:
            if isinstance(statement, Store):
                self.store(statement, indent)
            elif isinstance(statement, For):
                kind = "" if statement.kind == "serial" else f" {statement.kind}"
                known = statement.var in self.names
                end = self.end(statement.var, statement.until, indent)
                self.lines.append(f"{indent}for {self.name(statement.var)} in 0..{end}{kind}:")
                self.body(statement.body, indent + "  ")
                if not known:
                    self.release(statement.var)
            elif isinstance(statement, Prefetch):
                text = self.expressions(list(dynamics(statement.index)), indent)
                place = f"{self.name(statement.buffer)}[{self.index(statement.index, text)}]"
                self.lines.append(f"{indent}prefetch {place}{' to write' if statement.write else ''}")
            else:
                text = self.expressions(list(dynamics(statement.index)), indent)
                index = self.index(statement.index, text)
                self.lines.append(f"{indent}if {statement.low} <= {index} < {statement.high}:")
                self.body(statement.then, indent + "  ")
                if statement.other:
                    self.lines.append(f"{indent}else:")
                    self.body(statement.other, indent + "  ")

    def end(self, var: Var, until: Index | None, indent: str) -> str:
        """The end of a loop, or of the units."""
        if until is None:
            return str(var.extent)
        text = self.expressions(list(dynamics(until)), indent)
        return f"min({var.extent}, {self.index(until, text)})"

    def store(self, store: Store, indent: str) -> None:
        roots = [value for _, _, value in store.targets]
        text = self.expressions(roots + [e for _, index, _ in store.targets for e in dynamics(index)], indent)
        for number, (buffer, index, value) in enumerate(store.targets, 1):
            made = self.operand(value, text, bare=True)
            more = "," if number < len(store.targets) else ""
            self.lines.append(f"{indent}{self.name(buffer)}[{self.index(index, text)}] = {made}{more}")

    def expressions(self, roots: list[Expr], indent: str) -> dict[int, str]:
        """The text of every expression by identity; long and shared ones get a line of their own."""
        order = postorder(roots)
        readers = Counter(id(a) for expr in order for a in expr.args)
        readers.update(id(r) for r in roots)
        text: dict[int, str] = {}
        count = 0
        for expr in order:
            made = self.text(expr, text)
            plain = isinstance(expr, Const | Coordinate) or (isinstance(expr, Load) and expr.guard is None)
            if len(made) > _WIDTH or (readers[id(expr)] > 1 and not plain):
                text[id(expr)] = made
                self.lines.append(f"{indent}t{count} = {self.operand(expr, text, bare=False)}")
                made = f"t{count}"
                count += 1
            text[id(expr)] = made
        return text

    def operand(self, expr: Expr, text: dict[int, str], bare: bool) -> str:
        """The text of an operand; if nothing else determines its dtype (not `bare`), with the dtype."""
        made = text[id(expr)]
        untyped = isinstance(expr, Const | Coordinate) and not _TEMPORARY.fullmatch(made)
        if not untyped or bare or made in ("True", "False"):
            return made
        return f"{dtype_name(expr.dtype)}({made})"

    def call(self, expr: Apply, text: dict[int, str]) -> str:
        """A function with operands; those that must have the same dtype determine each other's."""
        alike = expr.operands[1:] if expr.function == "select" else expr.operands
        typed = [a for a in alike if not isinstance(a, Const | Coordinate) or _TEMPORARY.fullmatch(text[id(a)])]
        known = bool(typed) or any(isinstance(a, Coordinate) and a.dtype == _I64 for a in alike)
        parts = [self.operand(a, text, known and any(a is b for b in alike)) for a in expr.operands]
        to = f" as {dtype_name(expr.dtype)}" if expr.function in ("cast", "bitcast") else ""
        return f"{expr.function}({', '.join(parts)}{to})"

    def text(self, expr: Expr, text: dict[int, str]) -> str:
        """The text of an expression, given the texts of its operands."""
        if isinstance(expr, Apply):
            return self.call(expr, text)
        if isinstance(expr, Load):
            guard = f" if {self.operand(expr.guard, text, bare=False)}" if expr.guard is not None else ""
            return f"{self.name(expr.buffer)}[{self.index(expr.index, text)}{guard}]"
        if isinstance(expr, Coordinate):
            return self.index(expr.index, text) if expr.index.terms else f"at({expr.index.constant})"
        if isinstance(expr, Across):
            return f"across({expr.function}, {self.name(expr.buffer)}[0..{expr.count}] in {expr.width} lanes)"
        assert isinstance(expr, Const)
        return repr(expr.value.item() if isinstance(expr.value, np.generic) else expr.value)

    def index(self, index: Index, text: dict[int, str]) -> str:
        """An index, with the largest coefficients first."""
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
            return f"[{self.operand(atom.expr, text, bare=False)} in 0..{atom.size}]"
        sign = "//" if isinstance(atom, Quotient) else "%"
        return f"({self.index(atom.of, text)}) {sign} {atom.by}"


def _registers(kernel: Kernel) -> tuple[Buffer, ...]:
    """Register buffers, in order of first use."""
    found: dict[Buffer, None] = {}
    for statement in walk(kernel.body):
        used = [e.buffer for e in postorder(roots_of(statement)) if isinstance(e, Load | Across)]
        if isinstance(statement, Store):
            used += [b for b, _, _ in statement.targets]
        found.update((buffer, None) for buffer in used if buffer.space == "register")
    return tuple(found)
