"""Tokenizers and vocabularies in JSON files."""

import json

import pytest

from adjoint.data.text import ByteTokenizer, CharTokenizer, Vocab, load_tokenizer, tokenizer_from_dict
from adjoint.errors import CheckpointError, DataError


@pytest.mark.parametrize("given", [CharTokenizer("aü\n\ud800", "a"), CharTokenizer("xy"), ByteTokenizer()])
def test_a_tokenizer_is_saved_and_loaded(given, tmp_path):
    given.save(tmp_path / "t.json")
    assert load_tokenizer(tmp_path / "t.json") == given
    assert type(given).load(str(tmp_path / "t.json")) == given
    assert tokenizer_from_dict(json.loads(json.dumps(given.as_dict()))) == given


def test_a_vocabulary_is_saved_and_loaded(tmp_path):
    vocab = Vocab(["<unk>", "Bär"], "<unk>")
    vocab.save(tmp_path / "v.json")
    assert Vocab.load(tmp_path / "v.json") == vocab
    with pytest.raises(DataError, match="has one of the kinds CharTokenizer, ByteTokenizer, BytePairTokenizer, got 'V"):
        load_tokenizer(tmp_path / "v.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "{} is no JSON file (Expecting property name enclosed in double quotes: line 1 column 2 (char 1)); save "
         "it again"),
        ("[" * 100_000, "{} is no JSON file (maximum recursion depth exceeded"),
        (b"\xff", "{} is no JSON file ('utf-8' codec can't decode byte 0xff in position 0: invalid start byte); save "
         "it again"),
        ("[1]", "{} must be the description of a tokenizer or a vocabulary, got other JSON; save it again"),
        ('{"kind": "Pickle"}', "the description of a tokenizer has one of the kinds CharTokenizer, ByteTokenizer, "
         "BytePairTokenizer, got 'Pickle'; check it"),
        ('{"kind": "CharTokenizer"}', "the description of a CharTokenizer has the field 'characters', got None; save "
         "it again"),
        ('{"kind": "CharTokenizer", "characters": [1]}', "the description of a CharTokenizer has the field "
         "'characters', got a list; save it again"),
        ('{"kind": "CharTokenizer", "characters": "a", "unknown": 3}', "the description of a CharTokenizer has the "
         "field 'unknown', got an int; save it again"),
    ],
)  # fmt: skip
def test_malformed_files_are_refused(content, message, tmp_path):
    path = tmp_path / "t.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError) as caught:
        load_tokenizer(path)
    assert caught.value.message.startswith(message.replace("{}", str(path), 1))


def test_a_file_of_something_else_is_refused(tmp_path):
    ByteTokenizer().save(tmp_path / "t.json")
    with pytest.raises(DataError, match=r"description of a CharTokenizer has .*, got a ByteTokenizer; save it again"):
        CharTokenizer.load(tmp_path / "t.json")
    with pytest.raises(CheckpointError, match=r"save: the directory .* does not exist; create it first"):
        ByteTokenizer().save(tmp_path / "no" / "t.json")
