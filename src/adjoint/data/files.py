"""Files of a dataset: verified by checksum, read compressed or uncompressed, downloaded."""

import gzip
import hashlib
import io
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

from adjoint.errors import DataError
from adjoint.lazy_dataclass import dataclass
from adjoint.paths import FilePath

__all__ = ["Archive", "DataFile", "Progress", "contents_of", "download", "terminal_progress"]

#: Called during a download: file name, bytes so far, total bytes (0 if the server does not say).
Progress = Callable[[str, int, int], None]

#: Seconds to wait for a connection; short, so that an offline machine soon tries the next source.
CONNECT_TIMEOUT = 5.0

#: Seconds without data after which a transfer is aborted.
STALL_TIMEOUT = 30.0

_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a dataset, with its checksums.

    Parameters
    ----------
    name : str
        Its name, without the suffix ``.gz`` of the compressed file.
    sha256 : str
        Checksum of the uncompressed content, because compressors differ.
    md5 : str
        Checksum of the compressed file as published, verified after a download.
    """

    name: str
    sha256: str
    md5: str

    @property
    def packed_name(self) -> str:
        """Name of the gzip file."""
        return f"{self.name}.gz"

    def unpack(self, packed: bytes, where: str) -> bytes:
        """The verified content of a gzip file.

        Raises
        ------
        DataError
            If it is not a gzip file, is truncated, or has the wrong content.
        """
        try:
            content = gzip.decompress(packed)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{where} is truncated or no gzip file ({error}); remove it and fetch it again") from error
        return self.check(content, where)

    def check_packed(self, packed: bytes, where: str) -> bytes:
        """`packed`, after verifying the checksum of the published file."""
        found = hashlib.md5(packed, usedforsecurity=False).hexdigest()
        if found != self.md5:
            raise DataError(f"{where} must have MD5 {self.md5}, got {found} in {len(packed)} bytes; try again later")
        return packed

    def check(self, content: bytes, where: str) -> bytes:
        """`content`, after verifying its checksum."""
        found = hashlib.sha256(content).hexdigest()
        if found != self.sha256:
            raise DataError(
                f"{where} must unpack to sha256 {self.sha256[:12]}..., got {found[:12]}...; "
                "remove it and fetch it again"
            )
        return content

    def find(self, directory: Path) -> Path | None:
        """The path of the file in a directory, compressed or not; None if it does not exist."""
        for name in (self.packed_name, self.name):
            if (directory / name).is_file():
                return directory / name
        return None

    def read(self, path: Path) -> bytes:
        """The verified, uncompressed content of a file found by `find`."""
        content = contents_of(path)
        return self.unpack(content, str(path)) if path.suffix == ".gz" else self.check(content, str(path))


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive of which only the checksum of the whole file is known.

    Parameters
    ----------
    packed_name : str
        Its name.
    sha256 : str
        Checksum of the file.
    """

    packed_name: str
    sha256: str

    def check_packed(self, packed: bytes, where: str) -> bytes:
        """`packed`, after verifying its checksum."""
        found = hashlib.sha256(packed).hexdigest()
        if found != self.sha256:
            raise DataError(
                f"{where} must have sha256 {self.sha256[:12]}..., got {found[:12]}... in {len(packed)} bytes; "
                "remove it and fetch it again"
            )
        return packed


def contents_of(path: FilePath) -> bytes:
    """The content of a file.

    Raises
    ------
    DataError
        If it cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}; check the path") from error
    except OSError as error:
        fix = "give the path of a file in it" if Path(path).is_dir() else "check its permissions"
        raise DataError(f"{path} cannot be read ({error.strerror}); {fix}") from error


def download(file: DataFile | Archive, base_url: str, progress: Progress) -> bytes:
    """Download a compressed file and verify it.

    Parameters
    ----------
    file : DataFile or Archive
        The file.
    base_url : str
        The URL of its directory, with a trailing slash.
    progress : callable
        Called as data arrives.

    Raises
    ------
    DataError
        If the server cannot be reached, stalls, or sends wrong data.
    """
    # Imported here because it is slow to load, and most calls find the files on this machine.
    from pooch import HTTPDownloader  # noqa: PLC0415

    url = base_url + file.packed_name
    fetch = HTTPDownloader(
        progressbar=_Bar(file.packed_name, progress),
        chunk_size=_CHUNK,
        timeout=(CONNECT_TIMEOUT, STALL_TIMEOUT),
        headers={"Accept-Encoding": "identity"},  # a second compression by the server would be undone twice
    )
    packed = io.BytesIO()  # verified before anything is written to disk
    try:
        fetch(url, packed, None)
    except OSError as error:  # the base class of what requests raises
        if (response := getattr(error, "response", None)) is not None:
            response.close()
            reason, fix = f"HTTP {response.status_code} {response.reason}", "address"
        else:
            reason, fix = str(_cause(error)), "network"
        raise DataError(f"{url} cannot be fetched ({reason}); check the {fix}") from error
    return file.check_packed(packed.getvalue(), url)


def _cause(error: BaseException) -> BaseException:
    """The root cause of an error wrapped by requests and urllib3."""
    while error.__context__ is not None:
        error = error.__context__
    return error


class _Bar:
    """A progress bar for pooch that calls a progress function."""

    def __init__(self, name: str, progress: Progress) -> None:
        self.total = 0
        self._name, self._progress, self._done = name, progress, 0

    def update(self, count: int) -> None:
        """Count bytes. Pooch counts whole chunks, and at the end all bytes again."""
        done = min(self._done + count, self.total) if self.total else self._done + count
        if done > self._done:
            self._done = done
            self._progress(self._name, done, self.total)

    def reset(self) -> None:
        """Do nothing, because the count is already right."""

    def close(self) -> None:
        """Do nothing, because nothing is open."""


def terminal_progress(name: str, done: int, total: int) -> None:
    """Print progress on standard error, if it is a terminal."""
    if not sys.stderr.isatty():
        return
    share = f"{100 * done // total:3d} %" if total else "     "
    end = "\n" if done == total else ""
    print(f"\r{name}  {share}  {done / 1e6:.1f} MB", end=end, file=sys.stderr, flush=True)
