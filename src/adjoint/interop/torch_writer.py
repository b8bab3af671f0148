"""The zip archive that ``torch.load(path, weights_only=True)`` reads: a pickle of protocol 2 and the storages."""

import io
import struct
import sys
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pickle import encode_long
from typing import Any

import numpy as np

from adjoint.errors import TypeRuleError, kind_of
from adjoint.interop.opcodes import KEYS
from adjoint.interop.torch_objects import DTYPES, STORAGES, TorchTensor

__all__ = ["archive_of"]

#: The folder of the archive. PyTorch names it like the file, and reads any name.
_FOLDER = "archive"

#: The version of the archive's format: the one that PyTorch writes since 1.6.
_VERSION = b"3\n"

#: Storages begin at multiples of so many bytes, as in PyTorch's own files, for whoever maps the file into memory.
_ALIGNMENT = 64

#: The fixed part of an entry's header, and that of an extra field: its identifier and its size.
_HEADER, _EXTRA = 30, struct.Struct("<HH")

#: The size of the extra field that `zipfile` adds for long entries: those that would be with so much more.
_LONG_EXTRA, _MARGIN = 20, 1.05

#: The identifier of the extra field by which PyTorch aligns a storage.
_PADDING_ID = 0x4246

#: The date of every entry, the first that zip archives have, so that equal objects make equal files.
_DATE = (1980, 1, 1, 0, 0, 0)

_TORCH_DTYPES = {dtype: name for name, dtype in DTYPES.items()}
_TYPED = {dtype: name for name, dtype in STORAGES.items()}

#: Integers below these have an opcode of their own: of one byte, of two bytes, and signed of four bytes.
_BYTE, _SHORT, _INT = 1 << 8, 1 << 16, 1 << 31

#: Maximum number of bytes of an integer: PyTorch reads no longer ones.
_LONGEST = 255


def archive_of(what: str, value: object, take: Callable[[object], TorchTensor | None]) -> bytes:
    """The content of a file with an object; `what` is the name of the caller in messages."""
    writer = _Pickler(what, take)
    content = writer.pickled(value)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, file.tell(), "data.pkl", content)
        _add(archive, file.tell(), "byteorder", sys.byteorder.encode())
        for key, storage in enumerate(writer.storages):
            _add(archive, file.tell(), f"data/{key}", storage.view(np.uint8).data)
        _add(archive, file.tell(), "version", _VERSION)
    return file.getvalue()


def _add(archive: zipfile.ZipFile, at: int, name: str, content: bytes | memoryview) -> None:
    """Write an entry at a place of the file, its content at a multiple of the alignment."""
    entry = zipfile.ZipInfo(f"{_FOLDER}/{name}", _DATE)
    long = _LONG_EXTRA if len(content) * _MARGIN > zipfile.ZIP64_LIMIT else 0
    padding = -(at + _HEADER + len(entry.filename) + long + _EXTRA.size) % _ALIGNMENT
    entry.extra = _EXTRA.pack(_PADDING_ID, padding) + bytes(padding)
    archive.writestr(entry, content)


class _Pickler:
    """Writes one object as a pickle, not recursively, and keeps the storages of its tensors.

    Attributes
    ----------
    storages : list of numpy.ndarray
        The elements of each storage, contiguous, in one dimension.
    """

    def __init__(self, what: str, take: Callable[[object], TorchTensor | None]) -> None:
        self._what, self._take = what, take
        self._out = bytearray(b"\x80\x02")
        self._memo: dict[object, int] = {}  # of names, and of objects by id
        self._kept: list[object] = []  # so that no two objects have the same id
        self._open: set[int] = set()
        self._path: list[object] = []
        self._keys: dict[tuple[int, int, np.dtype], int] = {}
        self.storages: list[np.ndarray] = []

    def pickled(self, value: object) -> bytes:
        """The pickle of an object."""
        todo = [self._write(value)]
        while todo:
            try:
                part = next(todo[-1])
            except StopIteration:
                todo.pop()
            else:
                todo.append(self._write(part))
        return bytes(self._out + b".")

    def _write(self, value: object) -> Iterator[object]:
        """Write an object; yields those of its parts that come next, and continues when they are written."""
        if isinstance(value, np.generic):
            value = value.item()
        if id(value) in self._memo:
            self._get(id(value))
        elif (write := _SIMPLE.get(type(value))) is not None:
            write(self, value)
        elif (parts := _CONTAINERS.get(type(value))) is not None:
            if id(value) in self._open:
                raise TypeRuleError(
                    f"{self._what} cannot write a tuple that contains itself{self._place()}; use a list"
                )
            self._kept.append(value)
            yield from parts(self, value)
        elif isinstance(value, np.dtype):
            self._name("torch", self._dtype(value))
        else:
            tensor = value if isinstance(value, TorchTensor) else self._take(value)
            if tensor is None and isinstance(value, np.ndarray):
                tensor = TorchTensor(value)
            if tensor is None:
                raise TypeRuleError(
                    f"{self._what} writes arrays, numbers, strings, None, and lists, tuples, sets and dicts of them, "
                    f"got {kind_of(value)}{self._place()}; convert it, or leave it out"
                )
            self._kept.append(value)
            self._tensor(tensor)
            self._put(id(value))

    def _place(self) -> str:
        return f" at {''.join(f'[{key!r}]' for key in self._path)}" if self._path else ""

    def _within(self, key: object, value: object) -> Iterator[object]:
        """The value of a key, by which messages say where it is."""
        self._path.append(key)
        yield value
        self._path.pop()

    def _put(self, key: object) -> None:
        self._memo[key] = len(self._memo)
        self._out += b"r" + struct.pack("<I", self._memo[key])

    def _get(self, key: object) -> None:
        self._out += b"j" + struct.pack("<I", self._memo[key])

    def _name(self, module: str, name: str) -> None:
        if (module, name) in self._memo:
            self._get((module, name))
        else:
            self._out += f"c{module}\n{name}\n".encode()
            self._put((module, name))

    def _none(self, _value: object) -> None:
        self._out += b"N"

    def _bool(self, value: bool) -> None:
        self._out += b"\x88" if value else b"\x89"

    def _int(self, value: int) -> None:
        if 0 <= value < _BYTE:
            self._out += b"K" + struct.pack("<B", value)
        elif 0 <= value < _SHORT:
            self._out += b"M" + struct.pack("<H", value)
        elif -_INT <= value < _INT:
            self._out += b"J" + struct.pack("<i", value)
        else:
            content = encode_long(value)
            if len(content) > _LONGEST:
                raise TypeRuleError(
                    f"{self._what} writes integers of up to {_LONGEST} bytes, got one of {len(content)}{self._place()}"
                    "; write it as a string"
                )
            self._out += b"\x8a" + struct.pack("<B", len(content)) + content

    def _float(self, value: float) -> None:
        self._out += b"G" + struct.pack(">d", value)

    def _complex(self, value: complex) -> None:
        self._name("__builtin__", "complex")
        self._float(value.real)
        self._float(value.imag)
        self._out += b"\x86R"

    def _str(self, value: str) -> None:
        content = value.encode("utf-8", "surrogatepass")
        self._out += b"X" + struct.pack("<I", len(content)) + content

    def _bytes(self, value: bytes) -> None:
        self._name("_codecs", "encode")
        self._str(value.decode("latin1"))
        self._str("latin1")
        self._out += b"\x86R"

    def _bytearray(self, value: bytearray) -> None:
        self._name("__builtin__", "bytearray")
        self._bytes(bytes(value))
        self._out += b"\x85R"

    def _list(self, value: list[object]) -> Iterator[object]:
        self._out += b"]"
        self._put(id(value))
        self._out += b"("
        for index, each in enumerate(value):
            yield from self._within(index, each)
        self._out += b"e"

    def _tuple(self, value: tuple[object, ...]) -> Iterator[object]:
        self._open.add(id(value))
        self._out += b"("
        for index, each in enumerate(value):
            yield from self._within(index, each)
        self._out += b"t"
        self._open.remove(id(value))
        self._put(id(value))

    def _set(self, value: set[object]) -> Iterator[object]:
        self._name("__builtin__", "set")
        self._out += b"]("
        for each in value:
            yield self._key(each)
        self._out += b"e\x85R"
        self._put(id(value))

    def _dict(self, value: dict[object, object]) -> Iterator[object]:
        self._out += b"}"
        self._put(id(value))
        yield from self._items(value)

    def _ordered(self, value: OrderedDict[object, object]) -> Iterator[object]:
        self._name("collections", "OrderedDict")
        self._out += b")R"
        self._put(id(value))
        yield from self._items(value)
        if (metadata := getattr(value, "_metadata", None)) is not None:
            # Where state dicts have the versions of their modules.
            yield {"_metadata": metadata}
            self._out += b"b"

    def _counter(self, value: Counter[object]) -> Iterator[object]:
        self._name("collections", "Counter")
        self._out += b"}"
        yield from self._items(value)
        self._out += b"\x85R"
        self._put(id(value))

    def _items(self, value: Mapping[object, object]) -> Iterator[object]:
        self._out += b"("
        for key, each in value.items():
            yield self._key(key)
            yield from self._within(key, each)
        self._out += b"u"

    def _key(self, key: object) -> object:
        key = key.item() if isinstance(key, np.generic) else key
        if type(key) not in KEYS:
            raise TypeRuleError(
                f"{self._what} writes dicts and sets whose keys are numbers, strings or None, got {kind_of(key)}"
                f"{self._place()}; convert it"
            )
        return key

    def _dtype(self, dtype: np.dtype) -> str:
        if dtype not in _TORCH_DTYPES:
            raise TypeRuleError(
                f"{self._what} writes arrays of {', '.join(DTYPES)}, got {dtype}{self._place()}; convert it with "
                ".astype"
            )
        return _TORCH_DTYPES[dtype]

    def _tensor(self, tensor: TorchTensor) -> None:
        array = tensor.array.astype(tensor.array.dtype.newbyteorder("="), copy=False)
        dtype = self._dtype(array.dtype)
        if tensor.is_parameter:
            self._name("torch._utils", "_rebuild_parameter")
        self._name("torch._utils", "_rebuild_tensor_v2" if dtype in _TYPED else "_rebuild_tensor_v3")
        self._out += b"("
        self._storage(array, dtype)
        self._int(0)
        self._sizes(array.shape)
        self._sizes(_strides(array.shape, _axes(array)))
        self._bool(tensor.requires_grad and not tensor.is_parameter)
        self._no_hooks()
        if dtype not in _TYPED:
            self._name("torch", dtype)
        self._out += b"tR"
        if tensor.is_parameter:
            self._bool(tensor.requires_grad)
            self._no_hooks()
            self._out += b"\x87R"

    def _storage(self, array: np.ndarray, dtype: str) -> None:
        """The persistent id of the storage of an array: arrays in the same memory have one."""
        elements = array.transpose(_axes(array)).reshape(-1)
        key = (elements.ctypes.data, elements.nbytes, elements.dtype)
        if key not in self._keys or not elements.size:
            self._keys[key] = len(self.storages)
            self.storages.append(elements)
        self._out += b"("
        self._str("storage")
        if dtype in _TYPED:
            self._name("torch", _TYPED[dtype])
        else:
            self._name("torch.storage", "UntypedStorage")
        self._str(str(self._keys[key]))
        self._str("cpu")
        self._int(elements.size if dtype in _TYPED else elements.nbytes)
        self._out += b"tQ"

    def _sizes(self, sizes: tuple[int, ...]) -> None:
        self._out += b"("
        for size in sizes:
            self._int(size)
        self._out += b"t"

    def _no_hooks(self) -> None:
        self._name("collections", "OrderedDict")
        self._out += b")R"


def _axes(array: np.ndarray) -> tuple[int, ...]:
    """The order of axes in which the elements are contiguous in memory; that of the shape if there is none."""
    axes = tuple(sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))
    return axes if array.transpose(axes).flags.c_contiguous else tuple(range(array.ndim))


def _strides(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The strides, in elements, of contiguous elements whose last axis comes last in `axes`."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(axes):
        strides[axis] = step
        step *= max(1, shape[axis])
    return tuple(strides)


_SIMPLE: dict[type, Callable[[_Pickler, Any], None]] = {
    type(None): _Pickler._none,
    bool: _Pickler._bool,
    int: _Pickler._int,
    float: _Pickler._float,
    complex: _Pickler._complex,
    str: _Pickler._str,
    bytes: _Pickler._bytes,
    bytearray: _Pickler._bytearray,
}

_CONTAINERS: dict[type, Callable[[_Pickler, Any], Iterator[object]]] = {
    list: _Pickler._list,
    tuple: _Pickler._tuple,
    set: _Pickler._set,
    dict: _Pickler._dict,
    OrderedDict: _Pickler._ordered,
    Counter: _Pickler._counter,
}
