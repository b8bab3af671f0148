"""The idx format of MNIST and similar datasets: a magic number, big-endian sizes, then the elements."""

import gzip
import os
import zlib
from math import prod
from pathlib import Path

import numpy as np

from adjoint.data.files import contents_of
from adjoint.errors import DataError

__all__ = ["parse_idx", "read_idx"]

#: Element types by the third byte.
_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def parse_idx(content: bytes, name: str = "idx data") -> np.ndarray:
    """Read an array in idx format.

    Parameters
    ----------
    content : bytes
        The whole file, uncompressed.
    name : str, default "idx data"
        Its name in error messages.

    Returns
    -------
    numpy.ndarray
        Read-only, with the shape and the element type given in the header: uint8, int8, int16, int32, float32 or
        float64. Bytes are a view of `content`.

    Raises
    ------
    DataError
        If the magic number, the element type or the length is wrong.

    Notes
    -----
    The format is described at the end of http://yann.lecun.com/exdb/mnist/: bytes 0 and 1 are zero, byte 2 is the
    element type (8 for unsigned bytes), byte 3 the number of axes, followed by one 32-bit size per axis.
    """
    if len(content) < 4 or content[:2] != b"\0\0":
        raise DataError(f"an idx file begins with two zero bytes, {name} begins with {content[:4]!r}; is it unpacked?")
    if content[2] not in _TYPES:
        known = ", ".join(map(str, _TYPES))
        raise DataError(f"idx elements must have one of the types {known}, {name} has type {content[2]}; convert them")
    dtype = np.dtype(_TYPES[content[2]])
    header = 4 + 4 * content[3]
    shape = tuple(int.from_bytes(content[i : i + 4], "big") for i in range(4, header, 4))
    size = header + prod(shape) * dtype.itemsize
    if len(content) < header or len(content) != size:
        raise DataError(
            f"the header of {name} promises {size} bytes for shape {shape}, got {len(content)}; fetch the file again"
        )
    array = np.frombuffer(content, dtype, offset=header).reshape(shape).astype(dtype.newbyteorder("="), copy=False)
    array.setflags(write=False)
    return array


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    """Read an array from an idx file, compressed by gzip if its name ends in ``.gz``.

    Raises
    ------
    DataError
        If the file cannot be read, is truncated, or is not in this format.
    """
    path = Path(path)
    content = contents_of(path)
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{path} is truncated or no gzip file ({error}); fetch the file again") from error
    return parse_idx(content, str(path))
