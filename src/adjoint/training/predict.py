"""Prediction for any number of rows, with a model written for a fixed number."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError, plural
from adjoint.ir import Function, IRModule, TensorType
from adjoint.runtime.arguments import as_array, axes_fix, dtype_fix
from adjoint.runtime.bound import Bound
from adjoint.runtime.partial_batch import PartialBatch
from adjoint.training.layout import as_model, counts, inference
from adjoint.training.roles import with_roles
from adjoint.transforms.batch_axis import Axis, batch_inputs
from adjoint.transforms.inline_calls import inline_calls
from adjoint.transforms.mask_batch import mask_batch
from adjoint.transforms.resize_batch import resize_batch

__all__ = ["Predictor", "inference_function"]

#: Numbers of rows for which the model is compiled again when so few are first predicted: a single row, as a server gets
#: it, and a few. More of them would save little, and each takes as long to compile as the model.
_SMALL = (1, 8)


def inference_function(module: IRModule | Function, rows: int | None = None) -> Function:
    """The function that `Trainer.predict` runs, to be compiled alone: ``(inputs..., params..., states...) -> outputs``.

    Parameters
    ----------
    module : IRModule or Function
        A model, or a module created from it by `SetupTrainer`.
    rows : int, optional
        Number of rows of a batch; default: as many as the model is written for.

    Raises
    ------
    NameLookupError, TypeRuleError
        If it is no model.
    InvalidValueError
        If the outputs of a row depend on other rows, or the model cannot be rewritten for another number of them.
    """
    module = with_roles(as_model("inference_function", module))
    param_num, state_num = counts(module, "param_num", "state_num")
    function = inference(module, state_num)
    if rows is None:
        return function
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise InvalidValueError(f"inference_function: rows must be an integer of at least 1, got {rows!r}")
    flat = inline_calls(function)
    axes = batch_inputs(flat, flat.params[: len(flat.params) - param_num - state_num])
    try:
        return resize_batch(flat, axes, rows)
    except InvalidValueError as error:
        raise InvalidValueError(
            f"inference_function: the model cannot be rewritten for {plural(rows, 'row')}, because {error.message}; "
            "build it for that number"
        ) from error


class Predictor:
    """A model that predicts any number of rows.

    More rows than the model is written for are computed batch by batch, and what is missing from the last batch is
    filled up by copies of its last row, which a model that combines rows ignores. For few rows, the model is rewritten
    and compiled again when they are first predicted, so that a single row does not cost as much as a batch.

    Parameters
    ----------
    function : Function
        ``(inputs..., params..., states...) -> (outputs...)``.
    input_num : int
        Number of its inputs.
    bind : callable
        Compiles a function and binds it to the model's parameters and states, with the given `PartialBatch`.
    """

    def __init__(
        self, function: Function, input_num: int, bind: Callable[[Function, PartialBatch | None], Bound]
    ) -> None:
        self._function = flat = inline_calls(function)
        self._bind = bind
        self._axes = axes = batch_inputs(flat, flat.params[:input_num])
        self._inputs = {p.label: (p.type, axes.of.get(p)) for p in flat.params[:input_num]}
        self._outputs = [(r.type, axes.of.get(r)) for r in flat.results]
        if axes.rows == 1 and all(t.shape[:1] == (1,) for t, _ in (*self._inputs.values(), *self._outputs)):
            # No analysis can find the axis of a single row, but there is only one that it can be.
            self._inputs = {name: (t, Axis(0, 1)) for name, (t, _) in self._inputs.items()}
            self._outputs = [(t, Axis(0, 1)) for t, _ in self._outputs]
        whole, partial = self._whole_batches()
        self._takes_fewer = partial is not None
        #: Compiled entry points by their number of rows.
        self._runs: dict[int, Callable[..., Any]] = {axes.rows: bind(whole, partial).call}
        combines = bool(axes.combines or axes.mixed)
        self._sizes = (axes.rows,) if combines else (*(n for n in _SMALL if n < axes.rows), axes.rows)

    def __call__(self, *inputs: Any) -> Any:
        """The outputs for these rows: an array, or a tuple of arrays."""
        arrays = [a if isinstance(a, np.ndarray) else self._converted(n, a) for n, a in enumerate(inputs)]
        arrays = [a if a.flags.c_contiguous else np.ascontiguousarray(a) for a in arrays]
        if any(axis is None for _, axis in self._outputs):
            return self._runs[self._axes.rows](*arrays)
        count = self._count(arrays)
        run = self._runs.get(count)
        if run is not None:
            return run(*arrays)
        size, run = self._entry_for(count)
        results = [np.empty(_shape(t, axis, count), t.dtype) for t, axis in self._outputs]
        for start in range(0, count, size):
            stop = min(start + size, count)
            made = run(*(self._part(a, n, start, stop, size) for n, a in enumerate(arrays)))
            for (_, axis), result, part in zip(
                self._outputs, results, made if len(results) > 1 else (made,), strict=True
            ):
                result[_rows(axis, start, stop)] = part[_rows(axis, 0, stop - start)]
        return results[0] if len(results) == 1 else tuple(results)

    def _whole_batches(self) -> tuple[Function, PartialBatch | None]:
        """The function for whole batches; if it combines rows, one that is told how many are present."""
        if not self._axes.combines and not self._axes.mixed:
            return self._function, None
        name = "rows"
        while any(p.label == name for p in self._function.params):
            name += "_"
        each = {label: axis.each for label, (_, axis) in self._inputs.items() if axis is not None}
        try:
            return mask_batch(self._function, self._axes, name), PartialBatch(self._axes.rows, each, name)
        except InvalidValueError as error:
            return self._function, PartialBatch(self._axes.rows, each, reason=error.message)

    def _entry_for(self, count: int) -> tuple[int, Callable[..., Any]]:
        """The entry point for so many rows, and how many it takes at a time; compiled now if it is new."""
        size = next((n for n in self._sizes if 0 < count <= n), self._axes.rows)
        if size not in self._runs:
            try:
                self._runs[size] = self._bind(resize_batch(self._function, self._axes, size), None).call
            except InvalidValueError:
                self._sizes = (self._axes.rows,)
                size = self._axes.rows
        return size, self._runs[size]

    def _converted(self, number: int, given: Any) -> np.ndarray:
        """An input that is no array, as one; numbers of lists get the dtype of the input, as in a step."""
        if number >= len(self._inputs):
            return np.zeros(0)  # one too many, which `_count` refuses
        name, (type_, _) = list(self._inputs.items())[number]
        array = as_array("predict", name, given)
        scalar = isinstance(given, np.generic)
        return array if scalar or not np.can_cast(array.dtype, type_.dtype, "same_kind") else array.astype(type_.dtype)

    def _count(self, arrays: Sequence[np.ndarray]) -> int:
        """The number of rows of all arrays; raises if they do not match."""
        names = ", ".join(self._inputs)
        if len(arrays) != len(self._inputs):
            raise TypeRuleError(f"predict: the model takes {names}, got {plural(len(arrays), 'array')}; pass one each")
        counts = set()
        for (name, (type_, axis)), array in zip(self._inputs.items(), arrays, strict=True):
            count = array.shape[0] // axis.each if axis is not None and array.ndim else self._axes.rows
            if array.dtype != type_.dtype or array.shape != _shape(type_, axis, count):
                rows = "" if axis is None else " with any number of rows"
                fix = dtype_fix(type_.dtype, array.dtype)
                if array.shape != _shape(type_, axis, count):
                    fix = axes_fix(name, type_.shape, array.shape) or "reshape it, or build the model for this shape"
                raise TypeRuleError(
                    f"predict: {name} must be {type_}{rows}, got {array.dtype}{list(array.shape)}; {fix}"
                )
            if axis is not None:
                counts.add(count)
        if len(counts) > 1:
            raise TypeRuleError(
                f"predict: {names} must have the same number of rows, got {sorted(counts)}; shorten the longer ones"
            )
        return counts.pop()

    def _part(self, array: np.ndarray, number: int, start: int, stop: int, size: int) -> np.ndarray:
        """Some rows of an input, filled up unless the entry point takes fewer."""
        _, axis = list(self._inputs.values())[number]
        if axis is None:
            return array
        part = array[start * axis.each : stop * axis.each]
        missing = 0 if self._takes_fewer else (size - (stop - start)) * axis.each
        return np.concatenate([part, np.repeat(part[-1:], missing, axis=0)]) if missing else part


def _shape(type_: TensorType, axis: Axis | None, count: int) -> tuple[int, ...]:
    """The shape of a tensor with that number of rows."""
    if axis is None:
        return type_.shape
    return tuple(count * axis.each if n == axis.position else size for n, size in enumerate(type_.shape))


def _rows(axis: Axis | None, start: int, stop: int) -> tuple[slice, ...]:
    """An index that selects rows."""
    assert axis is not None  # outputs without a batch axis are returned as they are
    return (*(slice(None),) * axis.position, slice(start * axis.each, stop * axis.each))
