"""A byte-pair tokenizer, through the package `tokenizers`."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Self

import numpy as np

from adjoint.data.checking import require_count
from adjoint.data.text.saved import Saved, require_field
from adjoint.data.text.vocab import checked_ids
from adjoint.errors import DataError, InvalidValueError
from adjoint.lazy_dataclass import dataclass

__all__ = ["BytePairTokenizer"]

#: Characters that are passed to the training at once.
_PIECE = 1 << 16


@dataclass(frozen=True)
class BytePairTokenizer(Saved):
    """Frequent sequences of bytes as numbers (Sennrich, Haddow and Birch, arXiv:1508.07909; on bytes as in GPT-2).

    Every text can be encoded and comes back from `decode` as it was. It needs the extra `tokenizers`:
    ``pip install 'adjoint[tokenizers]'``.

    Parameters
    ----------
    definition : str
        The JSON text that defines the tokenizer, in the format of Hugging Face's package `tokenizers`: the content of
        a ``tokenizer.json``.

    Raises
    ------
    InvalidValueError
        If the package is not installed.
    DataError
        If the text is no such definition.
    """

    definition: str = field(repr=False)
    _tokenizer: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        library = _library()
        try:
            tokenizer = library.Tokenizer.from_str(self.definition)
        except Exception as error:  # what the package raises has no narrower type
            raise DataError(f"BytePairTokenizer takes a definition in JSON, got another text ({error})") from error
        object.__setattr__(self, "_tokenizer", tokenizer)

    @classmethod
    def train(cls, text: str | Iterable[str], size: int, min_count: int = 2) -> "BytePairTokenizer":
        """The tokenizer of the most frequent sequences of a text.

        Parameters
        ----------
        text : str or iterable of str
            The text, or parts of it.
        size : int
            Number of tokens, at least the 256 bytes.
        min_count : int, default 2
            How often a pair must occur to become a token.

        Raises
        ------
        InvalidValueError
            If a number is out of range, or the package `tokenizers` is not installed.
        """
        library = _library()
        if require_count("BytePairTokenizer", "size", size) < 256:
            raise InvalidValueError(
                f"BytePairTokenizer: size must be at least 256, the number of bytes, got {size}; choose a larger one"
            )
        tokenizer = library.Tokenizer(library.models.BPE())
        tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = library.decoders.ByteLevel()
        trainer = library.trainers.BpeTrainer(
            vocab_size=size,
            min_frequency=require_count("BytePairTokenizer", "min_count", min_count),
            initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(_pieces(text) if isinstance(text, str) else text, trainer)
        return cls(tokenizer.to_str())

    def __len__(self) -> int:
        """Number of tokens."""
        return int(self._tokenizer.get_vocab_size())

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The tokens by number, in which a character stands for a byte as in GPT-2: "Ġ" for a space."""
        return tuple(self._tokenizer.id_to_token(number) for number in range(len(self)))

    def encode(self, text: str) -> np.ndarray:
        """The numbers of the tokens of a text, int64 [N]."""
        return np.array(self._tokenizer.encode(text).ids, np.int64)

    def decode(self, ids: Any) -> str:
        """The text of numbers [N], with U+FFFD in place of what is not UTF-8.

        Raises
        ------
        DataError
            If there is no token with a number.
        """
        return str(self._tokenizer.decode(checked_ids("BytePairTokenizer", ids, len(self)).tolist()))

    def as_dict(self) -> dict[str, Any]:
        """What `from_dict` reads: for JSON files, configurations and checkpoints."""
        return {"kind": "BytePairTokenizer", "definition": self.definition}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """The tokenizer that `as_dict` described."""
        return cls(require_field("BytePairTokenizer", given, "definition", str))


def _library() -> Any:
    """The package `tokenizers`, with what is used of it."""
    try:
        import tokenizers  # noqa: PLC0415
        import tokenizers.decoders  # noqa: PLC0415
        import tokenizers.models  # noqa: PLC0415
        import tokenizers.pre_tokenizers  # noqa: PLC0415
        import tokenizers.trainers  # noqa: PLC0415
    except ImportError as error:
        raise InvalidValueError(
            "byte-pair tokenizers require tokenizers, which is not installed; run pip install 'adjoint[tokenizers]'"
        ) from error
    return tokenizers


def _pieces(text: str) -> Iterable[str]:
    """A long text in pieces that end with a line, where there are lines."""
    start = 0
    while start < len(text):
        end = text.rfind("\n", start, start + _PIECE) + 1 or min(start + _PIECE, len(text))
        yield text[start:end]
        start = end
