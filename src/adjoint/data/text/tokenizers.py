"""What all tokenizers have, and their files."""

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from adjoint.data.text.byte_pairs import BytePairTokenizer
from adjoint.data.text.characters import ByteTokenizer, CharTokenizer
from adjoint.data.text.saved import read_json
from adjoint.errors import DataError

__all__ = ["Tokenizer", "load_tokenizer", "tokenizer_from_dict"]


class Tokenizer(Protocol):
    """A text as numbers, and back."""

    def __len__(self) -> int:
        """Number of different tokens."""

    def encode(self, text: str) -> np.ndarray:
        """The numbers of the tokens of a text, int64 [N]."""

    def decode(self, ids: Any) -> str:
        """The text of numbers [N]."""

    def as_dict(self) -> dict[str, Any]:
        """What `tokenizer_from_dict` reads: for JSON files, configurations and checkpoints."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file, which `load_tokenizer` reads."""


_KINDS: Mapping[str, type[CharTokenizer] | type[ByteTokenizer] | type[BytePairTokenizer]] = MappingProxyType(
    {"CharTokenizer": CharTokenizer, "ByteTokenizer": ByteTokenizer, "BytePairTokenizer": BytePairTokenizer}
)


def tokenizer_from_dict(given: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer that its `as_dict` described.

    Raises
    ------
    DataError
        If the description is malformed, or of something else.
    """
    kind = given.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise DataError(
            f"the description of a tokenizer has one of the kinds {', '.join(_KINDS)}, got {kind!r}; check it"
        )
    return _KINDS[kind].from_dict(given)


def load_tokenizer(path: str | os.PathLike[str]) -> Tokenizer:
    """Read a tokenizer from a file that its `save` wrote.

    Raises
    ------
    DataError
        If the file cannot be read, or is something else.
    """
    return tokenizer_from_dict(read_json(path))
