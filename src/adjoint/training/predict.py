"""Prediction for any number of rows, with a model compiled for a fixed batch size."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir import TensorType

__all__ = ["Predictor"]


class Predictor:
    """A bound model that is called in batches.

    Parameters
    ----------
    run : callable
        The bound entry point: takes arrays of exactly the types of `inputs` and returns an array per output, several as
        a tuple.
    inputs : mapping of str to TensorType
        Names and types of the inputs.
    outputs : sequence of TensorType
        Types of the outputs.
    """

    def __init__(
        self, run: Callable[..., Any], inputs: Mapping[str, TensorType], outputs: Sequence[TensorType]
    ) -> None:
        self._run = run
        self._inputs = dict(inputs)
        self._outputs = tuple(outputs)
        self._shapes = [t.shape for t in self._inputs.values()]
        sizes = {t.shape[:1] for t in (*self._inputs.values(), *self._outputs)}
        # Rows can be padded and split only if axis 0 of all inputs and outputs is the batch.
        self._rows = next(iter(sizes), ()) if len(sizes) == 1 else ()

    def __call__(self, *inputs: Any) -> Any:
        """The outputs for these rows: an array, or a tuple of arrays."""
        arrays = [np.asarray(x) for x in inputs]
        rows = self._rows[0] if self._rows else 0
        if not rows or [a.shape for a in arrays] == self._shapes:
            return self._run(*(np.ascontiguousarray(a) if a.ndim else a for a in arrays))
        count = self._count(arrays)
        results = [np.empty((count, *t.shape[1:]), t.dtype) for t in self._outputs]
        for start in range(0, count, rows):
            stop = min(start + rows, count)
            made = self._run(*(_batch(a, start, rows) for a in arrays))
            for result, part in zip(results, made if len(results) > 1 else (made,), strict=True):
                result[start:stop] = part[: stop - start]
        return results[0] if len(results) == 1 else tuple(results)

    def _count(self, arrays: Sequence[np.ndarray]) -> int:
        """The number of rows of all arrays; raises if they do not match."""
        names = ", ".join(self._inputs)
        if len(arrays) != len(self._inputs):
            raise TypeRuleError(f"predict: the model takes {names}, got {len(arrays)} arrays; pass one for each")
        for (name, type_), array in zip(self._inputs.items(), arrays, strict=True):
            if array.ndim != type_.rank or array.shape[1:] != type_.shape[1:] or array.dtype != type_.dtype:
                raise TypeRuleError(
                    f"predict: {name} must be {type_} with any number of rows, got {array.dtype}{list(array.shape)}; "
                    "reshape or convert it"
                )
        counts = {len(a) for a in arrays}
        if len(counts) != 1:
            raise TypeRuleError(
                f"predict: {names} must have the same number of rows, got {sorted(counts)}; shorten the longer ones"
            )
        return counts.pop()


def _batch(array: np.ndarray, start: int, rows: int) -> np.ndarray:
    """One batch of rows from `start`, filled by repeating the last row, which is valid data for the model."""
    part = array[start : start + rows]
    if len(part) < rows:
        part = np.concatenate([part, np.repeat(part[-1:], rows - len(part), axis=0)])
    return np.ascontiguousarray(part)
