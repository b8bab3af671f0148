"""Read checkpoints of MindSpore, ``.ckpt`` files, without MindSpore.

Such a file is a message of Protocol Buffers: values (field 1), each with a name (field 1) and a tensor (field 2) that
has sizes (field 1), the name of a dtype (field 2) and bytes (field 3). A large tensor is several values of the same
name.
"""

from collections.abc import Iterator
from math import prod
from pathlib import Path

import ml_dtypes
import numpy as np

from adjoint.errors import CheckpointError
from adjoint.paths import FilePath, reading

__all__ = ["read_mindspore"]

#: Dtypes by their names in a file; "str" is text in UTF-32.
_DTYPES = {
    **{name: np.dtype(name.lower()) for name in ("Float16", "Float32", "Float64")},
    **{f"{sign}Int{bits}": np.dtype(f"{sign}int{bits}".lower()) for sign in ("", "U") for bits in (8, 16, 32, 64)},
    "BFloat16": np.dtype(ml_dtypes.bfloat16),
    "Bool": np.dtype(np.bool_),
}
_TEXT = "str"

#: What ``save_checkpoint(crc_check=True)`` appends: this and ten digits.
_CHECKSUM, _DIGITS = b"crc_num", 10

#: Kinds of fields: an integer, and a length with bytes. The longest integer has 10 bytes of 7 bits.
_INTEGER, _BYTES, _LONGEST = 0, 2, 10


def read_mindspore(path: FilePath) -> dict[str, np.ndarray | str]:
    """Read the parameters in a file of ``mindspore.save_checkpoint``, and what else it was told to append.

    Parameters
    ----------
    path : str or os.PathLike
        The file.

    Returns
    -------
    dict of str to numpy.ndarray or str
        In the order of the file. bfloat16 has the dtype of `ml_dtypes`.

    Raises
    ------
    CheckpointError
        If the file is missing, truncated, encrypted or something else.
    """
    with reading(path, "read_mindspore"):
        content = Path(path).read_bytes()
    if content[-len(_CHECKSUM) - _DIGITS : -_DIGITS] == _CHECKSUM:
        content = content[: -len(_CHECKSUM) - _DIGITS]
    parts: dict[str, tuple[tuple[int, ...], str, list[memoryview]]] = {}
    try:
        for number, value in _fields(memoryview(content)):
            if number != 1 or isinstance(value, int):
                raise ValueError
            name, tensor = _named(value)
            shape, dtype, elements = _tensor(tensor)
            known = parts.setdefault(name, (shape, dtype, []))
            if known[:2] != (shape, dtype):
                raise ValueError
            known[2].append(elements)
        return {name: _array(*found) for name, found in parts.items()}
    except (ValueError, KeyError, IndexError, UnicodeDecodeError) as error:
        raise CheckpointError(
            f"read_mindspore reads files of mindspore.save_checkpoint, and {path} is truncated, encrypted or not one; "
            "save it again, in the format 'ckpt' and without enc_key"
        ) from error


def _fields(content: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The number and the value of each field of a message."""
    at = 0
    while at < len(content):
        key, at = _integer(content, at)
        value, at = _integer(content, at)
        if key & 7 == _INTEGER:
            yield key >> 3, value
        elif key & 7 == _BYTES and at + value <= len(content):
            yield key >> 3, content[at : at + value]
            at += value
        else:
            raise ValueError


def _integer(content: memoryview, at: int) -> tuple[int, int]:
    """An integer of 7 bits per byte, and where it ends."""
    value = 0
    for i in range(_LONGEST):
        byte = content[at + i]
        value |= (byte & 127) << 7 * i
        if byte < 128:
            return value, at + i + 1
    raise ValueError


def _named(content: memoryview) -> tuple[str, memoryview]:
    found = {number: value for number, value in _fields(content) if not isinstance(value, int)}
    return bytes(found[1]).decode(), found[2]


def _tensor(content: memoryview) -> tuple[tuple[int, ...], str, memoryview]:
    sizes: list[int] = []
    dtype, elements = "", memoryview(b"")
    for number, value in _fields(content):
        if number == 1:
            # One size per field, or all of them in the bytes of one.
            at = 0
            while not isinstance(value, int) and at < len(value):
                size, at = _integer(value, at)
                sizes.append(size)
            sizes += [value] if isinstance(value, int) else []
        elif isinstance(value, int):
            raise ValueError
        elif number == 2:
            dtype = bytes(value).decode()
        elif number == 3:
            elements = value
    return tuple(sizes), dtype, elements


def _array(shape: tuple[int, ...], dtype: str, parts: list[memoryview]) -> np.ndarray | str:
    content = b"".join(parts)
    if dtype == _TEXT:
        return content.decode("utf-32-le").rstrip("\0")
    found = np.frombuffer(bytearray(content), _DTYPES[dtype])
    if shape == (0,) and found.size == 1:  # what some versions write for a scalar
        shape = ()
    if prod(shape) != found.size:
        raise ValueError
    return found.reshape(shape)
