import numpy as np
import pytest

from adjoint.data.text import ByteTokenizer, CharTokenizer
from adjoint.errors import DataError, NameLookupError

TEXT = "Füchse – Über, \U0001f98a\n\tzu \ud800 Ende"  # with an emoji, and with a lone surrogate


def test_characters_are_numbered_in_their_order():
    tokenizer = CharTokenizer.from_text(TEXT)
    assert tokenizer.vocabulary == tuple(sorted(set(TEXT)))
    assert len(tokenizer) == len(set(TEXT))
    ids = tokenizer.encode(TEXT)
    assert ids.dtype == np.int64
    assert ids.tolist() == [sorted(set(TEXT)).index(c) for c in TEXT]
    assert tokenizer.decode(ids) == TEXT
    assert tokenizer.encode("").tolist() == []
    assert tokenizer.decode([]) == ""
    assert CharTokenizer("ba").encode("ab").tolist() == [1, 0]


def test_a_character_may_stand_for_others():
    tokenizer = CharTokenizer.from_text("abc", unknown="?")
    assert tokenizer.characters == "?abc"
    assert tokenizer.encode("a\u3042b!").tolist() == [1, 0, 2, 0]
    assert tokenizer.decode(tokenizer.encode("xa")) == "?a"


def test_bytes_are_those_of_utf_8():
    text, tokenizer = TEXT.replace("\ud800", ""), ByteTokenizer()
    assert tokenizer.encode(text).tolist() == list(text.encode())
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.encode(b"\xff\x00").tolist() == [255, 0]
    assert tokenizer.decode([0x61, 0xC3]) == "a\ufffd"
    assert len(tokenizer) == len(tokenizer.vocabulary) == 256
    assert tokenizer.vocabulary[65] == b"A"


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: CharTokenizer(""), DataError, "CharTokenizer takes an alphabet of at least one character, each once, "
         "got none; pass some"),
        (lambda: CharTokenizer("abab"), DataError, "CharTokenizer takes an alphabet of at least one character, each "
         "once, got 'ab' more than once; use CharTokenizer.from_text"),
        (lambda: CharTokenizer("ab", "x"), NameLookupError, "CharTokenizer: the unknown character must be one of the "
         "alphabet, got 'x'; add it"),
        (lambda: CharTokenizer("abz").encode("abc"), DataError, "the alphabet of 3 characters must have all characters "
         "of the text, it has no 'c' (at 2); add it, or name a character for unknown ones"),
        (lambda: CharTokenizer("ab").decode([0, 2]), DataError, "CharTokenizer has the numbers 0 to 1, got 2; check "
         "the model"),
        (lambda: CharTokenizer("ab").decode([-1]), DataError, "CharTokenizer has the numbers 0 to 1, got -1; check the "
         "model"),
        (lambda: CharTokenizer("ab").decode([[0]]), DataError, "CharTokenizer decodes integers [N], got int64 [1, 1]; "
         "pass one sequence"),
        (lambda: ByteTokenizer().decode([256]), DataError, "ByteTokenizer has the numbers 0 to 255, got 256; check the "
         "model"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert caught.value.message == message
