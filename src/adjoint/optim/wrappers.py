"""Optimizers around another: `freeze` keeps some parameters constant, `skip_nonfinite` leaves out bad steps."""

from collections.abc import Iterable, Mapping
from functools import reduce
from math import inf

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError, kind_of
from adjoint.ir import DTYPES, TensorType, Value
from adjoint.lazy_dataclass import dataclass
from adjoint.optim.base import Optimizer, StateSpec, Values, check_grads
from adjoint.optim.transform import Which, require_selected, selector

__all__ = ["Around", "all_finite", "chosen", "freeze", "skip_nonfinite"]

_COUNT = TensorType((), DTYPES["i64"])


@dataclass(frozen=True)
class Around(Optimizer):
    """Base class of optimizers that let another do the updates.

    Parameters
    ----------
    optimizer : Optimizer
        The other.

    Raises
    ------
    TypeRuleError
        If it is something else.
    """

    optimizer: Optimizer

    def __post_init__(self) -> None:
        given: object = self.optimizer
        if not isinstance(given, Optimizer):
            fix = "call it" if isinstance(given, type) else "wrap the whole optimizer, as in chain(..., SGD(0.1))"
            raise TypeRuleError(
                f"{type(self).__name__} takes an optimizer such as SGD(0.1), got {kind_of(given)}; {fix}"
            )

    def require_update(self) -> None:
        """Raise if the optimizer does not define `update`."""
        self.optimizer.require_update()

    def hyper(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """Those of the optimizer."""
        return self.optimizer.hyper(params)

    def check_names(self, params: Mapping[str, TensorType]) -> None:
        """Raise if settings of the optimizer name parameters that do not exist."""
        self.optimizer.check_names(params)

    def rate_factor(self, shared: Mapping[str, float]) -> float:
        """That of the optimizer."""
        return self.optimizer.rate_factor(shared)

    def elementwise(self) -> bool:
        """Whether the optimizer is."""
        return self.optimizer.elementwise()

    def check_read(self, hyper: Values, results: Iterable[Value]) -> None:
        """Raise if results do not depend on a hyperparameter of the optimizer."""
        self.optimizer.check_read(hyper, results)


@dataclass(frozen=True)
class freeze(Around):  # noqa: N801
    """An optimizer that keeps some parameters constant. They have no state, and their gradients are not computed.

    Parameters
    ----------
    optimizer : Optimizer
        What updates the other parameters.
    which : str, sequence of str or callable
        Patterns of the names of the constant parameters, such as ``"embedding.*"``, or a function of a parameter's name
        and `TensorType`.

    Raises
    ------
    TypeRuleError
        If one of them is something else.
    """

    which: Which

    def __post_init__(self) -> None:
        super().__post_init__()
        selector("freeze", self.which)
        if isinstance(self.which, list):
            object.__setattr__(self, "which", tuple(self.which))

    def hyper(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """Those of the optimizer, for the parameters that it updates."""
        return self.optimizer.hyper(self._free(params))

    def init(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """The state of the optimizer for the parameters that it updates."""
        free = self._free(params)
        return self.optimizer.init(free) if free else ()

    def check_names(self, params: Mapping[str, TensorType]) -> None:
        """Raise if all parameters are constant, or none."""
        free = self._free(params)
        require_selected("freeze", self.which, params, [name for name in params if name not in free])
        if not free:
            raise InvalidValueError(
                f"freeze: {self.which!r} selects all parameters, {', '.join(params)}; leave one to be updated"
            )
        self.optimizer.check_names(free)

    def apply(
        self, params: Values, grads: Values, state: Values, hyper: Values
    ) -> tuple[dict[str, Value], dict[str, Value]]:
        """The optimizer's update of the parameters that are not constant."""
        free = self._free({name: value.type for name, value in params.items()})
        if not free:
            return dict(params), {}
        new_params, new_state = self.optimizer.apply({name: params[name] for name in free}, grads, state, hyper)
        return {name: new_params.get(name, value) for name, value in params.items()}, new_state

    def _free(self, params: Mapping[str, TensorType]) -> dict[str, TensorType]:
        chosen = selector("freeze", self.which)
        return {name: type_ for name, type_ in params.items() if not chosen(name, type_)}


@dataclass(frozen=True)
class skip_nonfinite(Around):  # noqa: N801
    """An optimizer that changes nothing in a step in which a gradient has a NaN or an infinity.

    Parameters
    ----------
    optimizer : Optimizer
        What updates the parameters otherwise.

    Raises
    ------
    TypeRuleError
        If it is something else.

    Notes
    -----
    State: that of the optimizer, then ``skipped`` (i64), the number of steps without an update.
    """

    def elementwise(self) -> bool:
        """Whether the update of a parameter depends on its own gradient alone: no."""
        return False

    def init(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """The state of the optimizer, and ``skipped``."""
        return (*self.optimizer.init(params), StateSpec("skipped", _COUNT, 0.0))

    def apply(
        self, params: Values, grads: Values, state: Values, hyper: Values
    ) -> tuple[dict[str, Value], dict[str, Value]]:
        """The optimizer's update, or what was there before."""
        check_grads(params, grads)
        finite = all_finite([grads[name] for name in params]).named("finite")
        inner = {name: value for name, value in state.items() if name != "skipped"}
        new_params, new_state = self.optimizer.apply(params, grads, inner, hyper)
        skipped = ops.where(finite, state["skipped"], state["skipped"] + 1).named("skipped_new")
        return chosen(finite, new_params, params), {**chosen(finite, new_state, state), "skipped": skipped}


def all_finite(tensors: Iterable[Value]) -> Value:
    """Whether all elements of all tensors are finite, a bool scalar."""
    # The largest magnitude is NaN if any element is, and NaN is not less than infinity.
    return reduce(ops.logical_and, [ops.less(ops.max(abs(x)), inf) for x in tensors])


def chosen(condition: Value, new: Values, old: Values) -> dict[str, Value]:
    """The new values if a bool scalar is true, otherwise the old ones of the same names."""
    return {name: ops.where(condition, value, old[name]).named(f"{name}_kept") for name, value in new.items()}
