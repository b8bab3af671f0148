"""`GradScaler`: keeps the gradients of half floats away from zero, by scaling the loss."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import DTYPES, Value
from adjoint.optim.base import Optimizer
from adjoint.optim.loss_scaling import next_scale
from adjoint.optim.updates import assigned
from adjoint.optim.wrappers import all_finite
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.making import from_array
from adjoint.tensor.record import operation, rebind
from adjoint.tensor.tensor import Tensor

__all__ = ["GradScaler"]


@operation
def _scaled(x: Value, scale: Value) -> Value:
    return x * ops.cast(scale, x.dtype)


@operation
def _unscaled(grads: Sequence[Value], scale: Value) -> tuple[Value, ...]:
    """Whether an element is not finite, and the gradients divided by the scale, in f32 or wider."""
    inverse = 1.0 / scale
    found = ops.logical_not(all_finite(grads)).named("found_inf")
    results = []
    for grad in grads:
        wide = grad if grad.dtype.itemsize >= DTYPES["f32"].itemsize else ops.cast(grad, "f32")
        results.append(ops.cast(wide * ops.cast(inverse, wide.dtype), grad.dtype))
    return (found, *results)


@operation
def _updated(
    founds: Sequence[Value], scale: Value, tracker: Value, growth: float, backoff: float, interval: int
) -> tuple[Value, Value]:
    """The next scale, and the number of steps since the last change of it."""
    found = founds[0]
    for other in founds[1:]:
        found = ops.logical_or(found, other)
    return next_scale(found, scale, tracker, growth, backoff, interval)


class GradScaler:
    """Scales losses, and leaves out steps whose gradients overflow; `torch.amp.GradScaler`.

    ::

        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    The scale becomes smaller after gradients with an infinity or NaN, and larger after many steps without. It is part
    of the compiled step, as is the decision whether to update: nothing is read by Python.

    Parameters
    ----------
    device : str, default "cpu"
        Accepted for compatibility.
    init_scale : float, default 65536.0
        The initial scale.
    growth_factor : float, default 2.0
        What the scale is multiplied by after `growth_interval` steps, above 1.
    backoff_factor : float, default 0.5
        What it is multiplied by after a step that was left out, below 1.
    growth_interval : int, default 2000
        The number of consecutive steps with finite gradients.
    enabled : bool, default True
        If False, losses and steps are as without a scaler.

    Raises
    ------
    InvalidValueError
        If a factor is out of range; later, if methods are called in another order.

    Notes
    -----
    Micikevicius et al. (2018), "Mixed precision training".
    """

    def __init__(
        self,
        device: str = "cpu",  # noqa: ARG002
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if growth_factor <= 1.0:
            raise InvalidValueError(f"GradScaler: growth_factor must be above 1, got {growth_factor}")
        if backoff_factor >= 1.0:
            raise InvalidValueError(f"GradScaler: backoff_factor must be below 1, got {backoff_factor}")
        self._factors = (float(growth_factor), float(backoff_factor), int(growth_interval))
        self._enabled = enabled
        self._scale = from_array(np.asarray(init_scale, np.float32))
        self._tracker = from_array(np.asarray(0, np.int32))
        #: By the id of an optimizer: what `unscale_` found, and whether `step` has been called.
        self._found: dict[int, tuple[Tensor, bool]] = {}

    def scale(self, outputs: Any) -> Any:
        """The loss, or each tensor of a list or tuple, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, list | tuple):
            return type(outputs)(self.scale(each) for each in outputs)
        return _scaled(outputs, self._scale)  # type: ignore[arg-type]

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, for example to clip them before the step.

        Parameters
        ----------
        optimizer : Optimizer
            An optimizer that is bound to parameters.

        Raises
        ------
        InvalidValueError
            If it has been called for this optimizer since the last `update`, or there are no gradients.
        """
        if not self._enabled:
            return
        if id(optimizer) in self._found:
            raise InvalidValueError(
                "GradScaler: the gradients of an optimizer can be unscaled once between updates, got unscale_() after "
                f"{'step()' if self._found[id(optimizer)][1] else 'unscale_()'}; call update() after each step"
            )
        params = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if not params:
            raise InvalidValueError(
                "GradScaler: the optimizer's parameters must have gradients, got none; call "
                "scaler.scale(loss).backward() first"
            )
        with no_grad():
            found, *grads = _unscaled(tuple(param.grad for param in params), self._scale)  # type: ignore[arg-type]
        for param, grad in zip(params, grads, strict=True):
            param.grad = grad
        self._found[id(optimizer)] = (found, False)  # type: ignore[assignment]

    def step(self, optimizer: Optimizer) -> None:
        """Record the optimizer's step, which changes nothing if a gradient has an infinity or NaN.

        Parameters
        ----------
        optimizer : Optimizer
            An optimizer that is bound to parameters. Its gradients are unscaled, unless `unscale_` has been called.

        Raises
        ------
        InvalidValueError
            If it has been called for this optimizer since the last `update`, or there are no gradients.
        """
        if not self._enabled:
            optimizer.step()
            return
        known = self._found.get(id(optimizer))
        if known is not None and known[1]:
            raise InvalidValueError(
                "GradScaler: an optimizer can step once between updates, got step() again; call update() after each "
                "step"
            )
        if known is None:
            self.unscale_(optimizer)
        found, _ = self._found[id(optimizer)]
        optimizer.step_unless(found)
        self._found[id(optimizer)] = (found, True)

    def update(self, new_scale: Any = None) -> None:
        """Set the scale for the next iteration.

        Parameters
        ----------
        new_scale : float or Tensor, optional
            The scale; default: what the gradients of the iteration require.

        Raises
        ------
        InvalidValueError
            If no gradients have been unscaled since the last call.
        """
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = from_array(np.asarray(float(new_scale), np.float32))
        elif not self._found:
            raise InvalidValueError(
                "GradScaler: update() needs gradients, got none since the last update(); call step(optimizer) first"
            )
        else:
            founds = tuple(found for found, _ in self._found.values())
            with no_grad():
                scale, tracker = _updated(founds, self._scale, self._tracker, *self._factors)  # type: ignore[arg-type]
            # In place, so that a compiled function that holds the scaler updates it.
            rebind(self._scale, scale)  # type: ignore[arg-type]
            rebind(self._tracker, tracker)  # type: ignore[arg-type]
        self._found.clear()

    def get_scale(self) -> float:
        """The scale as a number, which runs what is pending; 1.0 if the scaler is not enabled."""
        return float(self._scale.item()) if self._enabled else 1.0

    def is_enabled(self) -> bool:
        """Whether the scaler has an effect."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale, the factors and the count in PyTorch's layout; empty if the scaler is not enabled."""
        if not self._enabled:
            return {}
        growth, backoff, interval = self._factors
        return {
            "scale": self.get_scale(),
            "growth_factor": growth,
            "backoff_factor": backoff,
            "growth_interval": interval,
            "_growth_tracker": int(self._tracker.item()),
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` returned, here or in PyTorch.

        Raises
        ------
        InvalidValueError
            If it is that of a scaler that is not enabled, and this one is.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise InvalidValueError(
                "GradScaler: the state must have a scale, got an empty one, of a scaler that was not enabled; create "
                "the scaler with enabled=False"
            )
        factors = (state_dict[key] for key in ("growth_factor", "backoff_factor", "growth_interval"))
        growth, backoff, interval = factors
        self._factors = (float(growth), float(backoff), int(interval))
        # They stay the same tensors, which compiled steps may have taken as arguments.
        self._scale = assigned(self._scale, np.asarray(state_dict["scale"], np.float32))
        self._tracker = assigned(self._tracker, np.asarray(state_dict["_growth_tracker"], np.int32))
