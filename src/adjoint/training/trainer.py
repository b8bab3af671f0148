"""`Trainer`: a compiled step, and the arrays that live between steps."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from adjoint.compiler import CompileOptions, Executable
from adjoint.compiler import compile as compile_module
from adjoint.data import Rows
from adjoint.errors import InvalidValueError
from adjoint.ir import IRModule
from adjoint.kernel.target import available_cores
from adjoint.runtime.bound import Bound
from adjoint.runtime.turn import Turn
from adjoint.training.arrays import Hyper, Residents
from adjoint.training.epochs import Callback, EpochResult, Epochs, Plan, epoch_order
from adjoint.training.finite import refuse_array, refuse_loss
from adjoint.training.gather import given_rows
from adjoint.training.initialize import initial_params, initial_states
from adjoint.training.layout import StepLayout, inference
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
    `update`, `run_epoch` and `predict` may be called from several Python threads: steps and predictions run one after
    the other, and a prediction sees the parameters between two steps.

    Parameters are zeros until `init_parameters` or `load_params`. States, the optimizer's state and the
    hyperparameters start from their initial values; states of which the module's attribute ``init`` says nothing, from
    zeros.
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
            raise InvalidValueError(f"Trainer: seed must be an integer of at least 0, got {seed!r}")
        self.module = module
        self.seed = seed
        options = CompileOptions() if options is None else options
        if threads is not None:
            options = replace(options, threads=threads)
        self.options = replace(options, threads=options.threads or available_cores())
        layout = StepLayout(module)
        self._batch = layout.batch
        self._input_num = layout.inputs
        self._params = Residents("parameter", layout.params)
        self._states = Residents("state", layout.states)
        self._optimizer = Residents("optimizer state", layout.optimizer)
        self._starts = layout.starts
        self._initial_optimizer = layout.initial_optimizer
        self._init_states()
        self._fill_optimizer_state(only_others_than=0.0)
        self.hyper = Hyper(layout.hyper, layout.initial_hyper)
        self._check_finite = check_finite
        self._executables: dict[str, Executable] = {}
        # Two threads may be the first to need a compiled entry. Step and model share arrays, so they take turns.
        self._compiling = threading.RLock()
        self._turn = Turn()
        # Replaced by the bound entry once it is compiled, so that no step asks whether it is.
        self._step: Callable[..., Any] = self._first_step
        self._bound: Bound | None = None
        self._epochs: Epochs | None = None
        self._predict: Callable[..., Any] = self._first_predict

    def compile(self) -> "Trainer":
        """Compile the step now, instead of at the first `update`; returns the trainer."""
        with self._compiling:
            if "step" not in self._executables:
                executable = compile_module(self.module, entries=("step",), options=self.options)
                self._bound = executable["step"].bind(self._resident(), turn=self._turn)
                self._epochs = Epochs(self._bound, self._batch, self.hyper, self.options, self._check_finite)
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

    def run_epoch(
        self,
        data: np.ndarray | Rows | Sequence[np.ndarray | Rows] | Iterable[Sequence[Any]],
        *,
        shuffle: bool = True,
        seed: int | Sequence[int] | None = None,
        every: int = 100,
        callback: Callback | None = None,
        schedule: Mapping[str, Any] | None = None,
        drop_last: bool = True,
        limit: int | None = None,
    ) -> EpochResult:
        """One pass over a dataset, with the same bits as `update` batch by batch.

        Over arrays it runs inside native code: rows are gathered, converted and checked there, and Python is woken
        for the callback and for Ctrl-C. Batches of any other kind are taken from a thread that prepares them ahead.

        Parameters
        ----------
        data : sequence of numpy.ndarray or Rows, or iterable of batches
            Arrays [N, ...] whose rows batches are made of: the model's inputs, then the targets, of the step's
            dtypes, or of others in `Rows`. Anything else is gone through in a thread of its own, at most three
            batches ahead; each batch is a tuple of what `update` takes.
        shuffle : bool, default True
            Whether rows come in a random order, ``numpy.random.default_rng(seed).permutation(N)``. Batches come as
            they come.
        seed : int or sequence of int, optional
            Seed of the order; default: the trainer's and the number of epochs that it has begun, so that every
            epoch has an order of its own and the same program the same orders.
        every : int, default 100
            Steps between calls of `callback`.
        callback : callable, optional
            Called as ``callback(steps done, their losses)`` every so many steps and after the last. Something true
            stops the epoch, as does an exception; it may use the trainer in any way.
        schedule : mapping of str to array_like, optional
            Values of hyperparameters, one for each step, set before it. The last one stays.
        drop_last : bool, default True
            Whether rows that fill no batch are left out. Otherwise the last batch is filled up with rows from the
            start of the epoch's order: the compiled step has one batch size.
        limit : int, optional
            Steps after which the epoch ends; default: none.

        Returns
        -------
        EpochResult
            The losses of all steps, their number, the seconds they took, whether the callback asked to stop.

        Raises
        ------
        TypeRuleError
            For arrays, batches or settings that do not fit.
        InvalidValueError
            For class indices out of range, naming row and value, before the step that they are in: earlier steps
            are done. For a schedule of a wrong length, and for fewer rows than a step takes.
        NameLookupError
            For a schedule of a hyperparameter that the step does not have.

        Notes
        -----
        However an epoch ends, only whole steps have been done, and `last_epoch` tells how many.
        """
        self.compile()
        assert self._epochs is not None  # compile has made it
        self._epochs.last = None
        plan = Plan({} if schedule is None else schedule, every, callback, limit)
        rows = given_rows(data)
        if rows is None:
            return self._epochs.over_batches(data, self.update, plan)
        order = epoch_order(shuffle, (self.seed, self._epochs.begun) if seed is None else seed)
        return self._epochs.over_rows(rows, order, drop_last, plan)

    @property
    def last_epoch(self) -> EpochResult | None:
        """What the last `run_epoch` came to, also where an exception ended it; None where no step could begin."""
        return None if self._epochs is None else self._epochs.last

    def predict(self, *inputs: Any) -> Any:
        """The outputs of the model; parameters and states stay as they are.

        This is the module's function ``backbone_inference`` where it has one, else ``backbone``.

        Parameters
        ----------
        *inputs : numpy.ndarray
            The inputs of the model, with any number of rows where all inputs and outputs have the batch as their
            first axis: more rows than the model was built for are computed in batches, and the last batch is filled
            up by repeating its last row. (A model without ``backbone_inference`` that mixes the rows of a batch sees
            those as well.)

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
        """Give all parameters and the model's states their initial values; the optimizer's state stays as it is.

        They begin as the module's attribute ``init`` says (`SetupTrainer`), and follow from the trainer's seed.

        Parameters
        ----------
        kind : {"xavier_uniform", "kaiming_normal", "zeros"}
            How those parameters begin of which the module says nothing and which are of a rank from 2. Of lower
            ranks (biases) they are zeros, and so are states of which it says nothing.

        Raises
        ------
        InvalidValueError
            For an unknown kind; nothing has been changed then.
        """
        self._params.load(initial_params(self._params.types, self._starts, self.seed, kind))
        self._init_states()

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
        self._fill_optimizer_state()

    def _fill_optimizer_state(self, only_others_than: float | None = None) -> None:
        # Fresh arrays are zeros already, in pages that take no memory until the first step writes them.
        for name, array in self._optimizer.arrays.items():
            if self._initial_optimizer[name] != only_others_than:
                array.fill(self._initial_optimizer[name])

    def _init_states(self) -> None:
        self._states.load(initial_states(self._params.types, self._states.types, self._starts, self.seed))

    def _resident(self) -> dict[str, np.ndarray]:
        """All that stays between steps, by name."""
        return self._params.arrays | self._states.arrays | self._optimizer.arrays | self.hyper.arrays

    def _first_step(self, *batch: Any) -> Any:
        self.compile()
        return self._step(*batch)

    def _checked_step(self, *batch: Any) -> float:
        """A step between a check of the batch and one of the loss."""
        for name, array in zip(self._batch, batch, strict=False):
            refuse_array("update", name, np.asarray(array))
        assert self._bound is not None  # compile has put this method in the place of _first_step
        loss: float = self._bound.call(*batch)
        refuse_loss("update", loss)
        return loss

    def _first_predict(self, *inputs: Any) -> Any:
        with self._compiling:
            if "predict" not in self._executables:
                function = inference(self.module, len(self._states.types))
                executable = compile_module(IRModule((function,)), entries=(function.name,), options=self.options)
                kept = self._params.arrays | self._states.arrays
                bound = executable[function.name].bind(kept, turn=self._turn)
                types = {p.label: p.type for p in function.params[: self._input_num]}
                self._predict = Predictor(bound, types, [r.type for r in function.results])
                self._executables["predict"] = executable
        return self._predict(*inputs)
