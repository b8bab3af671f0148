"""run_epoch: the bits of `update` batch by batch, whatever ends it."""

import signal
import threading

import numpy as np
import pytest

from adjoint import Generator
from adjoint.data import Rows
from adjoint.errors import AdjointError, DataError, InvalidValueError, NameLookupError, TypeRuleError
from adjoint.ir import TensorType
from adjoint.losses import MSELoss
from adjoint.optim import SGD, Adam
from adjoint.training import SetupTrainer, Trainer
from adjoint.utils.data import DataLoader, RandomSampler, TensorDataset
from tests.training.models import BATCH, SIZES, linear, normalising

COUNT = 61  # seven batches of eight and five rows
STEPS = COUNT // BATCH


def dataset(count=COUNT, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, count)
    centres = rng.standard_normal((3, SIZES[0]))
    return (centres[y] + 0.3 * rng.standard_normal((count, SIZES[0]))).astype(np.float32), y


def fresh(module, cache, **settings):
    trainer = Trainer(module, options=cache, seed=1, **settings)
    trainer.init_parameters()
    return trainer


def by_hand(trainer, order, steps=STEPS, rates=None, data=None):
    """Losses of updates with rows that NumPy takes."""
    x, y = data or dataset()
    losses = []
    for step in range(steps):
        if rates is not None:
            trainer.hyper["lr"] = float(rates[step])
        rows = order[step * BATCH : (step + 1) * BATCH]
        losses.append(trainer.update(x[rows], y[rows]))
    return np.array(losses, np.float32)


def assert_same(one, other):
    """The same bits of parameters and optimizer state."""
    for export in (Trainer.export_params, Trainer.export_optimizer_state):
        expected = export(other)
        for name, array in export(one).items():
            np.testing.assert_array_equal(array, expected[name])


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_an_epoch_is_the_updates_one_by_one(module, cache, threads):
    trainer, other = fresh(module, cache, threads=threads), fresh(module, cache)
    result = trainer.run_epoch(dataset(), seed=5)
    order = np.random.default_rng(5).permutation(COUNT)
    np.testing.assert_array_equal(result.losses, by_hand(other, order))
    assert_same(trainer, other)
    assert (result.steps, result.stopped) == (STEPS, False)
    assert result.losses.dtype == np.float32
    assert result.seconds > 0
    assert trainer.last_epoch is result


def test_rows_come_in_their_order_without_shuffling(module, cache):
    trainer, other = fresh(module, cache), fresh(module, cache)
    np.testing.assert_array_equal(trainer.run_epoch(dataset(), shuffle=False).losses, by_hand(other, np.arange(COUNT)))
    assert_same(trainer, other)


def test_every_epoch_has_an_order_of_its_own_that_follows_the_seed(module, cache):
    x, y = dataset()
    first, second = fresh(module, cache), fresh(module, cache)
    for trainer in (first, second):
        trainer.hyper["lr"] = 0.0
    runs = [[t.run_epoch((x, y)).losses for _ in range(3)] for t in (first, second)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert len({losses.tobytes() for losses in runs[0]}) == 3
    # With a learning rate of 0 every row has one loss: its batch's mean says which rows a batch has.
    for epoch, losses in enumerate(runs[0]):
        other = fresh(module, cache)
        other.hyper["lr"] = 0.0
        np.testing.assert_array_equal(losses, by_hand(other, np.random.default_rng((1, epoch)).permutation(COUNT)))


def test_bytes_are_converted_and_scaled(module, cache):
    rng = np.random.default_rng(2)
    images, labels = rng.integers(0, 256, (COUNT, SIZES[0])).astype(np.uint8), rng.integers(0, 3, COUNT).astype("u1")
    trainer, other = fresh(module, cache), fresh(module, cache)
    losses = trainer.run_epoch((Rows(images, 1 / 255), Rows(labels)), seed=0).losses
    floats = images.astype(np.float32) * np.float32(1 / 255)
    order = np.random.default_rng(0).permutation(COUNT)
    np.testing.assert_array_equal(losses, by_hand(other, order, data=(floats, labels.astype(np.int64))))
    assert_same(trainer, other)


def test_arrays_of_other_layouts_are_taken(module, cache):
    x, y = dataset()
    trainer, other = fresh(module, cache), fresh(module, cache)
    x.flags.writeable = False
    losses = trainer.run_epoch([np.asfortranarray(x), np.repeat(y, 2)[::2]], seed=3).losses
    np.testing.assert_array_equal(losses, by_hand(other, np.random.default_rng(3).permutation(COUNT)))


def test_a_short_last_batch_has_the_rows_that_are_left(module, cache):
    trainer, other = fresh(module, cache), fresh(module, cache)
    result = trainer.run_epoch(dataset(), seed=4, drop_last=False)
    order = np.random.default_rng(4).permutation(COUNT)
    assert result.steps == STEPS + 1
    np.testing.assert_array_equal(result.losses, by_hand(other, order, STEPS + 1))
    assert_same(trainer, other)


def test_fewer_rows_than_a_batch_are_refused_or_trained_on(module, cache):
    trainer, other = fresh(module, cache), fresh(module, cache)
    few = tuple(a[:3] for a in dataset())
    with pytest.raises(InvalidValueError, match="a step takes 8 rows, got 3; pass more, or use drop_last=False"):
        trainer.run_epoch(few)
    losses = trainer.run_epoch(few, drop_last=False, shuffle=False).losses
    np.testing.assert_array_equal(losses, by_hand(other, np.arange(3), 1))
    with pytest.raises(InvalidValueError, match="got 0"):
        trainer.run_epoch(tuple(a[:0] for a in dataset()), drop_last=False)


@pytest.mark.parametrize("batchwise", [False, True])
def test_a_schedule_is_set_before_each_step(module, cache, batchwise):
    rates = np.linspace(0.2, 0.01, STEPS)
    trainer, other = fresh(module, cache), fresh(module, cache)
    x, y = dataset()
    cut = ((x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, STEPS * BATCH, BATCH))
    seen = []
    result = trainer.run_epoch(
        cut if batchwise else (x, y), shuffle=False, schedule={"lr": rates}, every=1,
        callback=lambda *_: seen.append(trainer.hyper["lr"]),
    )  # fmt: skip
    np.testing.assert_array_equal(result.losses, by_hand(other, np.arange(COUNT), rates=rates))
    assert_same(trainer, other)
    np.testing.assert_array_equal(np.array(seen, np.float32), rates.astype(np.float32))


@pytest.mark.parametrize(
    ("schedule", "error", "message"),
    [
        ({"lr": np.ones(6)}, InvalidValueError, "lr must have a value for each of the 7 steps of this epoch, got 6"),
        ({"lr": 0.1}, InvalidValueError, r"lr must be one number per step, got float64\[\]"),
        ({"lr": ["a"] * 7}, InvalidValueError, "lr must be one number per step"),
        ({"lr": [0.1, np.nan, *[0] * 5]}, InvalidValueError, "lr must be finite in float32, got nan at 1"),
        ({"lr": [*[0] * 6, 1e39]}, InvalidValueError, r"finite in float32, got 1e\+39 at 6"),
        ({"rate": np.ones(7)}, NameLookupError, "the step has no 'rate', only lr, momentum"),
        (np.ones(7), TypeRuleError, "schedule must map names of hyperparameters to values, got ndarray"),
    ],
)
def test_schedules_that_do_not_fit_are_refused_and_change_nothing(trainer, schedule, error, message):
    before = trainer.export_params()
    with pytest.raises(error, match=message):
        trainer.run_epoch(dataset(), schedule=schedule)
    assert trainer.hyper["lr"] == 0.1
    for name, array in trainer.export_params().items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize("batchwise", [False, True])
def test_the_callback_sees_the_losses_so_far(trainer, batchwise):
    x, y = dataset()
    seen = []
    data = [(x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, 56, BATCH)] if batchwise else (x, y)
    result = trainer.run_epoch(data, every=3, callback=lambda step, losses: seen.append((step, losses.copy())))
    assert [step for step, _ in seen] == [3, 6, 7]
    for step, losses in seen:
        np.testing.assert_array_equal(losses, result.losses[:step])
    assert not result.losses.flags.writeable


@pytest.mark.parametrize("batchwise", [False, True])
def test_the_callback_may_stop_the_epoch(module, cache, batchwise):
    trainer, other = fresh(module, cache), fresh(module, cache)
    x, y = dataset()
    data = ((x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, 56, BATCH)) if batchwise else (x, y)
    result = trainer.run_epoch(data, shuffle=False, every=2, callback=lambda step, _: step >= 4)
    assert (result.steps, result.stopped) == (4, True)
    np.testing.assert_array_equal(result.losses, by_hand(other, np.arange(COUNT), 4))
    assert_same(trainer, other)


@pytest.mark.parametrize("batchwise", [False, True])
def test_a_limit_ends_the_epoch(module, cache, batchwise):
    trainer, other = fresh(module, cache), fresh(module, cache)
    x, y = dataset()
    cut = ((x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, 56, BATCH))
    rates = [0.1, 0.2, 0.3]
    result = trainer.run_epoch(cut if batchwise else (x, y), shuffle=False, limit=3, schedule={"lr": rates})
    assert (result.steps, result.stopped) == (3, False)
    np.testing.assert_array_equal(result.losses, by_hand(other, np.arange(COUNT), 3, rates))
    assert_same(trainer, other)
    assert trainer.run_epoch((x, y), limit=100).steps == STEPS


@pytest.mark.parametrize("batchwise", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_an_exception_of_the_callback_leaves_whole_steps(module, cache, batchwise, error):
    trainer, other = fresh(module, cache), fresh(module, cache)
    x, y = dataset()
    data = ((x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, 56, BATCH)) if batchwise else (x, y)

    def fail(step, _):
        if step == 4:
            raise error

    with pytest.raises(error):
        trainer.run_epoch(data, shuffle=False, every=2, callback=fail)
    assert trainer.last_epoch.steps == 4
    np.testing.assert_array_equal(trainer.last_epoch.losses, by_hand(other, np.arange(COUNT), 4))
    assert_same(trainer, other)
    trainer.run_epoch((x, y), seed=1)
    by_hand(other, np.random.default_rng(1).permutation(COUNT))
    assert_same(trainer, other)


@pytest.mark.parametrize("kind", ["rows", "batches", "batches, checked"])
def test_ctrl_c_between_any_two_steps_loses_none(module, cache, kind):
    """The epoch is long; a signal comes while it runs, most likely within a native step."""
    trainer, other = fresh(module, cache, check_finite=kind == "batches, checked"), fresh(module, cache)
    x, y = dataset()
    order = np.random.default_rng(8).integers(0, COUNT, 4_000_000)
    steps = len(order) // BATCH
    cut = ((x[rows], y[rows]) for rows in order.reshape(steps, BATCH))
    data = (x[order], y[order]) if kind == "rows" else cut
    timer = threading.Timer(0.05, signal.raise_signal, [signal.SIGINT])

    def start(step, _):
        if step == 50:
            timer.start()

    with pytest.raises(KeyboardInterrupt):
        trainer.run_epoch(data, shuffle=False, every=50, callback=start)
    done = trainer.last_epoch.steps
    assert 50 <= done < steps
    np.testing.assert_array_equal(trainer.last_epoch.losses, by_hand(other, order, done))
    assert_same(trainer, other)


def test_the_callback_may_use_the_trainer_in_any_way(module, cache):
    trainer, other = fresh(module, cache), fresh(module, cache)
    x, y = dataset()
    more = tuple(a[::-1] for a in dataset(seed=9))

    def use(trainer, step):
        trainer.predict(x[:3])
        if step == 4:
            trainer.update(x[:8], y[:8])
            trainer.run_epoch(more, seed=2)
            trainer.hyper["lr"] = 0.02

    result = trainer.run_epoch((x, y), shuffle=False, every=2, callback=lambda step, _: use(trainer, step))
    expected = by_hand(other, np.arange(COUNT), 4)
    use(other, 4)
    rest = by_hand(other, np.arange(32, COUNT), 3)
    np.testing.assert_array_equal(result.losses, np.concatenate([expected, rest]))
    assert_same(trainer, other)


def test_a_label_out_of_range_ends_the_epoch_before_its_step(module, cache):
    trainer, other = fresh(module, cache), fresh(module, cache)
    x, y = dataset()
    y[37] = 3
    with pytest.raises(
        InvalidValueError, match=r"targets must be in \[0, 3\) or -100, got 3 in row 37; 4 steps were done before"
    ):
        trainer.run_epoch((x, y), shuffle=False)
    assert trainer.last_epoch.steps == 4
    np.testing.assert_array_equal(trainer.last_epoch.losses, by_hand(other, np.arange(COUNT), 4))
    assert_same(trainer, other)


def test_batches_that_do_not_fit_end_the_epoch_before_their_step(module, cache):
    trainer, other = fresh(module, cache), fresh(module, cache)
    x, y = dataset()
    good = [(x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, 24, BATCH)]
    for bad, message in [
        ((x[:8, :4], y[:8]), r"^run_epoch: x must have shape \(8, 12\), got \(8, 4\)"),
        ((x[:8], np.full(8, 7)), r"^run_epoch: targets must be in"),
        ((x[:8],), r"^run_epoch takes 2 arguments \(x, targets\), got 1; give it all of them"),
        (x[:8], r"a batch must be a tuple of arrays \(x, targets\), got ndarray"),
    ]:
        with pytest.raises(AdjointError, match=message) as caught:
            trainer.run_epoch(iter([*good, bad, *good]))
        assert caught.value.__notes__ == ["3 steps of the epoch were done before"]
        assert trainer.last_epoch.steps == 3
        np.testing.assert_array_equal(trainer.last_epoch.losses, by_hand(other, np.arange(24), 3))
        assert_same(trainer, other)


def test_batches_that_need_converting_are_counted_like_others(module, cache):
    """Lists go through the slow way into a step."""
    trainer, other = fresh(module, cache), fresh(module, cache)
    x, y = dataset()
    cut = [(x[i : i + BATCH], y[i : i + BATCH].tolist()) for i in range(0, 56, BATCH)]
    np.testing.assert_array_equal(trainer.run_epoch(cut).losses, by_hand(other, np.arange(COUNT)))


def test_a_data_loader_of_tensors(module, cache):
    trainer, other = fresh(module, cache), fresh(module, cache)
    loader = DataLoader(TensorDataset(*dataset()), BATCH, shuffle=True, generator=Generator().manual_seed(2))
    order = np.array(list(RandomSampler(range(COUNT), generator=Generator().manual_seed(2))))
    np.testing.assert_array_equal(trainer.run_epoch(loader).losses, by_hand(other, order, STEPS + 1))
    assert_same(trainer, other)


def test_an_error_of_the_iterator_surfaces_after_the_batches_before_it(module, cache):
    trainer, other = fresh(module, cache), fresh(module, cache)
    x, y = dataset()

    def reading():
        for i in (0, 8, 16):
            yield x[i : i + BATCH], y[i : i + BATCH]
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone") as caught:
        trainer.run_epoch(reading())
    assert "reading" in [entry.name for entry in caught.traceback]
    assert trainer.last_epoch.steps == 3
    by_hand(other, np.arange(COUNT), 3)
    assert_same(trainer, other)
    assert "adjoint-prefetch" not in [t.name for t in threading.enumerate()]


def test_a_long_epoch_of_batches_keeps_every_loss(module, cache):
    trainer, other = fresh(module, cache), fresh(module, cache)
    order = np.random.default_rng(0).integers(0, COUNT, 2500 * BATCH)
    x, y = dataset()
    result = trainer.run_epoch((x[r], y[r]) for r in order.reshape(2500, BATCH))
    np.testing.assert_array_equal(result.losses, by_hand(other, order, 2500))


def test_a_schedule_that_is_too_short_for_the_batches_is_refused(trainer):
    x, y = dataset()
    batch = (x[:8], y[:8])
    assert trainer.run_epoch([batch] * 3, schedule={"lr": np.ones(5)}).steps == 3
    with pytest.raises(InvalidValueError, match="lr has 5 values, but there are more batches"):
        trainer.run_epoch([batch] * 9, schedule={"lr": np.ones(5)})
    assert trainer.last_epoch.steps == 5


def test_no_batches_are_no_steps(trainer):
    result = trainer.run_epoch(iter(()), callback=lambda *_: pytest.fail("nothing to tell"))
    assert (result.steps, len(result.losses), result.stopped) == (0, 0, False)


@pytest.mark.parametrize("batchwise", [False, True])
def test_check_finite_looks_at_rows_and_losses(module, cache, batchwise):
    trainer = fresh(module, cache, check_finite=True)
    x, y = dataset()

    def data():
        return ((x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, 56, BATCH)) if batchwise else (x, y)

    assert trainer.run_epoch(data(), shuffle=False).steps == 7
    x[20, 3] = np.inf
    with pytest.raises(DataError, match="x must be finite with check_finite, got inf at"):
        trainer.run_epoch(data(), shuffle=False)
    assert trainer.last_epoch.steps == (2 if batchwise else 0)
    x[20, 3] = 0
    trainer.hyper["lr"] = 1e30
    with pytest.raises(InvalidValueError, match=r"the loss is (nan|inf) after this step, which has updated"):
        trainer.run_epoch(data(), shuffle=False)
    assert 1 < trainer.last_epoch.steps < 7
    assert np.isfinite(trainer.last_epoch.losses[:-1]).all()
    assert not np.isfinite(trainer.last_epoch.losses[-1])


def test_states_and_counters_go_on_through_epochs(cache):
    """A model with a state and an optimizer with a counter, over two epochs, in float64."""
    module = SetupTrainer(MSELoss(), Adam(0.01), [TensorType((4, 2)), TensorType((4, 2))])(normalising())
    trainer, other = Trainer(module, options=cache), Trainer(module, options=cache)
    for each in (trainer, other):
        each.init_parameters("zeros")
    rng = np.random.default_rng(6)
    x, y = rng.standard_normal((20, 3)).astype("f4"), rng.standard_normal((20, 2)).astype("f4")
    for one in (trainer, other):
        one.init_parameters()
    for epoch in range(2):
        trainer.run_epoch((x, y))
        order = np.random.default_rng((0, epoch)).permutation(20)
        for start in range(0, 20, 4):
            other.update(x[order[start : start + 4]], y[order[start : start + 4]])
    assert_same(trainer, other)
    np.testing.assert_array_equal(trainer.export_states()["mean"], other.export_states()["mean"])
    assert trainer.export_optimizer_state()["step"] == 10


def test_losses_have_the_dtype_of_the_step(cache):
    module = SetupTrainer(MSELoss(), SGD(0.1), [TensorType((4, 2), "f64")] * 2)(linear("f64"))
    trainer, other = Trainer(module, options=cache), Trainer(module, options=cache)
    for each in (trainer, other):
        each.init_parameters("zeros")
    rng = np.random.default_rng(6)
    x, y = rng.standard_normal((20, 3)), rng.standard_normal((20, 2))
    rates = np.linspace(0.3, 0.1, 5)
    result = trainer.run_epoch((x, y), shuffle=False, schedule={"lr": rates})
    expected = []
    for step, rate in enumerate(rates):
        other.hyper["lr"] = rate
        expected.append(other.update(x[4 * step :][:4], y[4 * step :][:4]))
    assert result.losses.dtype == np.float64
    np.testing.assert_array_equal(result.losses, expected)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"every": 0}, InvalidValueError, "every must be an integer of at least 1, got 0"),
        ({"every": 2.5}, InvalidValueError, r"every must be an integer of at least 1, got 2\.5"),
        ({"limit": 0}, InvalidValueError, "limit must be an integer of at least 1, got 0"),
        ({"callback": 3}, TypeRuleError, r"callback must be callable as callback\(step, losses\), got 3"),
        ({"seed": -1}, InvalidValueError, "seed must be an integer of at least 0 or a sequence of them, got -1"),
        ({"seed": "a"}, InvalidValueError, "got 'a'; choose another"),
    ],
)
def test_settings_that_make_no_sense_are_refused(trainer, settings, error, message):
    trainer.run_epoch(dataset())
    with pytest.raises(error, match=message):
        trainer.run_epoch(dataset(), **settings)
    assert trainer.last_epoch is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (3, r"takes arrays \(x, targets\) or an iterable of batches of them, got int"),
        (np.zeros((9, 12), "f4"), "an array for each of x, targets, got 1"),
    ],
)
def test_data_that_are_none_are_refused(trainer, data, message):
    trainer.run_epoch(dataset())
    with pytest.raises(TypeRuleError, match=message):
        trainer.run_epoch(data)
    assert trainer.last_epoch is None


def test_there_is_no_last_epoch_before_the_first(module, cache):
    assert fresh(module, cache).last_epoch is None
    assert fresh(module, cache).compile().last_epoch is None
