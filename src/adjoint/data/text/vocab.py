"""Vocabularies: words and their numbers."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Self

import numpy as np

from adjoint.data.checking import require_count
from adjoint.data.text.saved import Saved, require_field
from adjoint.errors import DataError, InvalidValueError, NameLookupError, kind_of, listed
from adjoint.lazy_dataclass import dataclass

__all__ = ["Lookup", "Vocab"]


@dataclass(frozen=True)
class Vocab(Saved):
    """Words and their numbers: a word's number is its place.

    Parameters
    ----------
    words : sequence of str
        Different words.
    unknown : str, optional
        The word among them that stands for all others; without it, other words are refused.

    Raises
    ------
    DataError
        If words are not different strings, or there are none.
    NameLookupError
        If `unknown` is not among them.

    Examples
    --------
    >>> vocab = Vocab.from_words("to be or not to be".split(), special=("<unk>",), unknown="<unk>")
    >>> vocab.words
    ('<unk>', 'be', 'to', 'not', 'or')
    >>> vocab.encode(["to", "see"]).tolist()
    [2, 0]
    """

    words: Sequence[str]
    unknown: str | None = None
    _ids: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        words = tuple(self.words)
        for word in words:
            if not isinstance(word, str):
                raise DataError(f"Vocab: words must be strings, got {kind_of(word)}; convert them with str")
        ids = {word: number for number, word in enumerate(words)}
        if not words or len(ids) != len(words):
            twice = [word for word, count in Counter(words).items() if count > 1]
            given = f"{listed(twice)} more than once" if words else "none"
            raise DataError(f"Vocab takes at least one word, and different ones, got {given}; count them first")
        if self.unknown is not None and self.unknown not in ids:
            raise NameLookupError(f"Vocab: the unknown word must be one of the words, got {self.unknown!r}; add it")
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "_ids", ids)

    @classmethod
    def from_words(
        cls,
        words: Iterable[str],
        size: int | None = None,
        min_count: int = 1,
        special: Sequence[str] = (),
        unknown: str | None = None,
    ) -> "Vocab":
        """The vocabulary of a text: the most frequent words first, equally frequent ones in alphabetical order.

        Parameters
        ----------
        words : iterable of str
            The words of the text.
        size : int, optional
            The largest size, with special words; default: no limit.
        min_count : int, default 1
            How often a word must occur.
        special : sequence of str, default ()
            Words that come first, whether they occur or not.
        unknown : str, optional
            The special word that stands for all others.

        Raises
        ------
        InvalidValueError
            If `size` is too small for the special words, or a number is below 1.
        """
        require_count("Vocab", "min_count", min_count)
        if size is not None and require_count("Vocab", "size", size) < len(special):
            raise InvalidValueError(
                f"Vocab: size must have room for the {len(special)} special words, got {size}; choose a larger one"
            )
        counts = Counter(words)
        for word in special:
            counts.pop(word, None)
        kept = sorted((-count, word) for word, count in counts.items() if count >= min_count)
        most = None if size is None else size - len(special)
        return cls((*special, *(word for _, word in kept[:most])), unknown)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def id(self, word: str) -> int:
        """The number of a word.

        Raises
        ------
        DataError
            If there is no such word, and none for unknown ones.
        """
        number = self._ids.get(word)
        if number is None and self.unknown is not None:
            number = self._ids[self.unknown]
        if number is None:
            raise DataError(
                f"the vocabulary of {len(self.words)} words must have all words of the text, it has no {word!r}; add "
                "it, or name a word for unknown ones"
            )
        return number

    def encode(self, words: Iterable[str]) -> np.ndarray:
        """The numbers of words, int64 [N].

        Raises
        ------
        DataError
            If there is no such word, and none for unknown ones.
        """
        return np.array([self.id(word) for word in words], np.int64)

    def decode(self, ids: Any) -> list[str]:
        """The words of numbers [N].

        Raises
        ------
        DataError
            If there is no word with a number.
        """
        return [self.words[number] for number in checked_ids("Vocab", ids, len(self.words)).tolist()]

    def as_dict(self) -> dict[str, Any]:
        """What `from_dict` reads: for JSON files, configurations and checkpoints."""
        return {"kind": "Vocab", "words": list(self.words), "unknown": self.unknown}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """The vocabulary that `as_dict` described."""
        words = require_field("Vocab", given, "words", list)
        return cls(words, require_field("Vocab", given, "unknown", str | None))


@dataclass(frozen=True)
class Lookup:
    """Words as their numbers, as a transform.

    Parameters
    ----------
    vocab : Vocab
        The vocabulary.
    unknown_token : str, optional
        The word that stands for words that are not in it; default: the vocabulary's own.

    Raises
    ------
    NameLookupError
        If `unknown_token` is not in the vocabulary.
    DataError
        When called, if there is no such word, and none for unknown ones.
    """

    vocab: Vocab
    unknown_token: str | None = None

    def __post_init__(self) -> None:
        if self.unknown_token is not None:
            object.__setattr__(self, "vocab", Vocab(self.vocab.words, self.unknown_token))

    def __call__(self, words: Any) -> np.ndarray:
        """int64 [...] for strings [...], or an int64 scalar for one string."""
        given = np.asarray(words)
        return self.vocab.encode(given.ravel().tolist()).reshape(given.shape)


def checked_ids(name: str, ids: Any, size: int) -> np.ndarray:
    """Numbers below `size` as an array [N].

    Raises
    ------
    DataError
        If they are something else.
    """
    numbers = np.asarray(ids)
    if numbers.size == 0:
        return numbers.ravel().astype(np.int64)
    if numbers.dtype.kind not in "iu" or numbers.ndim != 1:
        raise DataError(f"{name} decodes integers [N], got {numbers.dtype} {list(numbers.shape)}; pass one sequence")
    least, most = int(numbers.min()), int(numbers.max())
    if least < 0 or most >= size:
        raise DataError(f"{name} has the numbers 0 to {size - 1}, got {least if least < 0 else most}; check the model")
    return numbers
