"""Parse kernel text: the inverse of `adjoint.kernel.printer`, line by line.

The result prints as the same text. Indices are not simplified, and loads that were one object may become several, which
are equivalent within a statement.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast, get_args

from adjoint.errors import ParseError
from adjoint.kernel.index import Index, Var
from adjoint.kernel.ir import Buffer, Expr, For, Kernel, LoopKind, Prefetch, Space, Stmt, Store, When
from adjoint.kernel.line_parser import Line, Untyped

__all__ = ["parse_kernel", "parse_kernels"]

#: Groups of buffers in a kernel's header, and the default space of each.
_GROUPS: dict[str, Space] = {
    "reads": "external",
    "writes": "external",
    "registers": "register",
    "scratch": "scratch",
}


def parse_kernel(text: str) -> Kernel:
    """Parse the text of a single kernel.

    Raises
    ------
    ParseError
        If the text is not a single valid kernel, with line and column.
    """
    found = parse_kernels(text)
    if len(found) != 1:
        raise ParseError(f"the text must be that of one kernel, got {len(found)}; use parse_kernels")
    return found[0]


def parse_kernels(text: str) -> tuple[Kernel, ...]:
    """Parse several kernels; a buffer name denotes the same buffer in all of them, except registers and scratch.

    Raises
    ------
    ParseError
        If the text is not a sequence of valid kernels, with line and column.
    """
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    return _Kernels(lines).all()


class _Kernels:
    """Parses lines in order; indentation determines nesting."""

    def __init__(self, lines: Sequence[tuple[int, str]]) -> None:
        self._lines, self._at = lines, 0
        self._shared: dict[str, Buffer] = {}
        self._names: dict[str, Buffer | Var] = {}
        self._temporaries: dict[str, Expr] = {}

    def all(self) -> tuple[Kernel, ...]:
        found = []
        while self._at < len(self._lines):
            found.append(self._kernel())
        return tuple(found)

    def _line(self) -> Line:
        """Read the next line."""
        if self._at == len(self._lines):
            raise ParseError("a kernel ends before its body", self._lines[-1][0] if self._lines else 1, 1)
        number, text = self._lines[self._at]
        self._at += 1
        return Line(number, text, self._names, self._temporaries)

    def _indent(self) -> int:
        """Indentation of the next line, or -1 at the end."""
        if self._at == len(self._lines):
            return -1
        text = self._lines[self._at][1]
        return len(text) - len(text.lstrip())

    def _kernel(self) -> Kernel:
        self._names = dict(self._shared)
        self._tiles: dict[Buffer, int] = {}
        head = self._line()
        head.take("kernel")
        name, values = head.name(), []
        if head.skip(":"):
            head.take("computes")
            values.append(head.name())
            while head.skip(","):
                values.append(head.name())
        head.end()
        parallel, flops, moved = self._figures()
        if not self._lines[self._at : self._at + 1] or not self._lines[self._at][1].lstrip().startswith("for "):
            self._buffers()
        self._temporaries = {}
        while re.match(r"\s*t\d+ = ", self._lines[self._at][1] if self._at < len(self._lines) else ""):
            self._statement(2)
        unit, kind, until = self._for(self._line())
        if kind != "units":
            raise ParseError("a kernel's outermost loop must say units", self._lines[self._at - 1][0], 1)
        body = self._body(2)
        return Kernel(name, unit, body, tuple(values), flops, moved, parallel, tuple(self._tiles.items()), until)

    def _figures(self) -> tuple[bool, int, int]:
        line = self._line()
        line.integer()
        line.take("units", ",")
        parallel = line.skip("shared")
        line.take(*(("by", "threads") if parallel else ("on", "one", "thread")), ";")
        flops = line.integer()
        line.take("flops", ",")
        moved = line.integer()
        line.take("bytes")
        line.end()
        return parallel, flops, moved

    def _buffers(self) -> None:
        line = self._line()
        while True:
            group = line.name()
            if group not in _GROUPS:
                line.at -= 1
                raise line.wrong(f"one of {', '.join(_GROUPS)}")
            self._buffer(line, _GROUPS[group])
            while line.skip(","):
                self._buffer(line, _GROUPS[group])
            if not line.skip(";"):
                return line.end()

    def _buffer(self, line: Line, space: Space) -> None:
        name, dtype = line.name(), line.dtype()
        line.take("[")
        size = line.integer()
        line.take("]")
        if line.next in ("arena", "literal"):
            space = cast(Space, line.name())
        known = self._names.get(name)
        if isinstance(known, Buffer) and space not in ("register", "scratch"):
            if (known.dtype, known.size, known.space) != (dtype, size, space):
                raise line.wrong(f"the type that {name} had before")
            buffer = known
        else:
            buffer = Buffer(name, dtype, size, space)
            self._names[name] = buffer
            if space not in ("register", "scratch"):
                self._shared[name] = buffer
        if line.skip("by"):
            self._tiles[buffer] = line.integer()

    def _for(self, line: Line) -> tuple[Var, str, Index | None]:
        """A loop's variable, its kind, and its end at run time."""
        line.take("for")
        name = line.name()
        line.take("in", "0", "..")
        limited, until = line.skip("min"), None
        if limited:
            line.take("(")
        var = Var(name, line.integer())
        if limited:
            line.take(",")
            until = line.index()
            line.take(")")
        kind = line.name() if line.next != ":" else "serial"
        line.take(":")
        line.end()
        self._names[name] = var
        return var, kind, until

    def _body(self, outer: int) -> tuple[Stmt, ...]:
        """Parse the statements that are indented by more than `outer`."""
        found: list[Stmt] = []
        indent = self._indent()
        while self._indent() > outer:
            if self._indent() != indent:
                raise self._line().wrong("the indentation of the line before")
            statement = self._statement(indent)
            if statement is not None:
                found.append(statement)
                self._temporaries = {}
        return tuple(found)

    def _statement(self, indent: int) -> Stmt | None:
        line = self._line()
        if line.next == "for" and line.tokens[1][1] != "[":
            var, kind, until = self._for(line)
            if kind not in get_args(LoopKind):
                raise line.wrong("unroll, vector or interleave")
            self._temporaries = {}
            return For(var, self._body(indent), cast(LoopKind, kind), until)
        if line.next == "if":
            return self._when(line, indent)
        if line.next == "prefetch" and line.tokens[1][1] != "[":
            return self._prefetch(line)
        if re.fullmatch(r"t\d+", line.next) and line.tokens[1][1] == "=":
            name = line.name()
            line.take("=")
            self._temporaries[name] = line.typed()
            line.end()
            return None
        return self._store(line)

    def _when(self, line: Line, indent: int) -> When:
        line.take("if")
        low = line.integer()
        line.take("<=")
        index = line.index()
        line.take("<")
        high = line.integer()
        line.take(":")
        line.end()
        self._temporaries = {}
        then, other = self._body(indent), tuple[Stmt, ...]()
        if self._indent() == indent and self._lines[self._at][1].strip() == "else:":
            self._at += 1
            other = self._body(indent)
        return When(index, low, high, then, other)

    def _prefetch(self, line: Line) -> Prefetch:
        line.take("prefetch")
        buffer: Buffer = line.known(Buffer)
        line.take("[")
        index = line.index()
        line.take("]")
        write = line.skip("to")
        if write:
            line.take("write")
        line.end()
        return Prefetch(buffer, index, write)

    def _store(self, line: Line) -> Store:
        targets = []
        while True:
            buffer: Buffer = line.known(Buffer)
            line.take("[")
            index = line.index()
            line.take("]", "=")
            value = line.expr()
            targets.append((buffer, index, value.make(buffer.dtype) if isinstance(value, Untyped) else value))
            more = line.skip(",")
            line.end()
            if not more:
                return Store(tuple(targets))
            line = self._line()
