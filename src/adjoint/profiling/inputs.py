"""Default inputs for running a step: initial parameters and random data."""

import numpy as np

from adjoint.ir import IRModule, TensorType
from adjoint.kernel.program import Argument, RangeCheck
from adjoint.runtime.bound import rows_present
from adjoint.runtime.executable import Entry
from adjoint.training.initialize import initial_params, initial_states
from adjoint.training.layout import StepLayout

__all__ = ["random_arrays"]


def random_arrays(module: IRModule, entry: Entry, seed: int = 0) -> dict[str, np.ndarray]:
    """An array for each argument of a step, by name.

    Parameters
    ----------
    module : IRModule
        The step's module. If it was created by `SetupTrainer`, parameters, states, states of the optimizer and
        hyperparameters have their initial values; otherwise all floats are random in [0, 0.1).
    entry : Entry
        The compiled step. Integers with a range check are random within the range; others are 0, which is always a
        valid index.
    seed : int, default 0
        Seed of the random numbers.
    """
    rng = np.random.default_rng(seed)
    checks = {check.slot: check for check in entry.signature.checks}
    arrays = {a.name: _random(a, checks.get(a.slot), rng) for a in entry.arguments}
    if "backbone" in module and "optimizer_state" in module.attrs:
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


def _random(argument: Argument, check: RangeCheck | None, rng: np.random.Generator) -> np.ndarray:
    if argument.dtype.kind not in "iub":
        return np.asarray(rng.uniform(0.0, 0.1, argument.shape)).astype(argument.dtype)
    if check is None:
        return np.zeros(argument.shape, argument.dtype)
    return np.asarray(rng.integers(check.low, check.high, argument.shape)).astype(argument.dtype)
