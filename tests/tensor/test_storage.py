"""The memory of tensors."""

from sys import getrefcount

import numpy as np

from adjoint.ir import TensorType
from adjoint.tensor.storage import COUNTED_BY_CALL, empty_storage, is_exported, storage_of


def test_memory_is_exported_while_an_array_shows_it():
    storage = empty_storage(TensorType((3,)))
    assert not is_exported(storage)
    array = storage.array.view()
    assert is_exported(storage)
    del array
    assert not is_exported(storage)


def test_arrays_are_shared_or_copied():
    array = np.arange(4.0)
    shared, copied = storage_of(array, copy=False), storage_of(array, copy=True)
    array[0] = 7.0
    assert (shared.array[0], copied.array[0]) == (7.0, 0.0)
    assert copied.address % 64 == 0
    strided = storage_of(array[::2], copy=False)
    assert strided.array.flags.c_contiguous
    assert strided.array.tolist() == [7.0, 2.0]


def test_arrays_that_cannot_be_written_are_copied():
    array = np.arange(4.0)
    array.flags.writeable = False
    assert storage_of(array, copy=False).array.flags.writeable


def test_references_are_counted_as_this_interpreter_counts_them():
    held = [object()]
    for one in held:
        assert getrefcount(one) == 2 + COUNTED_BY_CALL
        other = one
        assert getrefcount(one) == 3 + COUNTED_BY_CALL
        del other
