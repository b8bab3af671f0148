"""A compiled call bound to the tensors that it uses, so that a loop in native code repeats it without Python."""

from collections.abc import Sequence
from sys import getrefcount
from typing import Any

from adjoint.func.calling import CHANGED
from adjoint.func.compiled import Captured, copied
from adjoint.func.variant import Variant
from adjoint.runtime.bound import Bound
from adjoint.tensor.aliases import refresh_views
from adjoint.tensor.checking import nan_mode
from adjoint.tensor.plan import options
from adjoint.tensor.storage import COUNTED_BY_CALL, Storage
from adjoint.tensor.tensor import Tensor

__all__ = ["ResidentCall"]

#: References to elements that only one tensor has: by its attributes, by a variable, and by the call of getrefcount.
_OWN = 2 + COUNTED_BY_CALL


class ResidentCall:
    """The program of a traced call, with the elements of all tensors besides its arguments in their places.

    Parameters
    ----------
    variant : Variant
        The traced call. `reason` says whether it can be bound.
    examples : sequence of Tensor
        The arguments that it was traced for.

    Attributes
    ----------
    bound : Bound
        Takes those arguments that the program reads; its first output is the call's first result.
    arguments : tuple of int
        Their numbers among the arguments of the call, in the order in which `bound` takes them.
    """

    def __init__(self, variant: Variant, examples: Sequence[Tensor]) -> None:
        program, entered = variant.lifted.program, variant.lifted.entered
        assert program is not None
        self._variant, self._examples, self._check = variant, examples, variant.checker()
        labels = {place: p.label for place, p in zip(variant.lifted.places, program.function.params, strict=True)}
        numbers = {labels[place]: one for place, one in enumerate(entered) if isinstance(one, int) and place in labels}
        #: By position among what entered: the name of the parameter of a captured tensor.
        self._labels = {p: label for p, label in labels.items() if isinstance(entered[p], Captured)}
        self._donors = set(program.donors.values())
        #: The elements that are bound, by position; kept alive as long as addresses of them are in use.
        self._storages = self._current() or {}
        resident = {label: self._storages[place].array for place, label in self._labels.items()}
        self.bound: Bound = program.entry.bind(resident, threads=options.compile.threads)
        self.arguments = tuple(numbers[a.name] for a in self.bound.arguments)
        self._slots = {a.name: a.slot for a in self.bound.entry.arguments}

    @staticmethod
    def reason(variant: Variant) -> str | None:
        """Why a call cannot be bound, in words; None if it can."""
        lifted = variant.lifted
        program, effects = lifted.program, lifted.effects
        if program is None:
            return "it computes nothing that is kept"
        if effects.prints:
            return "it prints"
        if nan_mode.on:
            return "debug_nan examines each call"
        for target, n in effects.rebound:
            one = lifted.entered[program.donors[n]] if n in program.donors else None
            if not isinstance(one, Captured) or one.tensor is not target or one.moving:
                return "it exchanges tensors"
        if any(isinstance(new, int) for _, new in effects.grads):
            return "it keeps gradients"
        if not lifted.results or lifted.results[0].kind != "new" or lifted.results[0].item in program.donors:
            return "its first result is not a new tensor"
        return None

    def prepare(self) -> bool:
        """Bind the present elements of all tensors; False if the call has to be traced again."""
        storages = self._current()
        if storages is None:
            return False
        for place, storage in storages.items():
            if storage is not self._storages.get(place):
                label = self._labels[place]
                self.bound.slots[self._slots[label]] = storage.address
                self.bound.resident[label] = storage.array
        self._storages = storages
        return True

    def finish(self) -> None:
        """Let what depends on changed tensors know, and set gradients as a call does."""
        effects = self._variant.lifted.effects
        changed = [target for target, _ in effects.rebound if target._alias is not None]
        if changed:
            refresh_views(changed)
        for target, new in effects.grads:
            target._grad = new

    def _current(self) -> dict[int, Storage] | None:
        """The elements of the captured tensors by position, those that are updated owned by them alone."""
        found: Any = self._check(self._examples)
        if found is CHANGED:
            return None
        self._storages = {}
        storages: dict[int, Storage] = {}
        for place in self._labels:
            tensor = found[place]
            storage = tensor._storage
            if storage is None:
                storage = tensor.elements()
            if place in self._donors and getrefcount(storage) > _OWN:
                storage = tensor._storage = copied(storage, tensor._spec.type)
            storages[place] = storage
        return storages
