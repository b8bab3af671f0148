"""Parser of a single line of kernel text: its tokens, indices and expressions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any, cast

import ml_dtypes
import numpy as np

from adjoint.errors import ParseError
from adjoint.kernel.index import Atom, Dynamic, Index, Quotient, Remainder, Var
from adjoint.kernel.ir import Across, Apply, Buffer, Const, Coordinate, Expr, Load
from adjoint.kernel.scalars import SCALARS
from adjoint.lazy_dataclass import dataclass

__all__ = ["Line", "Untyped"]

_DTYPES = {
    f"{kind}{8 * size}": np.dtype(f"{kind}{size}")
    for kind in "iuf"
    for size in (1, 2, 4, 8)
    if kind + str(size) != "f1"
}
_DTYPES |= {"bf16": np.dtype(ml_dtypes.bfloat16), "bool": np.dtype(np.bool_)}
_BOOL, _I64 = np.dtype(np.bool_), np.dtype(np.int64)

_TOKEN = re.compile(
    r"""\s*(?:(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<number>-?(?:inf|nan)(?![\w.$])|-?\d+\.\d+(?:e[-+]?\d+)?|-?\d+e[-+]?\d+|\d+)(?![A-Za-z_$])
    |(?P<name>%?[A-Za-z_0-9](?:[\w$]|\.(?!\.))*)
    |(?P<mark>\.\.|//|<=|[-+*%\[\](),;:=<]))""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Untyped:
    """A constant or an index whose dtype is not known yet; `default` applies if the context gives none."""

    make: Callable[[np.dtype], Expr]
    default: np.dtype | None = None


@dataclass
class Line:
    """A line's tokens, the current position, and the names in scope."""

    number: int
    text: str
    names: Mapping[str, Buffer | Var]
    temporaries: Mapping[str, Expr]
    tokens: list[tuple[str, str, int]] = field(init=False)
    at: int = 0

    def __post_init__(self) -> None:
        self.tokens, place = [], 0
        end = len(self.text.rstrip())
        while place < end:
            match = _TOKEN.match(self.text, place)
            if match is None:
                raise ParseError(
                    f"nothing in a kernel begins with {self.text[place:].lstrip()[0]!r}", self.number, place + 1
                )
            kind = match.lastgroup or ""
            self.tokens.append((kind, match[kind], match.start(kind)))
            place = match.end()
        self.tokens.append(("end", "the end of the line", end))

    # Tokens

    @property
    def next(self) -> str:
        """The text of the current token; at the end, a text that equals no token."""
        return self.tokens[self.at][1]

    def wrong(self, wanted: str) -> ParseError:
        """The error for the current token."""
        _, text, column = self.tokens[self.at]
        return ParseError(f"{wanted} was expected, got {text}", self.number, column + 1)

    def take(self, *texts: str) -> None:
        """Read the given tokens, which must be next."""
        for text in texts:
            if self.next != text or self.tokens[self.at][0] in ("string", "end"):
                raise self.wrong(repr(text))
            self.at += 1

    def skip(self, text: str) -> bool:
        """Read a token if it is next."""
        found = self.next == text and self.tokens[self.at][0] not in ("string", "end")
        self.at += found
        return found

    def name(self) -> str:
        """Read a name."""
        kind, text, _ = self.tokens[self.at]
        if kind not in ("name", "string"):
            raise self.wrong("a name")
        self.at += 1
        return cast(str, json.loads(text)) if kind == "string" else text

    def integer(self) -> int:
        """Read an integer."""
        sign = -1 if self.skip("-") else 1
        if self.tokens[self.at][0] != "number" or not re.fullmatch(r"-?\d+", self.next):
            raise self.wrong("an integer")
        self.at += 1
        return sign * int(self.tokens[self.at - 1][1])

    def end(self) -> None:
        """Check that no tokens are left."""
        if self.tokens[self.at][0] != "end":
            raise self.wrong("the end of the line")

    def known(self, kind: type) -> Any:
        """Read the name of a buffer or a variable in scope."""
        start = self.at
        found = self.names.get(self.name())
        if not isinstance(found, kind):
            self.at = start
            what = "a buffer that the head names" if kind is Buffer else "a variable of a loop around"
            raise self.wrong(what)
        return found

    # Indices

    def index(self) -> Index:
        """Read an index as written, without simplification."""
        constant, terms = 0, dict[Atom, int]()
        sign = 1
        while True:
            if self.tokens[self.at][0] == "number" or self.next == "-":
                constant += sign * self.integer()
            else:
                atom, factor = self.term()
                terms[atom] = terms.get(atom, 0) + sign * factor
            if self.skip("+"):
                sign = 1
            elif self.skip("-"):
                sign = -1
            else:
                return Index(constant, frozenset((a, c) for a, c in terms.items() if c))

    def term(self) -> tuple[Atom, int]:
        """Read an atom and its coefficient."""
        atom = self.atom()
        return atom, self.integer() if self.skip("*") else 1

    def atom(self) -> Atom:
        """Read a variable, a quotient, a remainder or a number read from memory."""
        if self.skip("["):
            expr = self.typed()
            self.take("in", "0", "..")
            size = self.integer()
            self.take("]")
            return Dynamic(expr, size)
        if not self.skip("("):
            return cast(Var, self.known(Var))
        if self.next == "(":
            start = self.at
            inner = self.atom()
            # Two pairs of parentheses enclose an atom, unless it is itself divided.
            if isinstance(inner, Quotient | Remainder) and self.skip(")") and self.next not in ("//", "%"):
                return inner
            self.at = start
        of = self.index()
        self.take(")")
        if self.skip("//"):
            return Quotient(of, self.integer())
        self.take("%")
        return Remainder(of, self.integer())

    # Expressions

    def typed(self) -> Expr:
        """Read an expression that specifies its dtype."""
        made = self.expr()
        if isinstance(made, Untyped):
            raise self.wrong("an expression that says its dtype, such as f32(1.0)")
        return made

    def expr(self) -> Expr | Untyped:
        """Read an expression; the dtype of a constant or an index may still be unknown."""
        kind, text, _ = self.tokens[self.at]
        following = self.tokens[self.at + 1][1] if self.at + 1 < len(self.tokens) else ""
        if kind == "name" and following == "(":
            return self.call()
        if kind in ("name", "string") and following == "[":
            return self.load()
        if kind == "name" and text in self.temporaries:
            self.at += 1
            return self.temporaries[text]
        if text in ("True", "False"):
            self.at += 1
            return Const(text == "True", _BOOL)
        if kind == "number" or (text == "-" and self.tokens[self.at + 1][0] == "number"):
            value = self.literal()
            return Untyped(partial(Const, value))
        index = self.index()
        return Untyped(partial(Coordinate, index), default=_I64)

    def literal(self) -> float | int:
        """Read a number."""
        negative = self.skip("-")
        text = self.next
        self.at += 1
        value = int(text) if re.fullmatch(r"-?\d+", text) else float(text)
        return -value if negative else value

    def load(self) -> Expr:
        """Read an element of a buffer."""
        buffer: Buffer = self.known(Buffer)
        self.take("[")
        index = self.index()
        guard = self.typed() if self.skip("if") else None
        self.take("]")
        return Load(buffer, index, guard)

    def call(self) -> Expr | Untyped:
        """Read a scalar function with operands, a number with its dtype, or a combination of lanes."""
        start = self.at
        function = self.name()
        self.take("(")
        if function == "across":
            return self.across()
        if function == "at":
            constant = Index(self.integer(), frozenset())
            self.take(")")
            return Untyped(partial(Coordinate, constant), default=_I64)
        if function in _DTYPES:
            made = self.expr()
            self.take(")")
            return made.make(_DTYPES[function]) if isinstance(made, Untyped) else made
        operands = [self.expr()]
        while self.skip(","):
            operands.append(self.expr())
        to = self.dtype() if self.skip("as") else None
        self.take(")")
        if function not in (*SCALARS, "select", "cast", "bitcast"):
            self.at = start
            raise self.wrong("a scalar function")
        return _applied(self, function, operands, to)

    def across(self) -> Expr:
        """Read the rest of a combination of lanes (`Across`)."""
        function = self.name()
        self.take(",")
        buffer: Buffer = self.known(Buffer)
        self.take("[", "0", "..")
        count = self.integer()
        self.take("]", "in")
        width = self.integer()
        self.take("lanes", ")")
        return Across(function, buffer, count, width)

    def dtype(self) -> np.dtype:
        """Read a dtype."""
        name = self.name()
        if name not in _DTYPES:
            self.at -= 1
            raise self.wrong("a dtype")
        return _DTYPES[name]


def _applied(line: Line, function: str, operands: Sequence[Any], to: np.dtype | None) -> Expr:
    """Apply a scalar function to operands; operands that must have the same dtype determine each other's."""
    alike = operands[1:] if function == "select" else operands
    shared = next((a.dtype for a in alike if isinstance(a, Expr)), None)
    shared = shared or next((a.default for a in alike if a.default is not None), None)
    if shared is None or (function == "select" and isinstance(operands[0], Untyped)):
        raise line.wrong(f"an operand of {function} that says its dtype")
    made = tuple(a.make(shared) if isinstance(a, Untyped) else a for a in operands)
    if to is None:
        to = _BOOL if function in SCALARS and SCALARS[function].result == "bool" else shared
    return Apply(function, made, to)
