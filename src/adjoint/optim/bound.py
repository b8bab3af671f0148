"""Optimizers that are bound to parameters: groups, and steps as entries of the recorded program.

A step costs one look-up per group in the steady state: the lists of parameters and state are made once, and the
settings of a group are read again only after one has been set.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError, kind_of, plural
from adjoint.optim.updates import Group, GroupUpdates
from adjoint.tensor.autograd import enable_grad
from adjoint.tensor.tensor import Tensor
from adjoint.tensor.updates import clear_gradients

if TYPE_CHECKING:  # base.py imports this module, because `Optimizer` can be bound
    from adjoint.optim.base import Optimizer

__all__ = ["Bound", "parameters_in"]

#: The settings of a group that are no settings of the update.
_OWN_KEYS = ("params", "param_names")


def parameters_in(owner: str, given: object) -> list[Any] | None:
    """The tensors, named tensors or groups in an iterable; None if it is something else, such as a learning rate.

    Raises
    ------
    InvalidValueError
        If it is empty.
    TypeRuleError
        If it is a single tensor, a module, a dict or a set of tensors, or has parameters and something else.
    """
    if isinstance(given, Tensor):
        raise TypeRuleError(f"{owner} takes an iterable of parameters, got a single tensor; write [parameter]")
    if callable(getattr(given, "parameters", None)):
        raise TypeRuleError(f"{owner} takes parameters, got {kind_of(given)}; pass its parameters()")
    if isinstance(given, Mapping) and any(isinstance(value, Tensor) for value in given.values()):
        raise TypeRuleError(f"{owner} takes an iterable of parameters, got {kind_of(given)}; pass its items()")
    if not isinstance(given, Iterable) or isinstance(given, str | bytes | Mapping | np.ndarray):
        return None
    items = list(given)
    if not items:
        raise InvalidValueError(f"{owner}: at least one parameter is required, got none; pass model.parameters()")
    known = [_is_parameter(item) for item in items]
    if not any(known):
        return None
    if isinstance(given, set | frozenset):
        raise TypeRuleError(f"{owner}: parameters must have an order, got {kind_of(given)}; pass a list")
    if not all(known):
        wrong = items[known.index(False)]
        raise TypeRuleError(f"{owner} takes tensors as parameters, got {kind_of(wrong)} among them; convert or omit it")
    return items


def _is_parameter(item: object) -> bool:
    if isinstance(item, tuple) and len(item) == 2:
        return isinstance(item[0], str) and isinstance(item[1], Tensor)
    return isinstance(item, Tensor) or (isinstance(item, Mapping) and "params" in item)


class Bound:
    """The parameters of an optimizer, their groups and their state.

    Parameters
    ----------
    optimizer : Optimizer
        The settings.
    params : list
        Tensors, pairs of a name and a tensor, or dicts of groups.
    chosen : dict
        Values of options that have no effect.
    """

    def __init__(self, optimizer: "Optimizer", params: Sequence[Any], chosen: Mapping[str, Any]) -> None:
        self._optimizer = optimizer
        self.defaults = {**optimizer.options(), **optimizer.implementation_options, **chosen}
        self.param_groups: list[dict[str, Any]] = []
        self._updates: list[GroupUpdates] = []
        for group in params if isinstance(params[0], Mapping) else [{"params": params}]:
            self.add(group)

    def add(self, given: Mapping[str, Any]) -> None:
        """Add a group of parameters."""
        owner = type(self._optimizer).__name__
        if not isinstance(given, Mapping) or "params" not in given:
            raise InvalidValueError(f"{owner}: a group of parameters must be a dict with params, got {given!r}; add it")
        members = [given["params"]] if isinstance(given["params"], Tensor) else list(given["params"])
        pairs = [item if isinstance(item, tuple) else (None, item) for item in members]
        params = [tensor for _, tensor in pairs]
        first = sum(len(group["params"]) for group in self.param_groups)
        names = [str(first + i) if name is None else name for i, (name, _) in enumerate(pairs)]
        taken = {id(p) for group in self.param_groups for p in group["params"]}
        for name, param in zip(names, params, strict=True):
            if not isinstance(param, Tensor):
                raise TypeRuleError(f"{owner} takes tensors as parameters, got {kind_of(param)}; convert it")
            if not param.is_leaf:
                raise InvalidValueError(
                    f"{owner}: parameters must be leaves, got a result of operations, parameter {name}; pass the "
                    "tensor that it was computed from, or its detach()"
                )
            if id(param) in taken:
                raise InvalidValueError(
                    f"{owner}: a parameter can be in one group only once, got parameter {name} again; remove it"
                )
            taken.add(id(param))
        options = {**self.defaults, **{key: value for key, value in given.items() if key != "params"}}
        named = {"param_names": names} if any(name is not None for name, _ in pairs) else {}
        self._append({"params": params, **options, **named}, names)

    def _append(self, options: dict[str, Any], names: Sequence[str]) -> None:
        """Add a group whose parameters have been checked."""
        group = Group(options)
        updates = GroupUpdates(self._optimizer, group, names)
        self.param_groups.append(group)
        self._updates.append(updates)

    def step(self, closure: Callable[[], Any] | None) -> Any:
        """Record the update of every group, after calling the closure."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for updates in self._updates:
            updates.step()
        return loss

    def rate(self) -> float | None:
        """The learning rate of the next update of the first group; None if it has none."""
        return self._updates[0].rate()

    def step_unless(self, skip: Tensor) -> None:
        """Record the update of every group, without effect if the bool scalar `skip` is true."""
        for updates in self._updates:
            updates.step(skip)

    def zero_grad(self, set_to_none: bool) -> None:
        """Remove the gradients, or set them to zeros."""
        if not set_to_none:
            clear_gradients([param for group in self.param_groups for param in group["params"]], set_to_none)
            return
        for group in self.param_groups:
            for param in group["params"]:
                param._grad = None

    def state(self) -> dict[Any, dict[str, Any]]:
        """The state by parameter."""
        return {param: dict(found) for updates in self._updates for param, found in updates.state() if found}

    def state_dict(self) -> dict[str, Any]:
        """The state by the number of the parameter, and the groups with these numbers."""
        state: dict[int, dict[str, Any]] = {}
        groups: list[dict[str, Any]] = []
        numbers = {id(p): i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}
        for group, updates in zip(self.param_groups, self._updates, strict=True):
            for param, found in updates.exported():
                if found:
                    state[numbers[id(param)]] = found
            options = {key: value for key, value in group.items() if key != "params"}
            groups.append({**options, "params": [numbers[id(p)] for p in group["params"]]})
        return {"state": dict(sorted(state.items())), "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Set the settings of the groups, and the state."""
        groups = self._fitting_groups(state_dict)
        decoupled = self._optimizer.implementation_options.get("decoupled_weight_decay")
        for group in groups:
            if decoupled is not None and group.get("decoupled_weight_decay", decoupled) != decoupled:
                raise InvalidValueError(
                    f"load_state_dict: {type(self._optimizer).__name__} cannot continue from a state with "
                    f"decoupled_weight_decay={not decoupled}; use {'Adam' if decoupled else 'AdamW'}"
                )
        loaded = []
        for group, mine, updates in zip(groups, self.param_groups, self._updates, strict=True):
            entries = [state_dict["state"].get(number, {}) for number in group["params"]]
            options = {key: value for key, value in group.items() if key not in _OWN_KEYS}
            loaded.append(updates.checked({**mine, **options}, entries))
        for group, mine, updates, arrays in zip(groups, self.param_groups, self._updates, loaded, strict=True):
            mine.update({key: value for key, value in group.items() if key not in _OWN_KEYS})
            updates.load(arrays)

    def _fitting_groups(self, state_dict: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The groups of a ``state_dict``, which must have as many parameters as those that there are."""
        groups: list[dict[str, Any]] = state_dict["param_groups"]
        sizes = [len(group["params"]) for group in groups]
        own = [len(group["params"]) for group in self.param_groups]
        if sizes != own:
            raise InvalidValueError(
                f"load_state_dict: the groups must have as many parameters as those of the optimizer, {_counts(own)}, "
                f"got {_counts(sizes)}; build the optimizer as it was saved"
            )
        return groups


def _counts(sizes: Sequence[int]) -> str:
    return f"{plural(len(sizes), 'group')} of {', '.join(map(str, sizes))}"
