"""The memory of tensors: arrays with a known address, shared by tensors and NumPy."""

import ctypes
import threading
from sys import getrefcount

import numpy as np

from adjoint.ir import TensorType
from adjoint.runtime.bound import aligned

__all__ = [
    "COUNTED_BY_CALL",
    "UNSEEN",
    "ReadOnlyStorage",
    "Storage",
    "StorageCache",
    "copied_storage",
    "empty_storage",
    "is_exported",
    "storage_of",
]


def _counted_by_call() -> int:
    one = object()
    return getrefcount(one) - 1


#: What ``getrefcount(variable)`` adds to the references to an object: 1, or 0 where the interpreter lends the
#: variable's reference to the call instead of counting another one, as CPython does from 3.14.
COUNTED_BY_CALL = _counted_by_call()

#: The address of an array's elements is the first field after the header of its object (``PyArrayObject_fields``). To
#: read it there takes an eighth of the time of ``array.__array_interface__``.
_HEADER, _word_at = object.__basicsize__, ctypes.c_size_t.from_address


class Storage:
    """A C-contiguous array that compiled code reads and writes by address.

    Attributes
    ----------
    array : numpy.ndarray
        The elements.
    address : int
        Address of the first one.
    owner : object
        The object that all views of this memory keep alive, so that its reference count tells whether there are any.
    shared : bool
        Whether NumPy or another library has ever been given the memory, or it came from there.
    """

    __slots__ = ("__weakref__", "address", "array", "owner", "shared")

    def __init__(self, array: np.ndarray, shared: bool = False) -> None:
        self.array = array
        self.address: int = _word_at(id(array) + _HEADER).value
        self.owner: object = array if array.base is None else array.base
        self.shared = shared

    def snapshot(self) -> "Storage":
        """A private copy of elements that others may change at any time; itself if nobody else sees them any more."""
        if not is_exported(self):
            self.shared = False
            return self
        copied = _copies.storage(self.array.shape, self.array.dtype)
        copied.array[...] = self.array
        return copied

    def succeeded_by(self, elements: np.ndarray) -> "Storage":
        """Write new elements to this memory and return it as a new storage; this one keeps the old elements."""
        memory = self.array
        copied = storage_of(memory, copy=True)
        self.array, self.owner, self.address, self.shared = copied.array, copied.owner, copied.address, False
        memory[...] = elements
        return Storage(memory, shared=True)


class ReadOnlyStorage(Storage):
    """Memory of another library that must not be written to.

    What changes it in place takes other memory instead. Compiled functions write to the memory of a tensor only if
    nothing else refers to its storage, so this one refers to itself, as the owner that is not an array of NumPy.
    """

    __slots__ = ()

    def __init__(self, array: np.ndarray) -> None:
        view = array.view()
        view.flags.writeable = False
        super().__init__(view, shared=True)
        self.owner = self

    def succeeded_by(self, elements: np.ndarray) -> Storage:
        """New elements in memory of their own."""
        return storage_of(elements, copy=True)


#: References to the owner of memory that nobody else looks at: by `Storage.owner`, by the array, if it is not the owner
#: itself, and by the call of getrefcount.
UNSEEN = 3


def is_exported(storage: Storage) -> bool:
    """Whether NumPy arrays or other libraries may see the memory; that which NumPy has not allocated is always seen."""
    return not isinstance(storage.owner, np.ndarray) or getrefcount(storage.owner) > UNSEEN


def empty_storage(type_: TensorType) -> Storage:
    """New memory for a tensor of this type, aligned to cache lines, filled with zeros."""
    return Storage(aligned(type_.shape, type_.dtype))


def copied_storage(storage: Storage, type_: TensorType) -> Storage:
    """A private copy of elements of this type."""
    made = empty_storage(type_)
    made.array[...] = storage.array
    return made


def storage_of(array: np.ndarray, *, copy: bool) -> Storage:
    """The elements of an array as a storage; without `copy`, its own memory if it is C-contiguous and aligned."""
    if not copy and array.flags.carray:  # C-contiguous, aligned and writeable
        # The caller's array counts as a reference to the owner, which it does not if it is the storage's own array.
        return Storage(array if array.base is None else array.view(), shared=True)
    made = Storage(aligned(array.shape, array.dtype))
    made.array[...] = array
    return made


class StorageCache:
    """Memory that is used again when nobody has it any more: batches have the same type in every iteration.

    New memory of their size would come from the operating system page by page, which takes longer than copying.

    Parameters
    ----------
    types : int
        Number of types that memory is kept for, those used last.
    pieces : int
        Number of storages kept for each.
    """

    def __init__(self, types: int, pieces: int) -> None:
        self._types, self._pieces = types, pieces
        self._kept: dict[tuple[tuple[int, ...], np.dtype], list[Storage]] = {}
        self._lock = threading.Lock()

    def storage(self, shape: tuple[int, ...], dtype: np.dtype) -> Storage:
        """Memory that no tensor has and no array shows; its elements are arbitrary."""
        if not self._lock.acquire(blocking=False):  # another thread, or one that did not survive a fork, is in here
            return Storage(aligned(shape, dtype))
        try:
            key = shape, dtype
            kept = self._kept.pop(key, [])
            self._kept[key] = kept
            while len(self._kept) > self._types:
                del self._kept[next(iter(self._kept))]
            for storage in kept:
                if getrefcount(storage) <= 2 + COUNTED_BY_CALL and not is_exported(storage):
                    storage.shared = False
                    return storage
            made = Storage(aligned(shape, dtype))
            kept.append(made)
            del kept[: -self._pieces]
            return made
        finally:
            self._lock.release()


_copies = StorageCache(types=8, pieces=2)
