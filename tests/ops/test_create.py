import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import DTYPES
from adjoint.ops.create import Constant, Full, plain_scalar, scalar_misfit
from tests.ops.running import run


def test_full_holds_one_value():
    found = run(lambda: ops.full(2.5, (2, 3)))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.full((2, 3), 2.5))


@pytest.mark.parametrize(
    ("value", "dtype", "kept"),
    [(2, "f32", 2.0), (2.0, "i32", 2), (np.float64(0.5), "f64", 0.5), (np.int64(3), "u8", 3), (True, "bool", True)],
)
def test_full_keeps_a_python_number_of_the_dtypes_kind(value, dtype, kept):
    op = ops.full(value, 3, dtype).op
    assert op.shape == (3,)
    assert op.value == kept
    assert type(op.value) is type(kept)


def test_full_tells_zeros_and_nans_apart_as_bits_do():
    assert np.signbit(run(lambda: ops.full(-0.0, ())))
    assert Full(0.0).key() != Full(-0.0).key()
    assert Full(float("nan")).key() == Full(np.float32("nan")).key()


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        (2.5, "i32", "full: i32 holds integers, got 2.5; round it or use a float dtype"),
        (float("nan"), "i64", "i64 holds integers, got nan"),
        (300, "u8", "full: u8 holds 0 to 255, got 300; use a wider dtype"),
        (-1, "u64", "u64 holds 0 to"),
        (70000.0, "f16", "full: 70000.0 overflows f16; use inf, a smaller value or a wider dtype"),
        (-1e39, "f32", "overflows f32"),
        (1, "bool", "bool holds True or False, got 1"),
        ("1", "f32", "f32 holds a number, got '1'"),
        ([1.0], "f32", "use constant for arrays"),
        (1.0, "f33", "dtype must be one of f32,"),
    ],
)
def test_full_refuses_what_the_dtype_cannot_hold(value, dtype, message):
    with pytest.raises(TypeRuleError, match=message.replace("[", r"\[").replace("(", r"\(")):
        ops.full(value, (2,), dtype)


def test_infinity_and_the_largest_numbers_fit():
    assert scalar_misfit(float("inf"), DTYPES["f16"]) == ""
    assert scalar_misfit(65504.0, DTYPES["f16"]) == ""
    assert scalar_misfit(2**63 - 1, DTYPES["i64"]) == ""
    assert plain_scalar(1e300, DTYPES["i64"]) == int(1e300)
    assert scalar_misfit(10**400, DTYPES["i64"]) != ""


def test_iota_counts_along_an_axis():
    np.testing.assert_array_equal(run(lambda: ops.iota((2, 3), axis=1)), [[0, 1, 2], [0, 1, 2]])
    np.testing.assert_array_equal(run(lambda: ops.iota((2, 3), axis=-2)), [[0, 0, 0], [1, 1, 1]])
    assert run(lambda: ops.iota(4, dtype="f32")).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_iota_refuses_an_axis_that_is_not_there():
    with pytest.raises(InvalidValueError, match="iota: axis 2 is out of range for rank 2; use -2 to 1"):
        ops.iota((2, 3), axis=2)
    with pytest.raises(InvalidValueError, match="none: a scalar has no axes"):
        ops.iota(())
    with pytest.raises(TypeRuleError, match="u8 holds 0 to 255, got 299"):
        ops.iota(300, dtype="u8")


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_constant_keeps_the_bits_of_every_dtype(dtype):
    array = np.array([[0, 1, 2], [3, 5, 100]]).astype(dtype)
    found = run(lambda: ops.constant(array))
    assert found.dtype == dtype
    assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("given", "type_"),
    [
        (1.5, "f32[]"),
        ([1, 2, 3], "i64[3]"),
        ([[1.0], [2.0]], "f32[2,1]"),
        ([True, False], "bool[2]"),
        (np.float64(1.5), "f64[]"),
        (np.arange(4.0), "f64[4]"),
        (np.zeros((0, 3), np.float32), "f32[0,3]"),
    ],
)
def test_constant_takes_arrays_and_python_numbers(given, type_):
    value = ops.constant(given)
    assert str(value.type) == type_
    np.testing.assert_array_equal(run(lambda: value), given)


def test_constant_copies_converts_and_orders():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    transposed, swapped = ops.constant(array.T), ops.constant(array.astype(">f4"))
    half = ops.constant(array, "f16")
    expected = array.copy()
    array[:] = -1
    np.testing.assert_array_equal(run(lambda: transposed), expected.T)
    np.testing.assert_array_equal(run(lambda: swapped), expected)
    assert run(lambda: half).dtype == np.float16


def test_constant_refuses_text_and_wrong_lengths():
    with pytest.raises(TypeRuleError, match="dtype must be one of"):
        ops.constant(["a", "b"])
    with pytest.raises(TypeRuleError, match=r"constant: f32\[3\] takes 12 bytes, got 8; use ops\.constant"):
        Constant(bytes(8), (3,)).infer()
