"""Writer of the text of one LLVM function: allocates names, and reuses the results of equal instructions."""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from adjoint.codegen.types import vector
from adjoint.lazy_dataclass import dataclass

__all__ = ["Writer"]


class _Scope:
    """A loop, or a part of what one iteration runs: its instructions, and results that can be reused in it."""

    __slots__ = ("lines", "loads", "loops", "texts")

    def __init__(self, loops: int) -> None:
        #: The number of loops around, itself included.
        self.loops = loops
        self.lines: list[str] = []
        #: Pure instructions that are available until the scope ends.
        self.texts: list[str] = []
        self.loads: dict[tuple[str, Hashable], Any] = {}


@dataclass
class Writer:
    """The instructions of a function under construction.

    Pure instructions are value-numbered: the same text in the same or an enclosing scope has the same name. Those that
    compute addresses are also moved out of loops that do not change them. Loads are only reused within their own scope,
    until there is a store to their buffer.
    """

    declarations: dict[str, str]
    entry: list[str] = field(default_factory=list)
    _count: int = 0
    _scopes: list[_Scope] = field(default_factory=lambda: [_Scope(0)])
    _names: dict[str, str] = field(default_factory=dict)
    _depths: dict[str, int] = field(default_factory=dict)

    @property
    def lines(self) -> list[str]:
        """The instructions of the current scope."""
        return self._scopes[-1].lines

    def name(self) -> str:
        """A new name for a value of the current scope."""
        return self._named(len(self._scopes) - 1)

    def _named(self, depth: int) -> str:
        self._count += 1
        made = f"%v{self._count}"
        self._depths[made] = depth
        return made

    def label(self, hint: str) -> str:
        """A new label."""
        self._count += 1
        return f"{hint}{self._count}"

    def line(self, text: str) -> None:
        """Add an instruction without a result, or a label."""
        self._scopes[-1].lines.append(text)

    def pure(self, text: str) -> str:
        """Add an instruction whose result depends only on its text, and return its name."""
        return self._names.get(text) or self._add(text, len(self._scopes) - 1)

    def hoisted(self, text: str, *operands: str) -> str:
        """Add a pure instruction outside of all loops that change none of its operands, and return its name."""
        if found := self._names.get(text):
            return found
        scopes, known = self._scopes, self._depths
        loops, depth = max([scopes[known.get(operand, 0)].loops for operand in operands]), len(scopes) - 1
        # Not out of a branch as well, which may not run.
        while scopes[depth].loops > loops:
            depth -= 1
        return self._add(text, depth)

    def _add(self, text: str, depth: int) -> str:
        """Add a pure instruction to a scope, and return its name."""
        scope, made = self._scopes[depth], self._named(depth)
        scope.lines.append(f"  {made} = {text}")
        scope.texts.append(text)
        self._names[text] = made
        return made

    def depth(self, value: str) -> int:
        """The number of scopes around a value; 0 for parameters and numbers."""
        return self._depths.get(value, 0)

    def load(self, buffer: str, text: str) -> str:
        """Add a load from a buffer and return its name."""
        scope = self._scopes[-1]
        made: str | None = scope.loads.get((buffer, text))
        if made is None:
            made = self.name()
            scope.lines.append(f"  {made} = {text}")
            scope.loads[(buffer, text)] = made
        return made

    def keep(self, buffer: str, place: Hashable, made: tuple[str, ...]) -> None:
        """Keep the names of what was loaded from a place in a buffer, as long as its loads are reused."""
        self._scopes[-1].loads[(buffer, place)] = made

    def kept(self, buffer: str, place: Hashable) -> tuple[str, ...]:
        """The names that are kept for a place; none if there are not any."""
        found: tuple[str, ...] = self._scopes[-1].loads.get((buffer, place), ())
        return found

    def store(self, buffer: str, text: str) -> None:
        """Add a store to a buffer, after which loads from it are no longer reused."""
        self.line(f"  {text}")
        loads = self._scopes[-1].loads
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

    def opaque(self, type_: str, value: str) -> str:
        """The text of a call whose result is its operand, which LLVM's loop strength reduction does not know."""
        if type_ == "ptr":
            return self.call_text("llvm.strip.invariant.group.p0", "ptr", ["ptr"], [value])
        return self.call_text(f"llvm.expect.{type_}", type_, [type_, type_], [value, "1"])

    def alloca(self, text: str) -> str:
        """Allocate stack memory in the entry block."""
        made = self._named(0)
        self.entry.append(f"  {made} = alloca {text}")
        return made

    @contextmanager
    def scope(self, loop: bool = False) -> Iterator[None]:
        """A scope whose instructions do not dominate what follows: a loop or a branch.

        It contains all of their instructions, such as the jump to a loop, so that others can still be added before it.
        """
        self._scopes.append(_Scope(self._scopes[-1].loops + loop))
        try:
            yield
        finally:
            ended = self._scopes.pop()
            for text in ended.texts:
                del self._names[text]
            around = self._scopes[-1]
            around.lines += ended.lines
            around.loads.clear()
