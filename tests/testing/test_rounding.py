"""What rounding reaches, against closed forms: cancellation, sums, ties, and what nobody rounds."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import VerifyError
from adjoint.ir import Function, param
from adjoint.testing.rounding import estimate_rounding

EPS = 2.0**-24
F32 = np.dtype(np.float32)


def reach(build, *arrays):
    params = [param(f"x{n}", np.shape(a), np.asarray(a).dtype) for n, a in enumerate(arrays)]
    made = estimate_rounding(Function("f", tuple(params), (build(*params),)), *map(np.asarray, arrays), precision=F32)
    return made.reach[0]


def test_a_rounding_is_relative_to_each_element():
    x = np.array([1e-6, 1.0, 1e6])
    found = reach(ops.exp, np.log(x)) / (EPS * x)
    assert (found > 1).all()
    assert (found < 20).all()


def test_what_cancels_keeps_the_error_of_what_it_was():
    x, y = np.array([1e4, 1.0]), np.array([1.0, 1.0])
    # exp(log(x)) + y - x: in the first place 1 is left of 10,000.
    found = reach(lambda x, y: ops.subtract(ops.add(ops.exp(ops.log(x)), y), x), x, y)
    assert 2 * EPS * 1e4 < found[0] < 200 * EPS * 1e4
    assert found[1] < 200 * EPS


def test_a_sum_is_known_as_well_as_the_sum_of_its_magnitudes():
    signs = np.where(np.arange(4096) % 2, 1.0, -1.0)
    both = reach(lambda x: ops.sum(x, (1,)), np.stack([signs, np.ones(4096)]))
    # A root of n of what they come to, whether anything is left or not.
    np.testing.assert_array_less(2 * EPS * 64 * 4096, both)
    np.testing.assert_array_less(both, 20 * EPS * 64 * 4096)


def test_which_of_two_that_nearly_tie_is_greater_is_open():
    x = np.array([[1.0, 1.0 + 1e-9, 0.0], [1.0, 2.0, 0.0]])

    def slope(x):
        squares = ops.square(x)
        top = ops.reshape(ops.max(squares, (1,)), (2, 1))
        return ops.cast(ops.equal(squares, ops.broadcast_to(top, (2, 3))), "f64")

    np.testing.assert_array_equal(reach(slope, x), [[1, 1, 0], [0, 0, 0]])


def test_what_is_only_moved_or_chosen_keeps_its_bits():
    x = np.linspace(-2, 2, 12).reshape(3, 4)

    def build(x):
        turned = ops.maximum(ops.permute(ops.negative(x), (1, 0)), 0.5)
        return ops.floor(ops.concat(turned, ops.pad(turned, (0, 0), (1, 0)), axis=0))

    assert not reach(build, x).any()


def test_calls_are_refused():
    x, y = param("x", (3,)), param("y", (3,))
    outer = Function("f", (y,), (ops.call(Function("g", (x,), (ops.exp(x),)), y),))
    with pytest.raises(VerifyError, match=r"call has no reference of its own; inline the calls of @f first"):
        estimate_rounding(outer, np.zeros(3, np.float32))
