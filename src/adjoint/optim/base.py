"""The base class of optimizers: state and hyperparameters as data, the update as a graph.

An optimizer holds no arrays. `Optimizer.init` describes the state, `Optimizer.prepare` computes what is common to all
parameters (once per step), `Optimizer.update` is the elementwise update of one parameter, and `Optimizer.apply`
combines them. Numeric settings are inputs of the graph, so changing them does not recompile; flags, and whether a
setting is 0, determine the graph, so changing those does.

An own optimizer needs `Optimizer.update` alone. Its numeric attributes are its hyperparameters, and the scalars that
`update` reads; it may be a dataclass or have an ``__init__`` of its own.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from math import inf
from typing import Any, ClassVar

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError, NameLookupError, TypeRuleError
from adjoint.ir import DTYPES, Function, TensorType, Value, is_float, param
from adjoint.optim.bindable import Bindable
from adjoint.optim.own import check_hyper_read, checked_prepare, checked_update
from adjoint.optim.spec import StateSpec

__all__ = [
    "Optimizer",
    "Settings",
    "StateSpec",
    "Values",
    "check_grads",
    "check_params",
    "check_range",
    "hyper_dtype",
    "in_dtypes",
]

#: Values by name.
Values = Mapping[str, Value]


class Settings:
    """Base class of what is made of settings: optimizers, and the transforms that a chain of them consists of.

    Attributes
    ----------
    slot_names : tuple of str
        Kinds of per-parameter state; the array for parameter ``w`` is called ``w_<slot>``.
    """

    slot_names: ClassVar[tuple[str, ...]] = ()

    def slots(self) -> tuple[str, ...]:
        """The kinds of state, from `slot_names`, that these settings need."""
        return self.slot_names

    def hyper(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """The hyperparameters: graph inputs whose initial values are the settings.

        Default: the numeric attributes in their order, except bool; f32, or f64 if any parameter is.
        """
        type_ = TensorType((), hyper_dtype(params))
        return tuple(StateSpec(name, type_, value) for name, value in self._numbers().items())

    def shared(self) -> tuple[StateSpec, ...]:
        """State common to all parameters, such as the number of steps."""
        return ()

    def init(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """The state for these parameters: the shared state, then for each slot one array of zeros per parameter.

        Parameters
        ----------
        params : mapping of str to TensorType
            The parameters' types by name.

        Raises
        ------
        TypeRuleError
            If a parameter's dtype is not float.
        """
        check_params(params)
        slots = [StateSpec(f"{name}_{slot}", type_, 0.0) for slot in self.slots() for name, type_ in params.items()]
        return (*self.shared(), *slots)

    def prepare(self, hyper: Values, shared: Values) -> tuple[dict[str, Value], dict[str, Value]]:
        """Compute once what all updates need: ``(scalars, new shared state)``; default: the hyperparameters."""
        if shared:
            raise TypeRuleError(
                f"{type(self).__name__}: {self._article} with shared state ({', '.join(shared)}) must define "
                "prepare(self, hyper, shared), which returns (scalars, new shared state); add it"
            )
        return dict(hyper), {}

    #: What the subclasses are, for messages.
    _article: ClassVar[str] = "an optimizer"

    def check_names(self, params: Mapping[str, TensorType]) -> None:
        """Raise if settings name parameters that do not exist; default: they name none."""

    def elementwise(self) -> bool:
        """Whether the update of a parameter depends on its own gradient alone; default: yes."""
        return True

    def structure(self) -> Hashable:
        """Equal for settings that build the same graph.

        Adjoint's own classes read numbers as inputs, so only which hyperparameters there are counts; an own class may
        do anything with its numbers, so they count.
        """
        names = [f.name for f in fields(self)] if is_dataclass(self) else list(getattr(self, "__dict__", {}))
        known = type(self).__module__.startswith("adjoint.")
        values = [(name, _structure(getattr(self, name), known)) for name in names if name != "_bound"]
        inputs = [spec.name for spec in self.hyper({"": TensorType(())})] if known else []
        return (type(self), *values, *inputs)

    def _numbers(self) -> dict[str, float]:
        """The numeric settings: fields of a dataclass, otherwise attributes of the instance."""
        names = [f.name for f in fields(self)] if is_dataclass(self) else list(getattr(self, "__dict__", {}))
        values = {name: getattr(self, name) for name in names}
        numbers = (int, float, np.integer, np.floating)
        return {n: float(v) for n, v in values.items() if isinstance(v, numbers) and not isinstance(v, bool)}


class Optimizer(Settings, Bindable):
    """Base class of the optimizers. A subclass defines `update`; the other methods have defaults.

    An optimizer is bound to parameters if its first argument, before its settings, are parameters, or by `bind`. Then
    it has PyTorch's methods, such as `step`; without, it is part of the step that `SetupTrainer` makes.

    Every hyperparameter has to be read by `update` or `prepare`. A number that builds the graph, such as a number of
    iterations, is therefore omitted from `hyper`.
    """

    def update(
        self,
        param: Value,  # noqa: ARG002
        grad: Value,  # noqa: ARG002
        slots: Values,  # noqa: ARG002
        scalars: Values,  # noqa: ARG002
    ) -> tuple[Value, dict[str, Value]]:
        """The elementwise update of one parameter: ``(new parameter, new slots)``.

        Parameters
        ----------
        param, grad : Value
            The parameter and its gradient, of the same type.
        slots : mapping of str to Value
            The parameter's state by slot, of the same type.
        scalars : mapping of str to Value
            The scalars from `prepare`, in the parameter's dtype.
        """
        raise self._no_update()

    def options(self) -> dict[str, Any]:
        """The settings that a group of parameters has: fields of a dataclass, otherwise the hyperparameters."""
        if is_dataclass(self):
            found = {f.name: getattr(self, f.name) for f in fields(self) if f.init}
            if not any(isinstance(value, Settings) for value in found.values()):
                return found
        return {spec.name: spec.initial for spec in self.hyper({"": TensorType(())})}

    def with_options(
        self, options: Mapping[str, Any], params: Mapping[str, TensorType]
    ) -> tuple["Optimizer", list[float]]:
        """The optimizer with the settings of a group, and the values of its hyperparameters.

        Fields of a dataclass make a new optimizer, which checks them; hyperparameters leave it as it is.

        Parameters
        ----------
        options : mapping of str to object
            Settings by the names from `options`; others have no effect.
        params : mapping of str to TensorType
            The parameters' types by name.
        """
        own = self.options()
        if is_dataclass(self) and all(f.name in own for f in fields(self) if f.init):
            made: Optimizer = replace(self, **{name: options[name] for name in own if name in options})
            return made, [spec.initial for spec in made.hyper(params)]
        return self, [float(options.get(spec.name, spec.initial)) for spec in self.hyper(params)]

    def export_shared(self, shared: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The shared state as PyTorch has it in the state of each parameter; default: as it is."""
        return dict(shared)

    def import_shared(self, entry: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The shared state from a parameter's state in a ``state_dict``; the inverse of `export_shared`."""
        return dict(entry)

    def rate_factor(self, shared: Mapping[str, float]) -> float:  # noqa: ARG002
        """What schedules within the step multiply the learning rate by at the next update; default: 1.

        Parameters
        ----------
        shared : mapping of str to float
            The scalars of the shared state; those that are missing have their initial values.
        """
        return 1.0

    def require_update(self) -> None:
        """Raise if the subclass does not define `update`."""
        if type(self).update is Optimizer.update:
            raise self._no_update()

    def _no_update(self) -> TypeRuleError:
        return TypeRuleError(
            f"{type(self).__name__}: an optimizer must define update(self, param, grad, slots, scalars), which returns "
            "(new parameter, new slots); add it"
        )

    def apply(
        self, params: Values, grads: Values, state: Values, hyper: Values
    ) -> tuple[dict[str, Value], dict[str, Value]]:
        """The update of all parameters.

        Parameters
        ----------
        params, grads : mapping of str to Value
            Parameters and their gradients, by parameter name.
        state : mapping of str to Value
            The state, by the names from `init`.
        hyper : mapping of str to Value
            The hyperparameters, by the names from `hyper`.

        Returns
        -------
        new_params, new_state : dict of str to Value
            In the order of `params` and of `init`.
        """
        check_grads(params, grads)
        self.require_update()
        own = type(self).__name__
        shared = {spec.name: state[spec.name] for spec in self.shared()}
        scalars, new_state = checked_prepare(own, self.prepare, hyper, shared)
        cast = in_dtypes(scalars, params)
        new_params: dict[str, Value] = {}
        new_slots: dict[str, Value] = {}
        for name, old in params.items():
            slots = {slot: state[f"{name}_{slot}"] for slot in self.slots()}
            new, updated = checked_update(own, self.update, old, grads[name], slots, cast[old.dtype])
            new_params[name] = new.named(f"{name}_new")
            new_slots |= {f"{name}_{slot}": value for slot, value in updated.items()}
        for slot in self.slots():
            new_state |= {f"{name}_{slot}": new_slots[f"{name}_{slot}"] for name in params}
        return new_params, new_state

    def check_read(self, hyper: Values, results: Iterable[Value]) -> None:
        """Raise if results do not depend on a hyperparameter, which could then be set without effect.

        Parameters
        ----------
        hyper : mapping of str to Value
            The hyperparameters, by the names from `hyper`.
        results : iterable of Value
            The new parameters and the new state.

        Raises
        ------
        TypeRuleError
            If a hyperparameter is not read.
        """
        own = type(self)
        check_hyper_read(own.__name__, own.update, hyper, results, prepares=own.prepare is not Settings.prepare)

    def function(self, params: Mapping[str, TensorType]) -> Function:
        """The update of all parameters as a separate function called ``optimizer``.

        Parameters
        ----------
        params : mapping of str to TensorType
            The parameters' types by name; the function uses the same names.

        Returns
        -------
        Function
            ``(params..., grads..., state..., hyper...) -> (new params..., new state...)``. The gradient of ``w`` is
            called ``w_adjoint``; the state and hyperparameters are those of `init` and `hyper`. Its attribute
            ``donate`` lets parameters and state be updated in place.

        Raises
        ------
        TypeRuleError
            If no result depends on a hyperparameter, which could then be set without effect.
        """
        check_params(params)
        self.check_names(params)
        state_specs, hyper_specs = self.init(params), self.hyper(params)
        weights = {name: param(name, t.shape, t.dtype) for name, t in params.items()}
        grads = {name: param(f"{name}_adjoint", t.shape, t.dtype) for name, t in params.items()}
        state = {spec.name: param(spec.name, spec.type.shape, spec.type.dtype) for spec in state_specs}
        hyper = {spec.name: param(spec.name, spec.type.shape, spec.type.dtype) for spec in hyper_specs}
        new_params, new_state = self.apply(weights, grads, state, hyper)
        inputs = (*weights.values(), *grads.values(), *state.values(), *hyper.values())
        results = {**new_params, **new_state}
        self.check_read(hyper, results.values())
        donate = tuple((name, i) for i, name in enumerate(results))
        return Function("optimizer", inputs, tuple(results.values()), {"donate": donate})


def _structure(value: object, known: bool) -> Hashable:
    if isinstance(value, Settings):
        return value.structure()
    if isinstance(value, tuple):
        return tuple(_structure(each, known) for each in value)
    if known and isinstance(value, int | float) and not isinstance(value, bool):
        return None
    return value if isinstance(value, Hashable) else id(value)


def check_grads(params: Values, grads: Values) -> None:
    """Raise if a parameter has no gradient."""
    for name in params:
        if name not in grads:
            raise NameLookupError(f"optimizer: parameter {name!r} has no gradient; choose one of {', '.join(grads)}")


def in_dtypes(scalars: Values, params: Values) -> dict[np.dtype, dict[str, Value]]:
    """The scalars in each dtype of the parameters, cast once per dtype regardless of the number of parameters."""
    return {
        dtype: {name: x if x.dtype == dtype else ops.cast(x, dtype) for name, x in scalars.items()}
        for dtype in dict.fromkeys(p.dtype for p in params.values())
    }


def check_params(params: Mapping[str, TensorType]) -> None:
    """Raise if there are no parameters or one of them is not float."""
    if not params:
        raise TypeRuleError("optimizer: at least one parameter is required, got none; check param_num")
    for name, type_ in params.items():
        if not is_float(type_.dtype):
            raise TypeRuleError(
                f"optimizer: parameters must have a float dtype, got {name} of {type_}; "
                "pass integers as inputs of the backbone"
            )


def hyper_dtype(params: Mapping[str, TensorType]) -> np.dtype:
    """Dtype of the plain hyperparameters: f64 if any parameter is f64, otherwise f32."""
    widest = DTYPES["f64"]
    return widest if any(t.dtype == widest for t in params.values()) else DTYPES["f32"]


def check_range(optimizer: str, name: str, value: float, high: float = inf) -> None:
    """Raise if a setting is not a number in ``[0, high)``."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating | np.integer):
        raise InvalidValueError(f"{optimizer}: {name} must be a number, got {value!r}")
    if not 0.0 <= value < high:
        limits = "finite and at least 0" if high == inf else f"at least 0 and below {high:g}"
        raise InvalidValueError(f"{optimizer}: {name} must be {limits}, got {value}")
