import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import param
from adjoint.ops.axes import axes_of, fill, without
from adjoint.ops.shape import Reshape, Slice
from tests.ops.running import Memory, gradient, lowered, run

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
V = param("v", (2, 3, 4))


def test_nothing_to_do_adds_nothing_to_the_graph():
    assert ops.broadcast_to(V, [2, 3, 4]) is V
    assert ops.reshape(V, (2, -1, 4)) is V
    assert ops.permute(V, (0, 1, -1)) is V
    assert ops.slice(V, (0, 0, 0), (2, 3, 4)) is V
    assert ops.pad(V, 0, 0) is V
    assert ops.concat(V) is V
    assert ops.sum(V, ()) is V


@pytest.mark.parametrize("shape", [(2, 3, 4), (5, 2, 3, 4), (1, 2, 3, 4)])
def test_broadcast_to_is_numpys(shape):
    np.testing.assert_array_equal(run(lambda x: ops.broadcast_to(x, shape), X), np.broadcast_to(X, shape))


def test_gradient_of_a_broadcast_counts_the_repetitions():
    ones = np.ones((3, 1))
    np.testing.assert_array_equal(gradient(lambda x: ops.broadcast_to(x, (5, 3, 4)), ones), np.full((3, 1), 20.0))


def test_broadcast_to_says_what_does_not_fit():
    with pytest.raises(TypeRuleError, match=r"be equal or 1, got f32\[2,3,4\] to \[2,3,5\]; reshape it first"):
        ops.broadcast_to(V, (2, 3, 5))


@pytest.mark.parametrize("shape", [(24,), (-1,), (6, -1), (-1, 2, 3), (4, 1, 6), 24])
def test_reshape_is_numpys(shape):
    np.testing.assert_array_equal(run(lambda x: ops.reshape(x, shape), X), X.reshape(shape))


@pytest.mark.parametrize(
    ("shape", "error", "message"),
    [
        ((5, 5), TypeRuleError, r"got f32\[2,3,4\] with 24 to \[5,5\] with 25; correct one size, or use -1 for it"),
        (
            (-1, -1),
            InvalidValueError,
            r"one size may be -1 .* got f32\[2,3,4\] to \[-1,-1\]; specify all sizes",
        ),
        ((-1, 5), InvalidValueError, "if the others divide the number of elements"),
        (
            (-1, 0),
            InvalidValueError,
            r"if the others divide the number of elements, got f32\[2,3,4\] to \[-1,0\]; specify all sizes",
        ),
        ((-2, 12), TypeRuleError, "sizes in a shape must be integers of at least 0, got -2"),
    ],
)
def test_reshape_refuses(shape, error, message):
    with pytest.raises(error, match=message):
        ops.reshape(V, shape)


sizes = st.lists(st.sampled_from([1, 2, 3, 4]), max_size=4).map(tuple)


@given(sizes, st.randoms(use_true_random=False))
def test_lowering_of_any_reshape_keeps_the_order(shape, random):
    factors = [f for n in shape for f in ({4: [2, 2], 1: [1]}.get(n, [n]))]
    random.shuffle(factors)
    cut = random.randint(0, len(factors))
    target = (*factors[:cut], int(np.prod(factors[cut:])), 1)
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    np.testing.assert_array_equal(lowered(Reshape(target), x), x.reshape(target))


@pytest.mark.parametrize("axes", [(2, 0, 1), (0, 2, 1), (-1, 0, -2), (2, 1, 0)])
def test_permute_and_transpose_are_numpys_transpose(axes):
    np.testing.assert_array_equal(run(lambda x: ops.permute(x, axes), X), X.transpose(axes))
    np.testing.assert_array_equal(run(lambda x: ops.transpose(x, axes), X), X.transpose(axes))


def test_transpose_reverses_the_axes():
    np.testing.assert_array_equal(run(ops.transpose, X), X.T)


def test_permute_refuses_what_is_no_permutation():
    with pytest.raises(TypeRuleError, match=r"permute: axes must contain each of 0 to 2 once, got \(0, 0, 1\)"):
        ops.permute(V, (0, 0, 1))
    with pytest.raises(InvalidValueError, match="permute: axis 3 is out of range for rank 3"):
        ops.permute(V, (0, 1, 3))


@pytest.mark.parametrize("axis", [0, 1, 3, -1, -2, (0, 1), (0, -1), (1, 2, 4)])
def test_expand_dims_is_numpys_and_squeeze_undoes_it(axis):
    expected = np.expand_dims(X, axis)
    np.testing.assert_array_equal(run(lambda x: ops.expand_dims(x, axis), X), expected)
    np.testing.assert_array_equal(run(lambda x: ops.squeeze(ops.expand_dims(x, axis), axis), X), X)


def test_squeeze_takes_out_all_axes_of_size_one_or_refuses():
    assert ops.squeeze(param("x", (1, 3, 1))).shape == (3,)
    with pytest.raises(InvalidValueError, match=r"squeeze: axes must have size 1, got \(1,\) of f32\[2,3,4\]"):
        ops.squeeze(V, 1)


def test_slice_counts_from_the_end_and_steps():
    found = run(lambda x: ops.slice(x, (0, -2, 1), (-1, 3, 4), (1, 1, 2)), X)
    np.testing.assert_array_equal(found, X[0:-1, -2:3, 1:4:2])
    np.testing.assert_array_equal(run(lambda x: ops.slice_axis(x, -1, 1, -1), X), X[..., 1:-1])


def test_slice_does_not_clip():
    with pytest.raises(TypeRuleError, match=r"got 0 to 5 on axis 2 of f32\[2,3,4\]; stay within 4"):
        ops.slice_axis(V, 2, 0, 5)
    with pytest.raises(TypeRuleError, match="got -1 to 4 on axis 2"):
        ops.slice_axis(V, 2, -5, 4)
    with pytest.raises(TypeRuleError, match=r"start must have one number per axis, got \(0,\)"):
        ops.slice(V, (0,), (2,))


def test_gradient_of_a_strided_slice_is_one_where_it_read():
    expected = np.zeros(7)
    expected[1:6:2] = 1
    np.testing.assert_array_equal(gradient(lambda x: ops.slice(x, [1], [6], [2]), np.zeros(7)), expected)


@given(st.integers(0, 9), st.integers(0, 4), st.integers(0, 9), st.integers(1, 4))
def test_slices_gradient_has_the_operands_size_for_any_start_and_step(size, start, length, step):
    start = min(start, size)
    stop = min(start + length, size)
    expected = np.zeros(size)
    expected[start:stop:step] = 1
    np.testing.assert_array_equal(gradient(lambda x: ops.slice(x, [start], [stop], [step]), np.ones(size)), expected)
    np.testing.assert_array_equal(
        lowered(Slice((start,), (stop,), (step,)), np.arange(size)), np.arange(size)[start:stop:step]
    )


def test_pad_is_numpys():
    low, high = (1, 0, 2), (0, 3, 1)
    found = run(lambda x: ops.pad(x, low, high, value=-7), X)
    np.testing.assert_array_equal(found, np.pad(X, list(zip(low, high, strict=True)), constant_values=-7))


def test_pad_between_elements():
    # The interior padding of XLA's Pad, as its documentation draws it.
    found = run(lambda x: ops.pad(x, 1, 2, interior=2, value=9.0), np.array([1.0, 2.0, 3.0]))
    assert found.tolist() == [9, 1, 9, 9, 2, 9, 9, 3, 9, 9]


def test_pad_takes_the_operands_kind_of_value():
    assert run(lambda x: ops.pad(x, 1, 0), np.array([True])).tolist() == [False, True]
    assert run(lambda x: ops.pad(x, 1, 0, value=2.0), np.array([5], np.int8)).tolist() == [2, 5]
    with pytest.raises(TypeRuleError, match="pad: f32 holds a number, got True"):
        ops.pad(V, 1, 1, value=True)
    with pytest.raises(
        TypeRuleError,
        match=r"at least 0, got low \(-1, -1, -1\), high \(0, 0, 0\), interior \(0, 0, 0\) for f32\[2,3,4\]; use slice",
    ):
        ops.pad(V, -1, 0)


def test_concat_joins_values_or_a_sequence_of_them():
    pair = (X, X[:, :1])
    expected = np.concatenate(pair, 1)
    np.testing.assert_array_equal(run(lambda x, y: ops.concat(x, y, axis=1), *pair), expected)
    np.testing.assert_array_equal(run(lambda x, y: ops.concat([x, y], axis=-2), *pair), expected)


def test_concat_refuses():
    with pytest.raises(InvalidValueError, match="concat: at least one tensor is required, got none"):
        ops.concat([])
    with pytest.raises(TypeRuleError, match=r"equal except on axis 0, got f32\[2,3,4\] and f32\[2,3,5\]"):
        ops.concat(V, param("w", (2, 3, 5)))
    with pytest.raises(TypeRuleError, match="concat: a scalar has no axes"):
        ops.concat(param("s", ()))


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1, -4])
def test_stack_is_that_of_numpy(axis):
    expected = np.stack([X, 2 * X, -X], axis)
    np.testing.assert_array_equal(run(lambda x, y, z: ops.stack([x, y, z], axis), X, 2 * X, -X), expected)


def test_stack_of_scalars_and_of_one_tensor():
    one, two = np.float32(1), np.float32(2)
    np.testing.assert_array_equal(run(lambda x, y: ops.stack((x, y)), one, two), [1, 2])
    np.testing.assert_array_equal(run(lambda x: ops.stack([x], axis=1), X), X[:, None])
    np.testing.assert_array_equal(run(lambda x: ops.stack(row for row in x), X), X)


def test_stack_hands_each_tensor_its_part_of_the_gradient():
    weights = np.array([[1.0, 2.0], [3.0, 4.0]])
    found = gradient(lambda x: ops.multiply(ops.stack([x, ops.multiply(x, 10.0)], -1), weights), np.ones(2))
    assert found.tolist() == [21.0, 43.0]


def test_stack_refuses():
    for tensors, axis, error, message in (
        ([], 0, InvalidValueError, "stack: at least one tensor is required, got none; pass one"),
        (V, 0, TypeRuleError, "stack: the tensors must be in a list, got f32[2,3,4] alone; write stack([x, y])"),
        (
            [V, param("w", (2, 3, 5))],
            0,
            TypeRuleError,
            "stack: the tensors must have equal shapes and dtypes, got f32[2,3,4] and f32[2,3,5]; reshape or cast "
            "them, or use concat",
        ),
    ):
        with pytest.raises(error) as caught:
            ops.stack(tensors, axis)
        assert caught.value.message == message
    with pytest.raises(InvalidValueError, match="stack: axis 4 is out of range"):
        ops.stack([V, V], 4)


def test_a_piece_that_is_used_twice_gets_both_gradients():
    found = gradient(lambda x: ops.concat(x, ops.multiply(x, 3.0), x), np.ones(2))
    assert found.tolist() == [5.0, 5.0]


@given(st.integers(0, 4), st.data())
def test_axes_are_taken_out_and_put_back(rank, data):
    chosen = data.draw(st.lists(st.integers(-rank, rank - 1), unique_by=lambda n: n % rank) if rank else st.just([]))
    axes = axes_of("test", chosen, rank)
    shape = tuple(range(10, 10 + rank))
    assert set(axes) == {n % rank for n in chosen}
    assert fill(without(shape, axes), axes, [shape[n] for n in axes]) == shape


def test_axes_refuse_repetition():
    with pytest.raises(InvalidValueError, match=r"test: axes must be distinct, got \(0, -2\); remove"):
        axes_of("test", (0, -2), 2)


def test_memory_of_these_tests_notices_reading_outside():
    with pytest.raises(AssertionError):
        Memory(X)((0, 3, 0))
