"""Evaluation: the network and its metrics as one compiled step."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adjoint.data import Prefetcher
from adjoint.errors import InvalidValueError
from adjoint.func.jit import Jitted, jit
from adjoint.modules import Module
from adjoint.nn import ModuleList
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.making import from_array
from adjoint.training.model.batches import as_tuple, batches_of
from adjoint.training.model.native import NativeSteps, native_steps

__all__ = ["Evaluator", "predictor"]


class _EvaluateOneStep(Module):
    """One batch through the network and the metrics; returns its loss, and outputs if metrics collect them."""

    def __init__(
        self, network: Module, loss_fn: Callable[..., Any] | None, metrics: Sequence[Module], outputs: bool
    ) -> None:
        super().__init__()
        self.network, self.loss_fn, self.metrics, self.outputs = network, loss_fn, ModuleList(metrics), outputs

    def forward(self, *batch: Any) -> Any:
        if self.loss_fn is None:
            outputs, targets, loss = None, list[Any](), self.network(*batch)
        else:
            *inputs, target = batch
            outputs, targets = self.network(*inputs), [target]
            loss = self.loss_fn(outputs, target)
        for metric in self.metrics:
            if metric.takes_loss:
                metric.update(loss, len(batch[0]))
            else:
                metric.update(outputs, *targets)
        # A loop in native code stores a number for each step.
        number = loss.reshape(-1)[0]
        return (number, outputs) if self.outputs else number


class Evaluator:
    """Evaluates a network: what its metrics say about all rows of a dataset.

    Parameters
    ----------
    network : Module
        The network. In evaluation mode while it is evaluated.
    loss_fn : callable or None
        Takes its outputs and the targets; None for a network that returns the loss.
    metrics : mapping of str to Metric
        The metrics by name.
    """

    def __init__(self, network: Module, loss_fn: Callable[..., Any] | None, metrics: Mapping[str, Any]) -> None:
        self.network, self.metrics = network, dict(metrics)
        self._collecting = [m for m in self.metrics.values() if not m.compiled]
        compiled = [m for m in self.metrics.values() if m.compiled]
        self._step: Jitted = jit(_EvaluateOneStep(network, loss_fn, compiled, bool(self._collecting)))
        self._native: dict[tuple[int, tuple[int, ...]], NativeSteps | None] = {}

    def run(self, dataset: Any, wide: bool, pause: Callable[[], bool] = lambda: False) -> dict[str, Any]:
        """The results by name. `pause` is called now and then, and ends the evaluation if it returns True."""
        modes = [(module, module.training) for module in self.network.modules()]
        self.network.eval()
        for metric in self.metrics.values():
            metric.clear()
        try:
            with no_grad():
                arrays = dataset.arrays() if callable(getattr(dataset, "arrays", None)) else None
                if arrays is None or self._collecting or not self._over_arrays(arrays, wide):
                    self._over_batches(dataset, pause)
        finally:
            for module, mode in modes:
                object.__setattr__(module, "training", mode)
        return {name: metric.eval() for name, metric in self.metrics.items()}

    def _over_arrays(self, arrays: Any, wide: bool) -> bool:
        """All rows in native code, in their order; False, with nothing done, if only Python can repeat the step."""
        rows = arrays.batch_size
        order = np.ascontiguousarray(arrays.order(0), np.int64)
        whole, rest = divmod(len(order), rows)
        parts = [(rows, order[: whole * rows])] if whole else []
        if rest and not arrays.drop_last:
            parts.append((rest, order[whole * rows :]))
        if any(self._steps_of(arrays, size, wide) is None for size, _ in parts):
            return False
        for size, picked in parts:
            steps = len(picked) // size
            native = self._steps_of(arrays, size, wide)
            while native is not None and not native.run(native.loop(picked, np.zeros(steps, native.dtype)), steps):
                native = self._steps_of(arrays, size, wide, anew=True)
        return True

    def _steps_of(self, arrays: Any, rows: int, wide: bool, *, anew: bool = False) -> NativeSteps | None:
        """The native steps of batches of so many rows of these arrays; those of other arrays are forgotten."""
        tables = tuple(id(table.array) for table in arrays.tables)
        key = (rows, tables)
        if anew or key not in self._native:
            self._native = {known: steps for known, steps in self._native.items() if known[1] == tables}
            self._native[key] = native_steps(self._step, arrays.tables, rows, wide)
        return self._native[key]

    def _over_batches(self, dataset: Any, pause: Callable[[], bool]) -> None:
        count = 0
        with Prefetcher(batches_of(dataset, 0, 0)) as batches:
            for item in batches:
                batch = as_tuple(item)
                found = self._step(*batch)
                if self._collecting:
                    arrays = [np.asarray(x) for x in (found[1], batch[-1])]
                    for metric in self._collecting:
                        metric.update(*arrays)
                count += 1
                if pause():
                    return
        if not count:
            raise InvalidValueError("evaluate: the dataset must have at least one batch, got none; check its filters")


def predictor(network: Module) -> Callable[..., Any]:
    """A compiled function that calls the network in evaluation mode."""

    @jit
    def predict(*inputs: Any) -> Any:
        return network(*inputs)

    def call(*inputs: Any) -> Any:
        modes = [(module, module.training) for module in network.modules()]
        network.eval()
        try:
            with no_grad():
                return predict(*(from_array(x) if isinstance(x, np.ndarray) else x for x in inputs))
        finally:
            for module, mode in modes:
                object.__setattr__(module, "training", mode)

    return call
