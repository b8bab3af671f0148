"""The state of optimizers that are bound to parameters, to the bit.

``state_dict`` has PyTorch's layout, which rounds some scalars to float32 and leaves others out. What is here has every
state as the compiled step has it, so that a run that continues from it computes the same bits.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from adjoint.errors import CheckpointError, kind_of
from adjoint.optim.base import Optimizer
from adjoint.optim.bound import Bound
from adjoint.optim.updates import GroupUpdates, _Cohort, _owner, assigned
from adjoint.optim.written import Written
from adjoint.tensor.tensor import Tensor

__all__ = ["check_exact_state", "exact_state", "load_exact_state", "same_kind"]

#: The entries of a group that are not settings.
_NOT_SETTINGS = ("params", "param_names")


def exact_state(optimizer: Optimizer) -> dict[str, Any]:
    """The settings and the state of a bound optimizer.

    Parameters
    ----------
    optimizer : Optimizer
        Bound to parameters.

    Returns
    -------
    dict
        Plain data with tensors: ``class``, ``groups`` of ``options`` (functions are left out), ``names``, ``updates``
        (parameters that are updated together, with their shared state) and ``slots``. An optimizer that is written as
        for PyTorch has its ``state_dict`` instead.
    """
    bound: Bound = optimizer._require_bound("checkpoints")
    name = type(optimizer).__name__
    if isinstance(bound, Written):
        return {"class": name, "state_dict": optimizer.state_dict()}
    groups = []
    for updates in bound._updates:
        numbers = {id(param): i for i, param in enumerate(updates.group["params"])}
        groups.append(
            {
                "options": {k: v for k, v in updates.group.items() if k not in _NOT_SETTINGS and not callable(v)},
                "names": list(updates._types),
                "updates": [
                    {"members": [numbers[id(param)] for param in cohort.params], "shared": dict(cohort.shared)}
                    for cohort in updates._cohorts
                    if cohort.params
                ],
                "slots": dict(updates._slots),
            }
        )
    return {"class": name, "groups": groups}


def check_exact_state(optimizer: Optimizer, state: Mapping[str, Any]) -> None:
    """Check that `load_exact_state` can load a state.

    Raises
    ------
    CheckpointError
        With the first difference.
    """
    bound: Bound = optimizer._require_bound("checkpoints")
    name = type(optimizer).__name__
    if state["class"] != name:
        raise CheckpointError(
            f"restore: the optimizer must be the one that was saved, {state['class']}, got {name}; build it again"
        )
    if isinstance(bound, Written) != ("state_dict" in state):
        raise CheckpointError(
            f"restore: the optimizer must be the one that was saved, got another class {name}; build it again"
        )
    if isinstance(bound, Written):
        bound._fitting_groups(state["state_dict"])
        return
    own, saved = [len(u.group["params"]) for u in bound._updates], [len(g["names"]) for g in state["groups"]]
    if own != saved:
        raise CheckpointError(
            f"restore: the optimizer's groups must have as many parameters as in the checkpoint, {saved}, got {own}; "
            "build the optimizer as it was saved"
        )
    for updates, group in zip(bound._updates, state["groups"], strict=True):
        _check_group(name, updates, group)


def _check_group(owner: str, updates: GroupUpdates, group: Mapping[str, Any]) -> None:
    if list(group["names"]) != list(updates._types):
        mine, other = next((a, b) for a, b in zip(updates._types, group["names"], strict=True) if a != b)
        raise CheckpointError(
            f"restore: parameters of {owner} must have the names of the checkpoint, got {mine!r} for {other!r}; build "
            "the optimizer as it was saved"
        )
    members = sorted(number for each in group["updates"] for number in each["members"])
    if members != list(range(len(group["names"]))):
        raise CheckpointError(f"restore: the state of {owner} in the checkpoint is damaged; use another checkpoint")
    for key, value in group["options"].items():
        if not same_kind(updates.group.get(key), value):
            raise CheckpointError(
                f"restore: the checkpoint has {key} of {owner} as {kind_of(value)}, and the optimizer as "
                f"{kind_of(updates.group[key])}; build the optimizer as it was saved"
            )
    types = updates._types
    optimizer, _ = updates._optimizer.with_options({**updates.group, **group["options"]}, types)
    specs = {spec.name: spec for spec in optimizer.init(types)}
    shared = {name for name, spec in specs.items() if _owner(spec, types) is None}
    given = [(n, array, n not in shared) for n, array in group["slots"].items()]
    given += [(n, array, n in shared) for each in group["updates"] for n, array in each["shared"].items()]
    for name, tensor, is_placed in given:
        array = _array(tensor)
        spec = specs.get(name)
        if spec is None or not is_placed or (array.shape, array.dtype) != (spec.type.shape, spec.type.dtype):
            wanted = "no such state" if spec is None else str(spec.type)
            raise CheckpointError(
                f"restore: the checkpoint has {name!r} of {owner} as {array.dtype}{list(array.shape)}, and the "
                f"optimizer has {wanted}; build the optimizer as it was saved"
            )


def load_exact_state(optimizer: Optimizer, state: Mapping[str, Any]) -> None:
    """Continue from a state that `exact_state` returned and `check_exact_state` has accepted."""
    bound: Bound = optimizer._require_bound("checkpoints")
    if isinstance(bound, Written):
        optimizer.load_state_dict(state["state_dict"])
        return
    for updates, group in zip(bound._updates, state["groups"], strict=True):
        _load_group(updates, group)


def _load_group(updates: GroupUpdates, group: Mapping[str, Any]) -> None:
    for key, value in group["options"].items():
        if key not in updates.group or updates.group[key] != value:
            updates.group[key] = value
    updates.refresh()
    names, params = list(updates._types), updates.group["params"]
    # Tensors stay the same objects, which compiled steps may have taken as arguments.
    known = {id(param): cohort.shared for cohort in updates._cohorts for param in cohort.params}
    used: set[int] = set()
    cohorts = []
    for each in group["updates"]:
        old = known[id(params[each["members"][0]])] if each["members"] else {}
        old = {} if id(old) in used else old
        used.add(id(old))
        shared = {name: assigned(old.get(name), _array(value)) for name, value in each["shared"].items()}
        members = each["members"]
        cohorts.append(_Cohort([names[i] for i in members], [params[i] for i in members], shared))
    updates._cohorts = cohorts
    slots = updates._slots
    updates._slots = {name: assigned(slots.get(name), _array(value)) for name, value in group["slots"].items()}


def same_kind(own: Any, saved: Any) -> bool:
    """Whether a saved setting can replace one that there is: a number a number, a list a list of the same; any None."""
    if own is None:
        return True
    if isinstance(own, list | tuple):
        return isinstance(saved, list | tuple) and all(not own or any(same_kind(o, s) for o in own) for s in saved)
    if isinstance(own, Mapping):
        return type(saved) is type(own) and same_kind(list(own), list(saved))
    for kind in (bool | int | float | np.number, str, np.ndarray | Tensor):
        if isinstance(own, kind):
            return isinstance(saved, kind)
    return type(saved) is type(own)


def _array(value: Any) -> np.ndarray:
    return value.elements().array if isinstance(value, Tensor) else np.asarray(value)
