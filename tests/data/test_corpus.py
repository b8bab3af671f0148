import dataclasses
import gzip
import hashlib
import sys
from pydoc_data.topics import topics

import pytest

from adjoint.data import TextCorpus, read_text, text_corpus
from adjoint.data.corpus import JARGON
from adjoint.data.files import DataFile
from adjoint.data.text import ByteTokenizer
from adjoint.errors import AdjointWarning, DataError, InvalidValueError, NameLookupError

TEXT = "".join(f"{number}: “word”\n" for number in range(100))


@pytest.fixture
def locations(tmp_path):
    content = TEXT.encode()
    file = DataFile("jargon.txt", hashlib.sha256(content).hexdigest(), "0" * 32)
    return dataclasses.replace(JARGON, files=(file,), system=tmp_path / "system", apt_get=str(tmp_path / "no-apt-get"))


def test_the_text_of_the_package_is_split_at_nine_tenths(locations, tmp_path):
    (tmp_path / "system").mkdir()
    (tmp_path / "system" / "jargon.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    for name in (None, "jargon"):
        found = text_corpus(name, tmp_path / "cache", locations=locations, environ={})
        assert found.train + found.validation == found.text == TEXT
        assert len(found.validation) == round(len(TEXT) / 10)
        assert found.name == "jargon"


def test_without_it_the_help_of_python_serves_with_a_warning(locations, tmp_path):
    with pytest.warns(AdjointWarning, match=r"the help of Python serves as the text, because The Jargon File is neit"):
        found = text_corpus(cache=tmp_path, locations=locations, environ={})
    assert found == text_corpus("python-help")
    assert found.name == "python-help"
    text = found.train + found.validation
    assert len(text) > 400_000
    assert text.startswith(topics["assert"])


def test_a_named_text_is_not_replaced(locations, tmp_path, monkeypatch):
    with pytest.raises(DataError) as caught:
        text_corpus("jargon", tmp_path, locations=locations, environ={})
    assert caught.value.message == (
        f"The Jargon File is neither on this machine nor can it be fetched ({tmp_path}/no-apt-get update "
        f"cannot be run (No such file or directory); use another way): put jargon.txt.gz into {tmp_path}, or into a "
        "directory jargon in one that ADJOINT_DATA names, or run 'apt-get install jargon-text', or connect to the "
        "network so that it comes from Debian's servers"
    )
    with pytest.raises(NameLookupError) as caught:
        text_corpus("bible")
    assert caught.value.message == ("text_corpus: there is no text 'bible', there are jargon and python-help; name one")
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)  # to import it is an error
    with pytest.raises(DataError, match="the module pydoc_data of Python is not on this machine; use another text"):
        text_corpus("python-help")


def test_a_users_text_is_read(tmp_path):
    path = tmp_path / "poem.txt"
    path.write_bytes("äöü\r\n12345".encode())
    assert read_text(path, 0.3) == TextCorpus("äöü\r\n12", "345", "poem")
    assert read_text(str(path), 0.1, "mine").name == "mine"


@pytest.mark.parametrize(
    ("content", "share", "error", "message"),
    [
        (b"ab\xff", 0.5, DataError, "texts must be UTF-8, {} is not at byte 2; convert it"),
        (b"ab", 0.1, DataError, "a: a text must have characters for both parts, got 2; pass a longer one"),
        (b"ab", 1.0, InvalidValueError, "a: validation is a share between 0 and 1, got 1.0; pass 0.1"),
        (None, 0.5, DataError, "there is no file {}; check the path"),
    ],
)
def test_texts_that_cannot_be_read_are_refused(tmp_path, content, share, error, message):
    path = tmp_path / "a.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error) as caught:
        read_text(path, share)
    assert caught.value.message == message.format(path)


def test_both_parts_are_encoded():
    train, validation = TextCorpus("ab", "é").encode(ByteTokenizer())
    assert (train.tolist(), validation.tolist()) == ([97, 98], [195, 169])


def test_a_directory_is_no_text(tmp_path):
    with pytest.raises(DataError, match=r"cannot be read \(Is a directory\); give the path of a file in it"):
        read_text(tmp_path)
