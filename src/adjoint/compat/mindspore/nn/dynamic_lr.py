"""`mindspore.nn.dynamic_lr`: learning rates as lists with a number for every step."""

from collections.abc import Sequence
from math import ceil, cos, exp, pi

from adjoint.compat.uncovered import uncovered

__all__ = [
    "cosine_decay_lr",
    "exponential_decay_lr",
    "inverse_decay_lr",
    "natural_exp_decay_lr",
    "piecewise_constant_lr",
    "polynomial_decay_lr",
    "warmup_lr",
]


def piecewise_constant_lr(milestone: Sequence[int], learning_rates: Sequence[float]) -> list[float]:
    """Each learning rate up to its milestone."""
    starts = (0, *milestone)
    return [lr for start, end, lr in zip(starts, milestone, learning_rates, strict=False) for _ in range(start, end)]


def exponential_decay_lr(
    learning_rate: float, decay_rate: float, total_step: int, step_per_epoch: int, decay_epoch: int,
    is_stair: bool = False,
) -> list[float]:  # fmt: skip
    """``learning_rate * decay_rate ** (epoch / decay_epoch)``."""
    epochs = _epochs(total_step, step_per_epoch)
    return [learning_rate * decay_rate ** (e // decay_epoch if is_stair else e / decay_epoch) for e in epochs]


def natural_exp_decay_lr(
    learning_rate: float, decay_rate: float, total_step: int, step_per_epoch: int, decay_epoch: int,
    is_stair: bool = False,
) -> list[float]:  # fmt: skip
    """``learning_rate * exp(-decay_rate * epoch)``."""
    epochs = _epochs(total_step, step_per_epoch)
    return [learning_rate * exp(-decay_rate * (e // decay_epoch * decay_epoch if is_stair else e)) for e in epochs]


def inverse_decay_lr(
    learning_rate: float, decay_rate: float, total_step: int, step_per_epoch: int, decay_epoch: int,
    is_stair: bool = False,
) -> list[float]:  # fmt: skip
    """``learning_rate / (1 + decay_rate * epoch / decay_epoch)``."""
    epochs = _epochs(total_step, step_per_epoch)
    return [learning_rate / (1 + decay_rate * (e // decay_epoch if is_stair else e / decay_epoch)) for e in epochs]


def cosine_decay_lr(
    min_lr: float, max_lr: float, total_step: int, step_per_epoch: int, decay_epoch: int
) -> list[float]:
    """``min_lr + (max_lr - min_lr) * (1 + cos(pi * epoch / decay_epoch)) / 2``."""
    epochs = _epochs(total_step, step_per_epoch)
    return [min_lr + 0.5 * (max_lr - min_lr) * (1 + cos(pi * min(e, decay_epoch) / decay_epoch)) for e in epochs]


def polynomial_decay_lr(
    learning_rate: float, end_learning_rate: float, total_step: int, step_per_epoch: int, decay_epoch: int,
    power: float, update_decay_epoch: bool = False,
) -> list[float]:  # fmt: skip
    """``(learning_rate - end_learning_rate) * (1 - epoch / decay_epoch) ** power + end_learning_rate``."""
    found = []
    for epoch in _epochs(total_step, step_per_epoch):
        last = decay_epoch * max(ceil(epoch / decay_epoch), 1) if update_decay_epoch else decay_epoch
        found.append(end_learning_rate + (learning_rate - end_learning_rate) * (1 - min(epoch, last) / last) ** power)
    return found


def warmup_lr(learning_rate: float, total_step: int, step_per_epoch: int, warmup_epoch: int) -> list[float]:
    """``learning_rate * epoch / warmup_epoch``, and `learning_rate` afterwards."""
    if not warmup_epoch:
        return [learning_rate] * total_step
    return [learning_rate * min(e, warmup_epoch) / warmup_epoch for e in _epochs(total_step, step_per_epoch)]


def _epochs(total_step: int, step_per_epoch: int) -> list[int]:
    return [step // step_per_epoch for step in range(total_step)]


__getattr__ = uncovered(__name__, {}, "adjoint.optim.schedules")
