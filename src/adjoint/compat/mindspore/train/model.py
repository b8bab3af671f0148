"""`mindspore.train.Model`: adjoint's model with MindSpore's arguments."""

from collections.abc import Sequence
from typing import Any

from adjoint.compat.mindspore.train.callback.adapted import as_native
from adjoint.compat.mindspore.train.loss_scale_manager import FixedLossScaleManager
from adjoint.compat.uncovered import uncovered
from adjoint.errors import InvalidValueError
from adjoint.training.model import Model as Native
from adjoint.training.model import TrainOneStep

__all__ = ["Model"]


class Model(Native):
    """``Model(network, loss_fn=None, optimizer=None, metrics=None)``: an `adjoint.Model`.

    Without a loss and an optimizer, the network is a training step, such as a `TrainOneStepCell`.

    Parameters
    ----------
    network : Cell
        The network.
    loss_fn : Cell, optional
        The loss.
    optimizer : Optimizer, optional
        The optimizer.
    metrics : dict or set, optional
        What `eval` computes.
    eval_network : Cell, optional
        The network for evaluation.
    eval_indexes : list of int, optional
        Refused.
    amp_level : str, default "O0"
        As for `adjoint.Model`.
    boost_level : str, default "O0"
        No effect.
    loss_scale_manager : LossScaleManager, optional
        The factor of the loss.
    """

    def __init__(
        self, network: Any, loss_fn: Any = None, optimizer: Any = None, metrics: Any = None, eval_network: Any = None,
        eval_indexes: Any = None, amp_level: str = "O0", boost_level: str = "O0",  # noqa: ARG002
        loss_scale_manager: FixedLossScaleManager | None = None, **_options: Any,
    ) -> None:  # fmt: skip
        if eval_indexes is not None:
            raise InvalidValueError(f"Model: eval_indexes is not covered, got {eval_indexes!r}; use adjoint.Model")
        scale = None if loss_scale_manager is None else loss_scale_manager.scaler()
        super().__init__(
            network, loss_fn, optimizer, set() if metrics is None else metrics, eval_network=eval_network,
            amp_level=amp_level, loss_scale=scale,
        )  # fmt: skip
        if optimizer is None and loss_fn is None and not isinstance(network, TrainOneStep):
            own = getattr(network, "optimizer", None)
            if own is not None:  # a cell that makes a whole step
                self._step, self.optimizer = network, own

    @property
    def train_network(self) -> Any:
        """The training step."""
        return self.train_step

    def train(  # type: ignore[override]  # the arguments of MindSpore
        self, epoch: int, train_dataset: Any, callbacks: Any = None, dataset_sink_mode: bool = False,  # noqa: ARG002
        sink_size: int = -1, initial_epoch: int = 0,
    ) -> Any:  # fmt: skip
        """Train for some epochs; sinking data has no effect, as native code takes them from memory in any case."""
        _check_sink(sink_size)
        return Native.fit(self, epoch, train_dataset, callbacks=as_native(callbacks), initial_epoch=initial_epoch)

    def fit(  # type: ignore[override]  # the arguments of MindSpore
        self, epoch: int, train_dataset: Any, valid_dataset: Any = None, valid_frequency: int | Sequence[int] = 1,
        callbacks: Any = None, dataset_sink_mode: bool = False, valid_dataset_sink_mode: bool = False,  # noqa: ARG002
        sink_size: int = -1, initial_epoch: int = 0,
    ) -> Any:  # fmt: skip
        """Train for some epochs, and evaluate after each."""
        _check_sink(sink_size)
        return Native.fit(
            self, epoch, train_dataset, valid_dataset, valid_frequency, as_native(callbacks),
            initial_epoch=initial_epoch,
        )  # fmt: skip

    def eval(self, valid_dataset: Any, callbacks: Any = None, dataset_sink_mode: bool = False) -> dict[str, Any]:  # noqa: ARG002
        """What the metrics say about a dataset."""
        if not self.metrics:
            raise InvalidValueError("Model.eval: at least one metric is required, got none; pass metrics to Model")
        return self.evaluate(valid_dataset, as_native(callbacks) or None)


def _check_sink(size: int) -> None:
    if size != -1:
        raise InvalidValueError(f"Model: sink_size must be -1, a whole epoch, got {size}; omit it")


__getattr__ = uncovered(__name__, {}, "adjoint.Model")
