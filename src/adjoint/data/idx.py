"""The idx format of MNIST and similar datasets: a magic number, big-endian sizes, then the elements."""

from math import prod

import numpy as np

from adjoint.errors import DataError

__all__ = ["parse_idx"]

_UNSIGNED_BYTE = 0x08


def parse_idx(content: bytes, name: str = "idx data") -> np.ndarray:
    """Read an array of unsigned bytes in idx format.

    Parameters
    ----------
    content : bytes
        The whole file, uncompressed.
    name : str, default "idx data"
        Its name in error messages.

    Returns
    -------
    numpy.ndarray
        uint8, with the shape given in the header; a read-only view of `content`.

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
    if content[2] != _UNSIGNED_BYTE:
        raise DataError(f"idx elements must be unsigned bytes (type 8), {name} has type {content[2]}; convert them")
    header = 4 + 4 * content[3]
    shape = tuple(int.from_bytes(content[i : i + 4], "big") for i in range(4, header, 4))
    if len(content) < header or len(content) != header + prod(shape):
        raise DataError(
            f"the header of {name} promises {header + prod(shape)} bytes for shape {shape}, got {len(content)}; "
            "fetch the file again"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)
