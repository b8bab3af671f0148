"""The table of scalars and arrays beside graph values: every entry, and every refusal by its sentence."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import TypeRuleError
from adjoint.ir import DTYPES, param
from adjoint.ops.promotion import promote
from tests.ops.slopes import result

FLOATS, BOOL = ("f32", "f64", "f16", "bf16"), ("bool",)
INTEGERS = tuple(name for name in DTYPES if name not in (*FLOATS, *BOOL))

#: What a bool, an int and a float become beside a value of each dtype; None if they are refused.
TABLE = {
    **{name: (None, name, name) for name in FLOATS},
    **{name: (None, name, "f32") for name in INTEGERS},
    "bool": ("bool", None, None),
}
SCALARS = (True, 3, 2.5)


def forms(scalar):
    """The scalar as Python's, as NumPy's in several widths, and as arrays."""
    widths = {bool: (np.bool_,), int: (np.int8, np.uint16, np.int64), float: (np.float16, np.float32, np.float64)}
    kinds = [width(scalar) for width in widths[type(scalar)]]
    return [scalar, *kinds, *map(np.asarray, kinds), *(np.full(2, kind) for kind in kinds)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("column", range(3))
def test_every_entry_of_the_table(dtype, column):
    expected = TABLE[dtype][column]
    for given in forms(SCALARS[column]):
        if expected is None:
            with pytest.raises(TypeRuleError, match="cannot be an operand beside"):
                promote("add", given, DTYPES[dtype])
        else:
            made, common = promote("add", given, DTYPES[dtype])
            assert common == DTYPES[expected]
            assert np.all(np.asarray(made, np.float64) == SCALARS[column])


def test_a_float_beside_integers_casts_them_for_every_operator():
    x = np.array([1, 2, -3], np.int64)
    for build, expected in (
        (lambda v: ops.multiply(v, 0.5), x * 0.5),
        (lambda v: ops.subtract(1.0, v), 1 - x),
        (lambda v: ops.maximum(v, np.array([1.5, 1.5, 1.5])), np.maximum(x, 1.5)),
        (lambda v: ops.where(ops.greater(v, 0), v, 0.25), np.where(x > 0, x, 0.25)),
    ):
        found = result(build, x)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, expected)


def test_numpys_float64_does_not_widen_a_value():
    x = param("x", (4,))
    assert ops.multiply(x, 1 / np.sqrt(64)).type == x.type
    assert ops.multiply(np.ones(4), x).type == x.type


@pytest.mark.parametrize(
    ("dtype", "given", "sentence"),
    [
        ("u8", -1, "add: the scalar must fit the other operand's dtype: u8 holds 0 to 255, got -1; use a wider dtype"),
        (
            "f16",
            1e6,
            "add: the scalar must fit the other operand's dtype: 1000000.0 overflows f16; use inf, a smaller value or "
            "a wider dtype",
        ),
        (
            "f32",
            10**400,
            "add: the scalar must fit the other operand's dtype: an integer of 1329 bits overflows f32; use inf or a "
            "smaller value",
        ),
        (
            "f32",
            True,
            "add: a bool cannot be an operand beside numbers of dtype f32, got True; use a number such as 1 or 0",
        ),
        (
            "i8",
            np.zeros(2, bool),
            "add: a bool cannot be an operand beside numbers of dtype i8, got an array of bool; use a number such as 1 "
            "or 0",
        ),
        (
            "bool",
            2,
            "add: a number cannot be an operand beside a bool value, got 2; cast the value to f32 or i32 first",
        ),
        (
            "i8",
            np.array([1, 200]),
            "add: the array's elements must fit the other operand's dtype: i8 holds -128 to 127, got 200; use a wider "
            "dtype",
        ),
        (
            "f16",
            np.array([np.inf, -1e6]),
            "add: the array's elements must fit the other operand's dtype: -1000000.0 overflows f16; use inf, a "
            "smaller value or a wider dtype",
        ),
        (
            "f32",
            "two",
            "add: the scalar must fit the other operand's dtype: f32 holds a number, got 'two'; use constant for "
            "arrays and dtype bool for truth",
        ),
        (
            "f32",
            np.array([1j, 2]),
            "add: an array operand must have one of the dtypes f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, "
            "u64, bool, got complex128; convert it",
        ),
    ],
)
def test_refusals(dtype, given, sentence):
    with pytest.raises(TypeRuleError) as refusal:
        ops.add(param("x", (2,), dtype), given)
    assert refusal.value.message == sentence


def test_infinities_nan_and_empty_arrays_are_accepted():
    found = result(lambda v: ops.add(v, np.array([np.inf, np.nan])), np.zeros(2, np.float16))
    np.testing.assert_array_equal(found, np.array([np.inf, np.nan], np.float16))
    assert ops.add(param("x", (0,), "i8"), np.zeros(0, np.int64)).shape == (0,)
