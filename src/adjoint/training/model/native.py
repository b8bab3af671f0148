"""Steps in native code: rows are gathered by index into the compiled step, many steps a call."""

from collections.abc import Sequence

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

__all__ = ["NativeSteps", "native_steps"]


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
