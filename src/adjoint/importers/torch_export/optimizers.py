"""Optimizers of PyTorch as those of adjoint: their groups, settings and state."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from adjoint import optim
from adjoint.errors import InvalidValueError, TypeRuleError, kind_of, listed
from adjoint.importers.torch_export.arrays import as_array, as_torch, is_torch_tensor
from adjoint.modules import Module
from adjoint.optim import Optimizer
from adjoint.tensor.creation import zeros
from adjoint.tensor.tensor import Tensor

__all__ = ["Following", "bound_optimizer", "state_for_torch"]

#: What groups have besides the settings of the update.
_BOOKS = frozenset({"params", "param_names", "initial_lr"})


def bound_optimizer(given: Any, network: Module, known: Mapping[int, Any]) -> Any:
    """An optimizer of adjoint for the parameters of an imported module.

    Parameters
    ----------
    given : Optimizer or torch.optim.Optimizer
        Adjoint's, bound to the network's parameters or to none, or PyTorch's, bound to those of its module.
    network : Module
        The imported module.
    known : mapping of int to Parameter
        The parameters, by the id of PyTorch's.

    Raises
    ------
    TypeRuleError
        If it is something else, or an optimizer that adjoint does not have.
    InvalidValueError
        If it trains other parameters, or has a setting that adjoint's does not have.
    """
    if isinstance(given, Optimizer):
        if given._bound is not None:
            return given
        return given.bind([one for one in network.parameters() if one.requires_grad])
    kind = type(given)
    own = getattr(optim, kind.__name__, None) if kind.__module__.startswith("torch.optim") else None
    if own is None or not isinstance(own, type) or not issubclass(own, Optimizer):
        raise TypeRuleError(
            f"from_torch: the optimizer must be one of adjoint.optim, or one of torch.optim that adjoint.optim has "
            f"too, got {kind_of(given)}; pass adjoint.optim.AdamW(lr=1e-3)"
        )
    bound = _converted(given, own, known)
    if given.state:
        state = _as_arrays(given.state_dict())
        groups = [{name: _number(value) for name, value in group.items()} for group in state["param_groups"]]
        bound.load_state_dict({**state, "param_groups": groups})
    return bound


def _converted(given: Any, own: Any, known: Mapping[int, Any]) -> Any:
    settings = own([zeros(1, 1, requires_grad=True)]).defaults
    groups = []
    for group in given.param_groups:
        others = {name for name, value in group.items() if name not in settings and name not in _BOOKS and value}
        if others:
            raise InvalidValueError(
                f"from_torch: {own.__name__} has no setting {listed(sorted(others))}, which that of PyTorch has; leave "
                "it out"
            )
        params = [known.get(id(one)) for one in group["params"]]
        if any(one is None for one in params):
            raise InvalidValueError(
                f"from_torch: the optimizer must train parameters of the module, got others in {own.__name__}; pass "
                "module.parameters() to it"
            )
        chosen = {name: _number(value) for name, value in group.items() if name in settings and name != "params"}
        groups.append({"params": params, **chosen})
    return own(groups, **{name: groups[0][name] for name in _required(own) if name in groups[0]})


def _required(own: Any) -> list[str]:
    """The settings of an optimizer without a default."""
    found = own.__signature__.parameters.values()
    return [one.name for one in found if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD]


def _number(value: Any) -> Any:
    """A setting, which may be a tensor or an array with one element."""
    if isinstance(value, float | int | tuple):
        return value
    return value.item() if is_torch_tensor(value) or isinstance(value, np.ndarray) else value


def _as_arrays(tree: Any) -> Any:
    if is_torch_tensor(tree):
        return as_array(tree)
    if isinstance(tree, dict):
        return {key: _as_arrays(one) for key, one in tree.items()}
    return [_as_arrays(one) for one in tree] if isinstance(tree, list) else tree


def state_for_torch(optimizer: Any) -> dict[str, Any]:
    """The state of an optimizer of adjoint, as PyTorch's ``load_state_dict`` takes it."""

    def converted(tree: Any) -> Any:
        if isinstance(tree, Tensor):
            return as_torch(tree).clone()
        if isinstance(tree, dict):
            return {key: converted(one) for key, one in tree.items()}
        return [converted(one) for one in tree] if isinstance(tree, list) else tree

    made: dict[str, Any] = converted(optimizer.state_dict())
    return made


class Following:
    """Lets an optimizer of adjoint follow the settings of PyTorch's, which a schedule or the user changes.

    Parameters
    ----------
    own : Optimizer
        Adjoint's.
    theirs : torch.optim.Optimizer
        PyTorch's, from which it was made.
    """

    def __init__(self, own: Any, theirs: Any) -> None:
        self._theirs = theirs
        self._pairs = [
            (mine, group, [name for name in mine if name in group and name not in _BOOKS])
            for mine, group in zip(own.param_groups, theirs.param_groups, strict=True)
        ]
        self._seen = [{name: _number(group[name]) for name in names} for _, group, names in self._pairs]

    def update(self) -> None:
        """Take over the settings that have changed since the last call."""
        self._theirs._opt_called = True  # schedules warn if they step before the optimizer does
        for (mine, group, names), seen in zip(self._pairs, self._seen, strict=True):
            for name in names:
                value = _number(group[name])
                if value != seen[name]:
                    mine[name] = seen[name] = value
