"""Calls of compiled functions by address."""

import numpy as np
import pytest

from adjoint import Function, compile, ops, param
from adjoint.errors import InvalidValueError
from adjoint.runtime.bound import aligned


def test_arguments_and_results_are_given_by_address():
    x, y = param("x", (2, 3)), param("y", (3,))
    entry = compile(Function("f", (x, y), (x + y, (x * y).sum())))["f"]
    call = entry.invocation(threads=1)
    arrays = [aligned(a.shape, a.dtype) for a in entry.arguments] + [aligned(r.shape, r.dtype) for r in entry.results]
    for argument, array in zip((*entry.arguments, *entry.results), arrays, strict=True):
        call.slots[argument.slot] = array.ctypes.data
    arrays[0][...], arrays[1][...] = np.arange(6).reshape(2, 3), (1, 2, 3)
    call.call()
    assert arrays[2].tolist() == [[1, 3, 5], [4, 6, 8]]
    assert arrays[3].item() == 0 + 2 + 6 + 3 + 8 + 15


def test_indices_are_checked():
    table, ids = param("table", (4, 2)), param("ids", (3,), "i64")
    entry = compile(Function("f", (table, ids), (ops.take(table, ids),)))["f"]
    call = entry.invocation()
    arrays = [np.ones((4, 2), np.float32), np.array([0, 4, 1]), np.full((3, 2), 9, np.float32)]
    for argument, array in zip((*entry.arguments, *entry.results), arrays, strict=True):
        call.slots[argument.slot] = array.ctypes.data
    with pytest.raises(InvalidValueError) as error:
        call.call()
    assert error.value.message == "ids holds indices and must be in [0, 4), got 4 at 1; correct the data"
    assert (arrays[2] == 9).all()
    arrays[1][1] = 3
    call.call()
    assert (arrays[2] == 1).all()
