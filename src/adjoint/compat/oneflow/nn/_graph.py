"""``nn.Graph``: a static graph of the forward computation, or of the whole training step."""

from typing import Any

from adjoint.amp import autocast
from adjoint.errors import InvalidValueError, MissingAttributeError
from adjoint.func.jit import Jitted, jit
from adjoint.modules import Module
from adjoint.optim import Optimizer

__all__ = ["Graph"]


class _Config:
    """The settings of a graph."""

    def __init__(self) -> None:
        self.mixed = False

    def enable_amp(self, mode: bool = True, *, dtype: Any = None) -> None:  # noqa: ARG002
        """Compute products in bfloat16."""
        self.mixed = mode

    def allow_fuse_add_to_output(self, mode: bool = True) -> None:
        """Nothing: everything that can be fused is fused."""

    allow_fuse_cast_scale = allow_fuse_model_update_ops = allow_fuse_add_to_output


class Graph:
    """A function of tensors, `build`, that is compiled as one program with the updates of the optimizers.

    A subclass keeps modules and losses as attributes, calls `add_optimizer`, and defines ``build``, which computes, and
    calls ``backward()`` if it trains. Gradients are zeroed before each call; optimizers and schedules take a step after
    it. Only what ``build`` returns is kept.
    """

    def __init__(self, *, debug: bool = False) -> None:  # noqa: ARG002
        self.config = _Config()
        self._optimizers: list[tuple[Optimizer, Any]] = []
        self._step: Jitted | None = None

    def build(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG002
        """What the graph computes, which a subclass defines."""
        raise MissingAttributeError(f"a Graph must define build, {type(self).__name__} does not; define it")

    def add_optimizer(self, optim: Optimizer, *, lr_sch: Any = None) -> None:
        """Take a step with an optimizer after each call, and with a schedule of its learning rate.

        Parameters
        ----------
        optim : Optimizer
            Bound to parameters.
        lr_sch : LRScheduler, optional
            The schedule.

        Raises
        ------
        InvalidValueError
            After the first call, which has compiled the program.
        """
        if self._step is not None:
            raise InvalidValueError(
                "add_optimizer: optimizers must be added before the first call, got one after it; add it in __init__"
            )
        self._optimizers.append((optim, lr_sch))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program, which is compiled at the first call."""
        if self._step is None:
            self._step = jit(self._whole_step)
        result = self._step(*args, **kwargs)
        for _, schedule in self._optimizers:
            if schedule is not None:
                schedule.step()
        return result

    def state_dict(self) -> dict[str, Any]:
        """The states of the modules among the attributes, by attribute."""
        return {name: module.state_dict() for name, module in vars(self).items() if isinstance(module, Module)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Set the states of the modules among the attributes.

        Parameters
        ----------
        state_dict : dict
            What `state_dict` returned.
        """
        for name, state in state_dict.items():
            getattr(self, name).load_state_dict(state)

    def _whole_step(self, *args: Any, **kwargs: Any) -> Any:
        for optimizer, _ in self._optimizers:
            optimizer.zero_grad()
        with autocast("cpu", enabled=self.config.mixed):
            result = self.build(*args, **kwargs)
        for optimizer, _ in self._optimizers:
            optimizer.step()
        return result
