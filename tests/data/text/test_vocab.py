import numpy as np
import pytest

from adjoint.data.text import Lookup, Vocab
from adjoint.errors import DataError, InvalidValueError, NameLookupError

WORDS = list("bacabad")


def test_frequent_words_come_first():
    assert Vocab.from_words(WORDS).words == ("a", "b", "c", "d")
    assert Vocab.from_words(WORDS, size=2).words == ("a", "b")
    assert Vocab.from_words(WORDS, min_count=2).words == ("a", "b")
    vocab = Vocab.from_words(WORDS, size=3, special=("<pad>", "b"), unknown="<pad>")
    assert vocab.words == ("<pad>", "b", "a")
    assert len(vocab) == 3
    assert "b" in vocab
    assert "c" not in vocab


def test_words_are_looked_up():
    vocab = Vocab.from_words(WORDS)
    assert vocab.encode(["b", "d"]).tolist() == [1, 3]
    assert vocab.decode([3, 0]) == ["d", "a"]
    found = Lookup(vocab, "d")([["a", "x"], ["c", "b"]])
    assert found.dtype == np.int64
    assert found.tolist() == [[0, 3], [2, 1]]
    assert Lookup(vocab)("c").shape == ()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Vocab([]), DataError, "Vocab takes at least one word, and different ones, got none; count them first"),
        (lambda: Vocab(["a", "b", "a"]), DataError, "Vocab takes at least one word, and different ones, got a more "
         "than once; count them first"),
        (lambda: Vocab([1]), DataError, "Vocab: words must be strings, got an int; convert them with str"),
        (lambda: Vocab(["a"], "b"), NameLookupError, "Vocab: the unknown word must be one of the words, got 'b'; add "
         "it"),
        (lambda: Vocab.from_words(WORDS, size=1, special=("x", "y")), InvalidValueError, "Vocab: size must have room "
         "for the 2 special words, got 1; choose a larger one"),
        (lambda: Vocab(["a", "b"]).id("c"), DataError, "the vocabulary of 2 words must have all words of the text, it "
         "has no 'c'; add it, or name a word for unknown ones"),
        (lambda: Vocab(["a", "b"]).decode([2]), DataError, "Vocab has the numbers 0 to 1, got 2; check the model"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert caught.value.message == message
