"""Resident arrays: what a trainer keeps between steps, by name; loading is all or nothing."""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from math import isfinite
from numbers import Real
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from adjoint.errors import InvalidValueError, MissingAttributeError, NameLookupError, TypeRuleError, plural
from adjoint.ir import DTYPES, TensorType
from adjoint.runtime.bound import aligned_together

__all__ = ["Hyper", "Residents"]


class Residents:
    """Arrays of one kind (parameters, states, optimizer states) at fixed addresses.

    Parameters
    ----------
    kind : str
        The name of the kind in messages.
    types : mapping of str to TensorType
        Names and types, in order.
    loader : str
        The method that loads them, which messages begin with.

    Attributes
    ----------
    loaded : bool
        Whether values were ever loaded; until then all arrays are zeros.
    """

    def __init__(self, kind: str, types: Mapping[str, TensorType], loader: str) -> None:
        self.kind, self.loader = kind, loader
        self.loaded = False
        self.types = dict(types)
        self.arrays = aligned_together(self.types)

    def export(self) -> dict[str, np.ndarray]:
        """Copies of the arrays by name, in order."""
        return {name: array.copy() for name, array in self.arrays.items()}

    def load(self, given: Sequence[np.ndarray] | Mapping[str, np.ndarray]) -> None:
        """Copy arrays from a mapping by name or a sequence in order, all of them, after checking all.

        Raises
        ------
        NameLookupError
            If names are missing or unknown.
        InvalidValueError
            If the number of arrays is wrong.
        TypeRuleError
            If a shape or dtype is wrong.
        """
        checked = self._checked(self._by_name(given))
        for name, array in checked.items():
            np.copyto(self.arrays[name], array)
        self.loaded = True

    def _by_name(self, given: Sequence[np.ndarray] | Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        names = list(self.types)
        if isinstance(given, Mapping):
            missing = [name for name in names if name not in given]
            unknown = [str(name) for name in given if name not in self.types]
            if missing or unknown:
                wrong = [f"{what} {', '.join(n)}" for what, n in (("missing", missing), ("unknown", unknown)) if n]
                raise NameLookupError(
                    f"{self.loader}: {self.kind}s must be given by exactly their names, got {' and '.join(wrong)}; "
                    f"the names are {', '.join(names) or 'none'}"
                )
            return {name: given[name] for name in names}
        if isinstance(given, np.ndarray) or not isinstance(given, Sequence):
            raise TypeRuleError(
                f"{self.loader}: {self.kind}s must be a list or a dict of arrays, got {type(given).__name__}"
            )
        if len(given) != len(names):
            raise InvalidValueError(
                f"{self.loader} takes {plural(len(names), self.kind)} ({', '.join(names) or 'none'}), got "
                f"{len(given)}; pass one for each"
            )
        return dict(zip(names, given, strict=True))

    def _checked(self, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        checked = {}
        for name, expected in self.types.items():
            array = np.asarray(given[name])
            if array.shape != expected.shape:
                raise TypeRuleError(
                    f"{self.loader}: {self.kind} {name!r} must be {expected}, got shape {list(array.shape)}; reshape "
                    "or transpose it"
                )
            if array.dtype != expected.dtype:
                raise TypeRuleError(
                    f"{self.loader}: {self.kind} {name!r} must be {expected}, got dtype {array.dtype}; "
                    f"convert it with .astype({expected.dtype.name!r})"
                )
            checked[name] = array
        return checked


class Hyper(MutableMapping[str, float]):
    """Hyperparameters by name; a new value takes effect in the next step, without recompilation.

    Parameters
    ----------
    types : mapping of str to TensorType
        Names and types of the scalars.
    initial : mapping of str to float
        Initial values.
    """

    def __init__(self, types: Mapping[str, TensorType], initial: Mapping[str, float]) -> None:
        self.arrays = aligned_together(types)
        for name, value in initial.items():
            self[name] = value

    def __getitem__(self, name: str) -> float:
        array = self._array(name)
        # The shortest text of an f32 is what was assigned: 0.01 instead of 0.009999999776482582.
        return float(array[()]) if array.dtype == DTYPES["f64"] else float(str(array[()]))

    def __setitem__(self, name: str, value: float) -> None:
        array = self._array(name)
        if isinstance(value, bool) or not isinstance(value, Real):
            raise InvalidValueError(f"hyper: {name} must be a number, got {value!r}")
        with np.errstate(over="ignore"):
            held = np.asarray(float(value)).astype(array.dtype)
        if not isfinite(held):
            raise InvalidValueError(f"hyper: {name} must be finite in {array.dtype.name}, got {value!r}")
        array[()] = held

    def series(self, name: str, values: object) -> np.ndarray:
        """Values of a hyperparameter, one per step, in its dtype and C-contiguous.

        Raises
        ------
        NameLookupError
            If the name is unknown.
        InvalidValueError
            If `values` is not a one-dimensional array of finite numbers.
        """
        array = self._array(name)
        given = np.asarray(values)
        if given.ndim != 1 or given.dtype.kind not in "iuf":
            raise InvalidValueError(
                f"schedule: {name} must be one number per step, got {given.dtype}{list(given.shape)}; pass a 1-d array"
            )
        with np.errstate(over="ignore"):
            held = np.ascontiguousarray(given, array.dtype)
        finite = np.isfinite(held)
        if not finite.all():
            step = int(np.argmin(finite))
            raise InvalidValueError(
                f"schedule: {name} must be finite in {array.dtype.name}, got {given[step]} at {step}"
            )
        return held

    def __delitem__(self, name: str) -> None:
        raise InvalidValueError(f"hyper: {name} is an input of the compiled step and cannot be deleted; set it instead")

    # Hidden from type checkers, which would otherwise accept any attribute.
    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: object) -> None:
            if name != "arrays":
                raise MissingAttributeError(
                    f"hyper: hyperparameters are items, got an assignment to the attribute {name}; set "
                    f"trainer.hyper[{name!r}]"
                )
            super().__setattr__(name, value)

        def __getattr__(self, name: str) -> NoReturn:
            known = self.__dict__.get("arrays", {})
            if name not in known:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            raise MissingAttributeError(
                f"hyper: hyperparameters are items, got the attribute {name}; read trainer.hyper[{name!r}]"
            )

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{name!r}: {value!r}' for name, value in self.items())}}}"

    def _array(self, name: str) -> np.ndarray:
        if name not in self.arrays:
            raise NameLookupError(
                f"hyper: the step has no {name!r}, only {', '.join(self.arrays)}; settings that were 0 when the "
                "optimizer was created are not in the graph"
            )
        return self.arrays[name]
