"""Constructor functions: scalars adopt a dtype, shapes broadcast, and what cannot is refused in words."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import TypeRuleError
from adjoint.ir import TensorType, TupleType, Value, param
from adjoint.ops.build import broadcast, full_like
from adjoint.ops.calls import Call
from tests.ops.slopes import f32, result, slopes


def test_equal_shapes_are_applied_as_they_are():
    x, y = param("x", (2, 3)), param("y", (2, 3))
    assert ops.add(x, y).inputs == (x, y)


@pytest.mark.parametrize("shapes", [((2, 3), (3,)), ((3,), (2, 3)), ((2, 1), (1, 3)), ((), (4,)), ((0, 3), (1,))])
def test_shapes_broadcast_as_in_numpy(shapes):
    arrays = [np.random.default_rng(i).normal(size=shape).astype(np.float32) for i, shape in enumerate(shapes)]
    np.testing.assert_array_equal(result(ops.multiply, *arrays), arrays[0] * arrays[1])


def test_gradients_of_a_broadcast_are_summed_back():
    row, table = f32(1, 2, 3), np.ones((2, 3), np.float32)
    for found, expected in zip(slopes(ops.multiply, row, table), (f32(2, 2, 2), np.tile(row, (2, 1))), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16", "i32", "u8"])
def test_scalars_adopt_the_dtype_of_the_other_operand(dtype):
    x = param("x", (2, 3), dtype)
    for made in (ops.add(x, 2), ops.add(2, x), ops.add(x, np.float64(2.0)), ops.add(x, np.int8(2))):
        assert made.type == x.type
    full = ops.add(x, 2).inputs[1]
    assert full.op.name == "full"
    assert full.type == x.type, "a scalar is made in the full shape: there is nothing to broadcast"


@pytest.mark.parametrize(
    ("dtype", "scalar", "words"),
    [
        ("i32", 0.5, "add: the scalar must fit the other operand's dtype: i32 holds integers, got 0.5"),
        ("u8", -1, "u8 holds 0 to 255, got -1"),
        ("f32", True, "f32 holds a number, got True"),
        ("f16", 1e6, "1000000.0 overflows f16"),
    ],
)
def test_scalars_that_do_not_fit_are_refused(dtype, scalar, words):
    with pytest.raises(TypeRuleError) as refusal:
        ops.add(param("x", (2,), dtype), scalar)
    assert words in refusal.value.message


def test_arrays_are_refused_with_the_way_to_pass_them():
    with pytest.raises(
        TypeRuleError,
        match="add: operands must be graph values or Python scalars, got an array",
    ):
        ops.add(param("x", (2,)), np.ones(2))


def test_two_scalars_are_refused():
    with pytest.raises(TypeRuleError, match=r"add: at least one operand must be a graph value, got 1 and 2\.5"):
        ops.add(1, 2.5)
    with pytest.raises(TypeRuleError, match=r"where: at least one operand must be a graph value, got 1\.0 and 0\.0"):
        ops.where(param("c", (2,), "bool"), 1.0, 0.0)


def test_shapes_that_do_not_broadcast_are_refused():
    with pytest.raises(
        TypeRuleError,
        match=r"multiply: shapes must broadcast, .* got f32\[2,3\] and f32\[2\]; reshape",
    ):
        ops.multiply(param("x", (2, 3)), param("y", (2,)))


def test_mixed_dtypes_are_left_to_the_operator_to_refuse():
    with pytest.raises(
        TypeRuleError, match=r"add: operands must have the same dtype, got f32\[2\] and f64\[2\]; cast one to f32"
    ):
        ops.add(param("x", (2,)), param("y", (2,), "f64"))


def test_tuples_are_refused():
    pair = Value(Call, (), TupleType((TensorType((2,)), TensorType((2,)))))
    with pytest.raises(
        TypeRuleError, match=r"add: operands must be tensors, got \(f32\[2\], f32\[2\]\); extract one with tuple_get"
    ):
        ops.add(pair, 1)


def test_where_takes_scalars_on_either_side_and_broadcasts_the_condition():
    mask, x = np.array([[True], [False]]), f32(1, 2, 3)
    np.testing.assert_array_equal(result(lambda c, v: ops.where(c, v, 0.0), mask, x), [[1, 2, 3], [0, 0, 0]])
    np.testing.assert_array_equal(result(lambda c, v: ops.where(c, 9, v), mask, x), [[9, 9, 9], [1, 2, 3]])


def test_where_refuses_a_python_condition():
    with pytest.raises(TypeRuleError, match="the condition must be a graph value, got True"):
        ops.where(True, param("x", (2,)), 0.0)


def test_broadcast_gives_two_values_of_one_shape():
    x, y = broadcast(param("x", (2, 1)), param("y", (3,)))
    assert x.shape == y.shape == (2, 3)


def test_full_like_has_the_type_of_its_model():
    assert full_like(param("x", (2, 3), "bf16"), 0.5).type == TensorType((2, 3), "bf16")
