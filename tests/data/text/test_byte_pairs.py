import sys

import numpy as np
import pytest

from adjoint.data.text import BytePairTokenizer, load_tokenizer
from adjoint.errors import DataError, InvalidValueError

TEXT = "low lower lowest, newer and newest – wider and widest\n" * 20


def test_without_the_package_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)  # to import it is an error
    with pytest.raises(InvalidValueError) as caught:
        BytePairTokenizer.train(TEXT, 300)
    assert caught.value.message == (
        "byte-pair tokenizers require tokenizers, which is not installed; run pip install 'adjoint[tokenizers]'"
    )


def test_every_text_comes_back(tmp_path):
    pytest.importorskip("tokenizers")
    tokenizer = BytePairTokenizer.train(TEXT, 280)
    assert 256 < len(tokenizer) <= 280
    ids = tokenizer.encode(TEXT)
    assert ids.dtype == np.int64
    assert len(ids) < len(TEXT) / 2
    for text in (TEXT, "Ünknown \U0001f98a\x00", ""):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert "Ġnewe" in tokenizer.vocabulary
    tokenizer.save(tmp_path / "t.json")
    assert load_tokenizer(tmp_path / "t.json") == tokenizer
    assert BytePairTokenizer.train([TEXT], 280) == tokenizer
    with pytest.raises(DataError, match=r"has the numbers 0 to \d+, got 9999; check the model"):
        tokenizer.decode([9999])


def test_wrong_arguments_are_refused():
    pytest.importorskip("tokenizers")
    with pytest.raises(DataError, match=r"BytePairTokenizer takes a definition in JSON, got another text \(.*\)"):
        BytePairTokenizer("{}")
    with pytest.raises(InvalidValueError) as caught:
        BytePairTokenizer.train(TEXT, 255)
    assert caught.value.message == (
        "BytePairTokenizer: size must be at least 256, the number of bytes, got 255; choose a larger one"
    )
