"""The loop of a training run: epochs, in native code where the data are arrays, and callbacks when they are due.

Native code runs many steps per call. It stops at the steps that callbacks ask for, and about every 50 ms, so that
Ctrl-C ends the run and callbacks that ask for a time are called.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.data import Prefetcher
from adjoint.errors import InvalidValueError
from adjoint.runtime.epoch import EpochLoop
from adjoint.training.model.batches import as_tuple, batches_of, size_of, steps_of
from adjoint.training.model.native import CalledSteps, NativeSteps, native_steps
from adjoint.training.model.run import Run

if TYPE_CHECKING:
    from adjoint.training.model.model import Model

__all__ = ["Calls", "Loop"]

#: Most steps in a row over batches that Python makes, and the fewest batches that are prepared before they are needed.
_IN_A_ROW, _AHEAD = 16, 3

#: Seconds of native steps after which control returns to Python.
_PAUSE = 0.05


class Calls:
    """The callbacks of a run, and when they are due. Those that save the run are called after the others."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.callbacks = sorted(run.callbacks, key=lambda callback: bool(getattr(callback, "saves", False)))
        self._stepping = [c for c in self.callbacks if c.every is not None or c.seconds is not None]
        self._told = {id(c): time.perf_counter() for c in self._stepping}

    def tell(self, event: str, *arguments: Any) -> None:
        """Call a method of every callback."""
        for callback in self.callbacks:
            getattr(callback, event)(self.run, *arguments)

    def until_due(self) -> int:
        """The number of steps until the next step at which a callback is due."""
        step = self.run.step
        return min((c.every - step % c.every for c in self._stepping if c.every is not None), default=1 << 62)

    def after_steps(self) -> None:
        """Tell those that are due after the step that has been done."""
        step, now = self.run.step, time.perf_counter()
        for callback in self._stepping:
            due = callback.every is not None and step % callback.every == 0
            late = callback.seconds is not None and now - self._told[id(callback)] >= callback.seconds
            if due or late:
                callback.on_train_step_end(self.run)
                self._told[id(callback)] = time.perf_counter()


class Loop:
    """Runs the epochs of a run.

    Parameters
    ----------
    model : Model
        What is trained.
    run : Run
        The run.
    evaluate : callable
        Evaluates the model and stores the results in the run; called at the end of epochs, as `valid_frequency` says.
    """

    def __init__(self, model: "Model", run: Run, evaluate: Callable[[Calls], None]) -> None:
        self._model, self._run, self._evaluate = model, run, evaluate
        self.calls = Calls(run)
        self._native: dict[int, NativeSteps | None] = {}
        self._called = CalledSteps(model.compiled_step)

    def run(self, first: int, done: int) -> None:
        """Run the epochs from `first` on, counted from 0, of which `done` steps have been done."""
        run, calls = self._run, self.calls
        try:
            calls.tell("on_train_begin")
            for epoch in range(first, run.epochs):
                if run.stopped:
                    break
                self._epoch(epoch, done)
                done = 0
            calls.tell("on_train_end")
        except BaseException as error:
            for callback in calls.callbacks:
                callback.on_exception(run, error)
            raise

    def _epoch(self, epoch: int, done: int) -> None:
        run, calls, dataset = self._run, self.calls, self._run.dataset
        arrays = dataset.arrays() if callable(getattr(dataset, "arrays", None)) else None
        steps = steps_of(dataset)
        run.batch_size = getattr(dataset, "batch_size", None) if arrays is None else arrays.batch_size
        run.begin_epoch(epoch + 1, done, steps)
        calls.tell("on_train_epoch_begin")
        self._model.train_step.train()
        if arrays is None or not self._over_arrays(arrays, epoch, done):
            self._over_batches(epoch, run.step_in_epoch)
        if run.step_in_epoch == 0 and not run.stopped:
            raise InvalidValueError(
                "Model.train: the dataset must have at least one batch, got none; check its filters, and that "
                "drop_last does not remove an incomplete only one"
            )
        if run.stopped and run.steps_per_epoch is not None and run.step_in_epoch < run.steps_per_epoch:
            return
        run.finish_epoch()
        self._evaluate(calls)
        calls.tell("on_train_epoch_end")

    # Rows of arrays, in native code

    def _over_arrays(self, arrays: Any, epoch: int, done: int) -> bool:
        """An epoch over rows of arrays; False, with nothing done, if only Python can repeat the step."""
        run, rows = self._run, arrays.batch_size
        order = np.ascontiguousarray(arrays.order(epoch), np.int64)
        whole, rest = divmod(len(order), rows)
        parts = [(rows, 0, whole)] if whole else []
        if rest and not arrays.drop_last:
            parts.append((rest, whole, whole + 1))
        run.steps_per_epoch = parts[-1][2] if parts else 0
        for size, begin, end in parts:
            if done >= end or run.stopped:
                continue
            native = self._steps_of(arrays, size)
            if native is None:
                return False
            history = run.room(run.steps_per_epoch, native.dtype)
            picked = order[begin * rows : begin * rows + (end - begin) * size]
            self._native_steps(arrays, size, picked, history[begin:], max(done - begin, 0), end - begin)
        return True

    def _steps_of(self, arrays: Any, rows: int, *, anew: bool = False) -> NativeSteps | None:
        if anew or rows not in self._native:
            started = time.perf_counter()
            self._native[rows] = native_steps(self._model.compiled_step, arrays.tables, rows, self._model.is_wide)
            self._run.compile_seconds += time.perf_counter() - started
        return self._native[rows]

    def _native_steps(
        self, arrays: Any, rows: int, order: np.ndarray, history: np.ndarray, first: int, end: int
    ) -> None:
        """Steps of one batch size, from `first` to `end`."""
        run, native = self._run, self._steps_of(arrays, rows)
        assert native is not None
        loop: EpochLoop = native.loop(order, history, first)
        most = 1
        while loop.done < end and not run.stopped:
            start, began = loop.done, time.perf_counter()
            try:
                goal = min(end, start + most, start + self.calls.until_due())
                if not native.run(loop, goal):  # something that the step depends on has been changed
                    native = self._steps_of(arrays, rows, anew=True)
                    assert native is not None
                    loop = native.loop(order, history, start)
                    continue
            finally:
                seconds, steps = time.perf_counter() - began, loop.done - start
                run.advance(steps, steps * rows, seconds)
            most = _pace(most, steps, seconds)
            self.calls.after_steps()

    # Batches of any dataset

    def _over_batches(self, epoch: int, done: int) -> None:
        """An epoch over batches that a thread prepares, several steps in a row where they are short."""
        run, most = self._run, 1
        with Prefetcher(batches_of(run.dataset, epoch, done), _AHEAD) as batches:
            while not run.stopped:
                start, began = run.step, time.perf_counter()
                items = batches.ready(min(most, self.calls.until_due()))
                if not items:
                    break
                self._steps_over([as_tuple(item) for item in items], began)
                most = min(_IN_A_ROW, _pace(most, run.step - start, time.perf_counter() - began))
                batches.depth = max(_AHEAD, 2 * most)
                self.calls.after_steps()

    def _steps_over(self, batches: list[tuple[Any, ...]], began: float) -> None:
        """A step for each batch; the time since `began` is counted as that of these steps."""
        run = self._run
        losses: list[float] = []
        try:
            self._called.run(batches, losses)
        finally:
            first, count = run.step_in_epoch, len(losses)
            run.room(first + count, self._called.dtype)[first : first + count] = losses
            run.advance(count, sum(size_of(batch) for batch in batches[:count]), time.perf_counter() - began)


def _pace(most: int, steps: int, seconds: float) -> int:
    """How many steps may follow in a row, after so many in a row took so long."""
    return min(4 * most, max(1, int(_PAUSE * steps / max(seconds, 1e-9))))
