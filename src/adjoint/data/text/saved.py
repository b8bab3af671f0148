"""Vocabularies and tokenizers in JSON files."""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import UnionType
from typing import Any, Self

from adjoint.data.files import contents_of
from adjoint.errors import DataError, kind_of
from adjoint.paths import write_user_file

__all__ = ["Saved", "read_json", "require_field"]


class Saved(ABC):
    """What can be written to a JSON file, and made of what is in one."""

    @abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """What `from_dict` reads: for JSON files, configurations and checkpoints."""

    @classmethod
    @abstractmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """The object that `as_dict` described."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file that `save` wrote.

        Raises
        ------
        DataError
            If it cannot be read, or describes something else.
        """
        return cls.from_dict(read_json(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file.

        Raises
        ------
        CheckpointError
            If it cannot be written; an old one is unchanged.
        """
        text = json.dumps(self.as_dict(), ensure_ascii=False, indent=1)
        write_user_file(path, text.encode("utf-8", "surrogatepass") + b"\n", "save")


def read_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a file that `Saved.save` wrote.

    Raises
    ------
    DataError
        If it cannot be read, or is something else.
    """
    try:
        found = json.loads(contents_of(path).decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is no JSON file ({error}); save it again") from error
    if not isinstance(found, dict) or not isinstance(found.get("kind"), str):
        raise DataError(f"{path} must be the description of a tokenizer or a vocabulary, got other JSON; save it again")
    return found


def require_field(name: str, given: Mapping[str, Any], key: str, kind: type | UnionType) -> Any:
    """A field of a description; raises if it is missing or of another kind."""
    found = given.get(key)
    wrong = not isinstance(found, kind) or (isinstance(found, bool) and kind is not bool)
    if wrong or given.get("kind") != name:
        got = kind_of(found) if given.get("kind") == name else f"a {given.get('kind')}"
        raise DataError(f"the description of a {name} has the field {key!r}, got {got}; save it again")
    return found
