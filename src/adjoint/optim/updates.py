"""The updates of one group of parameters: settings, state, and what is recorded at a step."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import DTYPES, TensorType, Value
from adjoint.optim.spec import StateSpec
from adjoint.tensor.making import from_array
from adjoint.tensor.step_entry import Update
from adjoint.tensor.storage import storage_of
from adjoint.tensor.tensor import Tensor
from adjoint.tensor.updates import record_step

if TYPE_CHECKING:
    from adjoint.optim.base import Optimizer

__all__ = ["Group", "GroupUpdates"]


class Group(dict[str, Any]):
    """A group of parameters with its settings: a dict that passes on what is set.

    Attributes
    ----------
    changed : set of str
        The settings that have been set and not been read since.
    updates : GroupUpdates or None
        What reads them.
    """

    __slots__ = ("changed", "updates")

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        self.changed = set(options)
        self.updates: GroupUpdates | None = None

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        self.changed.add(key)
        if self.updates is not None:
            # Settings can be valid only together; what is still wrong at the next step raises there.
            with suppress(InvalidValueError):
                self.updates.refresh()

    def update(self, *others: Any, **more: Any) -> None:
        """Set several settings, as `dict.update` does."""
        for key, value in dict(*others, **more).items():
            self[key] = value

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Set a setting if it is missing, as `dict.setdefault` does."""
        if key not in self:
            self[key] = default
        return self[key]

    def __ior__(self, other: Any) -> "Group":  # type: ignore[override,misc]
        self.update(other)
        return self


#: The name of the bool scalar that keeps everything as it was, among the hyperparameters of an update.
_SKIP = "skip"


class _Entry:
    """The update of some parameters, as `record_step` takes it: equal for equal graphs.

    Parameters
    ----------
    optimizer : Optimizer
        The settings.
    names : sequence of str
        The names of the parameters.
    conditional : bool, default False
        Whether there is one hyperparameter more: a bool with which nothing changes.
    """

    __slots__ = ("_hash", "_key", "_unless", "conditional", "names", "optimizer")

    def __init__(self, optimizer: "Optimizer", names: Sequence[str], conditional: bool = False) -> None:
        self.optimizer = optimizer
        self.names = tuple(names)
        self.conditional = conditional
        self._key: Hashable = (optimizer.structure(), self.names, conditional)
        self._hash = hash(self._key)
        self._unless: _Entry | None = None

    def unless(self) -> "_Entry":
        """The same update with a condition."""
        if self._unless is None:
            self._unless = _Entry(self.optimizer, self.names, conditional=True)
        return self._unless

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Entry) and self._key == other._key)

    def init(self, types: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """The state for parameters of these types, in order."""
        return self.optimizer.init(self._named(types))

    def hyper(self, types: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """The hyperparameters for parameters of these types, in order."""
        found = self.optimizer.hyper(self._named(types))
        skip = StateSpec(_SKIP, TensorType((), DTYPES["bool"]), 0.0)
        return (*found, skip) if self.conditional else found

    def apply(
        self,
        params: Mapping[str, Value],
        grads: Mapping[str, Value],
        state: Mapping[str, Value],
        hyper: Mapping[str, Value],
    ) -> tuple[dict[str, Value], dict[str, Value]]:
        """The update, of parameters under any names in order."""
        own = {name: value for name, value in hyper.items() if name != _SKIP or not self.conditional}
        olds = self._named(params)
        new_params, new_state = self.optimizer.apply(olds, self._named(grads), state, own)
        self.optimizer.check_read(own, [*new_params.values(), *new_state.values()])
        if self.conditional:
            skip = hyper[_SKIP]
            new_params = {name: ops.where(skip, olds[name], value) for name, value in new_params.items()}
            new_state = {name: ops.where(skip, state[name], value) for name, value in new_state.items()}
        return {name: new_params[own] for name, own in zip(params, self.names, strict=True)}, new_state

    def _named(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return dict(zip(self.names, values.values(), strict=True))


class _Cohort:
    """Parameters that have always been updated together, and therefore share the optimizer's shared state."""

    __slots__ = ("names", "params", "shared", "subsets", "update")

    def __init__(self, names: Sequence[str], params: Sequence[Any], shared: dict[str, Any]) -> None:
        self.names = list(names)
        self.params = list(params)
        #: The shared state by name; empty before the first update.
        self.shared = shared
        self.forget()

    def forget(self) -> None:
        """Forget what was derived from the settings and the parameters."""
        self.update: Update | None = None
        self.subsets: dict[tuple[int, ...], Update] = {}


class GroupUpdates:
    """Records the updates of a group's parameters.

    A parameter without a gradient is not updated. If the optimizer counts updates, parameters are counted apart from
    the first step on in which some of them are left out.

    Parameters
    ----------
    optimizer : Optimizer
        The settings, where the group does not override them.
    group : Group
        The parameters, under ``params``, and settings.
    names : sequence of str
        The names of the parameters.
    """

    def __init__(self, optimizer: "Optimizer", group: Group, names: Sequence[str]) -> None:
        self.group = group
        self._optimizer = optimizer
        params = group["params"]
        self._types = {name: TensorType(p.shape, p.dtype) for name, p in zip(names, params, strict=True)}
        self._cohorts = [_Cohort(names, params, {})]
        #: The state of single parameters, by the names of their specs.
        self._slots: dict[str, Any] = {}
        self._hypers: list[Any] = []
        self._dtypes: list[np.dtype] = []
        self._index: dict[str, int] = {}
        self._names: list[str] = []
        self.refresh()
        self._optimizer.check_names(self._types)
        group.updates = self

    def step(self, skip: Any = None) -> None:
        """Record the update of the parameters that have a gradient; with a true `skip`, a bool tensor, no change."""
        if self.group.changed:
            self.refresh()
        for cohort in tuple(self._cohorts):
            grads = []
            for param in cohort.params:
                grad = param._grad
                if grad is None:
                    self._step_some(cohort, skip)
                    break
                grads.append(grad)
            else:
                if cohort.update is None:
                    cohort.update = self._entered(cohort, cohort.names, cohort.params)
                record_step(cohort.update if skip is None else _unless(cohort.update, skip), grads)

    def _step_some(self, cohort: _Cohort, skip: Any) -> None:
        """Record the update of a cohort of which some parameters have no gradient."""
        active = tuple(i for i, param in enumerate(cohort.params) if param._grad is not None)
        if not active:
            return
        names, params = [cohort.names[i] for i in active], [cohort.params[i] for i in active]
        if self._optimizer.elementwise() and self._shared_specs(cohort.names):
            copies = {name: from_array(np.array(x.numpy(force=True))) for name, x in cohort.shared.items()}
            apart = _Cohort(names, params, copies)
            cohort.names = [name for i, name in enumerate(cohort.names) if i not in active]
            cohort.params = [param for i, param in enumerate(cohort.params) if i not in active]
            cohort.forget()
            self._cohorts.append(apart)
            update = apart.update = self._entered(apart, names, apart.params)
        else:
            if active not in cohort.subsets:
                cohort.subsets[active] = self._entered(cohort, names, params)
            update = cohort.subsets[active]
        record_step(update if skip is None else _unless(update, skip), [param._grad for param in params])

    def _entered(self, cohort: _Cohort, names: Sequence[str], params: Sequence[Any]) -> Update:
        """What to record for some parameters of a cohort, and their state, which is made if it is missing."""
        entry = _Entry(self._optimizer, names)
        # A layer such as `nn.LazyLinear` gives its parameters their shapes after the optimizer was created.
        types = {name: TensorType(tuple(param.shape), param.dtype) for name, param in zip(names, params, strict=True)}
        self._types.update(types)
        states = []
        for spec in self._optimizer.init(types):
            home = cohort.shared if _owner(spec, types) is None else self._slots
            if spec.name not in home:
                home[spec.name] = from_array(spec.array())
            states.append(home[spec.name])
        return Update(entry, params, states, self._hypers)

    def refresh(self) -> None:
        """Read the settings of the group that have been set. Hyperparameters are given to the tensors that hold them.

        Raises
        ------
        InvalidValueError
            If a setting is out of range; they are then read again at the next call.
        """
        changed, self.group.changed = self.group.changed, set()
        if changed <= self._index.keys() and all(self._is_plain(self.group[key]) for key in changed):
            for key in changed:
                self._set(self._index[key], self.group[key])
            return
        try:
            optimizer, values = self._optimizer.with_options(self.group, self._types)
        except Exception:
            self.group.changed = changed
            raise
        if not self._hypers or optimizer.structure() != self._optimizer.structure():
            for cohort in self._cohorts:
                cohort.forget()
        self._optimizer = optimizer
        specs = optimizer.hyper(self._types)
        self._index = {spec.name: i for i, spec in enumerate(specs)}
        self._dtypes = [spec.type.dtype for spec in specs]
        known = dict(zip(self._names, self._hypers, strict=True))
        self._hypers = [known.get(spec.name) for spec in specs]
        self._names = [spec.name for spec in specs]
        for i, value in enumerate(values):
            self._set(i, value)

    def _is_plain(self, value: object) -> bool:
        """Whether a number needs no check by the class of the optimizer."""
        return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < inf

    def _set(self, i: int, value: float) -> None:
        self._hypers[i] = assigned(self._hypers[i], np.array(value, self._dtypes[i]), copy=False)

    def _shared_specs(self, names: Sequence[str]) -> list[StateSpec]:
        types = {name: self._types[name] for name in names}
        return [spec for spec in self._optimizer.init(types) if _owner(spec, types) is None]

    def rate(self) -> float | None:
        """The learning rate of the next update, with what schedules within the step make of it; None if it has none."""
        lr = self.group.get("lr")
        if lr is None:
            return None
        shared = {name: float(x.item()) for name, x in self._cohorts[0].shared.items() if x.numel() == 1}
        return float(lr) * self._optimizer.rate_factor(shared)

    def state(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Each parameter with its state and the shared state."""
        for cohort in self._cohorts:
            for name, param in zip(cohort.names, cohort.params, strict=True):
                yield param, {**cohort.shared, **self._own_slots(name)}

    def exported(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Each parameter with its state as in PyTorch's ``state_dict``."""
        for cohort in self._cohorts:
            shared = {name: np.array(x.numpy(force=True)) for name, x in cohort.shared.items()}
            exported = self._optimizer.export_shared(shared) if shared else {}
            for name, param in zip(cohort.names, cohort.params, strict=True):
                scalars = {key: from_array(array) for key, array in exported.items()}
                yield param, {**scalars, **self._own_slots(name)}

    def _own_slots(self, name: str) -> dict[str, Any]:
        """The state of one parameter by slot."""
        types = {name: self._types[name]}
        names = [spec.name for spec in self._optimizer.init(types) if _owner(spec, types) is not None]
        return {full[len(name) + 1 :]: self._slots[full] for full in names if full in self._slots}

    def checked(
        self, options: Mapping[str, Any], entries: Iterable[Mapping[str, Any]]
    ) -> list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
        """The shared state and the slots of each parameter in the entries of a ``state_dict``, as arrays."""
        optimizer, _ = self._optimizer.with_options(options, self._types)
        found = []
        for (name, type_), entry in zip(self._types.items(), entries, strict=True):
            types = {name: type_}
            present = {key: _array(value) for key, value in entry.items() if value is not None}
            shared: dict[str, np.ndarray] = {}
            slots: dict[str, np.ndarray] = {}
            specs = optimizer.init(types) if present else ()
            scalars = [spec for spec in specs if _owner(spec, types) is None]
            if scalars:
                given = optimizer.import_shared(present)
                for spec in scalars:
                    if spec.name not in given:
                        raise InvalidValueError(
                            f"load_state_dict: the state of parameter {name} must have {spec.name}, got "
                            f"{', '.join(entry)}; load what the same optimizer saved"
                        )
                    shared[spec.name] = np.asarray(given[spec.name], spec.type.dtype)
            for spec in specs:
                key = spec.name[len(name) + 1 :]
                if _owner(spec, types) is None or key not in present:
                    continue
                shape = spec.type.shape
                if present[key].shape != shape:
                    whose = "the parameter's shape" if shape == type_.shape else "the shape"
                    raise InvalidValueError(
                        f"load_state_dict: {key} of parameter {name} must have {whose} {shape}, got "
                        f"{present[key].shape}; load the state of the same model"
                    )
                slots[spec.name] = present[key].astype(spec.type.dtype)
            found.append((shared, slots))
        return found

    def load(self, arrays: Sequence[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]) -> None:
        """Replace the state by what `checked` returned; parameters of equal shared state are updated together."""
        self.refresh()
        members = {id(p): name for cohort in self._cohorts for name, p in zip(cohort.names, cohort.params, strict=True)}
        cohorts: dict[Hashable, _Cohort] = {}
        old_shared = self._cohorts[0].shared if len(self._cohorts) == 1 else {}
        old_slots, self._slots = self._slots, {}
        for param, (shared, slots) in zip(self.group["params"], arrays, strict=True):
            key = tuple((name, array.tobytes()) for name, array in shared.items())
            if key not in cohorts:
                cohorts[key] = _Cohort([], [], {n: assigned(old_shared.get(n), array) for n, array in shared.items()})
                old_shared = {}
            cohorts[key].names.append(members[id(param)])
            cohorts[key].params.append(param)
            self._slots |= {name: assigned(old_slots.get(name), array) for name, array in slots.items()}
        self._cohorts = list(cohorts.values())


def _unless(update: Update, skip: Any) -> Update:
    """The same update, which changes nothing if `skip` is true."""
    states = update.changed[len(update.params) :]
    hypers = update.held[len(states) :]
    return Update(update.optimizer.unless(), update.params, states, [*hypers, skip])


def assigned(tensor: Any, array: np.ndarray, *, copy: bool = True) -> Any:
    """The tensor with other elements, those of the array or a copy; without a tensor, a new one.

    It stays the same object, which compiled functions may have taken as an argument. Programs that have been recorded
    with its elements before keep those.
    """
    if tensor is None or tensor.dtype != array.dtype:
        return from_array(array, copy=copy)
    tensor._storage = storage_of(array, copy=copy)
    tensor._trace = None
    return tensor


def _owner(spec: StateSpec, types: Mapping[str, TensorType]) -> str | None:
    """The parameter that a state belongs to; None for state that all share."""
    # Scalars of another type, such as a count called step, may begin like a parameter called st.
    return next(
        (
            name
            for name, type_ in types.items()
            if spec.name.startswith(f"{name}_") and (spec.type == type_ or spec.type.shape != ())
        ),
        None,
    )


def _array(value: Any) -> np.ndarray:
    """The elements of a tensor of adjoint or PyTorch, an array or a number."""
    if isinstance(value, Tensor):
        return np.array(value.numpy(force=True))
    return np.asarray(value.detach() if hasattr(value, "detach") else value)
