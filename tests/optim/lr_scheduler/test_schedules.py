"""Schedules against closed forms written out here, their state, and what they refuse."""
# ruff: noqa: ARG005

import math

import numpy as np
import pytest

from adjoint.errors import AdjointError
from adjoint.optim import SGD, Adam
from adjoint.optim.lr_scheduler import (
    ChainedScheduler,
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    CyclicLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    LRScheduler,
    MultiplicativeLR,
    MultiStepLR,
    OneCycleLR,
    PolynomialLR,
    ReduceLROnPlateau,
    SequentialLR,
    StepLR,
)
from adjoint.optim.swa_utils import SWALR
from adjoint.tensor.tensor import from_array

BASE = (0.5, 0.2)


def bound(make=SGD, **settings):
    first, second = (from_array(np.zeros(2), requires_grad=True) for _ in range(2))
    return make([{"params": [first]}, {"params": [second], "lr": BASE[1]}], lr=BASE[0], **settings)


def rates(optimizer):
    return [group["lr"] for group in optimizer.param_groups]


def cosine(high, low, part):
    return low + 0.5 * (high - low) * (1 + math.cos(math.pi * part))


def one_cycle(t):
    return cosine(0.04, 1.0, t / 3.0) if t <= 3 else cosine(1.0, 4e-6, (t - 3) / 6)


#: A schedule, and its rate at a step from the initial one.
SCHEDULES = {
    "step": (lambda o: StepLR(o, 3, 0.5), lambda b, t: b * 0.5 ** (t // 3)),
    "multi": (
        lambda o: MultiStepLR(o, [5, 2, 5], 0.1),
        lambda b, t: b * (1 if t < 2 else 0.1 if t < 5 else 0.001),
    ),
    "exponential": (lambda o: ExponentialLR(o, 0.9), lambda b, t: b * 0.9**t),
    "constant": (lambda o: ConstantLR(o, 0.25, 4), lambda b, t: b * (0.25 if t < 4 else 1)),
    "constant zero": (lambda o: ConstantLR(o, 0.0, 2), lambda b, t: b * (t >= 2)),
    "linear": (lambda o: LinearLR(o, 0.1, 0.7, 6), lambda b, t: b * (0.1 + 0.1 * min(t, 6))),
    "polynomial": (lambda o: PolynomialLR(o, 8, 2.0), lambda b, t: b * (1 - min(t, 8) / 8) ** 2),
    "cosine": (lambda o: CosineAnnealingLR(o, 4, 0.01), lambda b, t: cosine(b, 0.01, t / 4)),
    "restarts": (
        lambda o: CosineAnnealingWarmRestarts(o, 2, 2, 0.01),
        lambda b, t: cosine(b, 0.01, t / 2 if t < 2 else (t - 2) / 4 if t < 6 else (t - 6) / 8),
    ),
    "one cycle": (lambda o: OneCycleLR(o, 1.0, 10, pct_start=0.4), lambda b, t: one_cycle(t)),
    "cyclic": (
        lambda o: CyclicLR(o, 0.2, 1.0, 2, cycle_momentum=False),
        lambda b, t: (0.2, 0.6, 1.0, 0.6)[t % 4],
    ),
    "cyclic halved": (
        lambda o: CyclicLR(o, 0.2, 1.0, 2, mode="triangular2", cycle_momentum=False),
        lambda b, t: 0.2 + (0.0, 0.4, 0.8, 0.4)[t % 4] * 0.5 ** (t // 4),
    ),
    "cyclic exponential": (
        lambda o: CyclicLR(o, 0.2, 1.0, 1, 3, mode="exp_range", gamma=0.9, cycle_momentum=False),
        lambda b, t: 0.2 + (0.0, 0.8, 1.6 / 3, 0.8 / 3)[t % 4] * 0.9**t,
    ),
    "cyclic function": (
        lambda o: CyclicLR(o, 0.2, 1.0, 2, scale_fn=lambda n: 1 / n, cycle_momentum=False),
        lambda b, t: 0.2 + (0.0, 0.4, 0.8, 0.4)[t % 4] / (1 + t // 4),
    ),
    "averaging": (lambda o: SWALR(o, 0.1, 4), lambda b, t: cosine(b, 0.1, min(t, 4) / 4)),
    "averaging line": (lambda o: SWALR(o, 0.1, 4, "linear"), lambda b, t: b + (0.1 - b) * min(t, 4) / 4),
    "function": (lambda o: LambdaLR(o, lambda t: 1 / (t + 1)), lambda b, t: b / (t + 1)),
    "product": (lambda o: MultiplicativeLR(o, lambda t: 1 / t), lambda b, t: b / math.factorial(t)),
    "sequence": (
        lambda o: SequentialLR(o, [ConstantLR(o, 0.1, 9), ExponentialLR(o, 0.5), StepLR(o, 2, 0.1)], [2, 6]),
        lambda b, t: b * (0.1 if t < 2 else 0.5 ** (t - 2) if t < 6 else 0.1 ** ((t - 6) // 2)),
    ),
    "chain": (
        lambda o: ChainedScheduler([LinearLR(o, 0.5, 1.0, 4), StepLR(o, 3, 0.1)]),
        lambda b, t: b * (0.5 + min(t, 4) / 8) * 0.1 ** (t // 3),
    ),
}


@pytest.mark.parametrize("case", SCHEDULES)
def test_a_schedule_follows_its_formula_and_continues_from_its_state(case):
    make, formula = SCHEDULES[case]
    optimizer = bound()
    schedule = make(optimizer)
    for t in range(10):
        np.testing.assert_allclose(rates(optimizer), [formula(b, t) for b in BASE], rtol=1e-9, atol=1e-14)
        assert schedule.get_last_lr() == rates(optimizer)
        if t == 4:
            saved, settings = schedule.state_dict(), optimizer.state_dict()
            optimizer = bound()
            schedule = make(optimizer)
            optimizer.load_state_dict(settings)
            schedule.load_state_dict(saved)
        if t < 9:
            schedule.step()


def test_a_schedule_follows_a_rate_that_was_set_by_hand():
    optimizer = bound()
    schedule = StepLR(optimizer, 1, 0.5)
    optimizer.param_groups[0]["lr"] = 8.0
    schedule.step()
    assert rates(optimizer) == [4.0, 0.1]


@pytest.mark.parametrize(("mult", "epoch", "part"), [(1, 4.5, 0.5 / 2), (2, 3.5, 1.5 / 4), (2, 0.5, 0.5 / 2)])
def test_restarts_take_fractions_of_epochs(mult, epoch, part):
    optimizer = bound()
    CosineAnnealingWarmRestarts(optimizer, 2, mult).step(epoch)
    np.testing.assert_allclose(rates(optimizer), [cosine(b, 0.0, part) for b in BASE], rtol=1e-12)


@pytest.mark.parametrize("make", [SGD, Adam])
def test_one_cycle_moves_momentum_the_other_way(make):
    optimizer = bound(make)
    schedule = OneCycleLR(
        optimizer, [1.0, 2.0], epochs=3, steps_per_epoch=4, pct_start=0.25, anneal_strategy="linear", three_phase=True
    )
    found = []
    for _ in range(11):
        group = optimizer.param_groups[0]
        found.append(group["betas"][0] if make is Adam else group["momentum"])
        schedule.step()
    np.testing.assert_allclose(found[:5], [0.95, 0.9, 0.85, 0.9, 0.95], rtol=1e-12)
    np.testing.assert_allclose(found[5:], 0.95)


def test_cycles_move_momentum_the_other_way():
    optimizer = bound(SGD, momentum=0.5)
    schedule = CyclicLR(optimizer, 0.1, 0.5, 2)
    found = []
    for _ in range(5):
        found.append(optimizer.param_groups[1]["momentum"])
        schedule.step()
    np.testing.assert_allclose(found, [0.9, 0.85, 0.8, 0.85, 0.9], rtol=1e-12)


def test_a_plateau_reduces_the_rate():
    optimizer = bound()
    schedule = ReduceLROnPlateau(optimizer, factor=0.1, patience=1, cooldown=1, min_lr=[0.0, 0.1], threshold=0.5)
    path = []
    # Only the second metric is better by half. The fourth is the second bad one; the fifth is in the cooldown.
    for metric in (1.0, 0.4, 0.39, from_array(np.array(0.38)), 0.37, 0.36, 0.35):
        schedule.step(metric)
        path.append(rates(optimizer)[0])
    np.testing.assert_allclose(path, [0.5, 0.5, 0.5, 0.05, 0.05, 0.05, 0.005])
    assert schedule.get_last_lr() == rates(optimizer)
    assert rates(optimizer)[1] == 0.1
    other = ReduceLROnPlateau(bound(), factor=0.1, patience=1)
    other.load_state_dict(schedule.state_dict())
    assert (other.best, other.patience, other.in_cooldown) == (0.4, 1, True)
    best = ReduceLROnPlateau(bound(), mode="max", threshold_mode="abs", threshold=0.5)
    assert best.is_better(1.6, 1.0)
    assert not best.is_better(1.4, 1.0)


def one_cycle_too_far():
    schedule = OneCycleLR(bound(), 1.0, 2)
    for _ in range(3):
        schedule.step()


def without_momentum():
    optimizer = bound()
    for group in optimizer.param_groups:
        del group["momentum"]
    OneCycleLR(optimizer, 1.0, 2)


WRONG = {
    "no optimizer": (lambda: StepLR(0.1, 2), "StepLR takes an optimizer, got a float; pass SGD(...)"),
    "not bound": (
        lambda: StepLR(SGD(0.1), 2),
        "SGD: param_groups needs parameters, got an optimizer that is not bound to any; write SGD(model.parameters(), "
        "...), or optimizer.bind(model.parameters())",
    ),
    "continued": (
        lambda: StepLR(bound(), 2, last_epoch=3),
        "StepLR: a schedule that is continued needs initial_lr in every group, got none in group 0; load the "
        "optimizer's state_dict, or set it",
    ),
    "no get_lr": (lambda: LRScheduler(bound()), "LRScheduler: a schedule must define get_lr(self); add it"),
    "lambdas": (
        lambda: LambdaLR(bound(), [abs]),
        "LambdaLR: lr_lambda must be a function of the epoch, or a list with one for each of the 2 groups, got "
        "[<built-in function abs>]; pass such as lambda epoch: 0.95 ** epoch",
    ),
    "constant": (lambda: ConstantLR(bound(), 2.0), "ConstantLR: factor must be from 0 to 1, got 2.0"),
    "linear start": (
        lambda: LinearLR(bound(), 0.0),
        "LinearLR: start_factor must be above 0 and at most 1, got 0.0",
    ),
    "linear end": (lambda: LinearLR(bound(), 0.5, 2.0), "LinearLR: end_factor must be from 0 to 1, got 2.0"),
    "restarts": (
        lambda: CosineAnnealingWarmRestarts(bound(), 0),
        "CosineAnnealingWarmRestarts: T_0 must be an integer of at least 1, got 0",
    ),
    "negative epoch": (
        lambda: CosineAnnealingWarmRestarts(bound(), 2).step(-1),
        "CosineAnnealingWarmRestarts: the epoch must be at least 0, got -1",
    ),
    "no steps": (
        lambda: OneCycleLR(bound(), 1.0, epochs=3),
        "OneCycleLR: the number of steps must be a positive integer, got None; pass total_steps, or epochs and "
        "steps_per_epoch",
    ),
    "part": (lambda: OneCycleLR(bound(), 1.0, 2, pct_start=2), "OneCycleLR: pct_start must be from 0 to 1, got 2"),
    "strategy": (
        lambda: OneCycleLR(bound(), 1.0, 2, anneal_strategy="exp"),
        "OneCycleLR: anneal_strategy must be 'cos' or 'linear', got 'exp'",
    ),
    "rates": (
        lambda: OneCycleLR(bound(), [1.0], 2),
        "OneCycleLR: max_lr must be a number, or a list with one for each of the 2 groups, got [1.0]",
    ),
    "without momentum": (
        without_momentum,
        "OneCycleLR: cycle_momentum needs an optimizer with momentum or betas, got SGD; pass cycle_momentum=False",
    ),
    "too many steps": (
        one_cycle_too_far,
        "OneCycleLR: the schedule has 2 steps, got step 3; raise total_steps",
    ),
    "no schedules": (
        lambda: ChainedScheduler([]),
        "ChainedScheduler: at least one schedule is required, got none; pass such as StepLR(...)",
    ),
    "two optimizers": (
        lambda: ChainedScheduler([StepLR(bound(), 1), StepLR(bound(), 1)]),
        "ChainedScheduler: all schedules must be of the same optimizer, got another one in schedule 1; create them "
        "with the same",
    ),
    "milestones": (
        lambda: SequentialLR(o := bound(), [StepLR(o, 1)], [2]),
        "SequentialLR: there must be one milestone for each schedule but the first, got 1 milestone for 1 schedule; "
        "pass the steps at which they begin",
    ),
    "plateau factor": (
        lambda: ReduceLROnPlateau(bound(), factor=1.0),
        "ReduceLROnPlateau: factor must be below 1, got 1.0",
    ),
    "plateau mode": (
        lambda: ReduceLROnPlateau(bound(), mode="best"),
        "ReduceLROnPlateau: mode must be 'min' or 'max', got 'best'",
    ),
    "plateau rates": (
        lambda: ReduceLROnPlateau(bound(), min_lr=[0.1]),
        "ReduceLROnPlateau: min_lr must be a number, or a list with one for each of the 2 groups, got [0.1]",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_schedules_are_refused_in_one_sentence(case):
    make, expected = WRONG[case]
    with pytest.raises(AdjointError) as caught:
        make()
    assert caught.value.message == expected
