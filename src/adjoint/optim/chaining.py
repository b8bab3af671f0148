"""`chain`: an optimizer composed of transforms, the model of which is Optax's ``chain``.

The directions of all parameters, first their gradients, pass through the transforms in order; what comes out is
subtracted from the parameters. `SGD`, `Adam` and `AdamW` are chains too, and each part can be used in another one.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError, kind_of
from adjoint.ir import TensorType, Value
from adjoint.optim.base import Optimizer, Settings, StateSpec, Values, check_grads, check_params, in_dtypes
from adjoint.optim.direction import Direction, Scale, descend, scaled
from adjoint.optim.own import check_hyper_read, checked_direction, checked_measure, checked_prepare
from adjoint.optim.scaling import scale_by_schedule
from adjoint.optim.transform import Transform

__all__ = ["Chain", "chain"]

#: What a chain consists of: transforms, and perhaps an optimizer as the last.
Part = Transform | Optimizer


class Chain(Optimizer):
    """An optimizer that is composed of parts; `chain` makes one.

    Parameters
    ----------
    *elements : Transform or Optimizer
        The parts in order. An optimizer that is itself a chain contributes its parts. Any other optimizer must be the
        last element: it gets the directions as its gradients.

    Raises
    ------
    TypeRuleError
        If an element is neither, or an optimizer that is not a chain is followed by another element.
    InvalidValueError
        If there are no elements.

    Notes
    -----
    State and hyperparameters are those of the parts, in order. Where two parts have the same name, as in a chain of two
    momenta, that of the second ends in ``_2``.
    """

    #: The order of the hyperparameters; () is that of the parts.
    hyper_order: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *elements: Part) -> None:
        if not elements:
            raise InvalidValueError("chain: at least one part is required, got none; write chain(SGD(0.1))")
        for i, element in enumerate(elements):
            given: object = element
            if not isinstance(given, Transform | Optimizer):
                fix = "call it" if isinstance(given, type) else "pass such as clip_by_value(1.0) or SGD(0.1)"
                raise TypeRuleError(f"chain takes transforms and optimizers, got {kind_of(given)}; {fix}")
            if isinstance(given, Optimizer) and not _is_open(given) and i + 1 < len(elements):
                raise TypeRuleError(
                    f"chain: {type(given).__name__} changes parameters itself, so nothing can follow it, got "
                    f"{kind_of(elements[i + 1])} after it; put it last"
                )
        self.elements = elements

    def __repr__(self) -> str:
        return f"chain({', '.join(map(repr, self.elements))})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Chain) and self.elements == other.elements

    def __hash__(self) -> int:
        return hash(self.elements)

    def parts(self) -> tuple[Part, ...]:
        """The parts in order, with those of chains among the elements in place of the chains."""
        return tuple(
            part
            for element in self.elements
            for part in (element.parts() if isinstance(element, Chain) and _is_open(element) else (element,))
        )

    def hyper(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """The hyperparameters of the parts."""
        found = [
            StateSpec(names[spec.name], spec.type, spec.initial)
            for specs, names in self._hyper(params)
            for spec in specs
        ]
        order = {name: i for i, name in enumerate(self.hyper_order)}
        return tuple(sorted(found, key=lambda spec: order.get(spec.name, len(order))))

    def slots(self) -> tuple[str, ...]:
        """The slots of the parts, whose names must differ for `update`."""
        return tuple(slot for part in self.parts() for slot in part.slots())

    def shared(self) -> tuple[StateSpec, ...]:
        """The shared state of the parts, whose names must differ for `prepare`."""
        return tuple(spec for part in self.parts() for spec in part.shared())

    def init(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """The state of the parts: for each its shared state, then its slots."""
        check_params(params)
        return tuple(
            StateSpec(names[spec.name], spec.type, spec.initial)
            for specs, names in self._state(params)
            for spec in specs
        )

    def check_names(self, params: Mapping[str, TensorType]) -> None:
        """Raise if settings of a part name parameters that do not exist."""
        for part in self.parts():
            part.check_names(params)

    def rate_factor(self, shared: Mapping[str, float]) -> float:
        """The product of the schedules among the parts."""
        factor = 1.0
        for part, (_, names) in zip(self.parts(), self._state({"": TensorType(())}), strict=True):
            own = {name: shared[full] for name, full in names.items() if full in shared}
            if isinstance(part, scale_by_schedule):
                factor *= part.factor(int(own.get("count", 0)))
            elif isinstance(part, Optimizer) and _is_open(self):
                factor *= part.rate_factor(own)
        return factor

    def elementwise(self) -> bool:
        """Whether all parts are."""
        return all(part.elementwise() for part in self.parts())

    def structure(self) -> Hashable:
        """The structure of the parts."""
        own = super().structure() if not _is_open(self) else type(self)
        return (own, *(part.structure() for part in self.parts()))

    def require_update(self) -> None:
        """Raise if the last part is an optimizer that does not define `update`."""
        for part in self.parts():
            if isinstance(part, Optimizer):
                part.require_update()

    def prepare(self, hyper: Values, shared: Values) -> tuple[dict[str, Value], dict[str, Value]]:
        """The scalars of all parts, and ``step_size`` and ``keep``, for `update`."""
        scalars: dict[str, Value] = {}
        new: dict[str, Value] = {}
        scale = Scale()
        for part in self._elementwise_parts():
            own, updated = part.prepare(hyper, shared)
            scalars |= own
            new |= updated
            scale = part.rescale(scale, own)
        return scalars | scale.scalars(), new

    def update(self, param: Value, grad: Value, slots: Values, scalars: Values) -> tuple[Value, dict[str, Value]]:
        """The elementwise update of one parameter, for an own optimizer derived from a chain of elementwise parts."""
        direction: Direction = grad
        updated: dict[str, Value] = {}
        for part in self._elementwise_parts():
            if part.reads_directions():
                direction, new = part.update(param, scaled(direction, {}, param), slots, scalars)
                updated |= new
        return descend(param, direction, dict(scalars)), updated

    def apply(
        self, params: Values, grads: Values, state: Values, hyper: Values
    ) -> tuple[dict[str, Value], dict[str, Value]]:
        """The update of all parameters, one part after the other."""
        if not _is_open(self):
            return super().apply(params, grads, state, hyper)
        check_grads(params, grads)
        types = {name: value.type for name, value in params.items()}
        passing = _Passing(params, grads)
        new_state: dict[str, Value] = {}
        # State and hyperparameters under the names that they have in the part alone.
        for part, (_, states), (_, settings) in zip(self.parts(), self._state(types), self._hyper(types), strict=True):
            own_state = {name: state[full] for name, full in states.items()}
            own_hyper = {name: hyper[full] for name, full in settings.items()}
            if isinstance(part, Optimizer):
                new_params, new = part.apply(params, passing.flushed(list(params)), own_state, own_hyper)
                return new_params, new_state | {states[name]: value for name, value in new.items()}
            new = passing.through(part, own_state, own_hyper)
            new_state |= {full: new[name] for name, full in states.items()}
        return passing.descended(), new_state

    def check_read(self, hyper: Values, results: Iterable[Value]) -> None:
        """Raise, naming the part, if results do not depend on a hyperparameter."""
        if not _is_open(self):
            super().check_read(hyper, results)
            return
        results = list(results)
        for part, (_, names) in zip(self.parts(), self._hyper({"": TensorType(())}), strict=True):
            own = {name: hyper[full] for name, full in names.items()}
            if isinstance(part, Optimizer):
                part.check_read(own, results)
            else:
                prepares = type(part).prepare is not Settings.prepare
                check_hyper_read(type(part).__name__, type(part).update, own, results, prepares=prepares)

    def _elementwise_parts(self) -> list[Transform]:
        """The parts, if `update` can apply them to one parameter after the other."""
        found: list[Transform] = []
        for part in self.parts():
            if isinstance(part, Optimizer) or not part.elementwise():
                raise TypeRuleError(
                    f"{type(self).__name__}: update cannot be extended in a chain with {type(part).__name__}, which "
                    "reads all gradients; write a Transform and put it into the chain"
                )
            found.append(part)
        return found

    def _hyper(self, params: Mapping[str, TensorType]) -> list[tuple[tuple[StateSpec, ...], dict[str, str]]]:
        """The hyperparameters of each part, and the names that they have in the chain."""
        return with_names([part.hyper(params) for part in self.parts()])

    def _state(self, params: Mapping[str, TensorType]) -> list[tuple[tuple[StateSpec, ...], dict[str, str]]]:
        """The state of each part, and the names that it has in the chain."""
        return with_names([part.init(params) for part in self.parts()])


def chain(*elements: Any) -> Chain:
    """An optimizer composed of transforms and optimizers: ``chain(clip_by_global_norm(1.0), AdamW(1e-3))``.

    Parameters
    ----------
    *elements : Transform or Optimizer
        See `Chain`. The first may be the parameters to which the optimizer is bound.
    """
    return Chain(*elements)


class _Passing:
    """The directions of all parameters on their way through the parts of a chain."""

    def __init__(self, params: Values, grads: Values) -> None:
        self._params = params
        self._directions: dict[str, Direction] = {name: grads[name] for name in params}
        self._scales = dict.fromkeys(params, Scale())

    def through(self, part: Transform, state: Values, hyper: Values) -> dict[str, Value]:
        """Pass them through a transform; returns its new state."""
        owner = type(part).__name__
        shared = {spec.name: state[spec.name] for spec in part.shared()}
        names = [name for name, param in self._params.items() if part.applies_to(name, param.type)]
        scalars, new_state = checked_prepare(owner, part.prepare, hyper, shared, "Transform")
        if names and part.reads_directions():
            plain = self.flushed(names)
            scalars |= checked_measure(owner, part.measure, plain, scalars)
            cast = in_dtypes(scalars, {name: self._params[name] for name in names})
            for name in names:
                param = self._params[name]
                slots = {slot: state[f"{name}_{slot}"] for slot in part.slots() if f"{name}_{slot}" in state}
                new, updated = checked_direction(owner, part.update, param, plain[name], slots, cast[param.dtype])
                self._directions[name] = new
                new_state |= {f"{name}_{slot}": value for slot, value in updated.items()}
        rescaled: dict[int, Scale] = {}  # by the scale before, which parameters share
        for name in names:
            before = self._scales[name]
            if id(before) not in rescaled:
                rescaled[id(before)] = part.rescale(before, scalars)
            self._scales[name] = rescaled[id(before)]
        return new_state

    def flushed(self, names: Sequence[str]) -> dict[str, Value]:
        """The directions of these parameters as tensors, multiplied by their scales, which are 1 afterwards."""
        one = Scale()
        factors = self._factors(names)
        for name in names:
            self._directions[name] = scaled(self._directions[name], factors[name], self._params[name])
            self._scales[name] = one
        return {name: self._plain(name) for name in names}

    def descended(self) -> dict[str, Value]:
        """The new parameters."""
        factors = self._factors(list(self._params))
        return {
            name: descend(param, self._directions[name], factors[name]).named(f"{name}_new")
            for name, param in self._params.items()
        }

    def _plain(self, name: str) -> Value:
        return scaled(self._directions[name], {}, self._params[name])

    def _factors(self, names: Sequence[str]) -> dict[str, dict[str, Value]]:
        """The scalars of each parameter's scale, in its dtype."""
        cast: dict[int, dict[np.dtype, dict[str, Value]]] = {}
        for name in names:
            scale = self._scales[name]
            if id(scale) not in cast:
                sharing = {other: p for other, p in self._params.items() if self._scales[other] is scale}
                cast[id(scale)] = in_dtypes(scale.scalars(), sharing)
        return {name: cast[id(self._scales[name])][self._params[name].dtype] for name in names}


def _is_open(optimizer: Optimizer) -> bool:
    """Whether it is a chain whose parts say all: no subclass extends its `update` or `prepare`."""
    own = type(optimizer)
    return isinstance(optimizer, Chain) and own.update is Chain.update and own.prepare is Chain.prepare


def with_names(
    parts: Sequence[tuple[StateSpec, ...]],
) -> list[tuple[tuple[StateSpec, ...], dict[str, str]]]:
    """With what each part has, the names that are unique in the chain: the second ``step`` is called ``step_2``."""
    taken: set[str] = set()
    found = []
    for specs in parts:
        names: dict[str, str] = {}
        for spec in specs:
            name, count = spec.name, 1
            while name in taken:
                count += 1
                name = f"{spec.name}_{count}"
            taken.add(name)
            names[spec.name] = name
        found.append((specs, names))
    return found
