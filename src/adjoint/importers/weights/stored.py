"""Tensors in files by name, of which shapes are known before the elements are read."""

from collections.abc import Callable
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.errors import CheckpointError, kind_of
from adjoint.importers.weights.configuration import parsed_object, read_json, shown_name
from adjoint.interop import read_torch
from adjoint.ir import DTYPES
from adjoint.lazy_dataclass import dataclass
from adjoint.paths import reading

__all__ = ["Stored", "stored_tensors", "tensors_of"]

#: Files of weights by preference, in a folder of a model.
_MODEL_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)

#: The bytes at the start of a safetensors file that hold the size of its header, and the largest header that is read,
#: which is that of the library.
_SIZE_BYTES, _LONGEST_HEADER = 8, 100_000_000

_DTYPES = {name.upper(): dtype for name, dtype in DTYPES.items()}

#: The key of a header that is no tensor.
_METADATA = "__metadata__"

#: The most axes that an array of NumPy 1 can have.
_MOST_AXES = 32

#: The largest size of an axis, so that products of sizes stay ordinary numbers.
_LARGEST = 1 << 48


@dataclass(frozen=True)
class Stored:
    """A tensor in a file.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    read : callable
        Returns the elements, which must not be written to.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    read: Callable[[], np.ndarray]


def stored_tensors(folder: Path, what: str) -> dict[str, Stored]:
    """The tensors of a model in a folder: one file of weights, or several of which an index has the names.

    Raises
    ------
    CheckpointError
        If there is no file of weights, or one is damaged, or the index does not agree with the files.
    """
    for name in _MODEL_FILES:
        path = folder / name
        if path.is_file():
            return _indexed(path, what) if name.endswith(".json") else tensors_of(path, what)
    raise CheckpointError(
        f"{what}: a folder of a model must have one of {', '.join(_MODEL_FILES)}, got {folder} without; check the path"
    )


def tensors_of(path: Path, what: str) -> dict[str, Stored]:
    """The tensors of one file, which is in PyTorch's format if its name ends so, otherwise in that of safetensors."""
    return _of_torch(path, what) if path.suffix in (".bin", ".pt", ".pth") else _of_safetensors(path, what)


def _indexed(path: Path, what: str) -> dict[str, Stored]:
    """The tensors of several files, by the index that says which file has which."""
    names = read_json(path, what).get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(file, str) for file in names.values()):
        raise CheckpointError(
            f"{what}: {path} must map names to files in weight_map, got something else; save it again"
        )
    suffix = ".safetensors" if ".safetensors." in path.name else ".bin"
    found: dict[str, Stored] = {}
    for file in dict.fromkeys(names.values()):
        # Only names of files next to the index: no other folder, whatever the separator.
        if Path(file).name != file or "\\" in file or ":" in file or not file.endswith(suffix):
            raise CheckpointError(
                f"{what}: the files of {path.name} must be next to it and end in {suffix}, got "
                f"{shown_name(file)}; save it again"
            )
        tensors = tensors_of(path.parent / file, what)
        wrong = sorted(tensors.keys() ^ {name for name, place in names.items() if place == file})
        if wrong:
            raise CheckpointError(
                f"{what}: {path.name} must say which tensors {file} has, got another "
                f"{shown_name(wrong[0])}; save it again"
            )
        found |= tensors
    return found


def _of_torch(path: Path, what: str) -> dict[str, Stored]:
    content = read_torch(path)
    if not isinstance(content, dict):
        raise CheckpointError(
            f"{what}: {path} must hold a dict of tensors, got {kind_of(content)}; save a state_dict()"
        )
    size = path.stat().st_size
    found = {}
    for name, array in content.items():
        if not isinstance(name, str) or not isinstance(array, np.ndarray):
            raise CheckpointError(
                f"{what}: {path} must hold tensors by name, got {kind_of(array)} for {name!r}; save a state_dict()"
            )
        if array.nbytes > size:  # repeated elements, which would take memory that the file does not have
            raise CheckpointError(
                f"{what}: the tensors in {path} must be whole, got {name} with repeated elements; save a copy of it"
            )
        found[name] = Stored(array.shape, array.dtype, partial(np.asarray, array))
    return found


def _of_safetensors(path: Path, what: str) -> dict[str, Stored]:
    """The tensors of a safetensors file, whose elements are mapped into memory."""
    with reading(path, what):
        size = path.stat().st_size
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(_SIZE_BYTES), "little")
            start = _SIZE_BYTES + length
            if size < _SIZE_BYTES or length > _LONGEST_HEADER or start > size:
                raise _damaged(path, what, "its header is cut off")
            header = parsed_object(stream.read(length), what, f"the header of {path}")
    header.pop(_METADATA, None)
    if not header:
        return {}
    pieces = sorted((_piece(name, entry, path, what) for name, entry in header.items()), key=lambda piece: piece[2])
    end = 0
    for name, _, begin, after, _ in pieces:
        if begin != end:
            raise _damaged(path, what, f"{shown_name(name)} does not begin where the tensor before it ends")
        end = after
    if end != size - start:
        raise _damaged(path, what, f"it has {size - start} bytes of tensors instead of {end}")
    with reading(path, what):
        memory = np.memmap(path, np.uint8, "r", start) if end else np.zeros(0, np.uint8)

    def reader(begin: int, end: int, shape: tuple[int, ...], dtype: np.dtype) -> Callable[[], np.ndarray]:
        return lambda: np.asarray(memory[begin:end]).view(dtype.newbyteorder("<")).reshape(shape)

    return {
        name: Stored(shape, dtype, reader(begin, after, shape, dtype)) for name, shape, begin, after, dtype in pieces
    }


def _piece(name: str, entry: Any, path: Path, what: str) -> tuple[str, tuple[int, ...], int, int, np.dtype]:
    """Name, shape, first and last byte, and dtype of an entry of a header."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise _damaged(path, what, f"its header does not describe {shown_name(name)}")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not _sizes(shape) or not _sizes(offsets) or len(offsets) != 2 or not isinstance(kind, str):
        raise _damaged(path, what, f"its header does not describe {shown_name(name)}")
    if kind not in _DTYPES:
        raise CheckpointError(
            f"{what}: tensors have dtypes among {', '.join(_DTYPES)}, and {path} holds {shown_name(name)} of "
            f"{shown_name(kind)}; save it in another dtype"
        )
    dtype = _DTYPES[kind]
    if len(shape) > _MOST_AXES:
        raise _damaged(path, what, f"{shown_name(name)} has {len(shape)} axes")
    if prod(shape) * dtype.itemsize != offsets[1] - offsets[0]:
        raise _damaged(path, what, f"{shown_name(name)} has other bytes than its shape needs")
    return name, tuple(shape), offsets[0], offsets[1], dtype


def _sizes(given: Any) -> bool:
    return isinstance(given, list) and all(type(size) is int and 0 <= size <= _LARGEST for size in given)


def _damaged(path: Path, what: str, reason: str) -> CheckpointError:
    return CheckpointError(
        f"{what} reads safetensors files, and {path} is truncated or not one: {reason}; save it again"
    )
