"""`partition`: different optimizers for different parameters of one step."""

from collections.abc import Iterable, Mapping
from typing import Any

from adjoint.errors import TypeRuleError, kind_of
from adjoint.ir import TensorType, Value
from adjoint.lazy_dataclass import dataclass
from adjoint.optim.base import Optimizer, StateSpec, Values, check_params
from adjoint.optim.chaining import with_names
from adjoint.optim.transform import Which, require_selected, selector

__all__ = ["partition"]


@dataclass(frozen=True)
class partition(Optimizer):  # noqa: N801
    """Parameter groups of a step: an optimizer for each, the first whose pattern fits a parameter's name.

    ``partition([("*.bias", SGD(0.1)), ("*.weight", Muon(0.02))], AdamW(1e-3))``

    Parameters
    ----------
    rules : sequence of pairs
        Patterns of names such as ``"*.bias"``, or a function of a parameter's name and `TensorType`, with the
        optimizer of these parameters.
    rest : Optimizer
        The optimizer of the parameters that no rule selects.

    Raises
    ------
    TypeRuleError
        If one of them is something else.
    InvalidValueError
        Later, if a rule selects no parameter.

    Notes
    -----
    State and hyperparameters are those of the optimizers, in order. Where two have the same name, that of the second
    ends in ``_2``: the learning rates are ``lr``, ``lr_2`` and so on.
    """

    rules: tuple[tuple[Which, Optimizer], ...]
    rest: Optimizer

    def __post_init__(self) -> None:
        given: Any = self.rules
        pairs = tuple(given) if isinstance(given, list | tuple) else ()
        if not pairs or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
            raise TypeRuleError(
                "partition takes pairs of a pattern and an optimizer, got "
                f"{kind_of(given)}; write partition([('*.bias', SGD(0.1))], AdamW())"
            )
        for optimizer in (*(each for _, each in pairs), self.rest):
            if not isinstance(optimizer, Optimizer):
                raise TypeRuleError(
                    f"partition takes optimizers such as SGD(0.1), got {kind_of(optimizer)}; pass an optimizer"
                )
        for which, _ in pairs:
            selector("partition", which)
        rules = tuple((tuple(which) if isinstance(which, list) else which, each) for which, each in pairs)
        object.__setattr__(self, "rules", rules)

    def require_update(self) -> None:
        """Raise if an optimizer does not define `update`."""
        for optimizer in self._optimizers():
            optimizer.require_update()

    def elementwise(self) -> bool:
        """Whether all optimizers are."""
        return all(optimizer.elementwise() for optimizer in self._optimizers())

    def hyper(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """The hyperparameters of the optimizers."""
        return _joined(self._hyper(params))

    def init(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """The state of the optimizers for their parameters."""
        check_params(params)
        return _joined(self._state(params))

    def check_names(self, params: Mapping[str, TensorType]) -> None:
        """Raise if a rule selects none of the parameters."""
        found = self._members(params)
        for (which, _), names in zip(self.rules, found, strict=False):
            require_selected("partition", which, params, names)
        for optimizer, names in zip(self._optimizers(), found, strict=True):
            if names:
                optimizer.check_names({name: params[name] for name in names})

    def apply(
        self, params: Values, grads: Values, state: Values, hyper: Values
    ) -> tuple[dict[str, Value], dict[str, Value]]:
        """The updates of the optimizers."""
        types = {name: value.type for name, value in params.items()}
        found = zip(self._optimizers(), self._members(types), self._state(types), self._hyper(types), strict=True)
        new_params: dict[str, Value] = {}
        new_state: dict[str, Value] = {}
        for optimizer, names, (_, states), (_, settings) in found:
            if names:
                own = {name: params[name] for name in names}
                own_state = {name: state[full] for name, full in states.items()}
                own_hyper = {name: hyper[full] for name, full in settings.items()}
                made, new = optimizer.apply(own, grads, own_state, own_hyper)
                new_params |= made
                new_state |= {states[name]: value for name, value in new.items()}
        return {name: new_params[name] for name in params}, new_state

    def check_read(self, hyper: Values, results: Iterable[Value]) -> None:
        """Raise if results do not depend on a hyperparameter."""
        results = list(results)
        for optimizer, (_, names) in zip(self._optimizers(), self._hyper({"": TensorType(())}), strict=True):
            if all(full in hyper for full in names.values()):  # not those of a `rest` without parameters
                optimizer.check_read({name: hyper[full] for name, full in names.items()}, results)

    def _optimizers(self) -> list[Optimizer]:
        return [*(optimizer for _, optimizer in self.rules), self.rest]

    def _members(self, params: Mapping[str, TensorType]) -> list[list[str]]:
        """The names of the parameters of each optimizer."""
        chosen = [selector("partition", which) for which, _ in self.rules]
        found: list[list[str]] = [[] for _ in self._optimizers()]
        for name, type_ in params.items():
            found[next((i for i, fits in enumerate(chosen) if fits(name, type_)), len(chosen))].append(name)
        return found

    def _hyper(self, params: Mapping[str, TensorType]) -> list[tuple[tuple[StateSpec, ...], dict[str, str]]]:
        """The hyperparameters of each optimizer, and the names that they have here; none without parameters."""
        # Without names, as for the settings of a group, all optimizers count.
        found = [list(params)] * len(self._optimizers()) if list(params) == [""] else self._members(params)
        pairs = zip(self._optimizers(), found, strict=True)
        return with_names([each.hyper({n: params[n] for n in names}) if names else () for each, names in pairs])

    def _state(self, params: Mapping[str, TensorType]) -> list[tuple[tuple[StateSpec, ...], dict[str, str]]]:
        """The state of each optimizer, and the names that it has here."""
        pairs = zip(self._optimizers(), self._members(params), strict=True)
        return with_names([each.init({n: params[n] for n in names}) if names else () for each, names in pairs])


def _joined(found: list[tuple[tuple[StateSpec, ...], dict[str, str]]]) -> tuple[StateSpec, ...]:
    return tuple(StateSpec(names[spec.name], spec.type, spec.initial) for specs, names in found for spec in specs)
