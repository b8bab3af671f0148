"""The parts of a file of PyTorch: of the zip archive that it writes since 1.6, and of the file that it wrote before.

The archive has, in one folder, ``data.pkl``, a pickle that refers to storages by their key; ``data/KEY``, the bytes of
each storage, uncompressed; and ``byteorder``, ``little`` or ``big``. The older file is five pickles, of a magic number,
a version, facts about the machine, the object, and the keys of the storages, and then each storage after its number of
elements. The format of both is what ``torch/serialization.py`` in PyTorch 2.13 writes.
"""

import sys
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import BinaryIO

import numpy as np

from adjoint.errors import CheckpointError
from adjoint.interop.opcodes import Internal, Pickle
from adjoint.interop.torch_objects import Names, Pending, Storage, TorchTensor, storage_of

__all__ = ["read_object"]

#: What `zipfile` raises for damaged archives.
_DAMAGE = (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, OverflowError, LookupError)

#: Size of the fixed part of an entry's header, and where the sizes of its name and of its extra field are in it.
_HEADER = 30
_NAME_SIZE = slice(26, 28)
_EXTRA_SIZE = slice(28, 30)

#: The first number of a file of PyTorch before 1.6, the version that all of them have, and a file's first bytes.
_MAGIC = 0x1950A86A20F9469CFC6C
_VERSION = 1001
_LEGACY_START = b"\x80\x02\x8a\x0a" + _MAGIC.to_bytes(10, "little")

#: Bytes before each storage of such a file: its number of elements.
_COUNT_BYTES = 8


def read_object(what: str, file: BinaryIO, make: Callable[[TorchTensor], object]) -> object:
    """The object in an open file that can be sought; `what` is the name of the caller and the file in messages."""
    start = file.read(len(_LEGACY_START))
    file.seek(0)
    if start == _LEGACY_START:
        return _read_legacy(what, file.read(), make)
    try:
        archive = zipfile.ZipFile(file)
    except _DAMAGE as error:
        raise CheckpointError(
            f"{what} is truncated or not a file of torch.save; save it again with torch.save"
        ) from error
    return _Archive(what, file, archive).read(make)


class _Archive:
    """The zip archive of a file."""

    def __init__(self, what: str, file: BinaryIO, archive: zipfile.ZipFile) -> None:
        self._what, self._file = what, file
        self._entries = {entry.filename: entry for entry in archive.infolist()}
        # Entries that share bytes could promise any number of them.
        if sum(entry.file_size for entry in self._entries.values()) > file.seek(0, 2):
            raise CheckpointError(f"{what} has entries that are compressed or overlap; save it again with torch.save")
        folders = {name.partition("/")[0] for name in self._entries if name.count("/") == 1}
        self._folder = min((name for name in folders if f"{name}/data.pkl" in self._entries), default="")
        if f"{self._folder}/constants.pkl" in self._entries:
            raise CheckpointError(f"{what} is a TorchScript program; save the state_dict of its module instead")
        if f"{self._folder}/data.pkl" not in self._entries:
            raise CheckpointError(f"{what} is a zip archive, but not one of torch.save; check the path")

    def read(self, make: Callable[[TorchTensor], object]) -> object:
        content = self._bytes("data.pkl").tobytes()
        order = self._bytes("byteorder").tobytes() if f"{self._folder}/byteorder" in self._entries else b"little"
        if order not in (b"little", b"big"):
            raise CheckpointError(f"{self._what} has the byte order {order[:10]!r}; save it again with torch.save")
        storages: dict[str, Storage] = {}
        value = _unpickle(self._what, content, 0, storages)[0]
        contents = _Contents(order.decode(), lambda storage: self._bytes(f"data/{storage.key}", storage.size))
        return finished(self._what, value, contents, make)

    def _bytes(self, name: str, size: int | None = None) -> np.ndarray:
        """The content of an entry, which must have a given size."""
        entry = self._entries.get(f"{self._folder}/{name}")
        stored = entry is not None and entry.compress_type == zipfile.ZIP_STORED and entry.header_offset >= 0
        if entry is None or not stored or size not in (None, entry.file_size):
            given = "nothing" if entry is None else f"{entry.compress_size} bytes"
            promised = "a whole entry" if size is None else f"{size} bytes"
            raise CheckpointError(f"{self._what} promises {promised} in {name[:80]} and has {given}; save it again")
        self._file.seek(entry.header_offset)
        header = self._file.read(_HEADER)
        self._file.seek(int.from_bytes(header[_NAME_SIZE], "little") + int.from_bytes(header[_EXTRA_SIZE], "little"), 1)
        content = np.empty(entry.file_size, np.uint8)
        count = self._file.readinto(content.data)  # type: ignore[attr-defined]
        # `torch.serialization.set_crc32_options(False)` leaves the checksum 0.
        if count != entry.file_size or (entry.CRC and zlib.crc32(content.data) != entry.CRC):
            raise CheckpointError(f"{self._what} is damaged in {name[:80]}; save it again")
        return content


def _read_legacy(what: str, content: bytes, make: Callable[[TorchTensor], object]) -> object:
    """The object in a file of PyTorch before 1.6."""
    storages: dict[str, Storage] = {}
    at = len(_LEGACY_START) + 1
    version, at = _unpickle(what, content, at, {})
    if version != _VERSION:
        raise CheckpointError(f"{what} is not of the version that PyTorch wrote before 1.6; save it again")
    _machine, at = _unpickle(what, content, at, {})
    value, at = _unpickle(what, content, at, storages)
    keys, at = _unpickle(what, content, at, {})
    found = {}
    for key in keys if isinstance(keys, list) else []:
        storage = storages.get(key) if isinstance(key, str) else None
        count = int.from_bytes(content[at : at + _COUNT_BYTES], "little")
        at += _COUNT_BYTES
        if storage is None or count != storage.count or len(content) < at + storage.size:
            raise CheckpointError(f"{what} is truncated or damaged in its storages; save it again")
        found[storage] = np.frombuffer(content, np.uint8, storage.size, at)
        at += storage.size

    def content_of(storage: Storage) -> np.ndarray:
        if storage not in found:
            raise CheckpointError(f"{what} is truncated or damaged in its storages; save it again")
        return found[storage].copy()

    return finished(what, value, _Contents("little", content_of), make)


def _unpickle(what: str, content: bytes, start: int, storages: dict[str, Storage]) -> tuple[object, int]:
    """The object of the pickle that starts at a byte, where it ends, and through `storages` what it refers to."""
    names = Names(what, len(content) - start)
    pickle = Pickle(what, content, names.table(), lambda given: storage_of(what, given, storages), names.build)
    found = pickle.load(start)
    return found.value, found.end


class _Contents:
    """The content of each storage in the byte order of this machine, read when it is first needed."""

    def __init__(self, order: str, read: Callable[[Storage], np.ndarray]) -> None:
        self._order, self._read = order, read
        self._found: dict[tuple[Storage, int], np.ndarray] = {}

    def of(self, storage: Storage, dtype: np.dtype) -> np.ndarray:
        unit = dtype.itemsize // (2 if dtype.kind == "c" else 1)
        swapped = self._order != sys.byteorder and unit > 1
        key = storage, unit if swapped else 1
        if key not in self._found:
            content = self._read(storage)
            if swapped:
                content.view(f"u{unit}").byteswap(inplace=True)
            if storage.dtype == np.bool_:
                np.minimum(content, 1, out=content)  # every other byte means True in PyTorch, and nothing in NumPy
            self._found[key] = content
        return self._found[key]


def finished(what: str, value: object, contents: _Contents, make: Callable[[TorchTensor], object]) -> object:
    """An object of a pickle with its tensors, each made once.

    It is not recursive, because a pickle may be nested to any depth.
    Lists and dicts stay the objects that they are, and may contain themselves.
    """
    made: dict[int, object] = {}
    arrays: dict[Pending, np.ndarray] = {}
    tensors: dict[Pending, object] = {}
    containers: list[list[object] | dict[object, object]] = []
    todo = [value]
    while todo:
        node = todo[-1]
        if id(node) in made:
            todo.pop()
        elif isinstance(node, list | dict):
            made[id(node)] = node
            containers.append(node)
            todo.extend(node if isinstance(node, list) else node.values())
            if (metadata := getattr(node, "_metadata", None)) is not None:
                todo.append(metadata)
        elif isinstance(node, tuple) and (missing := [each for each in node if id(each) not in made]):
            todo.extend(missing)
        elif isinstance(node, tuple):
            parts = tuple(made[id(each)] for each in node)
            same = all(new is old for new, old in zip(parts, node, strict=True))
            made[id(node)] = node if same else parts
        elif isinstance(node, Pending):
            if node not in tensors:
                elements = replace(node, requires_grad=False, is_parameter=False)
                if elements not in arrays:
                    arrays[elements] = node.view(contents.of(node.storage, node.dtype))
                tensors[node] = make(TorchTensor(arrays[elements], node.requires_grad, node.is_parameter))
            made[id(node)] = tensors[node]
        elif isinstance(node, Internal):
            raise CheckpointError(
                f"{what} has a part of a tensor outside of a tensor, such as a storage; save tensors instead"
            )
        else:
            made[id(node)] = node
    for container in containers:
        pairs = enumerate(container) if isinstance(container, list) else list(container.items())
        for key, each in pairs:
            container[key] = made[id(each)]  # type: ignore[call-overload]
    return made[id(value)]
