"""Resuming an epoch: whatever ended it, the rest has the bits of an epoch straight through."""

from contextlib import suppress

import numpy as np
import pytest

from adjoint.errors import InvalidValueError, TypeRuleError
from tests.training.models import BATCH
from tests.training.test_epochs import STEPS, assert_same, dataset, fresh

RATES = np.linspace(0.2, 0.01, STEPS)


def cut(count=STEPS):
    """Batches of the dataset in order."""
    x, y = dataset()
    return [(x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, count * BATCH, BATCH)]


def raising(error):
    def fail(step, _):
        if step == 4:
            raise error

    return fail


INTERRUPTIONS = {
    "limit": {"limit": 4},
    "callback": {"callback": lambda step, _: step == 4},
    "exception": {"callback": raising(ZeroDivisionError)},
    "ctrl-c": {"callback": raising(KeyboardInterrupt)},
}


@pytest.mark.parametrize("kind", ["shuffled", "in order", "batches"])
@pytest.mark.parametrize("how", INTERRUPTIONS)
def test_a_resumed_epoch_is_one_straight_through(module, cache, how, kind):
    trainer, other = fresh(module, cache), fresh(module, cache)
    data = cut() if kind == "batches" else dataset()
    settings = {"shuffle": kind != "in order", "every": 2, "schedule": {"lr": RATES}}
    with suppress(ZeroDivisionError, KeyboardInterrupt):
        trainer.run_epoch(data, **settings, **INTERRUPTIONS[how])
    assert (trainer.epochs, trainer.steps_to_resume, trainer.last_epoch.steps) == (0, 4, 4)
    seen = []
    result = trainer.run_epoch(data, **settings, resume=True, callback=lambda _, losses: seen.append(len(losses)))
    expected = other.run_epoch(data, **settings)
    np.testing.assert_array_equal(result.losses, expected.losses)
    assert (result.steps, result.stopped, trainer.epochs) == (STEPS, False, 1)
    assert seen == [6, 7]
    assert_same(trainer, other)
    # The next epoch is the second one for both.
    np.testing.assert_array_equal(
        trainer.run_epoch(dataset(), resume=True).losses, other.run_epoch(dataset(), resume=True).losses
    )


@pytest.mark.parametrize("drop_last", [False, True])
def test_limits_divide_epochs_into_parts_of_the_same_bits(module, cache, drop_last):
    """A limit counts the steps of its call, and a resumed epoch is followed by the next."""
    trainer, other = fresh(module, cache), fresh(module, cache)
    steps = STEPS + (not drop_last)
    sizes = []
    while trainer.epochs < 2:
        sizes.append(trainer.run_epoch(dataset(), drop_last=drop_last, limit=3, resume=True).steps)
    assert sizes == [3, 6, steps] * 2
    for _ in range(2):
        last = other.run_epoch(dataset(), drop_last=drop_last)
    np.testing.assert_array_equal(trainer.last_epoch.losses, last.losses)
    assert_same(trainer, other)


def test_a_limit_at_the_end_of_an_epoch_finishes_it(trainer):
    trainer.run_epoch(dataset(), limit=STEPS)
    assert (trainer.epochs, trainer.steps_to_resume) == (1, 0)
    assert trainer.run_epoch(dataset(), limit=2, resume=True).steps == 2


def test_batches_are_finished_when_there_are_no_more(trainer):
    trainer.run_epoch(cut(3), limit=3)
    assert trainer.epochs == 0  # there might be more
    assert trainer.run_epoch(cut(3), resume=True).steps == 3
    assert trainer.epochs == 1


def test_without_resume_an_unfinished_epoch_is_given_up(module, cache):
    trainer, other = fresh(module, cache), fresh(module, cache)
    for each in (trainer, other):
        each.run_epoch(dataset(), limit=3)
    assert trainer.epochs == 0
    result = trainer.run_epoch(dataset())
    assert trainer.epochs == 2
    order = np.random.default_rng((1, 1)).permutation(61)
    x, y = dataset()
    losses = [other.update(x[r], y[r]) for r in order[: STEPS * BATCH].reshape(STEPS, BATCH)]
    np.testing.assert_array_equal(result.losses, np.array(losses, "f4"))


def test_an_epoch_within_a_callback_is_another(module, cache):
    trainer, other = fresh(module, cache), fresh(module, cache)
    inner = []

    def nested(step, _):
        if step == 2:
            inner.append(trainer.run_epoch(dataset(), resume=True).steps)
        return step == 4

    trainer.run_epoch(dataset(), every=2, callback=nested)
    assert inner == [STEPS]
    assert trainer.epochs == 1
    trainer.run_epoch(dataset(), resume=True)
    other.run_epoch(dataset(), limit=2)
    other.run_epoch(dataset(), seed=(1, 1))
    x, y = dataset()
    for rows in np.random.default_rng((1, 0)).permutation(61)[2 * BATCH : STEPS * BATCH].reshape(-1, BATCH):
        other.update(x[rows], y[rows])
    assert_same(trainer, other)


@pytest.mark.parametrize(
    ("begun", "given", "error", "message"),
    [
        (
            {}, {"data": tuple(a[:60] for a in dataset())}, InvalidValueError,
            "run_epoch: the epoch to be resumed runs over 61 rows, got 60; pass the same arrays, or begin another "
            "epoch without resume",
        ),
        (
            {}, {"shuffle": False}, InvalidValueError,
            "run_epoch: the epoch to be resumed was begun with shuffle=True, got False; pass shuffle=True, or begin "
            "another epoch without resume",
        ),
        (
            {"drop_last": False}, {}, InvalidValueError,
            "run_epoch: the epoch to be resumed was begun with drop_last=False, got True; pass drop_last=False, or "
            "begin another epoch without resume",
        ),
        (
            {"seed": 4}, {"seed": 5}, InvalidValueError,
            "run_epoch: the epoch to be resumed was begun with another seed, got one that gives a different order; "
            "omit it, or begin another epoch without resume",
        ),
        (
            {"data": cut()}, {}, TypeRuleError,
            "run_epoch: the epoch to be resumed ran over an iterable of batches, got arrays; pass batches, or begin "
            "another epoch without resume",
        ),
        (
            {}, {"data": cut()}, TypeRuleError,
            "run_epoch: the epoch to be resumed ran over arrays of 61 rows, got batches; pass the arrays, or begin "
            "another epoch without resume",
        ),
        (
            {"data": cut()}, {"data": cut(2)}, InvalidValueError,
            "run_epoch: the epoch to be resumed has done 3 steps, got an iterable of 2 batches; pass all batches of "
            "the epoch, from its first",
        ),
        (
            {}, {"schedule": {"lr": np.ones(4)}}, InvalidValueError,
            "schedule: lr must have a value for each of the 7 steps of this epoch, got 4; pass that many",
        ),
    ],
)  # fmt: skip
def test_another_epoch_than_the_interrupted_one_is_refused_and_changes_nothing(
    module, cache, begun, given, error, message
):
    trainer, other = fresh(module, cache), fresh(module, cache)
    for each in (trainer, other):
        each.run_epoch(**{"data": dataset(), **begun}, limit=3)
    with pytest.raises(error) as caught:
        trainer.run_epoch(**{"data": dataset(), **given}, resume=True)
    assert caught.value.message == message
    assert_same(trainer, other)
    again = {"data": dataset(), **begun}
    results = [each.run_epoch(**again, resume=True).losses for each in (trainer, other)]
    np.testing.assert_array_equal(*results)


def test_the_same_seed_resumes(module, cache):
    trainer, other = fresh(module, cache), fresh(module, cache)
    trainer.run_epoch(dataset(), seed=[4, 2], limit=3)
    trainer.run_epoch(dataset(), seed=[4, 2], resume=True)
    other.run_epoch(dataset(), seed=[4, 2])
    assert_same(trainer, other)
