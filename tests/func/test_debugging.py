"""debug_print, debug_nan, and the control flow that is not there yet."""

import numpy as np
import pytest

from adjoint import debug_nan, debug_print, jit, ops, vmap
from adjoint.errors import InvalidValueError, NotFiniteError, TypeRuleError
from adjoint.tensor.record import operation
from adjoint.tensor.tensor import from_array

log, total = operation(ops.log), operation(ops.sum)
ops_exp, where = operation(ops.exp), operation(ops.where)


def f32(values):
    return from_array(np.array(values, np.float32))


def test_every_call_prints(capsys):
    @jit
    def function(x):
        debug_print("sum {:.2f} of {}", total(x * 2), x)
        return x + 1

    for values in ([1, 2], [3, 4]):
        function(f32(values))
    debug_print("{}", f32(7) * 2)
    assert capsys.readouterr().out == "sum 6.00 of [1. 2.]\nsum 14.00 of [3. 4.]\n14.0\n"


def test_the_first_nan_is_found():
    def function(x):
        return total(log(x - 2.0) * 3.0)

    compiled = jit(function)
    good, bad = f32([3, 4]), f32([1, 4])
    expected = compiled(good).item()
    for call in (compiled, lambda x: function(x).item()):
        with debug_nan():
            if call is compiled:
                assert call(good).item() == expected
            with pytest.raises(InvalidValueError) as error:
                call(bad)
        assert error.value.message.startswith("debug_nan: values must not be NaN, got the first NaN from log, which ")
        assert error.value.message.endswith(": f32[2]; check what its operands can be")
        assert error.value.where == f"{__file__}:{function.__code__.co_firstlineno + 1}"
    with debug_nan(), pytest.raises(InvalidValueError) as error:
        compiled(f32([np.nan, 1]))
    assert error.value.message == (
        "debug_nan: the tensors that enter a program must not be NaN, got NaN in %x: f32[2]; look for it where the "
        "tensor was computed"
    )
    assert np.isnan(compiled(bad).item())  # outside of the block nothing is checked


def test_the_infinity_behind_a_nan_is_found():
    def function(x):
        y = log(x)
        return total(y * 0.0)

    line = function.__code__.co_firstlineno + 1
    with debug_nan(), pytest.raises(InvalidValueError) as error:
        jit(function)(f32([0, 1]))
    assert ", of an infinity from log, which computes " in error.value.message
    assert f": f32[2] at test_debugging.py:{line}; " in error.value.message
    assert error.value.where == f"{__file__}:{line + 1}"


def test_infinite_results_are_refused_if_asked_for():
    masked = jit(lambda x: total(ops_exp(where(x < 0, -np.inf, x))))
    divided = jit(lambda x: total(1 / x))
    x = f32([-1, 0])
    with debug_nan(infinity=True):
        assert masked(x).item() == 1.0  # nothing is left of the infinity of the mask
        with pytest.raises(NotFiniteError) as error:
            divided(x)
    assert error.value.message.startswith(
        "debug_nan: results must be finite, got the first infinity from divide, which "
    )
    with debug_nan():
        assert divided(x).item() == np.inf


REFUSED = [
    (lambda: debug_print(3), TypeRuleError, "debug_print takes a format string first, got the int 3; write '{}'"),
    (
        lambda: debug_print("{}", 3),
        TypeRuleError,
        "debug_print takes tensors, got the int 3; put it into the format string",
    ),
    (
        lambda: vmap(lambda x: debug_print("{}", x))(f32([1])),
        InvalidValueError,
        "debug_print can be used in compiled functions, got a call inside vmap or checkpoint; return the tensor and "
        "print it outside",
    ),
]


@pytest.mark.parametrize(("call", "kind", "message"), REFUSED)
def test_refusals(call, kind, message):
    with pytest.raises(kind) as error:
        call()
    assert error.value.message == message
