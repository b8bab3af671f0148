"""The tokenizer of `adjoint.ir.parser`; each token knows its position."""

import re
from bisect import bisect_left
from typing import NamedTuple

from adjoint.errors import ParseError
from adjoint.ir.literals import NAME
from adjoint.ir.types import DTYPES

__all__ = ["Token", "Tokens"]

_STRING = r'"(?:[^"\\\n]|\\.)*"'

#: Kinds of tokens; the first match wins.
_KINDS = {
    "blank": r"(?:[ \t\r\n]+|\#[^\n]*)+",
    "type": rf"(?:{'|'.join(DTYPES)})\[[0-9, ]*\]",
    "value": rf"%(?:{NAME}|[0-9]+|{_STRING})",
    "symbol": rf"@(?:{NAME}|{_STRING})",
    "bytes": r'b64"[A-Za-z0-9+/=]*"',
    "string": _STRING,
    "number": r"[-+]?(?:inf|nan)(?![\w.])|[-+]?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?",
    "name": NAME,
    "mark": r"->|[{}()\[\]:=,]",
    "bad": r"[\s\S]",
}
_TOKEN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS.items()))


class Token(NamedTuple):
    """A piece of text: its kind (a key of the table above, or ``end``), the text and its start offset."""

    kind: str
    text: str
    start: int


class Tokens:
    """The tokens of a text, read from left to right.

    Raises
    ------
    ParseError
        In the constructor, if a character starts no token.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = [
            Token(match.lastgroup or "", match.group(), match.start())
            for match in _TOKEN.finditer(text)
            if match.lastgroup != "blank"
        ]
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._end = Token("end", "the end of the text", len(text))
        self._tokens.append(self._end)
        self._at = 0
        bad = next((token for token in self._tokens if token.kind == "bad"), None)
        if bad is not None:
            fix = "close the string on its line" if bad.text == '"' else "remove it, or put # before a comment"
            raise self.error(f"{bad.text!r} is not valid graph text; {fix}", bad)

    @property
    def next(self) -> Token:
        """The token that `take` would return."""
        return self._tokens[self._at]

    def peek(self, count: int) -> list[Token]:
        """The next `count` tokens, padded with the end."""
        ahead = self._tokens[self._at : self._at + count]
        return ahead + [self._end] * (count - len(ahead))

    def take(self) -> Token:
        """Consume and return the next token. The end token is never consumed."""
        token = self._tokens[self._at]
        if token is not self._end:
            self._at += 1
        return token

    def accept(self, text: str) -> bool:
        """Consume the next token if it is `text`."""
        if self._tokens[self._at].text == text:
            self._at += 1
            return True
        return False

    def expect(self, text: str, why: str) -> Token:
        """Consume the next token, which must be `text`; `why` completes the error message."""
        token = self._tokens[self._at]
        if token.text != text:
            raise self.error(f"expected {text!r} {why}, got {token.text!r}; insert it")
        self._at += 1
        return token

    def expect_kind(self, kind: str, what: str) -> Token:
        """Consume the next token, which must be of this kind; `what` describes it in the error message."""
        token = self._tokens[self._at]
        if token.kind != kind:
            raise self.error(f"expected {what}, got {token.text!r}; insert it")
        self._at += 1
        return token

    def line_of(self, token: Token) -> int:
        """The line of a token, counted from 1."""
        return bisect_left(self._ends, token.start) + 1

    def error(self, message: str, token: Token | None = None) -> ParseError:
        """An error at a token (default: the next one), with its line, column and the line's text."""
        token = token or self.next
        start = token.start
        first = self.text.rfind("\n", 0, start) + 1
        line = self.line_of(token)
        column = start - first + 1
        around = self.text[first:].partition("\n")[0].strip()
        return ParseError(f"line {line}, column {column}: {message} (in {around!r})", line, column)
