"""Files of arrays by name in the safetensors format."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, deserialize

from adjoint.errors import CheckpointError, TypeRuleError
from adjoint.ir import DTYPES
from adjoint.paths import FilePath, reading, write_user_file

__all__ = ["digest_of", "read_arrays", "read_file", "write_arrays", "write_file"]

#: Dtypes by their name in a file: F32, BF16, I64, BOOL, ...
_DTYPES = {name.upper(): dtype for name, dtype in DTYPES.items()}

_NAMES = {dtype: name for name, dtype in _DTYPES.items()}

#: The key of a file's header that is not a name of an array.
_METADATA = "__metadata__"

#: Number of bytes at the start of a file that hold the size of its header.
_SIZE_BYTES = 8

#: The header ends at a multiple of so many bytes, and so do the arrays of wide dtypes, which come first.
_ALIGNMENT = 8


def read_arrays(path: FilePath) -> dict[str, np.ndarray]:
    """Read arrays by name from a safetensors file, such as a state dict that PyTorch has saved.

    Parameters
    ----------
    path : str or os.PathLike
        The file.

    Returns
    -------
    dict of str to numpy.ndarray
        In the order of their names. bfloat16 has the dtype of `ml_dtypes`.

    Raises
    ------
    CheckpointError
        If the file is missing, truncated or not a safetensors file, or holds a dtype that adjoint does not have.
    """
    return read_file(path, "read_arrays")[0]


def write_arrays(path: FilePath, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name to a safetensors file, replacing it as a whole once the new content is on the disk.

    Parameters
    ----------
    path : str or os.PathLike
        The file, in a directory that exists.
    arrays : mapping of str to numpy.ndarray
        Arrays of adjoint's dtypes: floats including bfloat16, integers and bool.

    Raises
    ------
    TypeRuleError
        If a name is not a string or an array has another dtype; nothing has been written.
    CheckpointError
        If the file cannot be written; an old one is unchanged.
    """
    given = {name: np.asarray(array) for name, array in arrays.items()}
    given = {name: array.astype(array.dtype.newbyteorder("="), copy=False) for name, array in given.items()}
    for name, array in given.items():
        if not isinstance(name, str) or array.dtype not in DTYPES.values():
            raise TypeRuleError(
                f"write_arrays: arrays must have names and dtypes among {', '.join(DTYPES)}, got {name!r} of "
                f"{array.dtype}; convert it with .astype"
            )
    write_file(path, given, {}, "write_arrays")


def read_file(path: FilePath, what: str) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays and the metadata of a file; `what` is the name of the caller in messages."""
    with reading(path, what):
        content = Path(path).read_bytes()
    try:
        tensors = deserialize(content)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise CheckpointError(
            f"{what} reads safetensors files, and {path} is truncated or not one ({error}); save it again"
        ) from error
    found = {}
    for name, tensor in sorted(tensors, key=lambda named: named[0]):
        if tensor["dtype"] not in _DTYPES:
            raise CheckpointError(
                f"{what}: arrays have dtypes among {', '.join(_DTYPES)}, and {path} holds {name!r} of "
                f"{tensor['dtype']}; save it in another dtype"
            )
        dtype = _DTYPES[tensor["dtype"]].newbyteorder("<")
        array = np.frombuffer(tensor["data"], dtype).reshape(tensor["shape"])
        found[name] = array.astype(dtype.newbyteorder("="), copy=False)
    # `deserialize` has checked the header, but does not return its metadata.
    end = _SIZE_BYTES + int.from_bytes(content[:_SIZE_BYTES], "little")
    metadata: dict[str, str] = json.loads(content[_SIZE_BYTES:end]).get(_METADATA) or {}
    return found, metadata


def write_file(path: FilePath, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str], what: str) -> None:
    """Write arrays and metadata; `what` is the name of the caller in messages.

    The memory of C-contiguous arrays is written as it is, without a copy.
    """
    if _METADATA in arrays:
        raise CheckpointError(f"{what}: an array in a safetensors file cannot be named {_METADATA!r}; rename it")
    header: dict[str, object] = {_METADATA: dict(metadata)} if metadata else {}
    pieces: list[bytes | memoryview] = []
    end = 0
    for name, array in sorted(arrays.items(), key=lambda named: (-named[1].itemsize, named[0])):
        content = _content(array)
        begin, end = end, end + content.nbytes
        header[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [begin, end]}
        pieces.append(content)
    try:
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as error:
        raise CheckpointError(
            f"{what}: names of arrays must be text, got one with half of a surrogate pair; rename it"
        ) from error
    text += b" " * (-len(text) % _ALIGNMENT)
    write_user_file(path, [len(text).to_bytes(_SIZE_BYTES, "little"), text, *pieces], what)


def digest_of(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> str:
    """The SHA-256 of the names, dtypes, shapes and elements of arrays, and of metadata; in hexadecimal digits."""
    digest = hashlib.sha256(json.dumps(sorted(metadata.items())).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, _NAMES[array.dtype], list(array.shape)]).encode())
        digest.update(_content(array))
    return digest.hexdigest()


def _content(array: np.ndarray) -> memoryview:
    """The bytes of an array in C order, little-endian."""
    # Copied where the layout requires it, which `numpy.ascontiguousarray` would do at the loss of 0-d shapes.
    plain = np.require(array, array.dtype.newbyteorder("<"), "C")
    return plain.reshape(-1).view(np.uint8).data
