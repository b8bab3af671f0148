"""`mindspore.train.loss_scale_manager`: factors of the loss."""

from adjoint.compat.mindspore.nn.wrap import DynamicLossScaleUpdateCell, FixedLossScaleUpdateCell
from adjoint.compat.uncovered import uncovered
from adjoint.optim import GradScaler

__all__ = ["DynamicLossScaleManager", "FixedLossScaleManager"]


class FixedLossScaleManager:
    """``FixedLossScaleManager(loss_scale=128.0, drop_overflow_update=True)``."""

    def __init__(self, loss_scale: float = 128.0, drop_overflow_update: bool = True) -> None:
        self.loss_scale, self.drop_overflow_update = loss_scale, drop_overflow_update

    def get_loss_scale(self) -> float:
        """The factor."""
        return self.loss_scale

    def get_update_cell(self) -> FixedLossScaleUpdateCell:
        """The factor as a cell."""
        return FixedLossScaleUpdateCell(self.loss_scale)

    def scaler(self) -> GradScaler | float:
        """What `adjoint.Model` takes: a number if updates are made in any case."""
        return self.get_update_cell().scaler() if self.drop_overflow_update else self.loss_scale


class DynamicLossScaleManager(FixedLossScaleManager):
    """``DynamicLossScaleManager(init_loss_scale=2**24, scale_factor=2, scale_window=2000)``."""

    def __init__(self, init_loss_scale: float = 2**24, scale_factor: int = 2, scale_window: int = 2000) -> None:
        super().__init__(init_loss_scale)
        self.scale_factor, self.scale_window = scale_factor, scale_window

    def get_update_cell(self) -> DynamicLossScaleUpdateCell:
        """The factor as a cell."""
        return DynamicLossScaleUpdateCell(self.loss_scale, self.scale_factor, self.scale_window)


__getattr__ = uncovered(__name__, {}, "adjoint.optim.GradScaler")
