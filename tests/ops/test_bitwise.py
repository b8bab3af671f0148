"""Bitwise operators: what the samples of the contract tests do not say in numbers."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import TypeRuleError
from adjoint.ir import param
from tests.ops.running import run


def test_shifts_by_too_many_bits_shift_all_bits_out():
    x, by = np.array([1, -8, 5, -5], np.int8), np.array([9, 9, -1, -1], np.int8)
    assert run(ops.bitwise_left_shift, x, by).tolist() == [0, 0, 0, 0]
    assert run(ops.bitwise_right_shift, x, by).tolist() == [0, -1, 0, -1]
    assert run(lambda v: ops.bitwise_right_shift(v, 1), x).tolist() == [0, -4, 2, -3]


def test_unsigned_bits_are_inverted_within_their_type():
    assert run(ops.bitwise_not, np.array([0, 5], np.uint8)).tolist() == [255, 250]
    assert run(ops.bitwise_not, np.array([True, False])).tolist() == [False, True]


def test_floats_are_refused():
    with pytest.raises(TypeRuleError) as error:
        ops.bitwise_and(param("x", (2,)), param("y", (2,)))
    assert error.value.message == (
        "bitwise_and: the dtype must be integer or unsigned or bool, got f32[2]; cast it to i32 first"
    )
