"""`Model`: a network, its loss, its optimizer and its metrics, and the loops that train, evaluate and use them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, NotFiniteError, TypeRuleError, kind_of
from adjoint.func.jit import Jitted, jit
from adjoint.ir import DTYPES
from adjoint.modules import Module
from adjoint.nn.summary import Summary, summary
from adjoint.optim import GradScaler
from adjoint.tensor.showing import Text
from adjoint.tensor.tensor import Tensor
from adjoint.training.callbacks import Callback, explain_nan
from adjoint.training.metrics import get_metrics
from adjoint.training.model.batches import as_tuple
from adjoint.training.model.evaluation import Evaluator, predictor
from adjoint.training.model.loop import Calls, Loop
from adjoint.training.model.precision import Autocast
from adjoint.training.model.run import Run
from adjoint.training.model.train_step import TrainOneStep, WithLoss

__all__ = ["Model"]


class Model:
    """A network with its loss, optimizer and metrics: trained, evaluated and used without a loop of one's own.

    Parameters
    ----------
    network : Module
        The network; or, without `optimizer`, a `TrainOneStep`.
    loss_fn : callable, optional
        Takes what the network returns for all but the last array of a batch, and that one; default: the network takes
        the whole batch and returns the loss.
    optimizer : Optimizer, optional
        Bound to the parameters to be trained. A model without one can be evaluated and used.
    metrics : iterable of str or Metric, or mapping of str to Metric, optional
        What `evaluate` computes.
    eval_network : Module, optional
        The network for evaluation and prediction, if it is another one.
    amp_level : {"O0", "O1", "O2"}, default "O0"
        Mixed precision: "O0" computes in the dtypes of the parameters. "O1" and "O2" compute products in half floats
        (`adjoint.autocast`), from parameters in float32: "O1" bfloat16, "O2" float16 with a dynamic loss scale.
    loss_scale : float, "dynamic" or GradScaler, optional
        A factor of the loss, by which gradients are divided. A dynamic one becomes smaller if they overflow.
    clip : float or callable, optional
        As for `TrainOneStep`.
    accumulate : int, default 1
        As for `TrainOneStep`.

    Raises
    ------
    TypeRuleError, InvalidValueError, NameLookupError
        If an argument is of another kind, out of range, or no known metric.

    Examples
    --------
    >>> model = Model(network, nn.CrossEntropyLoss(), optim.Adam(network.parameters()), metrics={"accuracy"})
    >>> model.fit(5, train_data, test_data)
    >>> model.evaluate(test_data)["accuracy"]
    """

    def __init__(
        self,
        network: Module,
        loss_fn: Callable[..., Any] | None = None,
        optimizer: Any = None,
        metrics: Any = None,
        *,
        eval_network: Module | None = None,
        amp_level: str = "O0",
        loss_scale: "float | str | GradScaler | None" = None,
        clip: "float | Callable[[list[Tensor]], Any] | None" = None,
        accumulate: int = 1,
    ) -> None:
        if not isinstance(network, Module):
            raise TypeRuleError(f"Model takes an nn.Module, got {kind_of(network)}; derive its class from nn.Module")
        if amp_level not in ("O0", "O1", "O2"):
            raise InvalidValueError(f"Model: amp_level must be 'O0', 'O1' or 'O2', got {amp_level!r}")
        if loss_fn is not None and not callable(loss_fn):
            raise TypeRuleError(f"Model: loss_fn must be callable, got {kind_of(loss_fn)}; pass nn.CrossEntropyLoss()")
        self.network, self.loss_fn, self.optimizer = network, loss_fn, optimizer
        self._step: TrainOneStep | None = None
        if isinstance(network, TrainOneStep):
            if optimizer is not None or loss_fn is not None:
                raise TypeRuleError("Model: a TrainOneStep has a loss and an optimizer, got others as well; omit them")
            self._step, self.optimizer, self.network = network, network.optimizer, network.network
        elif optimizer is not None:
            self._step = self._made_step(amp_level, loss_scale, clip, accumulate)
        self.metrics = get_metrics({"loss"} if metrics is None else metrics)
        self._jitted: Jitted | None = None
        self._for_evaluation = self.network if eval_network is None else eval_network
        self._evaluator: Evaluator | None = None
        self._predict: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        step = "no optimizer" if self._step is None else type(self.optimizer).__name__
        return f"<Model: {type(self.network).__name__}, {step}, metrics {', '.join(self.metrics) or 'none'}>"

    def _made_step(
        self,
        amp_level: str,
        loss_scale: "float | str | GradScaler | None",
        clip: "float | Callable[[list[Tensor]], Any] | None",
        accumulate: int,
    ) -> TrainOneStep:
        if amp_level == "O2" and loss_scale is None:
            loss_scale = "dynamic"
        if isinstance(loss_scale, str):
            if loss_scale != "dynamic":
                raise InvalidValueError(
                    f"Model: loss_scale must be a number, 'dynamic' or a GradScaler, got {loss_scale!r}; choose one"
                )
            loss_scale = GradScaler()
        with_loss: Module = self.network if self.loss_fn is None else WithLoss(self.network, self.loss_fn)
        if amp_level != "O0":
            with_loss = Autocast(with_loss, DTYPES["bf16" if amp_level == "O1" else "f16"])
        sens = float(loss_scale) if isinstance(loss_scale, int | float) else 1.0
        return TrainOneStep(
            with_loss, self.optimizer, sens, loss_scale=loss_scale, clip=clip, accumulate=accumulate
        )  # fmt: skip

    @property
    def train_step(self) -> TrainOneStep:
        """The training step.

        Raises
        ------
        InvalidValueError
            If the model has no optimizer.
        """
        if self._step is None:
            raise InvalidValueError("Model: a model is trained with an optimizer, got none; pass optimizer=...")
        return self._step

    @property
    def compiled_step(self) -> Jitted:
        """The training step as a compiled function of the arrays of a batch."""
        if self._jitted is None:
            self._jitted = jit(self.train_step)
        return self._jitted

    @property
    def is_wide(self) -> bool:
        """Whether a parameter is float64; otherwise float64 data are rounded to float32."""
        return any(tensor.dtype == DTYPES["f64"] for tensor in self.network.parameters())

    def train(
        self,
        epochs: int,
        train_dataset: Any,
        callbacks: Any = None,
        *,
        initial_epoch: int = 0,
        config: Mapping[str, Any] | None = None,
    ) -> Run:
        """Train for some epochs; as `fit`, without evaluation."""
        return self.fit(epochs, train_dataset, callbacks=callbacks, initial_epoch=initial_epoch, config=config)

    def fit(
        self,
        epochs: int,
        train_dataset: Any,
        valid_dataset: Any = None,
        valid_frequency: int | Sequence[int] = 1,
        callbacks: Any = None,
        *,
        initial_epoch: int = 0,
        config: Mapping[str, Any] | None = None,
    ) -> Run:
        """Train for some epochs, and evaluate at the end of each.

        Parameters
        ----------
        epochs : int
            The number of the last epoch: with `initial_epoch`, there are fewer.
        train_dataset : iterable
            Batches: tuples, lists or dicts of arrays or tensors. `data.ArrayDataset`, a `DataLoader` of a
            `TensorDataset`, and pipelines over arrays run in native code, many steps per call.
        valid_dataset : iterable, optional
            What the model is evaluated on.
        valid_frequency : int or sequence of int, default 1
            The number of epochs per evaluation, or the epochs, counted from 1, after which to evaluate.
        callbacks : Callback or iterable of Callback, optional
            Called in their order.
        initial_epoch : int, default 0
            The number of epochs that have been done before.
        config : mapping, optional
            The configuration of the run, plain data for checkpoints and reports.

        Returns
        -------
        Run
            The run: its last losses and metrics, the number of steps and what they took.

        Raises
        ------
        InvalidValueError
            If a number is out of range, or the dataset has no batches.
        TypeRuleError
            If the dataset or a callback is of another kind.
        """
        _check_epochs(epochs, initial_epoch)
        for name, dataset in (("train_dataset", train_dataset), ("valid_dataset", valid_dataset)):
            if dataset is not None and not isinstance(dataset, Iterable) and not hasattr(dataset, "epoch"):
                raise TypeRuleError(
                    f"Model: {name} must be an iterable of batches, got {kind_of(dataset)}; pass a DataLoader, an "
                    "ArrayDataset or a list of batches"
                )
        run = Run(self, train_dataset, valid_dataset, _callbacks(callbacks), epochs, dict(config or {}))
        # Gradients of earlier loops would be added to those of the first step.
        self.train_step.optimizer.zero_grad()
        modes = [(module, module.training) for module in self.train_step.modules()]

        def evaluate(calls: Calls) -> None:
            if valid_dataset is not None and _is_due(run.epoch, valid_frequency):
                calls.tell("on_eval_begin")
                run.metrics = self.evaluate(valid_dataset)
                calls.tell("on_eval_end")

        first, done = initial_epoch, 0
        for callback in run.callbacks:
            cursor = callback.restore(run) if hasattr(callback, "restore") else None
            if cursor is not None:
                first, done = cursor["epoch"] - 1, cursor["step_in_epoch"]
                run.resume(cursor)
        try:
            Loop(self, run, evaluate).run(first, done)
        finally:
            for module, mode in modes:
                object.__setattr__(module, "training", mode)
        return run

    def evaluate(self, valid_dataset: Any, callbacks: Any = None) -> dict[str, Any]:
        """What the metrics say about a dataset.

        Parameters
        ----------
        valid_dataset : iterable
            Batches, as for `fit`.
        callbacks : Callback or iterable of Callback, optional
            Told when it begins and ends.

        Returns
        -------
        dict of str to float or numpy.ndarray
            The results by name.
        """
        if self._evaluator is None:
            self._evaluator = Evaluator(self._for_evaluation, self.loss_fn, self.metrics)
        calls = None
        if callbacks is not None:
            calls = Calls(Run(self, None, valid_dataset, _callbacks(callbacks), 0, {}))
            calls.tell("on_eval_begin")
        results = self._evaluator.run(valid_dataset, self.is_wide)
        if calls is not None:
            calls.run.metrics = results
            calls.tell("on_eval_end")
        return results

    def predict(self, *inputs: Any) -> Any:
        """What the network returns in evaluation mode, compiled for the shapes of the inputs.

        Parameters
        ----------
        *inputs : Tensor or numpy.ndarray
            The inputs of the network.

        Returns
        -------
        Tensor
            Or what else the network returns.
        """
        if self._predict is None:
            self._predict = predictor(self._for_evaluation)
        return self._predict(*self._rounded(inputs))

    def _rounded(self, inputs: Iterable[Any]) -> list[Any]:
        """Inputs with arrays of float64 in float32, unless a parameter is float64."""
        wide = self.is_wide
        return [
            x.astype(np.float32) if isinstance(x, np.ndarray) and x.dtype == np.float64 and not wide else x
            for x in inputs
        ]

    def explain_nan(self, batches: Iterable[Any]) -> NotFiniteError | None:
        """Repeat training steps, and find out which operation of the last two made the first NaN or infinity.

        The steps change the network and the optimizer; `callbacks.NaNGuard` puts them back.

        Parameters
        ----------
        batches : iterable
            The batches up to the one whose loss is not finite.

        Returns
        -------
        NotFiniteError or None
            As for `adjoint.training.callbacks.explain_nan`.
        """
        self.train_step.train()
        return explain_nan(self.compiled_step, (self._rounded(as_tuple(batch)) for batch in batches))

    def summary(self, *inputs: Any) -> Summary:
        """A table of the network's layers, for inputs of these shapes."""
        return summary(self.network, *inputs)

    def show(self, stage: str = "graph") -> Text:
        """The text of a stage of compilation of the training step, after it has been compiled.

        Parameters
        ----------
        stage : str, default "graph"
            As for `Module.show`.
        """
        text: Text = self.compiled_step.show(stage)
        return text

    def profile(self, *batch: Any, runs: int = 50) -> Any:
        """Measure the training step kernel by kernel, on copies of all tensors, so that nothing is trained.

        Parameters
        ----------
        *batch : Tensor or numpy.ndarray
            A batch.
        runs : int, default 50
            Number of runs.

        Returns
        -------
        adjoint.profiling.StepProfile
            Printed, it is a table of the kernels.
        """
        self.train_step.train()
        return self.compiled_step.profile(*batch, runs=runs)


def _check_epochs(epochs: object, initial: object) -> None:
    for name, number, least in (("epochs", epochs, 1), ("initial_epoch", initial, 0)):
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise InvalidValueError(f"Model: {name} must be an integer of at least {least}, got {number!r}")


def _callbacks(given: Any) -> list[Callback]:
    """The callbacks as a list; raises if one of them is something else."""
    found = [] if given is None else [given] if isinstance(given, Callback) else list(given)
    for one in found:
        if not isinstance(one, Callback):
            raise TypeRuleError(
                f"Model: callbacks must be Callback objects, got {kind_of(one)}; derive its class from Callback"
            )
    return found


def _is_due(epoch: int, frequency: int | Sequence[int]) -> bool:
    return epoch % frequency == 0 if isinstance(frequency, int) else epoch in frequency
