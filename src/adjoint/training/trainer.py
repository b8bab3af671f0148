"""`Trainer`: a compiled step, and the arrays that live between steps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np

from adjoint.codegen.native import available_cores
from adjoint.compiler import CompileOptions, Executable
from adjoint.compiler import compile as compile_module
from adjoint.errors import DataError, InvalidValueError
from adjoint.ir import Function, IRModule
from adjoint.runtime.bound import Bound
from adjoint.training.arrays import Hyper, Residents
from adjoint.training.initialize import initial_values
from adjoint.training.layout import StepLayout
from adjoint.training.predict import Predictor
from adjoint.training.profile import Profile, profile_step

__all__ = ["Trainer"]

#: Parameters, states or optimizer states to load: in order, or by name.
Arrays = Sequence[np.ndarray] | Mapping[str, np.ndarray]


class Trainer:
    """Trains and evaluates a module that `SetupTrainer` made.

    Parameters, states, optimizer states and hyperparameters stay in place between steps, and a step updates them
    there. Nothing is compiled before it is needed: the step at the first `update` (or at `compile`), the model at
    the first `predict`.

    Parameters
    ----------
    module : IRModule
        With the functions ``backbone`` and ``step`` and the attributes that `SetupTrainer` gives.
    threads : int, optional
        Threads of the compiled functions; default: what `options` say, else the cores that this process may use.
        Results are the same bits for any number.
    seed : int, default 0
        Seed of `init_parameters`.
    options : CompileOptions, optional
        How to compile.
    check_finite : bool, default False
        Refuse batches with NaN or infinity before the step runs, and a loss that is not finite after it (the
        parameters have then been updated). Reading every batch once more costs time.

    Attributes
    ----------
    hyper : Hyper
        Hyperparameters by name: ``trainer.hyper["lr"] = 0.05`` holds from the next step on.

    Notes
    -----
    Parameters and states start as zeros, the optimizer's state and the hyperparameters from their initial values.
    """

    def __init__(
        self,
        module: IRModule,
        threads: int | None = None,
        seed: int = 0,
        options: CompileOptions | None = None,
        check_finite: bool = False,
    ) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise InvalidValueError(f"Trainer: seed is an integer of at least 0, got {seed!r}")
        self.module = module
        self.seed = seed
        options = CompileOptions() if options is None else options
        if threads is not None:
            options = replace(options, threads=threads)
        self.options = replace(options, threads=options.threads or available_cores())
        layout = StepLayout(module)
        self._batch_names = tuple(layout.batch)
        self._input_num = layout.inputs
        self._params = Residents("parameter", layout.params)
        self._states = Residents("state", layout.states)
        self._optimizer = Residents("optimizer state", layout.optimizer)
        self._initial_optimizer = layout.initial_optimizer
        self.reset_optimizer_state()
        self.hyper = Hyper(layout.hyper, layout.initial_hyper)
        self._check_finite = check_finite
        self._executables: dict[str, Executable] = {}
        # Replaced by the bound entry once it is compiled, so that no step asks whether it is.
        self._step: Callable[..., Any] = self._first_step
        self._bound: Bound | None = None
        self._predict: Callable[..., Any] = self._first_predict

    def compile(self) -> "Trainer":
        """Compile the step now, instead of at the first `update`; returns the trainer."""
        if "step" not in self._executables:
            executable = compile_module(self.module, entries=("step",), options=self.options)
            self._bound = executable["step"].bind(self._resident())
            self._step = self._checked_step if self._check_finite else self._bound.call
            self._executables["step"] = executable
        return self

    def update(self, *batch: Any) -> float:
        """One training step: forward, backward and the optimizer's update.

        Parameters
        ----------
        *batch : numpy.ndarray
            The inputs of the model, then the targets of the loss, of exactly their shapes and dtypes.

        Returns
        -------
        float
            The loss of the batch, before the update.

        Raises
        ------
        TypeRuleError
            For a wrong number of arrays, shape or dtype; nothing has been modified.
        InvalidValueError
            For class indices out of range; nothing has been modified. With `check_finite` for a loss that is not.
        DataError
            With `check_finite`: for NaN or infinity in the batch; nothing has been modified.
        """
        loss: float = self._step(*batch)
        return loss

    def predict(self, *inputs: Any) -> Any:
        """The outputs of the model; parameters and states stay as they are.

        Parameters
        ----------
        *inputs : numpy.ndarray
            The inputs of the model, with any number of rows where all inputs and outputs have the batch as their
            first axis: more rows than the model was built for are computed in batches, and the last batch is filled
            up by repeating its last row. (A model that mixes the rows of a batch, as batch normalisation in
            training does, sees those as well.)

        Returns
        -------
        numpy.ndarray or tuple of numpy.ndarray
            The outputs, as many rows as were given.
        """
        return self._predict(*inputs)

    def profile(self, *batch: Any, runs: int = 20) -> Profile:
        """Time the forward pass, the backward pass, the optimizer and each kernel on a batch; nothing is trained.

        Parameters
        ----------
        *batch : numpy.ndarray
            As in `update`.
        runs : int, default 20
            How often each is timed; the median counts.
        """
        return profile_step(self.module, self._resident(), batch, self.options, runs)

    def init_parameters(self, kind: str = "xavier_uniform") -> None:
        """Give all parameters their initial values: "xavier_uniform" (biases are zeros) or "zeros".

        The values follow from the trainer's seed. See `adjoint.training.initialize.initial_values`.
        """
        self._params.load(initial_values(kind, self._params.types, self.seed))

    def load_params(self, params: Arrays) -> None:
        """Copy parameters in: a list in their order or a dict by their names, all of them.

        Raises
        ------
        NameLookupError, InvalidValueError, TypeRuleError
            For wrong names, a wrong number, a wrong shape or dtype; nothing has been loaded then.
        """
        self._params.load(params)

    def export_params(self) -> dict[str, np.ndarray]:
        """Copies of the parameters by name."""
        return self._params.export()

    def load_states(self, states: Arrays) -> None:
        """Copy the model's states in, as `load_params` does parameters."""
        self._states.load(states)

    def export_states(self) -> dict[str, np.ndarray]:
        """Copies of the model's states by name."""
        return self._states.export()

    def load_optimizer_state(self, state: Arrays) -> None:
        """Copy the optimizer's state in, as `load_params` does parameters."""
        self._optimizer.load(state)

    def export_optimizer_state(self) -> dict[str, np.ndarray]:
        """Copies of the optimizer's state by name."""
        return self._optimizer.export()

    def reset_optimizer_state(self) -> None:
        """Put the optimizer's state back to its initial values."""
        for name, array in self._optimizer.arrays.items():
            array.fill(self._initial_optimizer[name])

    def _resident(self) -> dict[str, np.ndarray]:
        """All that stays between steps, by name."""
        return self._params.arrays | self._states.arrays | self._optimizer.arrays | self.hyper.arrays

    def _first_step(self, *batch: Any) -> Any:
        self.compile()
        return self._step(*batch)

    def _checked_step(self, *batch: Any) -> float:
        """A step between a check of the batch and one of the loss."""
        for name, array in zip(self._batch_names, batch, strict=False):
            _refuse_not_finite(name, np.asarray(array))
        assert self._bound is not None  # compile has put this method in the place of _first_step
        loss: float = self._bound.call(*batch)
        if not isfinite(loss):
            raise InvalidValueError(
                f"update: the loss is {loss} after this step, which has updated the parameters; lower the learning "
                "rate and load the last good parameters"
            )
        return loss

    def _first_predict(self, *inputs: Any) -> Any:
        if "backbone" not in self._executables:
            backbone = self.module["backbone"]
            # Without the updated states, what computes only them is not compiled.
            outputs = backbone.results[: len(backbone.results) - len(self._states.types)]
            function = Function("backbone", backbone.params, outputs)
            executable = compile_module(IRModule((function,)), entries=("backbone",), options=self.options)
            bound = executable["backbone"].bind(self._params.arrays | self._states.arrays)
            types = {p.label: p.type for p in backbone.params[: self._input_num]}
            self._predict = Predictor(bound, types, [r.type for r in outputs])
            self._executables["backbone"] = executable
        return self._predict(*inputs)


def _refuse_not_finite(name: str, array: np.ndarray) -> None:
    if array.dtype.kind != "f":
        return
    finite = np.isfinite(array)
    if not finite.all():
        where = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise DataError(f"update: {name} is finite with check_finite, got {array[where]} at {where}; clean the data")
