"""Inputs for running a step: initial parameters and random data, or what some steps of training make of them."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.ir import IRModule, TensorType
from adjoint.kernel.program import Argument, RangeCheck
from adjoint.runtime.bound import aligned_together, rows_present
from adjoint.runtime.executable import Entry
from adjoint.runtime.report import WARM_UP_RUNS
from adjoint.training.initialize import initial_params, initial_states
from adjoint.training.layout import StepLayout

__all__ = ["described_state", "random_arrays", "trained_arrays"]


def random_arrays(module: IRModule, entry: Entry, seed: int = 0) -> dict[str, np.ndarray]:
    """An array for each argument of a step, by name.

    Parameters
    ----------
    module : IRModule
        The step's module. If it was created by `SetupTrainer`, parameters, states, states of the optimizer and
        hyperparameters have their initial values; otherwise all floats are random in [0, 0.1).
    entry : Entry
        The compiled step. Integers with range checks are random within the ranges; others are 0, which is always a
        valid index.
    seed : int, default 0
        Seed of the random numbers.
    """
    rng = np.random.default_rng(seed)
    checks = entry.signature.checks
    arrays = {a.name: _random(a, [c for c in checks if c.slot == a.slot], rng) for a in entry.arguments}
    if _is_trained(module):
        layout = StepLayout(module)
        arrays.update(initial_params(layout.params, layout.starts, seed))
        arrays.update(initial_states(layout.params, layout.states, layout.starts, seed))
        types = layout.optimizer | layout.hyper
        if layout.partial.rows:
            arrays[layout.partial.rows] = rows_present(layout.partial)
        for name, value in (layout.initial_optimizer | layout.initial_hyper).items():
            arrays[name] = _full(types[name], value)
    return arrays


def _full(type_: TensorType, value: float) -> np.ndarray:
    return np.full(type_.shape, value, type_.dtype)


def _random(argument: Argument, checks: Sequence[RangeCheck], rng: np.random.Generator) -> np.ndarray:
    if argument.dtype.kind not in "iub":
        return np.asarray(rng.uniform(0.0, 0.1, argument.shape)).astype(argument.dtype)
    low, high = max((c.low for c in checks), default=0), min((c.high for c in checks), default=1)
    if low >= high:  # different elements have different ranges
        low, high = 0, 1
    return np.asarray(rng.integers(low, high, argument.shape)).astype(argument.dtype)


def _is_trained(module: IRModule) -> bool:
    """Whether `SetupTrainer` made the module, so that its parameters and states have initial values."""
    return "backbone" in module and "optimizer_state" in module.attrs


def trained_arrays(entry: Entry, given: Mapping[str, np.ndarray], steps: int) -> dict[str, np.ndarray]:
    """The arrays after some training steps on the same batch: those that the step updates are new.

    Raises
    ------
    InvalidValueError
        If they are not finite any more.
    """
    resident = aligned_together({a.name: a for a in entry.arguments if a.donated})
    for name, array in resident.items():
        array[...] = given[name]
    call = entry.bind(resident).call
    batch = [given[a.name] for a in entry.arguments if not a.donated]
    for _ in range(steps):
        call(*batch)
    for name, array in resident.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InvalidValueError(
                f"profile: after {steps} training steps on one batch {name} must be finite, got NaN or infinity; take "
                "fewer steps, or a smaller learning rate"
            )
    return {**given, **resident}


def described_state(module: IRModule, given: Collection[str], steps: int) -> str:
    """What the measured arrays hold, as a sentence.

    Parameters
    ----------
    module : IRModule
        The step's module.
    given : collection of str
        Names of the arrays that the caller gave.
    steps : int
        Training steps before the measurement.
    """
    if _is_trained(module):
        text = "Parameters, states and optimizer state have their initial values, and the batch is random"
    else:
        text = "All inputs are random numbers"
    if given:
        text += f", except {', '.join(given)}, which the caller gave"
    if steps:
        text += f"; before, {steps} training step{'s were' if steps > 1 else ' was'} made on this batch"
    return f"{text}. {WARM_UP_RUNS} runs warm up the caches; every run is a training step on the same batch."
