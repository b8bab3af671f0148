"""`average`: an optimizer that also keeps averages of the parameters."""

from collections.abc import Iterable, Mapping
from typing import Any

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import DTYPES, TensorType, Value
from adjoint.lazy_dataclass import dataclass
from adjoint.optim.base import StateSpec, Values, check_range
from adjoint.optim.descent import F64
from adjoint.optim.wrappers import Around

__all__ = ["average", "averages"]

_SUFFIX = "_average"


@dataclass(frozen=True)
class average(Around):  # noqa: N801
    """An optimizer that also averages the parameters over the updates, for predictions that vary less.

    ::

        a = a + (1 - decay) * (p - a)        # exponential moving average; a = p after the first update
        a = a + (p - a) / n                  # with decay None, the mean after n updates

    The averages do not take part in training. `averages` finds them in a trainer's state, and ``load_params`` lets the
    model predict with them; for a model of `adjoint.nn`, `swa_utils.AveragedModel` is a model of the averages.

    Polyak and Juditsky (1992), "Acceleration of stochastic approximation by averaging"; Izmailov et al. (2018),
    "Averaging weights leads to wider optima and better generalization".

    Parameters
    ----------
    optimizer : Optimizer
        What updates the parameters.
    decay : float, optional, default 0.999
        Hyperparameter ``average_decay``, at least 0 and below 1; None for the mean.

    Raises
    ------
    TypeRuleError
        If the optimizer is something else.
    InvalidValueError
        If the decay is out of range.

    Notes
    -----
    State: that of the optimizer, then ``<parameter>_average``, and ``averaged`` (i64), the number of updates.
    """

    decay: float | None = 0.999

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decay is not None:
            check_range("average", "decay", self.decay, high=1.0)

    def hyper(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """Those of the optimizer, and ``average_decay``, which is f64."""
        own = () if self.decay is None else (StateSpec("average_decay", F64, float(self.decay)),)
        return (*self.optimizer.hyper(params), *own)

    def init(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """The state of the optimizer, the averages, and the number of updates."""
        own = (StateSpec(f"{name}{_SUFFIX}", type_, 0.0) for name, type_ in params.items())
        return (*self.optimizer.init(params), *own, StateSpec("averaged", TensorType((), DTYPES["i64"]), 0.0))

    def check_read(self, hyper: Values, results: Iterable[Value]) -> None:
        """Raise if results do not depend on a hyperparameter of the optimizer."""
        self.optimizer.check_read({name: value for name, value in hyper.items() if name != "average_decay"}, results)

    def apply(
        self, params: Values, grads: Values, state: Values, hyper: Values
    ) -> tuple[dict[str, Value], dict[str, Value]]:
        """The optimizer's update, and the averages of its results."""
        own = {name: f"{name}{_SUFFIX}" for name in params}
        inner = {name: value for name, value in state.items() if name not in (*own.values(), "averaged")}
        settings = {name: value for name, value in hyper.items() if name != "average_decay"}
        new_params, new_state = self.optimizer.apply(params, grads, inner, settings)
        count = (state["averaged"] + 1).named("averaged_new")
        weight = 1.0 / ops.cast(count, "f64")
        if self.decay is not None:
            weight = ops.where(ops.equal(count, 1), 1.0, 1.0 - hyper["average_decay"])
        for name, full in own.items():
            old, new = state[full], new_params[name]
            new_state[full] = (old + ops.cast(weight, old.dtype) * (new - old)).named(f"{full}_new")
        return new_params, {**new_state, "averaged": count}


def averages(state: Mapping[str, Any]) -> dict[str, Any]:
    """The averages in the state of an optimizer with `average`, by the names of the parameters.

    ``trainer.load_params(averages(trainer.export_optimizer_state()))`` replaces the parameters by their averages;
    ``trainer.export_params()`` before that keeps them.

    Parameters
    ----------
    state : mapping of str to array
        The state by name.

    Raises
    ------
    InvalidValueError
        If there are none.
    """
    found = {name.removesuffix(_SUFFIX): value for name, value in state.items() if name.endswith(_SUFFIX)}
    if not found:
        raise InvalidValueError(
            f"averages: the state must be that of an optimizer with average, got {', '.join(state) or 'none'}; write "
            "average(optimizer)"
        )
    return found
