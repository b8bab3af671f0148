"""`accumulate`: one update from the mean gradient of several steps."""

from collections.abc import Hashable, Mapping

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import DTYPES, TensorType, Value
from adjoint.lazy_dataclass import dataclass
from adjoint.optim.base import StateSpec, Values, check_grads
from adjoint.optim.wrappers import Around, chosen

__all__ = ["accumulate"]


@dataclass(frozen=True)
class accumulate(Around):  # noqa: N801
    """An optimizer that updates in every k-th step, with the mean of the gradients since the last update.

    The batch is then k times as large, in the memory of one. Whether a step updates is decided within the compiled
    step. The state of the optimizer changes only in steps that update; so schedules and bias corrections count updates.

    Parameters
    ----------
    optimizer : Optimizer
        What updates the parameters.
    every : int
        The number of steps per update, at least 1.

    Raises
    ------
    TypeRuleError
        If the optimizer is something else.
    InvalidValueError
        If the number is not an int of at least 1.

    Notes
    -----
    State: that of the optimizer, then ``<parameter>_accumulated``, the sum of gradients, and ``accumulated_steps``
    (i64), the number of its terms.
    """

    every: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.every) is not int or self.every < 1:
            raise InvalidValueError(f"accumulate: every must be an int of at least 1, got {self.every!r}")

    def structure(self) -> Hashable:
        """With the number of steps, which is part of the graph."""
        return (super().structure(), self.every)

    def init(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """The state of the optimizer, the sums, and their number of terms."""
        sums = (StateSpec(f"{name}_accumulated", type_, 0.0) for name, type_ in params.items())
        return (*self.optimizer.init(params), *sums, StateSpec("accumulated_steps", TensorType((), DTYPES["i64"]), 0.0))

    def apply(
        self, params: Values, grads: Values, state: Values, hyper: Values
    ) -> tuple[dict[str, Value], dict[str, Value]]:
        """The optimizer's update, or what was there before with longer sums."""
        check_grads(params, grads)
        own = {name: f"{name}_accumulated" for name in params}
        sums = {name: state[full] + grads[name] for name, full in own.items()}
        count = state["accumulated_steps"] + 1
        updates = ops.equal(count, self.every).named("updates")
        inner = {name: value for name, value in state.items() if name not in (*own.values(), "accumulated_steps")}
        means = {name: value * (1.0 / self.every) for name, value in sums.items()}
        new_params, new_state = self.optimizer.apply(params, means, inner, hyper)
        left = {own[name]: ops.where(updates, 0.0, value).named(f"{own[name]}_new") for name, value in sums.items()}
        count = ops.where(updates, 0, count).named("accumulated_steps_new")
        new_state = {**chosen(updates, new_state, state), **left, "accumulated_steps": count}
        return chosen(updates, new_params, params), new_state
