"""Whole epochs, over rows of arrays in native code or over batches prepared by a thread."""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from adjoint.compiler import CompileOptions
from adjoint.compiler import compile as compile_module
from adjoint.data import Prefetcher, Rows
from adjoint.errors import AdjointError, InvalidValueError, TypeRuleError, plural
from adjoint.ir import TensorType
from adjoint.lazy_dataclass import dataclass
from adjoint.runtime.bound import Bound
from adjoint.runtime.epoch import EpochLoop
from adjoint.training.arrays import Hyper
from adjoint.training.finite import refuse_array, refuse_loss
from adjoint.training.gather import gather_function, rows_per_step, source_of, tables_of
from adjoint.training.progress import Position, Progress

__all__ = ["Callback", "EpochResult", "Epochs", "Plan", "epoch_order"]

#: Seconds of native steps after which control returns to Python to check for Ctrl-C.
_BREATH = 0.05

#: Maximum number of cached gathering functions, one per combination of shapes, dtypes and scales.
_GATHERS = 8


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EpochResult:
    """Result of an epoch.

    Parameters
    ----------
    losses : numpy.ndarray
        [steps]: the loss of every step, before its update, in the loss's dtype.
    steps : int
        Number of completed steps.
    seconds : float
        Time from the first step to the end of the last, including callbacks and excluding compilation; of a resumed
        epoch, from its first step after the interruption.
    stopped : bool
        Whether the callback stopped the epoch.
    """

    losses: np.ndarray
    steps: int
    seconds: float
    stopped: bool

    def __repr__(self) -> str:
        losses = f", losses {self.losses[0]:.4g} to {self.losses[-1]:.4g}" if len(self.losses) else ""
        stopped = ", stopped by the callback" if self.stopped else ""
        return f"<EpochResult: {plural(self.steps, 'step')} in {self.seconds:.3g} s{losses}{stopped}>"


#: Called with the number of completed steps and the losses so far; a true result stops the epoch.
Callback = Callable[[int, np.ndarray], object]


@dataclass(frozen=True, slots=True)
class Plan:
    """Arguments of `Trainer.run_epoch` that do not depend on the kind of data."""

    schedule: Mapping[str, object]
    every: int
    callback: Callback | None
    limit: int | None

    def __post_init__(self) -> None:
        for name, number in (("every", self.every), ("limit", 1 if self.limit is None else self.limit)):
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise InvalidValueError(f"run_epoch: {name} must be an integer of at least 1, got {number!r}")
        if self.callback is not None and not callable(self.callback):
            raise TypeRuleError(
                f"run_epoch: callback must be callable as callback(step, losses), got {self.callback!r}; pass a "
                "function"
            )
        if not isinstance(self.schedule, Mapping):
            raise TypeRuleError(
                f"schedule must map names of hyperparameters to values, got {type(self.schedule).__name__}; "
                'pass a dict such as {"lr": values}'
            )


def epoch_order(shuffle: bool, seed: int | Sequence[int]) -> Callable[[int], np.ndarray]:
    """The order of an epoch as a function of the number of rows, the same as in `data.batches`."""
    try:
        generator = np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise InvalidValueError(
            f"run_epoch: seed must be an integer of at least 0 or a sequence of them, got {seed!r}; choose another"
        ) from error
    return generator.permutation if shuffle else np.arange


class _Watch:
    """Counts the steps of an epoch, stores their losses, and calls the callback."""

    def __init__(self, dtype: np.dtype, room: int, plan: Plan, position: Position | None) -> None:
        self.history = np.zeros(room, dtype)
        self.begun = 0 if position is None else position.done
        if position is not None:
            self.history[: self.begun] = position.losses
        self.every = plan.every
        self.stopped = False
        self._callback = plan.callback
        self._told = self.begun
        self._started = time.perf_counter()

    def keep(self, step: int, loss: float) -> None:
        """Store the loss of a step, growing the array if necessary."""
        if step == len(self.history):
            self.history = np.concatenate([self.history, np.zeros_like(self.history)])
        self.history[step] = loss

    def tell(self, done: int) -> bool:
        """Call the callback, and return whether it asks to stop."""
        self._told = done
        if self._callback is not None and self._callback(done, self._losses(done)):
            self.stopped = True
        return self.stopped

    def finish(self, done: int) -> None:
        """Call the callback for steps that it has not been notified of."""
        if done > self._told:
            self.tell(done)

    def result(self, done: int) -> EpochResult:
        """The result after that many steps."""
        return EpochResult(self._losses(done), done, time.perf_counter() - self._started, self.stopped)

    def _losses(self, done: int) -> np.ndarray:
        losses = self.history[:done]
        losses.flags.writeable = False
        return losses


class _Count:
    """Counts the steps of an epoch over batches, so that another Python thread finds no step done but not counted.

    Attributes
    ----------
    done : int
        Number of completed steps.
    exhausted : bool
        Whether there are no more batches.
    """

    def __init__(self, step: Bound, watch: _Watch) -> None:
        self._step, self._watch = step, watch
        # Steps counted, and the runs of the entry point before the step in progress; replaced as a whole.
        self._at: tuple[int, int | None] = (watch.begun, None)
        self.exhausted = False

    @property
    def done(self) -> int:
        return self._at[0]

    def begin(self) -> None:
        """A step is about to run."""
        self._at = self.done, self._step.runs

    def settle(self) -> None:
        """Count the step that was begun if it has run. A signal may interrupt this, so it may be called again."""
        done, runs = self._at
        if runs is not None and self._step.runs > runs:
            self._watch.keep(done, self._step.outputs[0].item())
            done += 1
        self._at = done, None

    def position(self) -> Position | None:
        """Where the epoch is, in the turn of the step or between two steps."""
        (done, runs), losses = self._at, self._watch.history
        losses = losses[:done].copy()
        if runs is not None and self._step.runs > runs:
            losses = np.append(losses, self._step.outputs[0])
        return None if self.exhausted else Position(None, False, False, losses)


def _skip(items: Iterator[object], count: int) -> None:
    """Skip the batches of the steps that a resumed epoch has done."""
    skipped = sum(1 for _ in itertools.islice(items, count))
    if skipped < count:
        raise InvalidValueError(
            f"run_epoch: the epoch to be resumed has done {count} steps, got an iterable of {skipped} batches; pass "
            "all batches of the epoch, from its first"
        )


class Epochs:
    """Runs the epochs of one trainer.

    Parameters
    ----------
    step : Bound
        The compiled step; it takes a batch.
    batch : mapping of str to TensorType
        Names and types of the arrays of a batch.
    hyper : Hyper
        The trainer's hyperparameters.
    options : CompileOptions
        Compile options of the gathering function.
    check_finite : bool
        Whether to reject rows and losses that are not finite.
    progress : Progress
        Where the epochs keep their positions.

    Attributes
    ----------
    last : EpochResult or None
        Result of the last epoch, even if an exception ended it; reset by the caller before the next.
    """

    def __init__(
        self,
        step: Bound,
        batch: Mapping[str, TensorType],
        hyper: Hyper,
        options: CompileOptions,
        check_finite: bool,
        progress: Progress,
    ) -> None:
        self._progress = progress
        self.last: EpochResult | None = None
        self._step, self._batch, self._hyper = step, dict(batch), hyper
        self._options, self._check_finite = options, check_finite
        self._gathers: dict[object, Bound] = {}

    def over_rows(
        self,
        data: Sequence[np.ndarray | Rows],
        order: Callable[[int], np.ndarray],
        shuffle: bool,
        drop_last: bool,
        plan: Plan,
        position: Position | None,
    ) -> EpochResult:
        """One epoch over rows of arrays, or its rest from a position; `order` gives the order of that many rows."""
        tables = tables_of(self._batch, data)
        size, count = rows_per_step(self._batch), len(tables[0].array)
        total = count // size if drop_last else -(-count // size)
        if not total:
            raise InvalidValueError(
                f"run_epoch: a step takes {size} rows, got {count}; pass more, or use drop_last=False"
            )
        picked = order(count).astype(np.int64, copy=False)
        begun = 0 if position is None else position.done
        steps = total if plan.limit is None else min(total, begun + plan.limit)
        schedules = self._schedules(plan.schedule, total, steps)
        gather = self._gather(tables)
        watch = _Watch(self._step.outputs[0].dtype, steps, plan, position)
        rows = picked[: steps * size]
        missing = steps * size - len(rows)
        if missing:
            # Absent rows are copies of the last one, as in `PartialBatch`.
            rows = np.concatenate([rows, np.full(missing, rows[-1])])
            schedules |= self._present(steps, size - missing)
        loop = EpochLoop(
            gather, self._step, [source_of(t.array)[0] for t in tables], rows, watch.history, schedules, begun
        )

        def place() -> Position | None:
            done = loop.done
            return Position(picked, shuffle, drop_last, watch.history[:done].copy()) if done < total else None

        try:
            with self._progress.running(place, position is not None):
                if self._check_finite:
                    for name, table in zip(self._batch, tables, strict=True):
                        refuse_array("run_epoch", name, table.array)
                self._native(loop, steps, watch)
                watch.finish(loop.done)
        finally:
            self.last = watch.result(loop.done)
        return self.last

    def over_batches(
        self,
        data: object,
        update: Callable[..., float],
        plan: Plan,
        position: Position | None,
    ) -> EpochResult:
        """One epoch over batches that a thread prepares, through `update`, or its rest from a position."""
        if not isinstance(data, Iterable):
            raise TypeRuleError(
                f"run_epoch takes arrays ({', '.join(self._batch)}) or an iterable of batches of them, "
                f"got {type(data).__name__}; put the arrays in a tuple"
            )
        if position is not None and position.order is not None:
            raise TypeRuleError(
                f"run_epoch: the epoch to be resumed ran over arrays of {len(position.order)} rows, got batches; pass "
                "the arrays, or begin another epoch without resume"
            )
        schedules = self._schedules(plan.schedule)
        skipped = 0 if position is None else position.done
        watch = _Watch(self._step.outputs[0].dtype, skipped + 1024, plan, position)
        count = _Count(self._step, watch)
        try:
            with self._progress.running(count.position, position is not None), Prefetcher(data) as items:
                _skip(items, skipped)
                for batch in itertools.islice(items, plan.limit):
                    self._set(schedules, count.done)
                    count.begin()
                    try:
                        update(*self._arrays_of(batch))
                    except AdjointError as error:
                        error.begin_with("run_epoch", "update")
                        raise
                    finally:
                        count.settle()
                    if count.done % plan.every == 0 and watch.tell(count.done):
                        break
                else:
                    count.exhausted = plan.limit is None or count.done - skipped < plan.limit
                watch.finish(count.done)
        except AdjointError as error:
            error.add_note(
                f"{plural(count.done, 'step')} of the epoch {'was' if count.done == 1 else 'were'} done before"
            )
            raise
        finally:
            count.settle()
            self.last = watch.result(count.done)
        return self.last

    def _present(self, steps: int, last: int) -> dict[str, np.ndarray]:
        """The number of rows of each step, of which the last has fewer."""
        partial = self._step.batch
        if partial is None or not partial.rows:
            reason = "it was not set up for fewer" if partial is None else partial.reason
            raise InvalidValueError(
                f"run_epoch: a batch must have exactly {rows_per_step(self._batch)} rows, because {reason}, got {last} "
                "in the last one; use drop_last=True, or a batch size that divides the number of rows"
            )
        rows = np.full(steps, partial.most, np.int32)
        rows[-1] = last
        return {partial.rows: rows}

    def _native(self, loop: EpochLoop, steps: int, watch: _Watch) -> None:
        """Run native steps until all are done or the callback asks to stop."""
        breath = 1
        while loop.done < steps:
            start, before = loop.done, time.perf_counter()
            loop.run(min(steps, start + breath, start - start % watch.every + watch.every))
            if self._check_finite:
                refuse_loss("run_epoch", float(watch.history[start]))
            else:
                pace = (time.perf_counter() - before) / (loop.done - start)
                breath = min(4 * breath, max(1, int(_BREATH / max(pace, 1e-9))))
            if loop.done % watch.every == 0 and watch.tell(loop.done):
                return

    def _gather(self, tables: Sequence[Rows]) -> Bound:
        """The bound function that gathers the rows of a step from arrays like these."""
        key = tuple((t.array.shape, source_of(t.array)[1], t.array.dtype, float(t.scale)) for t in tables)
        if key not in self._gathers:
            function = gather_function(self._batch, tables)
            compiled = compile_module(function, options=self._options)[function.name]
            if len(self._gathers) == _GATHERS:
                del self._gathers[next(iter(self._gathers))]
            # It runs on the step's threads, as the first part of each.
            self._gathers[key] = compiled.bind({}, threads=self._step.threads)
        return self._gathers[key]

    def _schedules(self, schedule: Mapping[str, object], *steps: int) -> dict[str, np.ndarray]:
        """Values by name of hyperparameter; as many as one of the numbers of steps, where these are known."""
        found = {name: self._hyper.series(name, values) for name, values in schedule.items()}
        for name, values in found.items():
            if steps and len(values) not in steps:
                raise InvalidValueError(
                    f"schedule: {name} must have a value for each of the {steps[-1]} steps of this epoch, got "
                    f"{len(values)}; pass that many"
                )
        return found

    def _set(self, schedules: Mapping[str, np.ndarray], step: int) -> None:
        for name, values in schedules.items():
            if step >= len(values):
                raise InvalidValueError(
                    f"schedule: {name} has {plural(len(values), 'value')}, but there are more batches; pass one each"
                )
            self._hyper.arrays[name][()] = values[step]

    def _arrays_of(self, batch: object) -> Sequence[Any]:
        if not isinstance(batch, tuple | list):
            raise TypeRuleError(
                f"run_epoch: a batch must be a tuple of arrays ({', '.join(self._batch)}), got {type(batch).__name__}; "
                "pass one tuple per step"
            )
        if len(batch) != len(self._batch):
            return batch
        given = zip(batch, self._batch.values(), strict=True)
        # A tensor of the right dtype as an array that shares its memory, which the step takes faster.
        return [np.asarray(x) if getattr(x, "dtype", None) == type_.dtype else x for x, type_ in given]
