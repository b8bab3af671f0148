"""`mindspore.nn.wrap`: networks with their losses, and training steps."""

from typing import Any

from adjoint.compat.mindspore.nn.cell import Cell
from adjoint.compat.mindspore.ops.composite import GradOperation, identity
from adjoint.compat.uncovered import uncovered
from adjoint.optim import GradScaler
from adjoint.training.model import TrainOneStep

__all__ = [
    "DynamicLossScaleUpdateCell",
    "FixedLossScaleUpdateCell",
    "ForwardValueAndGrad",
    "TrainOneStepCell",
    "TrainOneStepWithLossScaleCell",
    "WithEvalCell",
    "WithLossCell",
]


class WithLossCell(Cell):
    """``WithLossCell(backbone, loss_fn)``: takes data and labels, and returns the loss."""

    def __init__(self, backbone: Any, loss_fn: Any) -> None:
        super().__init__(auto_prefix=False)
        self._backbone = backbone
        self._loss_fn = loss_fn

    def construct(self, data: Any, label: Any) -> Any:
        """The loss."""
        return self._loss_fn(self._backbone(data), label)

    @property
    def backbone_network(self) -> Any:
        """The network without the loss."""
        return self._backbone


class WithEvalCell(Cell):
    """``WithEvalCell(network, loss_fn)``: takes data and labels, and returns the loss, the outputs and the labels."""

    def __init__(self, network: Any, loss_fn: Any, add_cast_fp32: bool = False) -> None:  # noqa: ARG002
        super().__init__(auto_prefix=False)
        self._network = network
        self._loss_fn = loss_fn

    def construct(self, data: Any, label: Any) -> Any:
        """Loss, outputs and labels."""
        outputs = self._network(data)
        return self._loss_fn(outputs, label), outputs, label


class TrainOneStepCell(Cell, TrainOneStep):
    """``TrainOneStepCell(network, optimizer, sens=1.0)``: a call updates the parameters and returns the loss.

    A subclass that defines `construct` finds what MindSpore's has: ``network``, ``optimizer``, ``weights``, ``grad``
    (a `GradOperation` with `get_by_list` and `sens_param`), ``sens``, ``reducer_flag`` and ``grad_reducer``.
    """

    def __init__(self, network: Any, optimizer: Any, sens: float = 1.0, **options: Any) -> None:
        TrainOneStep.__init__(self, network, optimizer, sens, **options)
        object.__setattr__(self, "_auto_prefix", False)
        self.weights = optimizer.parameters
        self.grad = GradOperation(get_by_list=True, sens_param=True)
        self.reducer_flag = False
        self.grad_reducer = identity

    def construct(self, *inputs: Any) -> Any:
        """Make one step, and return the loss before it."""
        return TrainOneStep.forward(self, *inputs)


class FixedLossScaleUpdateCell:
    """``FixedLossScaleUpdateCell(loss_scale_value)``: a factor of the loss that stays."""

    def __init__(self, loss_scale_value: float) -> None:
        self.loss_scale_value = float(loss_scale_value)

    def get_loss_scale(self) -> float:
        """The factor."""
        return self.loss_scale_value

    def scaler(self) -> GradScaler:
        """The `adjoint.optim.GradScaler` that does it."""
        return GradScaler(init_scale=self.loss_scale_value, growth_factor=1.0, backoff_factor=1.0)


class DynamicLossScaleUpdateCell(FixedLossScaleUpdateCell):
    """``DynamicLossScaleUpdateCell(loss_scale_value, scale_factor, scale_window)``: smaller if gradients overflow."""

    def __init__(self, loss_scale_value: float, scale_factor: int, scale_window: int) -> None:
        super().__init__(loss_scale_value)
        self.scale_factor, self.scale_window = scale_factor, scale_window

    def scaler(self) -> GradScaler:
        """The `adjoint.optim.GradScaler` that does it."""
        return GradScaler(
            init_scale=self.loss_scale_value,
            growth_factor=float(self.scale_factor),
            backoff_factor=1.0 / self.scale_factor,
            growth_interval=self.scale_window,
        )


class TrainOneStepWithLossScaleCell(TrainOneStepCell):
    """``TrainOneStepWithLossScaleCell(network, optimizer, scale_sense)``: no update if gradients overflow."""

    def __init__(self, network: Any, optimizer: Any, scale_sense: Any) -> None:
        given = scale_sense if isinstance(scale_sense, FixedLossScaleUpdateCell) else None
        scaler = FixedLossScaleUpdateCell(float(scale_sense)).scaler() if given is None else given.scaler()
        super().__init__(network, optimizer, loss_scale=scaler)


class ForwardValueAndGrad(Cell):
    """``ForwardValueAndGrad(network, weights, get_all, get_by_list, sens_param)``: the value with the gradients."""

    def __init__(
        self, network: Any, weights: Any = None, get_all: bool = False, get_by_list: bool = False,
        sens_param: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(auto_prefix=False)
        self.network, self.weights = network, weights
        self._operation = GradOperation(get_all, get_by_list, sens_param)

    def construct(self, *inputs: Any) -> Any:
        """The value and the gradients."""
        return self._operation.value_and_gradients(self.network, self.weights)(*inputs)


__getattr__ = uncovered(__name__, {"DistributedGradReducer": "there is one device: omit it"}, "adjoint.TrainOneStep")
