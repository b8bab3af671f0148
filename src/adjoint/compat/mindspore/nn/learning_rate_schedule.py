"""`mindspore.nn.learning_rate_schedule`: learning rates as functions of the number of updates, within the step."""

from math import pi
from typing import Any

from adjoint import ops
from adjoint.compat.mindspore.nn.cell import Cell
from adjoint.compat.uncovered import uncovered
from adjoint.tensor.record import operation
from adjoint.tensor.tensor import Tensor

__all__ = [
    "CosineDecayLR",
    "ExponentialDecayLR",
    "InverseDecayLR",
    "LearningRateSchedule",
    "NaturalExpDecayLR",
    "PolynomialDecayLR",
    "WarmUpLR",
]


class LearningRateSchedule(Cell):
    """Base class: a subclass defines ``construct(global_step)``, of a scalar that counts from 0."""

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """The learning rate; of a graph value, a graph value."""
        if args and isinstance(args[0], Tensor) and type(self).__module__ == __name__:
            return operation(lambda t: self.construct(ops.cast(t, "f32")))(*args)
        return self.construct(*args, **keywords)


class ExponentialDecayLR(LearningRateSchedule):
    """``learning_rate * decay_rate ** (step / decay_steps)``."""

    def __init__(self, learning_rate: float, decay_rate: float, decay_steps: int, is_stair: bool = False) -> None:
        super().__init__()
        self.settings = (learning_rate, decay_rate, decay_steps, is_stair)

    def construct(self, global_step: Any) -> Any:
        """The learning rate."""
        lr, rate, steps, stair = self.settings
        p = global_step / steps
        return lr * ops.power(ops.full_like(p, rate), ops.floor(p) if stair else p)


class NaturalExpDecayLR(LearningRateSchedule):
    """``learning_rate * exp(-decay_rate * step)``."""

    def __init__(self, learning_rate: float, decay_rate: float, decay_steps: int, is_stair: bool = False) -> None:
        super().__init__()
        self.settings = (learning_rate, decay_rate, decay_steps, is_stair)

    def construct(self, global_step: Any) -> Any:
        """The learning rate."""
        lr, rate, steps, stair = self.settings
        return lr * ops.exp(-rate * (ops.floor(global_step / steps) * steps if stair else global_step))


class InverseDecayLR(LearningRateSchedule):
    """``learning_rate / (1 + decay_rate * step / decay_steps)``."""

    def __init__(self, learning_rate: float, decay_rate: float, decay_steps: int, is_stair: bool = False) -> None:
        super().__init__()
        self.settings = (learning_rate, decay_rate, decay_steps, is_stair)

    def construct(self, global_step: Any) -> Any:
        """The learning rate."""
        lr, rate, steps, stair = self.settings
        p = global_step / steps
        return lr / (1.0 + rate * (ops.floor(p) if stair else p))


class CosineDecayLR(LearningRateSchedule):
    """``min_lr + (max_lr - min_lr) * (1 + cos(pi * step / decay_steps)) / 2``."""

    def __init__(self, min_lr: float, max_lr: float, decay_steps: int) -> None:
        super().__init__()
        self.settings = (min_lr, max_lr, decay_steps)

    def construct(self, global_step: Any) -> Any:
        """The learning rate."""
        least, most, steps = self.settings
        done = ops.minimum(global_step, ops.full_like(global_step, steps)) / steps
        return least + 0.5 * (most - least) * (1.0 + ops.cos(done * pi))


class PolynomialDecayLR(LearningRateSchedule):
    """``(learning_rate - end_learning_rate) * (1 - step / decay_steps) ** power + end_learning_rate``."""

    def __init__(
        self, learning_rate: float, end_learning_rate: float, decay_steps: int, power: float,
        update_decay_steps: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.settings = (learning_rate, end_learning_rate, decay_steps, power, update_decay_steps)

    def construct(self, global_step: Any) -> Any:
        """The learning rate."""
        lr, end, steps, power, longer = self.settings
        if longer:
            rounds = ops.maximum(ops.ceil(global_step / steps), ops.full_like(global_step, 1.0))
            p = global_step / (rounds * steps)
        else:
            p = ops.minimum(global_step, ops.full_like(global_step, steps)) / steps
        return (lr - end) * ops.power(1.0 - p, ops.full_like(p, power)) + end


class WarmUpLR(LearningRateSchedule):
    """``learning_rate * step / warmup_steps``, and `learning_rate` afterwards."""

    def __init__(self, learning_rate: float, warmup_steps: int) -> None:
        super().__init__()
        self.settings = (learning_rate, warmup_steps)

    def construct(self, global_step: Any) -> Any:
        """The learning rate."""
        lr, steps = self.settings
        return lr * (ops.minimum(global_step, ops.full_like(global_step, steps)) / steps)


__getattr__ = uncovered(__name__, {}, "adjoint.optim.schedules")
