"""Texts for language models: one that a Debian package ships, one that every Python has, and a user's own."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import numpy as np

from adjoint.data.files import DataFile, Progress, contents_of
from adjoint.data.retrieval import Locations, retrieve
from adjoint.errors import DataError, InvalidValueError, NameLookupError, warn
from adjoint.lazy_dataclass import dataclass

__all__ = ["JARGON", "Encoder", "TextCorpus", "read_text", "text_corpus"]

#: The Jargon File 4.4.7 of 2003, a dictionary of hackers' words with essays, in the public domain. The checksums are of
#: the file in version 4.4.7-4.1 of the package.
JARGON = Locations(
    title="The Jargon File",
    folder="jargon",
    files=(
        DataFile(
            "jargon.txt",
            sha256="40dfb4b98191a670a09a183d5798d50f243d23fdbd1495dcc0aca2ce5895ba97",
            md5="320dc163a34be95a80387a08f5b518b8",
        ),
    ),
    package="jargon-text",
    system=Path("/usr/share/doc/jargon-text"),
)

_NAMES = ("jargon", "python-help")


class Encoder(Protocol):
    """What makes numbers of a text."""

    def encode(self, text: str) -> np.ndarray:
        """The numbers of the tokens of a text, int64 [N]."""


@dataclass(frozen=True, slots=True)
class TextCorpus:
    """A text in two parts.

    Parameters
    ----------
    train : str
        The part to train on.
    validation : str
        The part to measure on, which follows it in the text.
    name : str, default "text"
        Name of the text.
    """

    train: str
    validation: str
    name: str = "text"

    @classmethod
    def split(cls, text: str, validation: float = 0.1, name: str = "text") -> "TextCorpus":
        """A text whose last part, of this share of the characters, is for validation.

        Raises
        ------
        InvalidValueError
            If the share is not between 0 and 1.
        DataError
            If one part is empty.
        """
        if not 0 < validation < 1:
            raise InvalidValueError(f"{name}: validation is a share between 0 and 1, got {validation!r}; pass 0.1")
        cut = len(text) - round(len(text) * validation)
        if not 0 < cut < len(text):
            raise DataError(f"{name}: a text must have characters for both parts, got {len(text)}; pass a longer one")
        return cls(text[:cut], text[cut:], name)

    @property
    def text(self) -> str:
        """Both parts: the whole text."""
        return self.train + self.validation

    def encode(self, tokenizer: Encoder) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of the tokens of both parts, int64 [N] and [M]; tokenizers are in `adjoint.data.text`."""
        return tokenizer.encode(self.train), tokenizer.encode(self.validation)


def text_corpus(
    name: str | None = None,
    cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    *,
    locations: Locations = JARGON,
    environ: Mapping[str, str] | None = None,
) -> TextCorpus:
    """Load an English text from this machine or else from Debian's servers.

    Parameters
    ----------
    name : str, optional
        ``"jargon"``: the Jargon File 4.4.7, 1.7 million characters, which Debian's package ``jargon-text`` ships. It is
        searched for in the cache, in the directory given by ``ADJOINT_DATA``, and where the package installs it;
        otherwise ``apt-get`` fetches the package without root. It is verified by its checksum.
        ``"python-help"``: the topics of Python's ``help()``, half a million characters that come with every Python, but
        differ between its versions.
        Default: the first of them that can be had, with a warning if it is not the Jargon File.
    cache : path, optional
        Directory for downloaded files; default: ``jargon`` in `adjoint.paths.cache_dir`.
    progress : callable, optional
        Called as ``progress(file name, bytes so far, total bytes)`` during a download; default: a line on a terminal.
    locations : Locations, optional
        Other locations of the Jargon File, for tests.
    environ : mapping, optional
        The environment; default: `os.environ`.

    Returns
    -------
    TextCorpus
        The last tenth of the text is for validation.

    Raises
    ------
    NameLookupError
        If there is no text with this name.
    DataError
        If the text cannot be obtained.
    CacheError
        If the cache directory cannot be written.
    """
    if name not in (None, *_NAMES):
        raise NameLookupError(f"text_corpus: there is no text {name!r}, there are {' and '.join(_NAMES)}; name one")
    if name != "python-help":
        try:
            content = retrieve(locations, cache, progress, environ)[locations.files[0].name]
            return TextCorpus.split(content.decode(), name="jargon")
        except DataError as error:
            if name is not None:
                raise
            warn(f"the help of Python serves as the text, because {error.message}")
    return TextCorpus.split(_python_help(), name="python-help")


def _python_help() -> str:
    """The topics of Python's help in alphabetical order."""
    try:
        # Imported here because it is large, and some distributions of Python leave it out.
        from pydoc_data.topics import topics  # noqa: PLC0415
    except ImportError as error:
        raise DataError("the module pydoc_data of Python is not on this machine; use another text") from error
    return "\n\n".join(topics[topic] for topic in sorted(topics))


def read_text(path: str | os.PathLike[str], validation: float = 0.1, name: str | None = None) -> TextCorpus:
    """Read a text of one's own.

    Parameters
    ----------
    path : path
        A text file in UTF-8. Line ends are kept as they are.
    validation : float, default 0.1
        Share of the characters, at the end of the text, that are for validation.
    name : str, optional
        Name of the text; default: that of the file.

    Raises
    ------
    DataError
        If the file cannot be read, is not UTF-8, or is too short to be split.
    InvalidValueError
        If the share is not between 0 and 1.
    """
    content = contents_of(path)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"texts must be UTF-8, {path} is not at byte {error.start}; convert it") from error
    return TextCorpus.split(text, validation, name or Path(path).stem)
