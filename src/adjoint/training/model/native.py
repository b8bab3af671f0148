"""Steps without what a call of a compiled function costs in Python.

`NativeSteps` gather rows by index into the compiled step, many steps a call. `CalledSteps` take batches that Python has
made, and check once for several of them what a call would check for each.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from adjoint.compiler import compile as compile_function
from adjoint.data import Rows
from adjoint.func.jit import Jitted
from adjoint.func.resident import ResidentCall
from adjoint.ir import TensorType
from adjoint.runtime.epoch import EpochLoop
from adjoint.tensor.plan import options
from adjoint.training.gather import gather_function, source_of
from adjoint.training.model.batches import row_type

__all__ = ["CalledSteps", "NativeSteps", "native_steps"]


class NativeSteps:
    """The steps of one batch size over rows of arrays.

    Parameters
    ----------
    call : ResidentCall
        The compiled step.
    tables : sequence of Rows
        The arrays of all its arguments.
    """

    def __init__(self, call: ResidentCall, tables: Sequence[Rows]) -> None:
        self._call = call
        used = [tables[number] for number in call.arguments]
        batch = {a.name: TensorType(a.shape, a.dtype) for a in call.bound.arguments}
        function = gather_function(batch, used)
        gather = compile_function(function, options=options.compile)[function.name]
        # It runs on the threads of the step, as the first part of each.
        self._gather = gather.bind({}, threads=call.bound.threads)
        self._arrays = [source_of(table.array)[0] for table in used]
        self.dtype = call.bound.outputs[0].dtype

    def loop(self, order: np.ndarray, history: np.ndarray, first: int = 0) -> EpochLoop:
        """A loop over the rows of `order`, whole batches, that stores losses; `first` steps are done already."""
        return EpochLoop(self._gather, self._call.bound, self._arrays, order, history, {}, first)

    def run(self, loop: EpochLoop, end: int) -> bool:
        """Continue until `end` steps are done; False, with nothing done, if the step has to be traced again."""
        if not self._call.prepare():
            return False
        try:
            loop.run(end)
        finally:
            self._call.finish()
        return True


def native_steps(step: Jitted, tables: Sequence[Rows], rows: int, wide: bool) -> NativeSteps | None:
    """The native steps of batches of so many rows; None if only Python can repeat the step."""
    types = [row_type(table, rows, wide) for table in tables]
    call = step.resident(*types)
    return None if call is None or not call.arguments else NativeSteps(call, tables)


class CalledSteps:
    """The steps of batches that Python has made.

    Parameters
    ----------
    step : Jitted
        The compiled step.

    Attributes
    ----------
    dtype : numpy.dtype
        That of the losses.
    """

    def __init__(self, step: Jitted) -> None:
        self._step = step
        self._calls: dict[Hashable, ResidentCall | None] = {}
        self.dtype = np.dtype(np.float32)

    def run(self, batches: Sequence[tuple[Any, ...]], losses: list[float]) -> None:
        """A step for each batch, in order; its loss is appended."""
        kinds = [_kinds(batch) for batch in batches]
        call = self._call(kinds[0]) if kinds.count(kinds[0]) == len(kinds) > 1 else None
        if call is not None:
            self._run_bound(call, batches, losses)
            return
        for batch in batches:
            loss = self._step(*batch)
            self.dtype = loss.dtype
            losses.append(loss.item())

    def _run_bound(self, call: ResidentCall, batches: Sequence[tuple[Any, ...]], losses: list[float]) -> None:
        """Steps of batches of arrays of one type."""
        bound, arguments, alone = call.bound.call, call.arguments, len(call.bound.outputs) == 1
        self.dtype = call.bound.outputs[0].dtype
        try:
            for batch in batches:
                found = bound(*[batch[number] for number in arguments])
                losses.append(found if alone else found[0])
        finally:
            call.finish()

    def _call(self, kinds: tuple[Any, ...] | None) -> ResidentCall | None:
        """The bound call for arrays of these types, if there is one."""
        if kinds is None:
            return None
        if kinds not in self._calls:
            self._calls[kinds] = self._step.resident(*(TensorType(*kind) for kind in kinds))
        call = self._calls[kinds]
        if call is None or call.prepare():
            return call
        del self._calls[kinds]  # something that the step depends on has been changed
        return None


def _kinds(batch: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The shapes and dtypes of the arrays of a batch; None if it has anything else."""
    if all(type(item) is np.ndarray for item in batch):
        return tuple((item.shape, item.dtype) for item in batch)
    return None
