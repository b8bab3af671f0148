"""Slices at computed starts, which are clipped."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import CompileOptions, compile
from adjoint.errors import TypeRuleError
from adjoint.ir import Function, param
from adjoint.testing import interpret
from adjoint.transforms import vectorize
from tests.ops.running import gradient

X = np.arange(20.0).reshape(4, 5)


def test_parts_are_read_and_written_within_the_tensor():
    """As in JAX, negative starts count from the end; then the part is moved into the tensor."""
    x, start = param("x", (4, 5), "f64"), param("start", (), "i32")
    part = ops.dynamic_slice(x, [start, 1], (2, 3))
    written = ops.dynamic_update_slice(x, ops.full(0.0, (2, 3), "f64"), [start, start])
    run = compile(Function("f", (x, start), (part, written)), options=CompileOptions(threads=1, cache=False))
    for given, row, column in ((1, 1, 1), (-3, 1, 2), (9, 2, 2), (-9, 0, 0)):
        read, changed = run(X, np.int32(given))
        np.testing.assert_array_equal(read, X[row : row + 2, 1:4], err_msg=str(given))
        wanted = X.copy()
        wanted[row : row + 2, column : column + 3] = 0
        np.testing.assert_array_equal(changed, wanted, err_msg=str(given))


def test_gradients_are_those_of_the_parts():
    starts = np.array([1, 3])
    counted = np.zeros((4, 5))
    counted[1:3, 2:5] = 1
    found = gradient(lambda x, s: ops.dynamic_slice(x, s, (2, 3)), X, starts)
    np.testing.assert_array_equal(found, counted)
    update = np.ones((2, 3))
    found = gradient(lambda x, u, s: ops.dynamic_update_slice(x, u, s), X, update, starts)
    np.testing.assert_array_equal(found, 1 - counted)
    found = gradient(lambda u, x, s: ops.dynamic_update_slice(x, u, s), update, X, starts)
    np.testing.assert_array_equal(found, update)


def test_each_example_has_its_own_start():
    x, start = param("x", (5,), "f64"), param("start", (1,), "i64")
    single = Function("f", (x, start), (ops.dynamic_slice(x, start, (2,)),))
    (rows,) = interpret(vectorize(single, [None, 0], 3), X[1], np.array([[0], [3], [7]]))
    assert rows.tolist() == [[5, 6], [8, 9], [8, 9]]


def test_refusals():
    x = param("x", (4, 5), "f64")
    for sentence, starts in {
        "dynamic_slice: there must be one start per axis, got i64[1] for f64[4,5]; pass 2 of them": [1],
        "dynamic_slice: starts must be integers, got f64[2]; cast them to i64": param("s", (2,), "f64"),
    }.items():
        with pytest.raises(TypeRuleError) as error:
            ops.dynamic_slice(x, starts, (2, 2))
        assert error.value.message == sentence
