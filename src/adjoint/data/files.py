"""Files of a dataset: told by checksum, read packed or unpacked, downloaded."""

import gzip
import hashlib
import io
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from adjoint.errors import DataError

__all__ = ["DataFile", "Progress", "download", "terminal_progress"]

#: Told as bytes arrive: file name, bytes so far, bytes in all (0 where the server does not say).
Progress = Callable[[str, int, int], None]

#: Seconds to wait for a connection: an offline machine moves on to the next way soon.
CONNECT_TIMEOUT = 5.0

#: Seconds without a single byte after which a transfer that had begun is given up.
STALL_TIMEOUT = 30.0

_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a dataset and what it must hold.

    Parameters
    ----------
    name : str
        Its name, unpacked. Packed, it is this and ``.gz``.
    sha256 : str
        Of the unpacked content: packers differ, content does not.
    md5 : str
        Of the packed file as its project publishes it, checked after a download.
    """

    name: str
    sha256: str
    md5: str

    @property
    def packed_name(self) -> str:
        """Name of the gzip file."""
        return f"{self.name}.gz"

    def unpack(self, packed: bytes, where: str) -> bytes:
        """The content of a gzip file, checked.

        Raises
        ------
        DataError
            If it is no gzip file, is truncated, or holds something else.
        """
        try:
            content = gzip.decompress(packed)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{where} is truncated or no gzip file ({error}); remove it and fetch it again") from error
        return self.check(content, where)

    def check_packed(self, packed: bytes, where: str) -> bytes:
        """`packed`, once its checksum is that of the published file."""
        found = hashlib.md5(packed, usedforsecurity=False).hexdigest()
        if found != self.md5:
            raise DataError(f"{where} must have MD5 {self.md5}, got {found} in {len(packed)} bytes; try again later")
        return packed

    def check(self, content: bytes, where: str) -> bytes:
        """`content`, once its checksum is what it must be."""
        found = hashlib.sha256(content).hexdigest()
        if found != self.sha256:
            raise DataError(
                f"{where} must unpack to sha256 {self.sha256[:12]}..., got {found[:12]}...; "
                "remove it and fetch it again"
            )
        return content

    def find(self, directory: Path) -> Path | None:
        """Where the file lies in a directory, packed or unpacked, unread; None where it is not there."""
        for name in (self.packed_name, self.name):
            if (directory / name).is_file():
                return directory / name
        return None

    def read(self, path: Path) -> bytes:
        """The unpacked content of the file that `find` found, checked."""
        try:
            content = path.read_bytes()
        except OSError as error:
            raise DataError(f"{path} cannot be read ({error.strerror}); check its permissions") from error
        return self.unpack(content, str(path)) if path.suffix == ".gz" else self.check(content, str(path))


def download(file: DataFile, base_url: str, progress: Progress) -> bytes:
    """Fetch a packed file and check it.

    Parameters
    ----------
    file : DataFile
        What to fetch.
    base_url : str
        The address of its folder, with a final slash.
    progress : callable
        Told as bytes arrive.

    Raises
    ------
    DataError
        If the server cannot be reached, stalls, or sends something else.
    """
    # It is slow to load, and most calls find the files on this machine.
    from pooch import HTTPDownloader  # noqa: PLC0415

    url = base_url + file.packed_name
    fetch = HTTPDownloader(
        progressbar=_Bar(file.packed_name, progress),
        chunk_size=_CHUNK,
        timeout=(CONNECT_TIMEOUT, STALL_TIMEOUT),
        headers={"Accept-Encoding": "identity"},  # a server that packs the packed file again would be undone too far
    )
    packed = io.BytesIO()  # nothing is on the disk before it is checked
    try:
        fetch(url, packed, None)
    except OSError as error:  # what requests raises is one
        if (response := getattr(error, "response", None)) is not None:
            response.close()
            reason, fix = f"HTTP {response.status_code} {response.reason}", "address"
        else:
            reason, fix = str(_cause(error)), "network"
        raise DataError(f"{url} cannot be fetched ({reason}); check the {fix}") from error
    return file.check_packed(packed.getvalue(), url)


def _cause(error: BaseException) -> BaseException:
    """What an error began with, under what requests and urllib3 wrap around it."""
    while error.__context__ is not None:
        error = error.__context__
    return error


class _Bar:
    """What pooch takes for a progress bar, and tells of the file how far it is."""

    def __init__(self, name: str, progress: Progress) -> None:
        self.total = 0
        self._name, self._progress, self._done = name, progress, 0

    def update(self, count: int) -> None:
        """Count bytes; pooch counts whole chunks, and at the end all bytes once more."""
        done = min(self._done + count, self.total) if self.total else self._done + count
        if done > self._done:
            self._done = done
            self._progress(self._name, done, self.total)

    def reset(self) -> None:
        """Nothing: what was counted was true."""

    def close(self) -> None:
        """Nothing is open."""


def terminal_progress(name: str, done: int, total: int) -> None:
    """A progress line on standard error, where that is a terminal."""
    if not sys.stderr.isatty():
        return
    share = f"{100 * done // total:3d} %" if total else "     "
    end = "\n" if done == total else ""
    print(f"\r{name}  {share}  {done / 1e6:.1f} MB", end=end, file=sys.stderr, flush=True)
