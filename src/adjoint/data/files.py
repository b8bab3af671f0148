"""Files of a dataset: told by checksum, read packed or unpacked, downloaded."""

import gzip
import hashlib
import http.client
import sys
import urllib.error
import urllib.request
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
            Where it is no gzip file, is truncated, or holds something else.
        """
        try:
            content = gzip.decompress(packed)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{where} is truncated or no gzip file ({error}); remove it and fetch it again") from error
        return self.check(content, where)

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
        Where the server cannot be reached, stalls, or sends something else.
    """
    url = base_url + file.packed_name
    opener = urllib.request.build_opener(_HTTPHandler, _HTTPSHandler)
    parts: list[bytes] = []
    done = 0
    try:
        with opener.open(url, timeout=CONNECT_TIMEOUT) as response:
            total = int(response.headers.get("Content-Length") or 0)
            while part := response.read(_CHUNK):
                parts.append(part)
                done += len(part)
                progress(file.packed_name, done, total)
    except urllib.error.HTTPError as error:
        error.close()  # it is the server's response, and holds the connection
        raise DataError(f"{url} cannot be fetched (HTTP {error.code} {error.reason}); check the address") from error
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise DataError(f"{url} cannot be fetched ({reason}); check the network") from error
    packed = b"".join(parts)
    if (found := hashlib.md5(packed, usedforsecurity=False).hexdigest()) != file.md5:
        raise DataError(
            f"{url} must have MD5 {file.md5}, got {found} in {done} of {total or '?'} bytes; try again later"
        )
    return packed


def terminal_progress(name: str, done: int, total: int) -> None:
    """A progress line on standard error, where that is a terminal."""
    if not sys.stderr.isatty():
        return
    share = f"{100 * done // total:3d} %" if total else "     "
    end = "\n" if done == total else ""
    print(f"\r{name}  {share}  {done / 1e6:.1f} MB", end=end, file=sys.stderr, flush=True)


class _PatientConnection(http.client.HTTPConnection):
    """Quick to give up on a host that does not answer, slow to give up on one that does."""

    def connect(self) -> None:
        super().connect()
        self.sock.settimeout(STALL_TIMEOUT)


class _PatientTLSConnection(http.client.HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        self.sock.settimeout(STALL_TIMEOUT)


class _HTTPHandler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_PatientConnection, req)


class _HTTPSHandler(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_PatientTLSConnection, req)
