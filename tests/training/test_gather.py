"""Rows by index, converted and scaled: compiled, against NumPy."""

import numpy as np
import pytest

from adjoint.compiler import CompileOptions, compile
from adjoint.data import Rows
from adjoint.errors import AdjointError, DataError, InvalidValueError, TypeRuleError
from adjoint.ir import TensorType
from adjoint.training.gather import gather_function, given_rows, rows_per_step, source_of, tables_of

OPTIONS = CompileOptions(cache=False, threads=1)


def gathered(wanted, rows, order):
    """What a step of `wanted` gets of rows."""
    batch = {"x": wanted}
    return compile(gather_function(batch, tables_of(batch, [rows])), options=OPTIONS)(source_of(rows.array)[0], order)


def numbers(dtype, shape):
    values = np.random.default_rng(3).integers(0, 200 if dtype != "i1" else 100, shape)
    return (values % 2 == 0) if dtype == "?" else values.astype(dtype)


@pytest.mark.parametrize("scale", [1.0, 1 / 255, -3])
@pytest.mark.parametrize("dtype", ["u1", "i2", "i8", "?", "f2", "f8", "f4"])
@pytest.mark.parametrize("wanted", ["f32", "f64"])
def test_rows_are_taken_converted_and_scaled_as_numpy_does(wanted, dtype, scale):
    array, order = numbers(dtype, (50, 5, 7)), np.random.default_rng(1).integers(0, 50, 9)
    got = gathered(TensorType((9, 5, 7), wanted), Rows(array, scale), order)
    expected = array[order].astype(got.dtype) * got.dtype.type(scale)
    assert got.dtype == TensorType((), wanted).dtype
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("dtype", "wanted"), [("u1", "i64"), ("i4", "i64"), ("u1", "i16"), ("u1", "u8"), ("?", "bool")]
)
def test_integers_stay_integers(dtype, wanted):
    array, order = numbers(dtype, (50, 3)), np.arange(49, 40, -1)
    type_ = TensorType((9, 3), wanted)
    got = gathered(type_, Rows(array), order)
    assert got.dtype == type_.dtype
    np.testing.assert_array_equal(got, array[order])


@pytest.mark.parametrize("shape", [(16, 784), (16,), (16, 1), (16, 3, 33)])
def test_shapes_that_fill_vectors_and_that_do_not(shape):
    array, order = numbers("u1", (300, *shape[1:])), np.random.default_rng(5).integers(0, 300, 16)
    got = gathered(TensorType(shape), Rows(array, 0.5), order)
    np.testing.assert_array_equal(got, array[order].astype("f4") * np.float32(0.5))


@pytest.mark.parametrize(("step", "shared"), [(1, True), (3, True), (7, False), (9, False)])
def test_overlapping_windows_are_gathered_from_their_sequence(step, shared):
    """Windows of 7 that begin every 7 elements or more are rows like any others."""
    sequence = numbers("i8", (100,))
    windows = np.lib.stride_tricks.sliding_window_view(sequence, 7)[::step]
    assert np.shares_memory(source_of(windows)[0], sequence)
    assert source_of(windows)[1] == (step if shared else 0)
    order = np.array([len(windows) - 1, 0, 5, 5])
    got = gathered(TensorType((4, 7), "i64"), Rows(windows), order)
    np.testing.assert_array_equal(got, windows[order])


def test_tables_of_more_than_4_gib_on_disk(tmp_path):
    """Rows beyond what 32 bits count, read from a file as they are needed."""
    count, width = 6_000_000, 784
    table = np.memmap(tmp_path / "rows", np.uint8, "w+", shape=(count, width))  # a hole, but for what is written
    order = np.array([count - 1, 0, 2_739_137, 2_739_138, 5_478_275, 5_478_276])
    for number, row in enumerate(order):
        table[row] = number + 1 + np.arange(width) % 7
    got = gathered(TensorType((6, width)), Rows(table), order)
    np.testing.assert_array_equal(got, np.arange(1, 7)[:, None] + np.arange(width) % 7)


def test_arguments_of_any_names_go_together():
    batch = {"order": TensorType((2, 3)), "order_": TensorType((2,), "i64")}
    arrays = [numbers("f4", (5, 3)), np.arange(5)]
    function = gather_function(batch, tables_of(batch, arrays))
    x, y = compile(function, options=OPTIONS)(*arrays, np.array([4, 1]))
    np.testing.assert_array_equal(x, arrays[0][[4, 1]])
    np.testing.assert_array_equal(y, [4, 1])


F4, U1 = np.zeros((9, 3), np.float32), np.zeros((9, 3), np.uint8)


@pytest.mark.parametrize(
    ("wanted", "given", "message"),
    [
        ("f32", [F4, F4], "takes an array for each of x, got 2"),
        (
            "f32",
            [U1],
            r"x must be float32, got uint8; wrap images in Rows\(x, scale=1 / 255\), which converts",
        ),
        ("f32", [F4.astype("f8")], "x must be float32, got float64; wrap it in Rows"),
        ("f32", [F4.astype(">f4")], "x must be float32, got >f4"),
        ("f32", [F4[:, :2]], r"rows of x must have shape \(3,\), got \(2,\); reshape the array"),
        ("f32", [F4[:, 0]], r"rows of x must have shape \(3,\), got \(\)"),
        ("f32", [Rows(U1, dtype="f8")], "takes x as float32, but its Rows specify float64; omit their dtype"),
        ("f32", [Rows(U1, dtype="f3")], "dtype must be one of"),
        (
            "f32",
            [Rows(F4.astype("c8"))],
            r"Rows of complex64 cannot be converted to float32 for x; convert the array with \.astype\('float32'\)",
        ),
        ("f32", [Rows(F4.astype(">f4"))], "Rows of >f4 cannot be converted to float32"),
        ("i64", [Rows(F4)], "Rows of float32 cannot be converted to int64 for x"),
        ("u8", [Rows(F4.astype("i8"))], "Rows of int64 cannot be converted to uint8 for x"),
        ("i32", [Rows(F4.astype("i8"))], "Rows of int64 cannot be converted to int32 for x"),
        ("i8", [Rows(U1)], "Rows of uint8 cannot be converted to int8 for x"),
        ("bool", [Rows(U1)], "Rows of uint8 cannot be converted to bool for x"),
        ("i64", [Rows(U1, 0.5)], r"x is int64, which cannot be scaled, got scale 0\.5; use 1"),
    ],
)
def test_rows_that_do_not_fit_are_refused(wanted, given, message):
    with pytest.raises(AdjointError, match=message):
        tables_of({"x": TensorType((4, 3), wanted)}, given)


def test_numbers_of_rows_that_differ_are_refused():
    with pytest.raises(TypeRuleError, match="same number of rows, got x 9, y 8; shorten the longer ones"):
        tables_of({"x": TensorType((4, 3)), "y": TensorType((4, 3))}, [F4, F4[:8]])


@pytest.mark.parametrize("shapes", [((4, 3), (5,)), ((4, 3), ()), ((),), ((0, 3),)])
def test_steps_without_a_common_axis_of_rows_are_refused(shapes):
    batch = {f"x{i}": TensorType(shape) for i, shape in enumerate(shapes)}
    with pytest.raises(TypeRuleError, match=r"splits arrays along axis 0.*x0: f32.*pass batches instead"):
        rows_per_step(batch)


@pytest.mark.parametrize(
    ("array", "scale", "error", "message"),
    [
        ([1, 2], 1, DataError, "Rows takes an array .* got list"),
        (np.float32(3), 1, DataError, "got float32"),
        (np.array(3), 1, DataError, "got a 0-d one"),
        (F4, np.inf, InvalidValueError, "scale is a finite number, got inf"),
        (F4, "1/255", InvalidValueError, "scale is a finite number, got '1/255'"),
        (F4, True, InvalidValueError, "scale is a finite number, got True"),
    ],
)
def test_rows_of_nothing_are_refused(array, scale, error, message):
    with pytest.raises(error, match=message):
        Rows(array, scale)


def test_what_counts_as_rows_and_what_as_batches():
    assert given_rows(F4) == (F4,)
    for rows in ((F4, U1), [Rows(F4), U1], (F4,)):
        assert given_rows(rows) == tuple(rows)
    for batches in ([(F4, U1)], (), iter([F4]), [[[[1.0, 2.0]], [1]]], 3):
        assert given_rows(batches) is None


def refusal(types, data):
    with pytest.raises(TypeRuleError) as caught:
        tables_of(types, data)
    return caught.value.message


def test_the_fix_is_that_of_the_data():
    """One-hot labels, labels and floats of another width, exchanged arrays, lists."""
    types = {"x": TensorType((4, 3)), "y": TensorType((4,), "i64")}
    x, y = np.zeros((8, 3), np.float32), np.arange(8) % 5
    assert refusal(types, (x, np.eye(5)[y])) == (
        "run_epoch: rows of y must have shape (), got (5,); for one-hot rows, take argmax over the last axis, or train "
        "on float targets (probabilities) by giving their type in loss_args"
    )
    assert refusal(types, (x, 2 * np.eye(5)[y])) == (
        "run_epoch: rows of y must have shape (), got (5,); reshape the array"
    )
    assert refusal(types, (y, x)) == (
        "run_epoch: arrays must be in the order (x, y), got arrays that fit (y, x); exchange them"
    )
    assert refusal(types, (x, y.astype(np.int32))) == (
        "run_epoch: y must be int64, got int32; wrap it in Rows, which converts each batch"
    )
    assert refusal({**types, "y": TensorType((4,), "i32")}, (x, y)) == (
        "run_epoch: y must be int32, got int64; convert it with .astype('int32')"
    )
    assert refusal(types, (x.astype(np.float64), y)) == (
        "run_epoch: x must be float32, got float64; wrap it in Rows, which converts each batch"
    )
    with pytest.raises(TypeRuleError) as caught:
        given_rows((x.tolist(), y.tolist()))
    assert caught.value.message == "run_epoch takes arrays, got a tuple of list, list; convert each with numpy.asarray"
    with pytest.raises(TypeRuleError) as caught:
        given_rows({"x": x, "y": y})
    assert caught.value.message == (
        "run_epoch takes arrays in order, got a dict; pass a tuple of the inputs, then the targets, as in (x, targets)"
    )
    assert refusal({"x": TensorType((4, 3, 8, 6))}, (np.zeros((9, 8, 6, 3), np.float32),)) == (
        "run_epoch: rows of x must have shape (3, 8, 6), got (8, 6, 3); if its channels are last, pass "
        "x.transpose(0, 3, 1, 2)"
    )
