"""What every optimizer shares: its state and hyperparameters as data, its update as a graph.

An optimizer holds no arrays. `Optimizer.init` says which state it needs, `Optimizer.prepare` computes what all
parameters share (once a step), `Optimizer.update` is the elementwise update of one parameter, and `Optimizer.apply`
puts them together. The numbers among its settings are inputs of the graph, so changing them recompiles nothing;
settings that are 0 or a flag shape the graph, and changing those does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError, NameLookupError, TypeRuleError
from adjoint.ir import DTYPES, Function, TensorType, Value, is_float, param

__all__ = ["Optimizer", "StateSpec", "check_range", "hyper_dtype"]

#: Values by name.
Values = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class StateSpec:
    """One array of the state, or one hyperparameter, before any array exists.

    Parameters
    ----------
    name : str
        Name of the graph input that it is.
    type : TensorType
        Its type.
    initial : float
        What each of its elements starts from.
    """

    name: str
    type: TensorType
    initial: float

    def array(self) -> np.ndarray:
        """A new array of the initial value."""
        return np.full(self.type.shape, self.initial, self.type.dtype)


@dataclass(frozen=True, slots=True)
class Optimizer:
    """Base of the optimizers.

    Attributes
    ----------
    slots : tuple of str
        Kinds of state that each parameter has one array of; the array of parameter ``w`` is called ``w_<slot>``.
    """

    slot_names: ClassVar[tuple[str, ...]] = ()

    def slots(self) -> tuple[str, ...]:
        """The kinds of state that these settings need, of `slot_names`."""
        return self.slot_names

    def hyper(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """The hyperparameters: graph inputs that start from the settings."""
        raise NotImplementedError

    def shared(self) -> tuple[StateSpec, ...]:
        """State that all parameters share, such as the number of steps."""
        return ()

    def init(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """The state for these parameters: what they share, then slot by slot one array per parameter, zeros.

        Parameters
        ----------
        params : mapping of str to TensorType
            The parameters' types by name.

        Raises
        ------
        TypeRuleError
            For a parameter that is not of a float dtype.
        """
        check_params(params)
        slots = [StateSpec(f"{name}_{slot}", type_, 0.0) for slot in self.slots() for name, type_ in params.items()]
        return (*self.shared(), *slots)

    def prepare(self, hyper: Values, shared: Values) -> tuple[dict[str, Value], dict[str, Value]]:
        """What the updates of all parameters share, computed once: ``(scalars, new shared state)``."""
        raise NotImplementedError

    def update(self, param: Value, grad: Value, slots: Values, scalars: Values) -> tuple[Value, dict[str, Value]]:
        """One parameter's update, elementwise: ``(new parameter, new slots)``.

        Parameters
        ----------
        param, grad : Value
            The parameter and its gradient, of one type.
        slots : mapping of str to Value
            The parameter's state by slot, of its type.
        scalars : mapping of str to Value
            What `prepare` computed, in the parameter's dtype.
        """
        raise NotImplementedError

    def apply(
        self, params: Values, grads: Values, state: Values, hyper: Values
    ) -> tuple[dict[str, Value], dict[str, Value]]:
        """The update of all parameters.

        Parameters
        ----------
        params, grads : mapping of str to Value
            Parameters and their gradients, by the parameters' names.
        state : mapping of str to Value
            The state by the names of `init`.
        hyper : mapping of str to Value
            The hyperparameters by the names of `hyper`.

        Returns
        -------
        new_params, new_state : dict of str to Value
            In the order of `params` and of `init`.
        """
        for name in params:
            if name not in grads:
                raise NameLookupError(
                    f"optimizer: parameter {name!r} has no gradient; choose one of {', '.join(grads)}"
                )
        scalars, new_state = self.prepare(hyper, {spec.name: state[spec.name] for spec in self.shared()})
        # One cast of each scalar for a dtype, whatever the number of parameters.
        cast = {
            dtype: {name: x if x.dtype == dtype else ops.cast(x, dtype) for name, x in scalars.items()}
            for dtype in dict.fromkeys(p.dtype for p in params.values())
        }
        new_params: dict[str, Value] = {}
        new_slots: dict[str, Value] = {}
        for name, old in params.items():
            slots = {slot: state[f"{name}_{slot}"] for slot in self.slots()}
            new, updated = self.update(old, grads[name], slots, cast[old.dtype])
            new_params[name] = new.named(f"{name}_new")
            new_slots |= {f"{name}_{slot}": value for slot, value in updated.items()}
        for slot in self.slots():
            new_state |= {f"{name}_{slot}": new_slots[f"{name}_{slot}"] for name in params}
        return new_params, new_state

    def function(self, params: Mapping[str, TensorType]) -> Function:
        """The update of all parameters as a function of its own, called ``optimizer``.

        Parameters
        ----------
        params : mapping of str to TensorType
            The parameters' types by name; the names are kept.

        Returns
        -------
        Function
            ``(params..., grads..., state..., hyper...) -> (new params..., new state...)``, where the gradient of
            ``w`` is called ``w_adjoint``, the state is that of `init` and the hyperparameters are those of `hyper`.
            Its attribute ``donate`` lets parameters and state be updated in place.
        """
        state_specs, hyper_specs = self.init(params), self.hyper(params)
        weights = {name: param(name, t.shape, t.dtype) for name, t in params.items()}
        grads = {name: param(f"{name}_adjoint", t.shape, t.dtype) for name, t in params.items()}
        state = {spec.name: param(spec.name, spec.type.shape, spec.type.dtype) for spec in state_specs}
        hyper = {spec.name: param(spec.name, spec.type.shape, spec.type.dtype) for spec in hyper_specs}
        new_params, new_state = self.apply(weights, grads, state, hyper)
        inputs = (*weights.values(), *grads.values(), *state.values(), *hyper.values())
        results = {**new_params, **new_state}
        donate = tuple((name, i) for i, name in enumerate(results))
        return Function("optimizer", inputs, tuple(results.values()), {"donate": donate})


def check_params(params: Mapping[str, TensorType]) -> None:
    """Refuse parameters that no gradient step can change."""
    if not params:
        raise TypeRuleError("optimizer: at least one parameter is required, got none; check param_num")
    for name, type_ in params.items():
        if not is_float(type_.dtype):
            raise TypeRuleError(
                f"optimizer: parameters must have a float dtype, got {name} of {type_}; "
                "pass integers as inputs of the backbone"
            )


def hyper_dtype(params: Mapping[str, TensorType]) -> np.dtype:
    """Dtype of the plain hyperparameters: f64 where a parameter is, else f32."""
    widest = DTYPES["f64"]
    return widest if any(t.dtype == widest for t in params.values()) else DTYPES["f32"]


def check_range(optimizer: str, name: str, value: float, high: float = inf) -> None:
    """Refuse a setting outside ``[0, high)``, or no number."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating | np.integer):
        raise InvalidValueError(f"{optimizer}: {name} must be a number, got {value!r}")
    if not 0.0 <= value < high:
        limits = "finite and at least 0" if high == inf else f"at least 0 and below {high:g}"
        raise InvalidValueError(f"{optimizer}: {name} must be {limits}, got {value}")
