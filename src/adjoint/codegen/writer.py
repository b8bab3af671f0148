"""Writer of the text of one LLVM function: allocates names, and reuses the results of equal instructions."""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from adjoint.codegen.types import vector
from adjoint.lazy_dataclass import dataclass

__all__ = ["Writer"]


@dataclass
class Writer:
    """The instructions of a function under construction.

    Pure instructions are value-numbered: the same text in the same or an enclosing scope has the same name. Loads are
    only reused within their own scope, until there is a store to their buffer.
    """

    declarations: dict[str, str]
    lines: list[str] = field(default_factory=list)
    entry: list[str] = field(default_factory=list)
    _count: int = 0
    _scopes: list[dict[str, str]] = field(default_factory=lambda: [{}])
    _loads: list[dict[tuple[str, Hashable], Any]] = field(default_factory=lambda: [{}])

    def name(self) -> str:
        """A new value name."""
        self._count += 1
        return f"%v{self._count}"

    def label(self, hint: str) -> str:
        """A new label."""
        self._count += 1
        return f"{hint}{self._count}"

    def line(self, text: str) -> None:
        """Add an instruction without a result, or a label."""
        self.lines.append(text)

    def pure(self, text: str) -> str:
        """Add an instruction whose result depends only on its text, and return its name."""
        for scope in self._scopes:
            if text in scope:
                return scope[text]
        made = self.name()
        self.lines.append(f"  {made} = {text}")
        self._scopes[-1][text] = made
        return made

    def load(self, buffer: str, text: str) -> str:
        """Add a load from a buffer and return its name."""
        made: str | None = self._loads[-1].get((buffer, text))
        if made is None:
            made = self.name()
            self.lines.append(f"  {made} = {text}")
            self._loads[-1][(buffer, text)] = made
        return made

    def keep(self, buffer: str, place: Hashable, made: tuple[str, ...]) -> None:
        """Keep the names of what was loaded from a place in a buffer, as long as its loads are reused."""
        self._loads[-1][(buffer, place)] = made

    def kept(self, buffer: str, place: Hashable) -> tuple[str, ...]:
        """The names that are kept for a place; none if there are not any."""
        found: tuple[str, ...] = self._loads[-1].get((buffer, place), ())
        return found

    def store(self, buffer: str, text: str) -> None:
        """Add a store to a buffer, after which loads from it are no longer reused."""
        self.lines.append(f"  {text}")
        loads = self._loads[-1]
        for key in [k for k in loads if k[0] == buffer]:
            del loads[key]

    def broadcast(self, value: str, type_: str, lanes: int) -> str:
        """A vector with all lanes equal to a value in a register."""
        wide = vector(type_, lanes)
        one = self.pure(f"insertelement {wide} poison, {type_} {value}, i64 0")
        return self.pure(f"shufflevector {wide} {one}, {wide} poison, <{lanes} x i32> zeroinitializer")

    def intrinsic(self, name: str, result: str, types: list[str], args: list[str]) -> str:
        """Add a call of an LLVM intrinsic without side effects, and return its name."""
        return self.pure(self.call_text(name, result, types, args))

    def call_text(self, name: str, result: str, types: list[str], args: list[str]) -> str:
        """The text of a call; adds its declaration."""
        self.declarations[name] = f"declare {result} @{name}({', '.join(types)})"
        return f"call {result} @{name}({', '.join(f'{t} {a}' for t, a in zip(types, args, strict=True))})"

    def alloca(self, text: str) -> str:
        """Allocate stack memory in the entry block."""
        made = self.name()
        self.entry.append(f"  {made} = alloca {text}")
        return made

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A scope whose instructions do not dominate what follows: a loop body or a branch."""
        self._scopes.append({})
        self._loads.append({})
        try:
            yield
        finally:
            self._scopes.pop()
            self._loads.pop()
            self._loads[-1].clear()
