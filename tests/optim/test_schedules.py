"""Schedules within a step against those of `lr_scheduler`, whose numbers are PyTorch's, and in a trainer."""

import math

import numpy as np
import pytest

from adjoint import SetupTrainer, Trainer, models
from adjoint.errors import AdjointError
from adjoint.ir import Function, param
from adjoint.losses import MSELoss
from adjoint.optim import SGD, chain, lr_scheduler, scale_by_schedule, schedules
from adjoint.tensor.tensor import from_array
from adjoint.testing.interpreter import interpret

COUNT = 40

#: A schedule, and that of `lr_scheduler` for an optimizer with the rate 1.
CASES = [
    (schedules.Constant(0.3, 7), lambda o: lr_scheduler.ConstantLR(o, 0.3, 7)),
    (schedules.Linear(0.2, 0.8, 13), lambda o: lr_scheduler.LinearLR(o, 0.2, 0.8, 13)),
    (schedules.Step(7, 0.5), lambda o: lr_scheduler.StepLR(o, 7, 0.5)),
    (schedules.MultiStep([5, 9, 30], 0.3), lambda o: lr_scheduler.MultiStepLR(o, [5, 9, 30], 0.3)),
    (schedules.Exponential(0.95), lambda o: lr_scheduler.ExponentialLR(o, 0.95)),
    (schedules.Polynomial(30, 2.0), lambda o: lr_scheduler.PolynomialLR(o, 30, 2.0)),
    (schedules.Cosine(40, 0.1), lambda o: lr_scheduler.CosineAnnealingLR(o, 40, 0.1)),
    (schedules.CosineRestarts(5, 2, 0.1), lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 5, 2, 0.1)),
    (schedules.CosineRestarts(7), lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 7)),
    (schedules.OneCycle(40), lambda o: lr_scheduler.OneCycleLR(o, 1.0, 40, cycle_momentum=False)),
    (
        schedules.OneCycle(40, 0.25, linear=True, three_phase=True),
        lambda o: lr_scheduler.OneCycleLR(
            o, 1.0, 40, pct_start=0.25, anneal_strategy="linear", three_phase=True, cycle_momentum=False
        ),
    ),
    (schedules.Cyclic(0.25, 6, 9), lambda o: lr_scheduler.CyclicLR(o, 0.25, 1.0, 6, 9, cycle_momentum=False)),
    (
        schedules.Cyclic(0.25, 6, mode="triangular2"),
        lambda o: lr_scheduler.CyclicLR(o, 0.25, 1.0, 6, mode="triangular2", cycle_momentum=False),
    ),
    (
        schedules.Cyclic(0.25, 6, mode="exp_range", gamma=0.97),
        lambda o: lr_scheduler.CyclicLR(o, 0.25, 1.0, 6, mode="exp_range", gamma=0.97, cycle_momentum=False),
    ),
    (
        schedules.Sequential([schedules.Constant(0.1, 20), schedules.Exponential(0.9)], [12]),
        lambda o: lr_scheduler.SequentialLR(
            o, [lr_scheduler.ConstantLR(o, 0.1, 20), lr_scheduler.ExponentialLR(o, 0.9)], [12]
        ),
    ),
    (schedules.Warmup(10), lambda o: lr_scheduler.LambdaLR(o, lambda t: min((t + 1) / 10, 1.0))),
    (
        schedules.Warmup(10, schedules.Cosine(25)),
        lambda o: lr_scheduler.LambdaLR(
            o, lambda t: (t + 1) / 10 if t < 10 else 0.5 + 0.5 * math.cos(math.pi * min(t - 10, 25) / 25)
        ),
    ),
    (
        schedules.InverseSqrt(10),
        lambda o: lr_scheduler.LambdaLR(o, lambda t: 10**0.5 * min((t + 1) ** -0.5, (t + 1) * 10**-1.5)),
    ),
    (
        schedules.Piecewise((8, 20), (1.0, 0.5, 0.1)),
        lambda o: lr_scheduler.LambdaLR(o, lambda t: 1.0 if t < 8 else 0.5 if t < 20 else 0.1),
    ),
]


def test_all_agree_with_the_schedulers():
    t = param("t", (), "f64")
    function = Function("factors", (t,), tuple(schedule(t) for schedule, _ in CASES))
    found = np.array([interpret(function, np.array(float(n))) for n in range(COUNT)])
    for i, (schedule, make) in enumerate(CASES):
        optimizer = SGD([from_array(np.zeros(1), requires_grad=True)], lr=1.0)
        scheduler = make(optimizer)
        rates = []
        for n in range(COUNT):
            rates.append(optimizer.param_groups[0]["lr"])
            if n + 1 < COUNT:
                scheduler.step()
        np.testing.assert_allclose(found[:, i], rates, rtol=1e-12, atol=1e-14, err_msg=repr(schedule))


def test_a_trainer_computes_the_rate_in_its_step():
    plan = schedules.Warmup(2, schedules.Linear(1.0, 0.0, 4))
    module = SetupTrainer(MSELoss(), chain(SGD(0.5), scale_by_schedule(plan)))(models.linreg(1, 2))
    trainer = Trainer(module)
    trainer.init_parameters("zeros")
    x, y, w = np.ones((2, 1), np.float32), np.full((2, 1), 3.0, np.float32), 0.0
    for factor in (0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0):
        trainer.update(x, y)
        w -= 0.5 * factor * 2 * (w - 3)
        np.testing.assert_allclose(trainer.export_params()["w"], w, rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: schedules.Step(0), "Step: step_size must be above 0 and finite, got 0"),
        (lambda: schedules.Warmup(True), "Warmup: steps must be above 0 and finite, got True"),
        (
            lambda: schedules.Piecewise((3, 2), (1, 2, 3)),
            "Piecewise: boundaries must increase, got (3, 2); sort them",
        ),
        (
            lambda: schedules.Piecewise((3,), (1,)),
            "Piecewise: values must be one more than boundaries, got 1 and 1; add the value before the first boundary",
        ),
        (
            lambda: schedules.Sequential([schedules.Warmup(3)], [3]),
            "Sequential: schedules must be one more than milestones, got 1 and 1; add the schedule before the first "
            "milestone",
        ),
        (
            lambda: schedules.Cyclic(0.1, mode="square"),
            "Cyclic: mode must be 'triangular', 'triangular2' or 'exp_range', got 'square'",
        ),
    ],
)
def test_settings_out_of_range_are_refused(make, message):
    with pytest.raises(AdjointError) as error:
        make()
    assert error.value.message == message
