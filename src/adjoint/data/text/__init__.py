"""Texts as numbers: tokenizers, vocabularies, transforms of sequences, and batches for language models."""

from adjoint.data.text.byte_pairs import BytePairTokenizer
from adjoint.data.text.characters import ByteTokenizer, CharTokenizer
from adjoint.data.text.sequences import PadEnd, SlidingWindow, Truncate
from adjoint.data.text.tokenizers import Tokenizer, load_tokenizer, tokenizer_from_dict
from adjoint.data.text.vocab import Lookup, Vocab
from adjoint.data.text.windows import LanguageModelWindows

__all__ = [
    "BytePairTokenizer",
    "ByteTokenizer",
    "CharTokenizer",
    "LanguageModelWindows",
    "Lookup",
    "PadEnd",
    "SlidingWindow",
    "Tokenizer",
    "Truncate",
    "Vocab",
    "load_tokenizer",
    "tokenizer_from_dict",
]
