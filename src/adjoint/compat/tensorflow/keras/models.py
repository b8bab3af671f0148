"""Models: `Sequential`, the functional interface and subclasses, with `compile`, `fit`, `evaluate` and `predict`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from adjoint.compat.tensorflow.data import Dataset
from adjoint.compat.tensorflow.gradients import Recording
from adjoint.compat.tensorflow.keras import losses, metrics, optimizers
from adjoint.compat.tensorflow.keras.callbacks import Callback, History
from adjoint.compat.tensorflow.keras.layers.base import KerasTensor, Layer
from adjoint.compat.tensorflow.variables import tensor_of
from adjoint.compat.uncovered import uncovered
from adjoint.data import ArrayDataset
from adjoint.errors import InvalidValueError
from adjoint.func.jit import jit
from adjoint.modules import Module
from adjoint.nn import ModuleList
from adjoint.saving import load, save
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.tensor import Tensor
from adjoint.training.callbacks import Callback as NativeCallback
from adjoint.training.model import Model as NativeModel
from adjoint.training.model import TrainOneStep

__all__ = ["Model", "Sequential"]
__getattr__ = uncovered(__name__, {"load_model": "make the model and call load_weights"}, "adjoint.Model")


class Model(Layer):
    """A network that trains itself: made of inputs and outputs, or a subclass with `call`.

    Parameters
    ----------
    inputs, outputs : KerasTensor or list, optional
        What `Input` returned, and what layers made of it.
    """

    def __init__(self, inputs: Any = None, outputs: Any = None, name: str | None = None, **settings: Any) -> None:
        super().__init__(name, **settings)
        self._inputs, self._outputs = inputs, outputs
        self.stop_training = False
        self.optimizer: Any = None
        self._loss: Any = None
        self._metrics: list[metrics.Metric] = []
        self._programs: dict[str, Any] = {}
        if outputs is not None:
            self._layers = ModuleList(_layers_of(outputs))
            self.built = True

    @property
    def layers(self) -> list[Layer]:
        """The layers."""
        return [module for module in self.modules() if isinstance(module, Layer) and module is not self]

    def call(self, inputs: Any) -> Any:
        """The outputs, computed layer by layer; a subclass defines its own."""
        if self._outputs is None:
            raise InvalidValueError(f"{self.name}: a model must define call(self, inputs), got none; add it")
        symbolic = self._inputs if isinstance(self._inputs, list | tuple) else [self._inputs]
        given = inputs if isinstance(inputs, list | tuple) else [inputs]
        known = {id(one): value for one, value in zip(symbolic, given, strict=True)}
        return _evaluated(self._outputs, known)

    # Training

    def compile(
        self, optimizer: Any = "rmsprop", loss: Any = None, metrics: Any = None, jit_compile: Any = None,
        run_eagerly: bool = False, **_: Any,
    ) -> None:  # fmt: skip
        """Say how it is trained: an optimizer, a loss and metrics, by name or as objects."""
        del jit_compile, run_eagerly
        self.optimizer, self._loss = optimizers.get(optimizer), None if loss is None else losses.get(loss)
        self._metrics = [_metric(one, self._loss) for one in metrics or []]
        self._programs = {}

    def fit(
        self, x: Any = None, y: Any = None, batch_size: int | None = None, epochs: int = 1, verbose: Any = 0,
        callbacks: Any = None, validation_split: float = 0.0, validation_data: Any = None, shuffle: bool = True,
        initial_epoch: int = 0, steps_per_epoch: int | None = None, **_: Any,
    ) -> History:  # fmt: skip
        """Train, by `adjoint.Model`: epochs over arrays run in native code.

        Returns
        -------
        History
            Its ``history`` has a list for the loss and each metric, and those of the validation data.
        """
        if self.optimizer is None:
            raise InvalidValueError("fit comes after compile, got no optimizer; call model.compile(...)")
        if validation_split:
            x, y, validation_data = _divided(x, y, validation_split)
        batches = _batches(x, y, batch_size, shuffle, steps_per_epoch)
        self._build_from(batches)
        history = History()
        bridge = _Bridge(self, [history, *(callbacks or [])], validation_data, batch_size, verbose, epochs)
        self.stop_training = False
        step = self._train_program()
        for metric in self._metrics:
            metric.reset_state()
        NativeModel(step, metrics={}).train(epochs, batches, [bridge], initial_epoch=initial_epoch)
        return history

    def _train_program(self) -> TrainOneStep:
        if "train" not in self._programs:
            self.optimizer.build(self.trainable_weights)
            limits = self.optimizer.clip if any(self.optimizer._limits) else None
            whole = _WithLoss(self, self._loss, self._metrics)
            self._programs["train"] = TrainOneStep(whole, self.optimizer.bound, clip=limits)
        step: TrainOneStep = self._programs["train"]
        return step

    def _build_from(self, batches: Any) -> None:
        if not self._is_built():
            first = next(iter(batches.epoch(0) if hasattr(batches, "epoch") else batches))
            with no_grad():
                self(_tensors(first[0]))

    def _is_built(self) -> bool:
        return self.built and all(layer.built for layer in self.layers)

    def evaluate(
        self, x: Any = None, y: Any = None, batch_size: int | None = None, verbose: Any = 0, return_dict: bool = False,
        **_: Any,
    ) -> Any:  # fmt: skip
        """The loss and the metrics of data: a list, or a dict."""
        del verbose
        self._build_from(_batches(x, y, batch_size, False, None))
        kept = [(metric, float(metric.total), float(metric.count)) for metric in self._metrics]
        mean = metrics.Mean("loss")
        for metric in self._metrics:
            metric.reset_state()
        if "evaluate" not in self._programs:
            self._programs["evaluate"] = jit(self._evaluated)
        with no_grad():
            for batch in _walk(_batches(x, y, batch_size, False, None)):
                rows = len(batch[-1])
                mean.update_state(self._programs["evaluate"](*map(_tensors, batch)), sample_weight=[float(rows)])
        found = {"loss": float(mean.result()), **{m.name: float(m.result()) for m in self._metrics}}
        for metric, total, count in kept:
            metric.reset_state()
            with no_grad():
                metric.total.add_(total)
                metric.count.add_(count)
        if return_dict:
            return found
        return list(found.values()) if len(found) > 1 else found["loss"]

    def _evaluated(self, inputs: Any, targets: Any) -> Tensor:
        made = self(inputs)
        for metric in self._metrics:
            metric.update_state(targets, made)
        loss: Tensor = self._loss(targets, made)
        return loss

    def predict(self, x: Any, batch_size: int | None = None, verbose: Any = 0, **_: Any) -> np.ndarray:
        """What the model returns for all rows, in inference."""
        del verbose
        if "predict" not in self._programs:
            self._programs["predict"] = jit(lambda inputs: self(inputs))
        parts = []
        with no_grad():
            rows = x if isinstance(x, Dataset) else _slices(_arrays(x), batch_size or 32)
            for one in rows:
                given = _tensors(one[0] if isinstance(one, tuple) else one)
                if not self._is_built():
                    self(given)
                parts.append(np.array(self._programs["predict"](given).numpy()))
        return np.concatenate(parts)

    def train_on_batch(self, x: Any, y: Any) -> float:
        """One step; the loss before it."""
        if not self._is_built():
            with no_grad():
                self(_tensors(x))
        step = self._train_program()
        if "batch" not in self._programs:
            self._programs["batch"] = jit(step)
        step.train()
        try:
            return float(self._programs["batch"](_tensors(x), _tensors(y)))
        finally:
            self.eval()

    def save_weights(self, filepath: Any, overwrite: bool = True) -> None:
        """Write the weights, as safetensors."""
        del overwrite
        save({str(n): tensor.detach() for n, tensor in enumerate(self.weights)}, filepath)

    def load_weights(self, filepath: Any) -> None:
        """Read what `save_weights` wrote."""
        found = load(filepath)
        self.set_weights([found[str(n)].numpy() for n in range(len(found))])

    def summary(self, **_: Any) -> None:
        """Print the layers and their numbers of parameters."""
        lines = [f"{layer.name:30} {layer.count_params():>12,}" for layer in self.layers]
        print("\n".join([f'Model "{self.name}"', *lines, f"Total params: {self.count_params():,}"]))


class Sequential(Model):
    """Layers one after the other.

    Parameters
    ----------
    layers : sequence of Layer, optional
        The layers; `Input` may be the first.
    """

    def __init__(self, layers: Sequence[Any] | None = None, name: str | None = None) -> None:
        super().__init__(name=name)
        self._chain = ModuleList([])
        self._shape: tuple[int, ...] | None = None
        for layer in layers or []:
            self.add(layer)

    def add(self, layer: Any) -> None:
        """Add a layer at the end."""
        if isinstance(layer, KerasTensor):
            self._shape = tuple(n or 1 for n in layer.shape[1:])
            return
        shape = getattr(layer, "first_shape", None)
        self._shape = tuple(n or 1 for n in shape) if shape is not None and not len(self._chain) else self._shape
        self._chain.append(layer)
        if self._shape is not None:
            with no_grad():
                self(tensor_of(np.zeros((1, *self._shape), np.float32)))

    @property
    def layers(self) -> list[Layer]:
        """The layers."""
        return list(self._chain)

    def build(self, input_shape: Any) -> None:
        """Make the weights of all layers for inputs of a shape."""
        sizes = tuple(n or 1 for n in input_shape)
        if not all(layer.built for layer in self._chain):
            made: Any = tensor_of(np.zeros((1, *sizes[1:]), np.float32))
            for layer in self._chain:
                made = layer(made)

    def call(self, inputs: Any) -> Any:
        """The layers one after the other."""
        for layer in self._chain:
            inputs = layer(inputs)
        return inputs


class _WithLoss(Module):
    """The loss of a model, which also adds to its metrics."""

    def __init__(self, model: Model, loss: Any, kept: Sequence[metrics.Metric]) -> None:
        super().__init__()
        self.model, self._loss, self._kept = model, loss, ModuleList(list(kept))

    def forward(self, inputs: Any, targets: Any) -> Tensor:
        """The loss of a batch."""
        with Recording():
            made = self.model(inputs)
        for metric in self._kept:
            metric.update_state(targets, made)
        loss: Tensor = self._loss(targets, made)
        return loss


class _Bridge(NativeCallback):
    """Calls Keras' callbacks at the moments of a run of adjoint."""

    def __init__(
        self, model: Model, callbacks: Sequence[Callback], validation: Any, batch_size: int | None, verbose: Any,
        epochs: int,
    ) -> None:  # fmt: skip
        self._model, self._callbacks, self._validation = model, callbacks, validation
        self._batch_size, self._verbose, self._epochs = batch_size, verbose, epochs
        listens = any(type(one).on_train_batch_end is not Callback.on_train_batch_end for one in callbacks)
        self.every = 1 if listens else None
        for one in callbacks:
            one.set_model(model)

    def on_train_begin(self, run: Any) -> None:
        """Before the first epoch."""
        del run
        for one in self._callbacks:
            one.on_train_begin()

    def on_train_epoch_begin(self, run: Any) -> None:
        """Before an epoch."""
        for metric in self._model._metrics:
            metric.reset_state()
        for one in self._callbacks:
            one.on_epoch_begin(run.epoch - 1)

    def on_train_step_end(self, run: Any) -> None:
        """After a step."""
        for one in self._callbacks:
            one.on_train_batch_end(run.step_in_epoch - 1, {"loss": run.loss})

    def on_train_epoch_end(self, run: Any) -> None:
        """After an epoch: the logs, with those of the validation data."""
        logs = {"loss": float(run.losses.mean()), **{m.name: float(m.result()) for m in self._model._metrics}}
        if self._validation is not None:
            x, y = self._validation if isinstance(self._validation, tuple | list) else (self._validation, None)
            modes = [(module, module.training) for module in self._model.modules()]
            self._model.eval()
            found = self._model.evaluate(x, y, self._batch_size, return_dict=True)
            for module, mode in modes:
                object.__setattr__(module, "training", mode)
            logs |= {f"val_{name}": value for name, value in found.items()}
        if self._verbose not in (0, None):
            text = " - ".join(f"{name}: {value:.4f}" for name, value in logs.items())
            print(f"Epoch {run.epoch}/{self._epochs}: {text}")
        for one in self._callbacks:
            one.on_epoch_end(run.epoch - 1, logs)
        if self._model.stop_training:
            run.stop()

    def on_train_end(self, run: Any) -> None:
        """After the last epoch."""
        del run
        for one in self._callbacks:
            one.on_train_end()


class _Walk:
    """Batches of a dataset that only Python can walk."""

    def __init__(self, dataset: Iterable[Any], steps: int | None) -> None:
        self._dataset, self._steps = dataset, steps
        self._source: Iterator[Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        if self._steps is None:
            yield from self._dataset
            return
        for _ in range(self._steps):
            if self._source is None:
                self._source = iter(self._dataset)
            yield next(self._source)


def _batches(x: Any, y: Any, batch_size: int | None, shuffle: bool, steps: int | None) -> Any:
    if isinstance(x, Dataset) and x.arrays is not None and x.arrays.batch_size and steps is None:
        rows = x.arrays
        return ArrayDataset(
            *map(_narrow, rows.columns), batch_size=rows.batch_size, shuffle=rows.shuffle, seed=rows.seed,
            drop_last=rows.drop_last,
        )  # fmt: skip
    if y is None:
        return _Walk(x, steps)
    arrays = [_narrow(np.asarray(_array(one))) for one in (x, y)]
    return ArrayDataset(*arrays, batch_size=min(batch_size or 32, len(arrays[0])), shuffle=shuffle)


def _narrow(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype == np.float64 else array


def _walk(batches: Any) -> Iterator[Any]:
    return iter(batches.epoch(0) if hasattr(batches, "epoch") else batches)


def _slices(arrays: Any, size: int) -> Iterator[Any]:
    several = isinstance(arrays, list)
    count = len(arrays[0]) if several else len(arrays)
    for first in range(0, count, size):
        yield [one[first : first + size] for one in arrays] if several else arrays[first : first + size]


def _arrays(given: Any) -> Any:
    return [_narrow(_array(one)) for one in given] if isinstance(given, list) else _narrow(_array(given))


def _array(given: Any) -> np.ndarray:
    return given.numpy() if isinstance(given, Tensor) else np.asarray(given)


def _tensors(given: Any) -> Any:
    if isinstance(given, list | tuple):
        return [_tensors(one) for one in given]
    return tensor_of(_narrow(given) if isinstance(given, np.ndarray) else given)


def _divided(x: Any, y: Any, share: float) -> tuple[Any, Any, Any]:
    """The first rows for training, and the last ones for validation, as Keras divides them."""
    xs, ys = _array(x), _array(y)
    first = int(len(xs) * (1 - share))
    return xs[:first], ys[:first], (xs[first:], ys[first:])


def _metric(given: Any, loss: Any) -> Any:
    return metrics.get(given, loss)


def _layers_of(outputs: Any) -> list[Layer]:
    """The layers that outputs come from, inputs first, each once. Iterative."""
    found: list[Layer] = []
    stack = [(one, False) for one in (outputs if isinstance(outputs, list | tuple) else [outputs])]
    seen: set[int] = set()
    while stack:
        one, done = stack.pop()
        if not isinstance(one, KerasTensor) or one.node is None:
            continue
        if done:
            if isinstance(one.node.layer, Layer) and not any(one.node.layer is x for x in found):
                found.append(one.node.layer)
        elif id(one) not in seen:
            seen.add(id(one))
            stack.append((one, True))
            for given in one.node.inputs:
                stack += [(x, False) for x in (given if isinstance(given, list | tuple) else [given])]
    return found


def _evaluated(one: Any, known: dict[int, Any]) -> Any:
    if isinstance(one, list | tuple):
        return [_evaluated(x, known) for x in one]
    if not isinstance(one, KerasTensor):
        return one
    if id(one) not in known:
        if one.node is None:
            raise InvalidValueError(
                "an output depends on an Input that is none of the model's inputs; add it to inputs"
            )
        given = [_evaluated(x, known) for x in one.node.inputs]
        known[id(one)] = one.node.layer(*given, **one.node.settings)
    return known[id(one)]
