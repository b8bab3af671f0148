"""`Trainer`: a compiled step, and what it does with the arrays of `TrainerState`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from adjoint.compiler import CompileOptions, Executable
from adjoint.compiler import compile as compile_module
from adjoint.data import Rows
from adjoint.errors import InvalidValueError, TypeRuleError, plural
from adjoint.ir import Function, IRModule
from adjoint.kernel.target import available_cores
from adjoint.paths import FilePath
from adjoint.runtime.bound import Bound, rows_present
from adjoint.runtime.partial_batch import PartialBatch
from adjoint.runtime.turn import Turn
from adjoint.training.checkpoint import Checkpoint, check_same, read_checkpoint
from adjoint.training.constructor import constructor
from adjoint.training.epochs import Callback, EpochResult, Epochs, Plan, epoch_order
from adjoint.training.finite import refuse_array, refuse_loss
from adjoint.training.gather import given_rows
from adjoint.training.layout import StepLayout
from adjoint.training.predict import Predictor, inference_function
from adjoint.training.profile import Profile, profile_step
from adjoint.training.progress import Progress, resumed_order
from adjoint.training.state import TrainerState

__all__ = ["Trainer"]


class Trainer(TrainerState):
    """Trains and evaluates a module created by `SetupTrainer`.

    Parameters, states, optimizer states and hyperparameters stay in place between steps, and a step updates them
    there. Functions are compiled on demand: the step at the first `update` (or `compile`), the model at the first
    `predict`.

    Parameters
    ----------
    module : IRModule
        A module with the functions ``backbone`` and ``step`` and the attributes set by `SetupTrainer`.
    threads : int, optional
        Number of threads of the compiled functions; default: as in `options`, or the number of cores available to this
        process. Results are bitwise identical for any number.
    seed : int, default 0
        Seed of `init_parameters`.
    options : CompileOptions, optional
        Compile options.
    check_finite : bool, default False
        Whether to reject batches with NaN or infinity before the step, and a loss that is not finite after it (when the
        parameters have already been updated). This takes an extra pass over each batch.

    Attributes
    ----------
    hyper : Hyper
        Hyperparameters by name: ``trainer.hyper["lr"] = 0.05`` takes effect in the next step.

    Notes
    -----
    `update`, `run_epoch` and `predict` may be called from several Python threads: calls are serialized, and a
    prediction uses the parameters between two steps.

    Parameters have no values until `init_parameters` or `load_params`, and nothing runs before that. States, the
    optimizer's state and the hyperparameters start from their initial values; states that the module's attribute
    ``init`` does not list start from zeros.
    """

    def __init__(
        self,
        module: IRModule,
        threads: int | None = None,
        seed: int = 0,
        options: CompileOptions | None = None,
        check_finite: bool = False,
    ) -> None:
        layout = StepLayout(module)
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise InvalidValueError(f"Trainer: seed must be an integer of at least 0, got {seed!r}")
        self.module = module
        options = CompileOptions() if options is None else options
        if threads is not None:
            options = replace(options, threads=threads)
        self.options = replace(options, threads=options.threads or available_cores())
        self._batch = layout.batch
        self._input_num = layout.inputs
        super().__init__(layout, seed)
        self._check_finite = check_finite
        self._executables: dict[str, Executable] = {}
        # Step and model share arrays, hence a common turn.
        self._turn = Turn()
        # Replaced by the bound entry by the first step, so that others check neither parameters nor compilation.
        self._step: Callable[..., Any] = self._first_step
        self._epochs: Epochs | None = None
        self._progress = Progress()
        self._predict: Callable[..., Any] = self._first_predict

    if not TYPE_CHECKING:  # type checkers would accept any attribute

        def __setattr__(self, name: str, value: object) -> None:
            if type(self) is Trainer:  # a subclass may have attributes of its own
                self._check_attribute(name)
            super().__setattr__(name, value)

    def __repr__(self) -> str:
        size = sum(type_.size for type_ in self._params.types.values())
        step = "compiled" if "step" in self._executables else "not compiled"
        values = "" if self._params.loaded else ", no values yet"
        parameters = f"{plural(len(self._params.types), 'parameter')} of {plural(size, 'element')}"
        return f"<Trainer: {parameters}{values}; step {step}; {plural(self.options.threads or 1, 'thread')}>"

    def compile(self) -> "Trainer":
        """Compile the step now, instead of at the first `update`; returns the trainer."""
        with self._compiling:
            if "step" not in self._executables:
                executable = compile_module(self.module, entries=("step",), options=self.options)
                self._bound = executable["step"].bind(
                    self._resident(), turn=self._turn, batch=self._partial, name="update"
                )
                self._epochs = Epochs(
                    self._bound, self._batch, self.hyper, self.options, self._check_finite, self._progress
                )
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
            If the number, a shape or a dtype of the arrays is wrong; nothing has been modified.
        InvalidValueError
            If the parameters have no values yet, or an index is out of range; nothing has been modified. With
            `check_finite`, if the loss is not finite.
        DataError
            With `check_finite`, if the batch contains NaN or infinity; nothing has been modified.
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
        resume: bool = False,
    ) -> EpochResult:
        """Make one pass over a dataset, with results bitwise identical to calling `update` per batch.

        Over arrays it runs inside native code: rows are gathered, converted and checked there, and Python is woken
        for the callback and for Ctrl-C. Batches of any other kind are taken from a thread that prepares them ahead.

        Parameters
        ----------
        data : sequence of numpy.ndarray or Rows, or iterable of batches
            Arrays [N, ...] to split into batches of as many rows as the model is built for: its inputs, then the
            targets, with the step's dtypes or wrapped in `Rows`. Any other iterable is consumed by a thread that
            prefetches at most three batches; each batch is a tuple of the arguments of `update`.
        shuffle : bool, default True
            Whether to visit rows in random order, ``numpy.random.default_rng(seed).permutation(N)``. Does not apply to
            iterables of batches.
        seed : int or sequence of int, optional
            Seed of the order; default: the trainer's seed and the number of epochs started, so that each epoch has a
            different, reproducible order.
        every : int, default 100
            Steps between calls of `callback`.
        callback : callable, optional
            Called as ``callback(steps done, their losses)`` every `every` steps and after the last. A true result stops
            the epoch, as does an exception; it may use the trainer in any way.
        schedule : mapping of str to array_like, optional
            Values of hyperparameters, one per step of the epoch or up to the limit, set before that step. The last
            value remains set.
        drop_last : bool, default True
            Whether to drop an incomplete last batch. Otherwise, the last step trains on the rows that are left.
        limit : int, optional
            Maximum number of steps of this call; default: no limit.
        resume : bool, default False
            Whether to continue the last epoch where a limit, the callback or an exception ended it, or where it was
            saved; begins the next epoch if there is none to continue. Pass the other arguments as before: the data and
            the schedule of the whole epoch, and an iterable that yields its batches from the first, of which those of
            completed steps are skipped. The callback's number of steps and losses, and the result's, are those of the
            whole epoch.

        Returns
        -------
        EpochResult
            The losses of all steps, their number, the time in seconds, and whether the callback stopped the epoch.

        Raises
        ------
        TypeRuleError
            If arrays, batches or settings do not match the step.
        InvalidValueError
            If the parameters have no values yet. If an index is out of range, with its row and value, before the step
            that contains it; earlier steps have been completed. If a schedule has the wrong length, or there are fewer
            rows than a step takes. If the rows, `shuffle`, `drop_last` or `seed` are not those of the epoch to be
            resumed.
        NameLookupError
            If the schedule names an unknown hyperparameter.

        Notes
        -----
        An epoch always ends after a complete step, and `last_epoch` holds the number of completed steps.
        """
        self._require_params("run_epoch")
        self.compile()
        assert self._epochs is not None  # compile has made it
        self._epochs.last = None
        plan = Plan({} if schedule is None else schedule, every, callback, limit)
        rows = given_rows(data)
        position = self._progress.resumable() if resume else None
        if rows is None:
            return self._epochs.over_batches(data, self.update, plan, position)
        order = epoch_order(shuffle, (self.seed, self._progress.begun) if seed is None else seed)
        if position is not None:
            order = resumed_order(position, shuffle, drop_last, None if seed is None else order)
        return self._epochs.over_rows(rows, order, shuffle, drop_last, plan, position)

    @property
    def epochs(self) -> int:
        """Number of epochs begun so far, without one that ``run_epoch(..., resume=True)`` would continue."""
        return self._progress.finished

    @property
    def steps_to_resume(self) -> int:
        """Number of completed steps of the epoch that ``run_epoch(..., resume=True)`` would continue, or 0."""
        return self._progress.done

    @property
    def last_epoch(self) -> EpochResult | None:
        """The result of the last `run_epoch`, even if an exception ended it; None if no step was started."""
        return None if self._epochs is None else self._epochs.last

    def predict(self, *inputs: Any) -> Any:
        """Compute the outputs of the model, without changing parameters or states.

        Runs the module's function ``backbone_inference`` if it exists, otherwise ``backbone``.

        Parameters
        ----------
        *inputs : numpy.ndarray
            The inputs of the model, with any number of rows. More rows than the model was built for are computed batch
            by batch; for one row, and for up to 8, the model is compiled again when so few are first predicted. The
            last bits of a row's outputs may depend on the number of rows. A model that combines the rows of a batch,
            such as batch normalization without ``backbone_inference``, combines those of each batch that are present.

        Returns
        -------
        numpy.ndarray or tuple of numpy.ndarray
            The outputs, with the same number of rows as the inputs.

        Raises
        ------
        InvalidValueError
            If the parameters have no values yet, or an index is out of range.
        """
        return self._predict(*inputs)

    def profile(self, *batch: Any, runs: int = 20) -> Profile:
        """Time the forward pass, the backward pass, the optimizer and each kernel on a batch; nothing is trained.

        Copies of the trainer's arrays as they are now are measured, so a trainer that has trained for long shows what
        a step late in training takes.

        Parameters
        ----------
        *batch : numpy.ndarray
            As in `update`.
        runs : int, default 20
            Number of measurements, of which the median is used.

        Raises
        ------
        InvalidValueError
            If the parameters have no values yet.
        """
        self._require_params("profile")
        return profile_step(self.module, self._resident(), batch, self.options, runs)

    def save(self, path: FilePath) -> None:
        """Write everything that training depends on to one file, from which `load` makes an equal trainer.

        The file has the module, parameters, states, the optimizer's state, hyperparameters, seed, number of epochs,
        and the order and losses of an epoch that is not finished. It does not have the data, `options`, `threads` and
        `check_finite`. While another Python thread trains, it is written as of between two steps.

        Parameters
        ----------
        path : str or os.PathLike
            A safetensors file in a directory that exists. An older one is replaced once the new one is on the disk.

        Raises
        ------
        CheckpointError
            If the file cannot be written; an older one is unchanged.
        InvalidValueError
            If the parameters have no values yet.
        """
        self._require_params("save")
        self._in_turn(self._checkpoint).write(path)

    @constructor
    def load(
        cls,  # noqa: N805  # `constructor` makes a class method
        path: FilePath,
        *,
        module: IRModule | None = None,
        threads: int | None = None,
        options: CompileOptions | None = None,
        check_finite: bool = False,
    ) -> "Trainer":
        """Make a trainer from a file of `save`; it continues with the same bits on any machine.

        Parameters
        ----------
        path : str or os.PathLike
            The file.
        module : IRModule, optional
            The module, to check that it is the one that was saved; default: the module in the file.
        threads, options, check_finite
            As for `Trainer`.

        Raises
        ------
        CheckpointError
            If the file is missing, damaged, from a newer version of adjoint, or not one of `save`.
        InvalidValueError
            If it was saved for another module; the message names the first difference.
        """
        saved = read_checkpoint(path)
        if module is not None:
            check_same(path, saved.module, module)
        made = cls(saved.module if module is None else module, threads, saved.seed, options, check_finite)
        for residents in (made._params, made._states, made._optimizer):
            residents.load(saved.groups[residents.kind])
        for name, array in saved.groups["hyperparameter"].items():
            np.copyto(made.hyper.arrays[name], array)
        made._progress = Progress(saved.begun, saved.position)
        return made

    def __reduce__(self) -> NoReturn:
        raise TypeRuleError(
            "a Trainer is not pickled or copied, because it holds compiled code; use trainer.save(path) and "
            "Trainer.load(path)"
        )

    def _checkpoint(self) -> Checkpoint:
        groups = {each.kind: each.export() for each in (self._params, self._states, self._optimizer)}
        groups["hyperparameter"] = {name: array.copy() for name, array in self.hyper.arrays.items()}
        return Checkpoint(self.module, self.seed, groups, self._progress.begun, self._progress.unfinished)

    def _first_step(self, *batch: Any) -> Any:
        self._require_params("update")
        self.compile()
        assert self._bound is not None  # compile has made it
        self._step = self._checked_step if self._check_finite else self._bound.call
        return self._step(*batch)

    def _checked_step(self, *batch: Any) -> float:
        """Run a step, checking the batch before and the loss after it."""
        for name, array in zip(self._batch, batch, strict=False):
            refuse_array("update", name, np.asarray(array))
        assert self._bound is not None  # _first_step has put this method in its place
        loss: float = self._bound.call(*batch)
        refuse_loss("update", loss)
        return loss

    def _first_predict(self, *inputs: Any) -> Any:
        self._require_params("predict")
        with self._compiling:
            if not isinstance(self._predict, Predictor):
                function = inference_function(self.module)
                self._predict = Predictor(function, self._input_num, self._bind_inference)
        return self._predict(*inputs)

    def _bind_inference(self, function: Function, partial: PartialBatch | None) -> Bound:
        """Compile a model and bind it to the parameters and states, for `Predictor`."""
        with self._compiling:
            executable = compile_module(function, options=self.options)[function.name]
            kept = self._params.arrays | self._states.arrays
            if partial is not None and partial.rows:
                kept[partial.rows] = rows_present(partial)
            return executable.bind(kept, turn=self._turn, batch=partial, name="predict")
