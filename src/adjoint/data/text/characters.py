"""Tokenizers of single characters and of bytes."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Self

import numpy as np

from adjoint.data.text.saved import Saved, require_field
from adjoint.data.text.vocab import checked_ids
from adjoint.errors import DataError, NameLookupError
from adjoint.lazy_dataclass import dataclass

__all__ = ["ByteTokenizer", "CharTokenizer"]

#: Unicode has code points below this.
_CODE_POINTS = 0x110000


@dataclass(frozen=True)
class CharTokenizer(Saved):
    """Characters as numbers: a character's number is its place in the alphabet.

    Parameters
    ----------
    characters : str
        The alphabet: different characters.
    unknown : str, optional
        The character of the alphabet that stands for all others; without it, others are refused.

    Raises
    ------
    DataError
        If the alphabet is empty, or has a character twice.
    NameLookupError
        If `unknown` is not in it.

    Examples
    --------
    >>> tokenizer = CharTokenizer.from_text("hello")
    >>> tokenizer.characters, tokenizer.encode("hole").tolist(), tokenizer.decode([1, 0, 2, 2])
    ('ehlo', [1, 3, 2, 0], 'hell')
    """

    characters: str
    unknown: str | None = None
    _codes: np.ndarray = field(init=False, repr=False, compare=False)
    _numbers: np.ndarray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        codes = _codes(self.characters)
        if not len(codes) or len(np.unique(codes)) != len(codes):
            twice = "".join(dict.fromkeys(c for c in self.characters if self.characters.count(c) > 1))
            raise DataError(
                "CharTokenizer takes an alphabet of at least one character, each once, got "
                + (f"{twice!r} more than once; use CharTokenizer.from_text" if twice else "none; pass some")
            )
        if self.unknown is not None and (len(self.unknown) != 1 or self.unknown not in self.characters):
            raise NameLookupError(
                f"CharTokenizer: the unknown character must be one of the alphabet, got {self.unknown!r}; add it"
            )
        numbers = np.full(int(codes.max()) + 1, -1, np.int32)
        numbers[codes] = np.arange(len(codes))
        object.__setattr__(self, "_codes", codes)
        object.__setattr__(self, "_numbers", numbers)

    @classmethod
    def from_text(cls, text: str, unknown: str | None = None) -> "CharTokenizer":
        """The tokenizer of the characters of a text, in the order of their code points; `unknown` is added to them."""
        codes = np.unique(_codes(text + (unknown or "")))
        return cls(_text_of(codes), unknown)

    def __len__(self) -> int:
        """Number of characters in the alphabet."""
        return len(self._codes)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The characters by number."""
        return tuple(self.characters)

    def encode(self, text: str) -> np.ndarray:
        """The numbers of the characters of a text, int64 [N].

        Raises
        ------
        DataError
            If a character is not in the alphabet, and there is none for unknown ones.
        """
        codes = _codes(text)
        known = len(self._numbers)
        numbers: np.ndarray = self._numbers[np.minimum(codes, known - 1)].astype(np.int64)
        unknown = (codes >= known) | (numbers < 0)
        if unknown.any():
            if self.unknown is None:
                place = int(unknown.argmax())
                raise DataError(
                    f"the alphabet of {len(self)} characters must have all characters of the text, it has no "
                    f"{text[place]!r} (at {place}); add it, or name a character for unknown ones"
                )
            numbers[unknown] = self._numbers[ord(self.unknown)]
        return numbers

    def decode(self, ids: Any) -> str:
        """The text of numbers [N].

        Raises
        ------
        DataError
            If there is no character with a number.
        """
        return _text_of(self._codes[checked_ids("CharTokenizer", ids, len(self))])

    def as_dict(self) -> dict[str, Any]:
        """What `from_dict` reads: for JSON files, configurations and checkpoints."""
        return {"kind": "CharTokenizer", "characters": self.characters, "unknown": self.unknown}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """The tokenizer that `as_dict` described."""
        characters = require_field("CharTokenizer", given, "characters", str)
        return cls(characters, require_field("CharTokenizer", given, "unknown", str | None))


@dataclass(frozen=True)
class ByteTokenizer(Saved):
    """The 256 bytes of UTF-8 as numbers: every text can be encoded.

    Examples
    --------
    >>> ByteTokenizer().encode("é!").tolist()
    [195, 169, 33]
    """

    def __len__(self) -> int:
        """Number of bytes, 256."""
        return 256

    @property
    def vocabulary(self) -> tuple[bytes, ...]:
        """The bytes by number."""
        return tuple(bytes([number]) for number in range(256))

    def encode(self, text: str | bytes) -> np.ndarray:
        """The bytes of a text, int64 [N]."""
        content = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        return np.frombuffer(content, np.uint8).astype(np.int64)

    def decode(self, ids: Any) -> str:
        """The text of bytes [N], with U+FFFD in place of what is not UTF-8, as a generated text may be.

        Raises
        ------
        DataError
            If a number is not a byte.
        """
        return checked_ids("ByteTokenizer", ids, 256).astype(np.uint8).tobytes().decode("utf-8", "replace")

    def as_dict(self) -> dict[str, Any]:
        """What `from_dict` reads: for JSON files, configurations and checkpoints."""
        return {"kind": "ByteTokenizer"}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """The tokenizer that `as_dict` described."""
        require_field("ByteTokenizer", given, "kind", str)
        return cls()


def _codes(text: str) -> np.ndarray:
    """The code points of a text, uint32 [N]."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.dtype("<u4"))


def _text_of(codes: np.ndarray) -> str:
    return codes.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
