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
def test_a_scalar_is_made_in_the_full_shape_because_there_is_nothing_to_broadcast(dtype):
    x = param("x", (2, 3), dtype)
    full = ops.add(x, 2).inputs[1]
    assert full.op.name == "full"
    assert full.type == x.type


def test_an_array_is_made_a_constant_and_broadcast():
    row, x = np.array([1.0, 2.0, 3.0]), np.ones((2, 1), np.float32)
    np.testing.assert_array_equal(result(lambda v: ops.add(row, v), x), [[2, 3, 4], [2, 3, 4]])
    assert ops.add(param("x", (3,)), row).inputs[1].op.name == "constant"


def test_matmul_takes_one_array_and_refuses_anything_else():
    x, w = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(result(lambda v: ops.matmul(v, w), x), x @ w)
    np.testing.assert_array_equal(result(lambda v: ops.matmul(w.T, ops.transpose(v)), x), w.T @ x.T)
    for wrong, word in ((2, "2"), ([[1.0]], "a list"), ("w", "'w'")):
        with pytest.raises(TypeRuleError) as refusal:
            ops.matmul(param("x", (2, 3)), wrong)
        assert refusal.value.message == (
            f"matmul: operands must be graph values, or one of them a NumPy array, got {word}; use multiply for "
            "scalars, constant for lists"
        )


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


def test_where_takes_a_mask_of_numpy():
    mask, x = np.tri(2, 3, dtype=bool), f32(1, 2, 3)
    np.testing.assert_array_equal(result(lambda v: ops.where(mask, v, 0.0), x), [[1, 0, 0], [1, 2, 0]])


@pytest.mark.parametrize("condition", [lambda x: x == 0, lambda x: x != 0])
def test_where_refuses_a_python_condition_and_names_equal(condition):
    x = param("x", (2,))
    with pytest.raises(TypeRuleError) as refusal:
        ops.where(condition(x), x, 0.0)
    assert refusal.value.message == (
        f"where: the condition must be a graph value or a NumPy array, got {condition(x)}; compare with ops.equal or "
        "ops.not_equal, because == and != between graph values compare Python objects"
    )


def test_broadcast_gives_two_values_of_one_shape():
    x, y = broadcast(param("x", (2, 1)), param("y", (3,)))
    assert x.shape == y.shape == (2, 3)


def test_full_like_has_the_type_of_its_model():
    assert full_like(param("x", (2, 3), "bf16"), 0.5).type == TensorType((2, 3), "bf16")
