"""The objects that PyTorch's files may contain: dtypes, storages, tensors, and a few of Python's and NumPy's."""

import re
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import NoReturn

import ml_dtypes
import numpy as np

from adjoint.errors import CheckpointError
from adjoint.interop.opcodes import Global, Internal, checked_keys
from adjoint.lazy_dataclass import dataclass

__all__ = ["DTYPES", "STORAGES", "Names", "Pending", "Storage", "TorchTensor", "storage_of"]

#: Dtypes by their name in PyTorch, without the quantized ones.
DTYPES: dict[str, np.dtype] = {
    **{name: np.dtype(name) for name in ("float64", "float32", "float16", "complex64", "complex128", "bool")},
    **{f"{sign}int{bits}": np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e4m3fnuz": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "float8_e5m2fnuz": np.dtype(ml_dtypes.float8_e5m2fnuz),
}

#: Names of storages and of the dtypes of their elements. The storages of other dtypes are untyped, of bytes.
STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}

#: Maximum size in bytes, 4 GiB, of a tensor that repeats elements of its storage, if it were copied. What `expand`
#: makes is of any size in a file of a few bytes.
_MOST_REPEATED = 1 << 32

#: Maximum number of characters of a name in a message.
_SHOWN = 20

#: Maximum rank of a NumPy array in every version that is supported.
_MOST_AXES = 32

#: NumPy's plain dtypes in a pickle: a kind and a number of bytes.
_NUMPY_DTYPE = re.compile(r"b1|[iu][1248]|f[248]|c8|c16")


@dataclass(frozen=True, eq=False)
class TorchTensor:
    """A tensor of a file of PyTorch.

    Attributes
    ----------
    array : numpy.ndarray
        Its elements.
    requires_grad : bool, default False
        Whether gradients are computed for it.
    is_parameter : bool, default False
        Whether it is a ``torch.nn.Parameter``.
    """

    array: np.ndarray
    requires_grad: bool = False
    is_parameter: bool = False


@dataclass(frozen=True, eq=False)
class StorageType(Internal):
    """The class of a storage; None as dtype: untyped."""

    dtype: np.dtype | None


@dataclass(frozen=True, eq=False)
class Storage(Internal):
    """A block of memory of a file, whose content may not have been read yet: its key, dtype and number of elements."""

    key: str
    dtype: np.dtype | None
    count: int

    @property
    def size(self) -> int:
        """Number of bytes."""
        return self.count * (1 if self.dtype is None else self.dtype.itemsize)


@dataclass(frozen=True)
class Pending(Internal):
    """A tensor as a view of a storage. Equal ones are one tensor."""

    storage: Storage
    dtype: np.dtype
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    requires_grad: bool
    is_parameter: bool = False

    def view(self, content: np.ndarray) -> np.ndarray:
        """Its elements in the content of its storage, an array of bytes in the byte order of this machine."""
        item = self.dtype.itemsize
        if not prod(self.shape):
            return np.empty(self.shape, self.dtype)
        strides = tuple(item * stride for stride in self.strides)
        array: np.ndarray = np.ndarray(self.shape, self.dtype, content, item * self.offset, strides)
        if any(size > 1 and stride == 0 for size, stride in zip(self.shape, strides, strict=True)):
            array.flags.writeable = False  # a change of one element would be one of all that repeat it
        return array


def storage_of(what: str, given: object, storages: dict[str, Storage]) -> Storage:
    """The storage of a persistent id ``("storage", class, key, device, number of elements, ...)``, one for each key.

    Raises
    ------
    CheckpointError
        If it is that of another object, or a key has two meanings.
    """
    match given:
        case ("storage" | b"storage", StorageType(dtype), str(key), str(), int(count), *rest) if rest in ([], [None]):
            if count < 0 or type(count) is not int:
                raise ValueError
            found = storages.setdefault(key, Storage(key, dtype, count))
            if (found.dtype, found.count) != (dtype, count):
                raise CheckpointError(f"{what} gives the storage {key!r} two types or sizes; save it again")
            return found
    raise CheckpointError(f"{what} refers to an object outside of its pickle that is not a storage; save it again")


class Names:
    """What the pickle of one file may name, and the objects that its calls have made.

    Parameters
    ----------
    what : str
        The name of the caller and the file, for messages.
    size : int
        Number of bytes of the pickle. Objects that calls copy from others may have twice as many bytes or elements in
        total (an array of NumPy is copied from bytes, which are copied from a text), which bounds what a pickle can
        allocate by calling with the same argument many times.
    """

    def __init__(self, what: str, size: int) -> None:
        self._what, self._left = what, 2 * size
        self._unset: dict[int, np.ndarray] = {}

    def table(self) -> Mapping[str, object]:
        """Objects by module and name, as `opcodes.Pickle` takes them."""
        calls: dict[str, Callable[..., object]] = {
            "torch._utils._rebuild_tensor": self._tensor,
            "torch._utils._rebuild_tensor_v2": self._tensor,
            "torch._utils._rebuild_tensor_v3": self._tensor_of_dtype,
            "torch._utils._rebuild_parameter": self._parameter,
            "torch._utils._rebuild_parameter_with_state": self._parameter,
            "torch._tensor._rebuild_from_type_v2": self._with_attributes,
            "torch.Tensor": _refuse,
            "torch.nn.parameter.Parameter": _refuse,
            "torch.Size": _sizes,
            "torch.device": _device,
            "collections.OrderedDict": self._ordered,
            "collections.Counter": self._counter,
            "builtins.set": self._set,
            "builtins.complex": complex,
            "builtins.bytes": self._bytes,
            "builtins.bytearray": self._bytearray,
            "_codecs.encode": self._bytes,
            "numpy.dtype": self._numpy_dtype,
            "numpy.ndarray": _refuse,
        }
        for module in ("numpy.core", "numpy._core"):  # before and since NumPy 2
            calls[f"{module}.multiarray.scalar"] = _numpy_scalar
            calls[f"{module}.multiarray._reconstruct"] = self._numpy_array
        storages = {f"torch.{name}": StorageType(DTYPES[dtype]) for name, dtype in STORAGES.items()}
        untyped = dict.fromkeys(("torch.UntypedStorage", "torch.storage.UntypedStorage"), StorageType(None))
        dtypes = {f"torch.{name}": dtype for name, dtype in DTYPES.items()}
        return {**{name: Global(name, call) for name, call in calls.items()}, **storages, **untyped, **dtypes}

    def build(self, made: object, state: object) -> None:
        """Set the state of an object that a call has made."""
        if type(made) is OrderedDict and isinstance(state, dict):
            # The versions of the modules of a state dict. Anything else could replace a method.
            if isinstance(metadata := state.get("_metadata"), dict):
                made._metadata = metadata  # type: ignore[attr-defined]
        elif isinstance(made, np.dtype):
            if not isinstance(state, tuple):
                raise TypeError
            if state[1] not in ("<", "|"):
                self._refuse_dtype(f"the byte order {str(state[1])[:_SHOWN]!r}")
        elif (array := self._unset.pop(id(made), None)) is not None and isinstance(state, tuple):
            _version, shape, dtype, fortran, content = state
            shape = _checked_shape(shape, dtype)
            if type(content) is not bytes or len(content) != prod(shape) * dtype.itemsize:
                raise ValueError
            self._spend(len(content))
            array.__setstate__((1, shape, dtype, bool(fortran), content))  # type: ignore[arg-type]
        else:
            raise TypeError

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise CheckpointError(f"{self._what} copies the same bytes many times in its pickle; save it again")

    def _tensor(self, storage: object, offset: object, shape: object, strides: object, *rest: object) -> Pending:
        requires_grad, metadata = rest[0] if rest else False, rest[2] if len(rest) > 2 else None
        if not isinstance(storage, Storage) or storage.dtype is None:
            raise TypeError
        self._refuse_metadata(metadata)
        return self._pending(storage, storage.dtype, offset, shape, strides, requires_grad)

    def _tensor_of_dtype(
        self,
        storage: object,
        offset: object,
        shape: object,
        strides: object,
        requires_grad: object,
        _hooks: object,
        dtype: object,
        metadata: object = None,
    ) -> Pending:
        if not isinstance(storage, Storage) or not isinstance(dtype, np.dtype):
            raise TypeError
        self._refuse_metadata(metadata)
        return self._pending(storage, dtype, offset, shape, strides, requires_grad)

    def _refuse_metadata(self, metadata: object) -> None:
        if metadata is not None and metadata != {}:
            raise CheckpointError(
                f"{self._what} has a tensor that is conjugated or negated when it is read; save tensor.resolve_conj() "
                "or tensor.resolve_neg()"
            )

    def _pending(
        self, storage: Storage, dtype: np.dtype, offset: object, shape: object, strides: object, requires_grad: object
    ) -> Pending:
        """A tensor whose elements are all inside its storage."""
        shape, strides = _checked_shape(shape, dtype), _checked_sizes(strides)
        (offset,) = _checked_sizes((offset,))
        if len(strides) != len(shape):
            raise ValueError
        elements = prod(shape)
        last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
        if elements and (last + 1) * dtype.itemsize > storage.size:
            raise CheckpointError(
                f"{self._what} has a tensor of shape {shape}, strides {strides} and offset {offset} outside of its "
                f"storage of {storage.size} bytes; save it again"
            )
        if elements * dtype.itemsize > max(storage.size, _MOST_REPEATED):
            raise CheckpointError(
                f"{self._what} has a tensor of shape {shape} and strides {strides} that repeats its elements to more "
                f"than {_MOST_REPEATED >> 30} GiB; save the tensor before it is expanded"
            )
        return Pending(storage, dtype, offset, shape, strides, bool(requires_grad))

    def _parameter(self, data: object, requires_grad: object, _hooks: object, _state: object = None) -> Pending:
        if not isinstance(data, Pending):
            raise TypeError
        return replace(data, requires_grad=bool(requires_grad), is_parameter=True)

    def _with_attributes(self, rebuild: object, _class: object, args: object, _state: object) -> Pending:
        """A tensor to which Python code has added attributes, without them."""
        if not isinstance(rebuild, Global) or not isinstance(args, tuple):
            raise TypeError
        made = rebuild.call(*args)
        if not isinstance(made, Pending):
            raise TypeError
        return made

    def _ordered(self, items: object = ()) -> OrderedDict[object, object]:
        if not isinstance(items, list | tuple):
            raise TypeError
        self._spend(len(items))
        pairs = [(key, value) for key, value in items]
        checked_keys([key for key, _ in pairs])
        return OrderedDict(pairs)

    def _counter(self, counts: object = None) -> Counter[object]:
        counts = {} if counts is None else counts
        if type(counts) is not dict:
            raise TypeError
        self._spend(len(counts))
        return Counter(counts)

    def _set(self, items: object = ()) -> set[object]:
        if not isinstance(items, list | tuple):
            raise TypeError
        self._spend(len(items))
        return set(checked_keys(list(items)))

    def _bytes(self, text: object = "", encoding: object = "latin1") -> bytes:
        """Bytes, which protocol 2 writes as a text of the same code points."""
        if type(text) is not str or encoding not in ("latin1", "latin-1"):
            raise TypeError
        self._spend(len(text))
        return text.encode("latin1")

    def _bytearray(self, content: object = b"", encoding: object = "latin1") -> bytearray:
        if type(content) is bytes:
            self._spend(len(content))
            return bytearray(content)
        return bytearray(self._bytes(content, encoding))

    def _numpy_dtype(self, name: object, _align: object = False, _copy: object = False) -> np.dtype:
        if type(name) is not str or not _NUMPY_DTYPE.fullmatch(name):
            self._refuse_dtype(f"the dtype {str(name)[:_SHOWN]!r}")
        return np.dtype(f"<{name}")

    def _refuse_dtype(self, given: str) -> NoReturn:
        raise CheckpointError(
            f"{self._what} has an array of NumPy with {given}, and only plain little-endian numbers are read; "
            "convert it with .astype, or save a tensor instead"
        )

    def _numpy_array(self, *_: object) -> np.ndarray:
        array = np.empty(0, np.int8)  # `build` sets the elements
        self._unset[id(array)] = array
        return array


def _checked_sizes(sizes: object) -> tuple[int, ...]:
    if type(sizes) is not tuple or not all(type(size) is int and 0 <= size <= sys.maxsize for size in sizes):
        raise ValueError
    return sizes


def _checked_shape(shape: object, dtype: object) -> tuple[int, ...]:
    """A shape that an array of this dtype can have."""
    shape = _checked_sizes(shape)
    if not isinstance(dtype, np.dtype) or len(shape) > _MOST_AXES:
        raise ValueError
    if prod(size for size in shape if size) * dtype.itemsize > sys.maxsize:
        raise OverflowError
    return shape


def _sizes(sizes: object = ()) -> tuple[int, ...]:
    return _checked_sizes(tuple(sizes) if type(sizes) is list else sizes)


def _device(kind: object, index: object = None) -> str:
    if type(kind) is not str or not (index is None or type(index) is int):
        raise TypeError
    return kind if index is None else f"{kind}:{index}"


def _numpy_scalar(dtype: object, content: object) -> object:
    if not isinstance(dtype, np.dtype) or type(content) is not bytes or len(content) != dtype.itemsize:
        raise ValueError
    return np.frombuffer(content, dtype)[0]


def _refuse(*_: object) -> object:
    raise TypeError
