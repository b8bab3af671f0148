"""`TrainOneStep`: one training step as a module: loss, gradients, what is done with them, update."""

from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError, kind_of
from adjoint.modules import Module
from adjoint.nn.utils import clip_grad_norm_
from adjoint.optim import GradScaler
from adjoint.tensor.comparison import where
from adjoint.tensor.creation import full_like, zeros_like
from adjoint.tensor.making import from_array
from adjoint.tensor.tensor import Tensor

__all__ = ["TrainOneStep", "WithLoss"]


class WithLoss(Module):
    """A network with its loss: the last of its arguments is the target.

    Parameters
    ----------
    network : Module
        Takes the other arguments.
    loss_fn : callable
        Takes what the network returns, and the target.
    """

    def __init__(self, network: Any, loss_fn: Callable[..., Any]) -> None:
        super().__init__()
        self.network = network
        self.loss_fn = loss_fn

    def forward(self, *batch: Any) -> Any:
        """The loss of a batch."""
        *inputs, target = batch
        return self.loss_fn(self.network(*inputs), target)


class TrainOneStep(Module):
    """One training step: the loss of a network, its gradients, and the optimizer's update.

    `Model` compiles a call of it as a whole. Derive a class and define `forward` to do something else with gradients::

        class Normalized(TrainOneStep):
            def forward(self, *inputs):
                loss, grads = self.value_and_grad(*inputs)
                self.apply_gradients({name: g / g.norm() for name, g in grads.items()})
                return loss

    Parameters
    ----------
    network : Module
        Returns the loss, a single number.
    optimizer : Optimizer
        Bound to the parameters to be trained.
    sens : float, default 1.0
        Factor of the gradients, other than 0.
    loss_scale : float or GradScaler, optional
        What gradients are divided by before anything else is done with them: the factor that the loss, or `sens`,
        contains. A `GradScaler` multiplies the loss by its own scale, divides by it, and leaves updates out if
        gradients overflow.
    clip : float or callable, optional
        The largest norm of all gradients together; or a function that takes the parameters and changes their
        gradients, such as ``lambda p: nn.utils.clip_grad_value_(p, 0.5)``.
    accumulate : int, default 1
        The number of steps per update, which is made with the mean of their gradients.

    Raises
    ------
    InvalidValueError
        If a number is out of range.
    TypeRuleError
        If the optimizer is not bound to parameters.
    """

    def __init__(
        self,
        network: Module,
        optimizer: Any,
        sens: float = 1.0,
        *,
        loss_scale: "float | GradScaler | None" = None,
        clip: "float | Callable[[list[Tensor]], Any] | None" = None,
        accumulate: int = 1,
    ) -> None:
        super().__init__()
        self.accumulated_steps: Any
        if not getattr(optimizer, "param_groups", None):
            raise TypeRuleError(
                f"TrainOneStep takes an optimizer that is bound to parameters, got {kind_of(optimizer)}; write "
                "optim.SGD(network.parameters(), lr=...)"
            )
        for name, number in (("sens", sens), ("loss_scale", loss_scale), ("clip", clip)):
            if isinstance(number, int | float) and (isinstance(number, bool) or not isfinite(number) or number == 0):
                raise InvalidValueError(f"TrainOneStep: {name} must be a finite number other than 0, got {number!r}")
        if isinstance(accumulate, bool) or not isinstance(accumulate, int) or accumulate < 1:
            raise InvalidValueError(f"TrainOneStep: accumulate must be an integer of at least 1, got {accumulate!r}")
        self.network = network
        self.optimizer = optimizer
        self.sens = float(sens)
        self.scaler = loss_scale if isinstance(loss_scale, GradScaler) else None
        self.loss_scale = None if self.scaler is not None or loss_scale is None else float(loss_scale)  # type: ignore[arg-type]
        self.clip = clip
        self.accumulate = accumulate
        if accumulate > 1:
            self.register_buffer("accumulated_steps", from_array(np.zeros((), np.int64)), persistent=True)
            for number, (_, tensor) in enumerate(self.trained()):
                self.register_buffer(f"accumulated_{number}", zeros_like(tensor.detach()), persistent=True)

    def forward(self, *inputs: Any) -> Tensor:
        """Make one step, and return the loss before it."""
        loss, grads = self.value_and_grad(*inputs)
        self.apply_gradients(grads)
        return loss

    def value_and_grad(self, *inputs: Any) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss, and the gradients of the trained parameters by name, times `sens` and divided by the loss scale.

        Raises
        ------
        TypeRuleError
            If the network does not return a single number that depends on a parameter.
        """
        loss = self.network(*inputs)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            got = f"shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else kind_of(loss)
            raise TypeRuleError(
                f"TrainOneStep: the network must return its loss, a tensor with one element, got {got}; pass a loss "
                "function, or reduce its result with mean() or sum()"
            )
        scaled = loss if self.scaler is None else self.scaler.scale(loss)
        scaled.backward(full_like(scaled, self.sens))
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        grads = {}
        for name, tensor in self.trained():
            if tensor.grad is not None:
                grads[name] = tensor.grad if self.loss_scale is None else tensor.grad / self.loss_scale
        return loss.detach(), grads

    def apply_gradients(self, grads: Mapping[str, Tensor]) -> None:
        """Update the parameters with these gradients; parameters without one stay as they are."""
        for name, tensor in self.trained():
            tensor.grad = grads.get(name)
        if self.accumulate > 1:
            self._update_sometimes()
        else:
            self._clip()
            if self.scaler is not None:
                self.scaler.step(self.optimizer)
            else:
                self.optimizer.step()
        if self.scaler is not None:
            self.scaler.update()
        self.optimizer.zero_grad()

    def trained(self) -> Iterator[tuple[str, Tensor]]:
        """The parameters of the optimizer, by their names in the network."""
        names = {id(tensor): name for name, tensor in self.network.named_parameters()}
        number = 0
        for group in self.optimizer.param_groups:
            for tensor in group["params"]:
                yield names.get(id(tensor), f"parameter{number}"), tensor
                number += 1

    def _clip(self) -> None:
        tensors = [tensor for _, tensor in self.trained() if tensor.grad is not None]
        if callable(self.clip):
            self.clip(tensors)
        elif self.clip is not None:
            clip_grad_norm_(tensors, self.clip)

    def _update_sometimes(self) -> None:
        """Add the gradients to the sums; every few steps, update with the mean."""
        if self.scaler is not None:
            raise InvalidValueError(
                "TrainOneStep: gradients are accumulated without a GradScaler, got both; use a fixed loss_scale"
            )
        self.accumulated_steps += 1
        ready = self.accumulated_steps == self.accumulate
        for number, (_, tensor) in enumerate(self.trained()):
            total = getattr(self, f"accumulated_{number}")
            if tensor.grad is not None:
                total += tensor.grad
            tensor.grad = total / self.accumulate
        self._clip()
        self.optimizer._bound.step_unless(~ready)
        for number, _ in enumerate(self.trained()):
            total = getattr(self, f"accumulated_{number}")
            total.copy_(where(ready, zeros_like(total), total))
        self.accumulated_steps.copy_(where(ready, zeros_like(self.accumulated_steps), self.accumulated_steps))
