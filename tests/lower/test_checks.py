"""Indices of arguments are checked before anything runs, in their own dtype and only where they are read."""

import ctypes

import numpy as np
import pytest

from adjoint import CompileOptions, SetupTrainer, TensorType, Trainer, compile, ops
from adjoint.errors import InvalidValueError
from adjoint.ir import DTYPES, Function, IRModule, param
from adjoint.losses import CrossEntropyLoss, Loss
from adjoint.lower.checks import range_checks
from adjoint.optim import SGD
from adjoint.profiling.inputs import random_arrays
from adjoint.transforms.differentiate import gradient

OPTIONS = CompileOptions(threads=1, cache=False)
TABLE = np.arange(20, dtype=np.float32).reshape(10, 2)
ROWS = np.arange(30, dtype=np.float32).reshape(3, 10)
UPDATES = np.ones((3, 2), np.float32)

#: An operator that takes indices 0 to 9, and its other argument.
INDEXED = {
    "one_hot": (lambda ids, _: ops.one_hot(ids, 10), TABLE),
    "take": (lambda ids, x: ops.take(x, ids), TABLE),
    "take_along_last": (lambda ids, x: ops.take_along_last(x, ids), ROWS),
    "scatter_add": (lambda ids, x: ops.scatter_add(ids, x, 10), UPDATES),
}


def compiled(build, *arrays):
    """The entry of ``build(*params)`` for arrays like these, called ``ids``, ``b``, ``c``."""
    params = [param(n, a.shape, a.dtype) for n, a in zip(("ids", "b", "c"), map(np.asarray, arrays), strict=False)]
    return compile(Function("f", tuple(params), (build(*params),)), options=OPTIONS)["f"]


def refusal(entry, *arrays):
    with pytest.raises(InvalidValueError) as caught:
        entry(*arrays)
    return caught.value.message


@pytest.mark.parametrize("name", INDEXED)
def test_indices_of_an_argument_are_checked(name):
    build, other = INDEXED[name]
    good = np.array([0, 9, 5])
    entry = compiled(build, good, other)
    entry(good, other)
    for bad in (12, 10**9, -1, 10, 2**32):
        assert refusal(entry, np.array([0, bad, 20]), other) == (
            f"f: ids must be in [0, 10), got {bad} at 1; nothing was updated"
        )


@pytest.mark.parametrize("name", INDEXED)
def test_views_and_casts_of_an_argument_are_checked_in_its_own_dtype(name):
    """2**32 is 0 as i32, and -256 is 0 as u8."""
    build, other = INDEXED[name]
    good = np.array([[0], [9], [5]])
    entry = compiled(lambda ids, x: build(ops.cast(ops.reshape(ops.cast(ids, "i32"), (3,)), "u8"), x), good, other)
    entry(good, other)
    for bad in (2**32, -256, 256):
        assert refusal(entry, np.array([[0], [9], [bad]]), other) == (
            f"f: ids must be in [0, 10), got {bad} at (2, 0); nothing was updated"
        )


def test_computed_indices_are_clipped_dropped_or_give_zeros():
    """As the docstrings of the operators say. The sum with zero makes them computed."""
    ids, zero = np.array([-1, 12, 5]), np.array(0)

    def run(name, other):
        return compiled(lambda i, z, x: INDEXED[name][0](ops.add(i, z), x), ids, zero, other)(ids, zero, other)

    assert np.array_equal(run("one_hot", TABLE), [np.zeros(10), np.zeros(10), np.eye(10)[5]])
    assert np.array_equal(run("take", TABLE), TABLE[[0, 9, 5]])
    assert np.array_equal(run("take_along_last", ROWS), [ROWS[0, 0], ROWS[1, 9], ROWS[2, 5]])
    expected = np.zeros((10, 2))
    expected[5] = 1
    assert np.array_equal(run("scatter_add", UPDATES), expected)


@pytest.mark.parametrize(("name", "other"), [("take", TABLE), ("take_along_last", ROWS)])
def test_what_is_read_at_a_clipped_index_gets_no_gradient(name, other):
    ids, zero, x = param("ids", (3,), "i64"), param("zero", (), "i64"), param("x", other.shape)
    total = ops.sum(INDEXED[name][0](ops.add(ids, zero), x))
    entry = compile(gradient(Function("f", (ids, zero, x), (total,)), "x"), options=OPTIONS)
    _, slope = entry(np.array([-1, 12, 5]), np.array(0), other)
    assert slope.sum() == (2 if name == "take" else 1)
    assert np.all(slope[5] == 1) if name == "take" else slope[2, 5] == 1


def test_only_what_is_read_of_an_argument_is_checked():
    """A table of a class, from 0 to 9, and a year; the class is its middle column."""
    data = np.array([[-5, 3, 2024], [99, 9, 1999]])
    for view in (
        lambda d: ops.slice(d, (0, 1), (2, 2)),
        lambda d: ops.permute(ops.slice(ops.permute(d, (1, 0)), (1, 0), (2, 2)), (1, 0)),
    ):
        entry = compiled(lambda d, v=view: ops.one_hot(ops.reshape(v(d), (2,)), 10), data)
        assert np.array_equal(entry(data), np.eye(10)[[3, 9]])
        wrong = data.copy()
        wrong[1, 1] = 10
        assert refusal(entry, wrong) == "f: ids must be in [0, 10), got 10 at (1, 1); nothing was updated"


def test_what_the_body_of_a_scan_reads_is_checked():
    """Of rows, of views of rows, and of constants; a body that may not run, and carries, are as computed indices."""
    steps, kept = param("steps", (3, 2, 1), "i64"), param("kept", (2,), "i64")
    start, flag, table = param("start", (), "i64"), param("flag", (), "bool"), param("table", (10, 2))

    def body(carry, row):
        rows = ops.take(table, ops.reshape(row, (2,))[1:])
        inner, _ = ops.scan(lambda c, _: (c + ops.take(table, kept).sum(), None), rows.sum(), length=2)
        other = ops.cond(flag, lambda t, i: ops.take(t, i).sum(), lambda t, _: t.sum(), table, start)
        return (carry[0] + inner + other, ops.minimum(carry[1], 3)), ops.take(table, carry[1])

    (total, _), outs = ops.scan(body, (table.sum() * 0.0, start), steps)
    params = (steps, kept, start, flag, table)
    entry = compile(gradient(Function("f", params, (total + outs.sum(),)), "table"), options=OPTIONS)
    good = [np.array([[[-5], [9]], [[99], [0]], [[-1], [1]]]), np.array([0, 9]), np.array(3), np.array(False), TABLE]
    want = sum(TABLE[i].sum() + 2 * TABLE[[0, 9]].sum() + TABLE.sum() + TABLE[3].sum() for i in (9, 0, 1))
    np.testing.assert_allclose(entry(*good)[0], want, rtol=1e-5)
    entry(*good[:2], np.array(12), *good[3:])
    steps_wrong, kept_wrong = good[0].copy(), np.array([0, -3])
    steps_wrong[2, 1] = 10
    assert refusal(entry, steps_wrong, *good[1:]) == (
        "f_adjoint: steps must be in [0, 10), got 10 at (2, 1, 0); nothing was updated"
    )
    assert refusal(entry, good[0], kept_wrong, *good[2:]) == (
        "f_adjoint: kept must be in [0, 10), got -3 at 1; nothing was updated"
    )


def columns_function():
    """Two columns of one argument, as indices of an axis of 300 and one of 3."""
    ids = param("ids", (4, 2), "i64")
    first, second = (ops.reshape(ops.slice(ids, (0, n), (4, n + 1)), (4,)) for n in (0, 1))
    return Function("f", (ids,), (ops.one_hot(first, 300), ops.one_hot(second, 3)))


def test_columns_have_their_own_ranges():
    entry = compile(columns_function(), options=OPTIONS)["f"]
    good = np.array([[299, 2]] * 4)
    entry(good)
    assert refusal(entry, good * [1, 2]) == "f: ids must be in [0, 3), got 4 at (0, 1); nothing was updated"
    assert refusal(entry, np.add(good, [1, 0])) == "f: ids must be in [0, 300), got 300 at (0, 0); nothing was updated"
    random = random_arrays(IRModule((columns_function(),)), entry)["ids"]
    assert random.max() > 0
    entry(random)


@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f32", "f64"])
def test_native_code_checks_every_place(dtype):
    """19 elements are two vectors and a rest. Native code must refuse what Python names, and nothing else."""
    count, dtype = 19, DTYPES[dtype]
    good = (np.arange(count) % 7).astype(dtype)
    entry = compiled(lambda ids: ops.one_hot(ops.cast(ids, "i64"), 7), good)
    bound = entry.bind({})
    check = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(bound.check)
    kept = bound.place([good])
    assert check(ctypes.addressof(bound.slots)) == 0
    bad = [7, 100, -1, -100] if dtype.kind != "u" else [7, 100, 255]
    for place in range(count):
        kept[0][place] = bad[place % len(bad)]
        assert check(ctypes.addressof(bound.slots)) == 1
        kept[0][place] = 6
    assert check(ctypes.addressof(bound.slots)) == 0


def test_labels_in_floats_are_truncated_as_by_the_cast():
    labels = np.array([0.0, 2.9, -0.9, np.nan], np.float32)
    entry = compiled(lambda ids: ops.one_hot(ops.cast(ids, "i64"), 3), labels)
    assert np.array_equal(entry(labels), np.eye(3)[[0, 2, 0, 0]])
    for bad in (3.0, -1.0, np.inf):
        wrong = np.array([0, 0, bad, 0], np.float32)
        assert refusal(entry, wrong) == f"f: ids must be in [0, 3), got {bad} at 2; nothing was updated"


def test_a_cast_to_bool_is_no_conversion_of_indices():
    entry = compiled(lambda ids: ops.one_hot(ops.cast(ops.cast(ids, "bool"), "i32"), 2), np.array([5, 0]))
    assert entry(np.array([5, 0])).tolist() == [[0, 1], [1, 0]]


def checks_of(build, dtype="i64"):
    ids = param("ids", (4,), dtype)
    return [(c.low, c.high, c.allow) for c in range_checks(Function("f", (ids,), (build(ids),)))]


def test_a_check_that_others_imply_is_left_out():
    assert checks_of(lambda i: ops.add(ops.one_hot(i, 10), ops.one_hot(ops.check_range(i, 0, 10), 10))) == [
        (0, 10, None)
    ]
    assert checks_of(lambda i: ops.one_hot(ops.check_range(i, 2, 5), 10)) == [(2, 5, None)]
    assert checks_of(lambda i: ops.one_hot(ops.check_range(i, 0, 1000), 10)) == [(0, 10, None)]
    assert checks_of(lambda i: ops.one_hot(i, 256), "u8") == []


def test_what_check_range_allows_is_allowed_to_operators():
    """An ignored index gives a row of zeros."""
    assert checks_of(lambda i: ops.one_hot(ops.check_range(i, 0, 10, allow=-1), 10)) == [(0, 10, -1)]
    ids = np.array([-1, 3])
    entry = compiled(lambda i: ops.one_hot(ops.check_range(i, 0, 4, allow=-1), 4), ids)
    assert entry(ids).tolist() == [[0, 0, 0, 0], [0, 0, 0, 1]]
    assert refusal(entry, np.array([0, -2])) == "f: ids must be in [0, 4) or -1, got -2 at 1; nothing was updated"


@pytest.mark.parametrize("ignored", [-100, 255, None])
def test_cross_entropy_ignores_an_index_and_checks_the_others(ignored):
    logits, labels = param("logits", (3, 4)), param("labels", (3,), "i64")
    loss = CrossEntropyLoss(ignore_index=ignored)(logits, labels)
    (check,) = range_checks(gradient(Function("f", (logits, labels), (loss,)), "logits"))
    assert (check.slot, check.low, check.high, check.allow) == (1, 0, 4, ignored)


class OneHotLoss(Loss):
    """Squared error of one-hot labels, with no check of its own."""

    def __call__(self, predictions, targets):
        """The loss."""
        return ops.mean(ops.square(ops.subtract(predictions, ops.one_hot(targets, predictions.shape[1]))))


@pytest.fixture(scope="module")
def trainer():
    """A model that looks up rows of a table, under `OneHotLoss`; it has 6 rows and 3 classes."""
    ids, table = param("ids", (2,), "i32"), param("table", (6, 3))
    model = IRModule((Function("backbone", (ids, table), (ops.take(table, ids),)),), {"param_num": 1, "state_num": 0})
    types = (TensorType((2, 3)), TensorType((2,), "i64"))
    made = Trainer(SetupTrainer(OneHotLoss(), SGD(0.1), types)(model), options=OPTIONS)
    made.init_parameters()
    return made


def test_a_trainer_checks_inputs_and_targets_before_it_changes_anything(trainer):
    before = trainer.export_params()["table"]
    ids, labels = np.array([0, 5], np.int32), np.array([0, 2])
    assert refusal(trainer.update, ids, np.array([0, 3])) == (
        "update: targets must be in [0, 3), got 3 at 1; nothing was updated"
    )
    assert refusal(trainer.update, ids - 1, labels) == "update: ids must be in [0, 6), got -1 at 0; nothing was updated"
    assert refusal(trainer.predict, ids + 1) == "predict: ids must be in [0, 6), got 6 at 1; nothing was updated"
    assert np.array_equal(trainer.export_params()["table"], before)
    trainer.update(ids, labels)
    assert not np.array_equal(trainer.export_params()["table"], before)


def test_an_epoch_names_the_row(trainer):
    ids, labels = np.arange(6, dtype=np.int32), np.array([0, 1, 2, 1, 10**9, 0])
    message = refusal(lambda: trainer.run_epoch((ids, labels), shuffle=False))
    assert message == "run_epoch: targets must be in [0, 3), got 1000000000 in row 4; 2 steps were done before"
