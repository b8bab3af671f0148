"""Compiled calls: a traced function as one executable that reads and writes tensors where they are."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from sys import getrefcount
from typing import Any

import numpy as np

from adjoint.compiler import compile as compile_function
from adjoint.errors import InvalidValueError
from adjoint.func.tree import LEAF, Structure, tree_unflatten
from adjoint.ir import Function
from adjoint.tensor.aliases import refresh_views
from adjoint.tensor.plan import options
from adjoint.tensor.storage import Storage, empty_storage, is_exported
from adjoint.tensor.structure import Node, Spec, spec_of
from adjoint.tensor.tensor import Tensor
from adjoint.tensor.trace import Trace

__all__ = ["CHANGED", "Call", "Captured", "Effects", "Program", "Result", "shown", "used_up"]

#: References to elements that only one tensor has: by its attributes, by a variable, and by the call of getrefcount.
_OWN = 3
#: References to elements that only `Program.spare` has.
_SPARE = 3
#: Most results whose memory is kept for the next calls, for each result.
_MOST_SPARE = 2

#: What a call returns if something that it depends on has changed since the function was traced.
CHANGED = object()


class _UsedUp(Trace):
    """The trace of gradients that an optimizer has used inside a compiled function, which does not keep them."""

    done = True

    @property
    def failure(self) -> BaseException:  # type: ignore[override]
        """Why they cannot be read."""
        return InvalidValueError(
            "a gradient that optimizer.step() has used inside a compiled function is not kept, got a use of one; "
            "return it from the function"
        )

    @property
    def deferred(self) -> bool:  # type: ignore[override]
        """Raises, because running the trace would have to compute them."""
        raise self.failure


_USED_UP = _UsedUp(Node(None), False)


def used_up(spec: Spec) -> Tensor:
    """A tensor that takes the place of a gradient that is not kept; reading it raises an error."""
    tensor = Tensor.__new__(Tensor)
    tensor._spec = spec
    tensor._trace = _USED_UP
    return tensor


@dataclass(frozen=True, slots=True)
class Captured:
    """A tensor that a function uses besides its arguments.

    Attributes
    ----------
    tensor : Tensor
        The tensor.
    container, key : dict or list, key
        Where it is.
    moving : bool
        Whether another tensor of the same type may take its place.
    """

    tensor: Tensor
    container: Any
    key: Any
    moving: bool


@dataclass(frozen=True, slots=True)
class Result:
    """A leaf of what a function returns: a result of the program, an argument itself, or an object.

    Attributes
    ----------
    kind : str
        ``"new"``, ``"argument"`` or ``"object"``.
    item : object
        The number of the result or argument; the object.
    """

    kind: str
    item: Any


@dataclass(frozen=True, slots=True)
class Effects:
    """What a call does besides returning something.

    Attributes
    ----------
    rebound : tuple of (Tensor or int, int)
        Tensors, or arguments by number, and the numbers of the results that are their new values.
    grads : tuple of (Tensor or int, int or Tensor or None)
        Tensors, or arguments by number, and their new ``grad``: a result by number, a tensor, or None.
    prints : tuple of (str, tuple of int)
        Formats, and the numbers of the results to print.
    """

    rebound: tuple[tuple[Any, int], ...] = ()
    grads: tuple[tuple[Any, Any], ...] = ()
    prints: tuple[tuple[str, tuple[int, ...]], ...] = ()


class Program:
    """A compiled function and the places of its arguments and results.

    Parameters
    ----------
    function : Function
        The graph; its attribute ``donate`` says which arguments give their memory to a result.
    places : sequence of int
        For each of its parameters, the position among the tensors that entered the trace.
    """

    def __init__(self, function: Function, places: Sequence[int]) -> None:
        self.function = function
        self.entry = compile_function(function, options=options.compile)[function.name]
        self.invocation = self.entry.invocation()
        self.slots = self.invocation.slots
        self.lock = threading.RLock()
        slots = {a.name: a.slot for a in self.entry.arguments}
        donated: dict[str, int] = dict(function.attrs.get("donate", ()))  # type: ignore[arg-type]
        by_place = dict(zip(places, function.params, strict=True))
        #: By position among the tensors that entered: the slot of its address.
        self.inputs = {place: slots[p.label] for place, p in by_place.items() if p.label not in donated}
        #: By number of a result: the position of the tensor that gives its memory.
        self.donors = {donated[p.label]: place for place, p in by_place.items() if p.label in donated}
        self.outputs = [
            (n, result.slot, value.type)
            for n, (value, result) in enumerate(zip(function.results, self.entry.results, strict=True))
        ]
        self.specs = [spec_of(value.type) for value in function.results]
        self._spare: list[list[Storage]] = [[] for _ in self.outputs]

    def memory(self, n: int) -> Storage:
        """Memory for a result that nobody looks at."""
        spare = self._spare[n]
        for storage in spare:
            if getrefcount(storage) <= _SPARE and not is_exported(storage):
                return storage
        made = empty_storage(self.outputs[n][2])
        spare.append(made)
        del spare[:-_MOST_SPARE]
        return made


class Call:
    """A program together with the tensors that it uses: what a call of a jitted function does.

    Parameters
    ----------
    program : Program
        The compiled function.
    entered : sequence of int or Captured
        What entered the trace: arguments by number, and captured tensors.
    specs : sequence of Spec
        The specs of the arguments.
    structure, results : Structure, sequence of Result
        What the function returns.
    effects : Effects
        What it changes.
    """

    def __init__(
        self,
        program: Program,
        entered: Sequence[int | Captured],
        specs: Sequence[Spec],
        structure: Structure,
        results: Sequence[Result],
        effects: Effects,
    ) -> None:
        self.program, self.specs, self.structure, self.effects = program, tuple(specs), structure, effects
        self._results = tuple(results)
        self._arguments: list[tuple[int, int]] = []
        self._captured: list[tuple[Any, Any, Tensor, Spec, int]] = []
        self._moving: list[tuple[Any, Any, Spec, int]] = []
        for place, slot in program.inputs.items():
            self._add_input(entered[place], slot)
        #: For each result: its number, its slot, and the tensor that gives its memory, or the number of an argument.
        self._outputs = []
        for n, slot, _ in program.outputs:
            donor = entered[program.donors[n]] if n in program.donors else None
            self._outputs.append((n, slot, donor.tensor if isinstance(donor, Captured) else donor))
        for place in program.donors.values():
            if isinstance(one := entered[place], Captured):
                self._captured.append((one.container, one.key, one.tensor, one.tensor._spec, -1))
        self._unflatten = _builder(structure)
        self.captured = [one for one in entered if isinstance(one, Captured)]

    def _add_input(self, one: "int | Captured", slot: int) -> None:
        if not isinstance(one, Captured):
            self._arguments.append((one, slot))
        elif one.moving:
            self._moving.append((one.container, one.key, one.tensor._spec, slot))
        else:
            self._captured.append((one.container, one.key, one.tensor, one.tensor._spec, slot))

    def run(self, args: Sequence[Tensor]) -> Any:
        """Call the function; returns `CHANGED` if a captured tensor is another one, or has another type."""
        program = self.program
        slots = program.slots
        with program.lock:
            try:
                for container, key, tensor, spec, slot in self._captured:
                    if container[key] is not tensor or tensor._spec is not spec:
                        return CHANGED
                    storage = tensor._storage
                    if storage is None:
                        storage = tensor.elements()
                    if slot >= 0:
                        slots[slot] = storage.address
                for container, key, spec, slot in self._moving:
                    tensor = container[key]
                    if tensor._spec is not spec:
                        return CHANGED
                    slots[slot] = (tensor._storage or tensor.elements()).address
            except (KeyError, IndexError, AttributeError):
                return CHANGED
            for n, slot in self._arguments:
                slots[slot] = (args[n]._storage or args[n].elements()).address
            made: list[Any] = []
            for n, slot, donor in self._outputs:
                if donor is None:
                    storage = program.memory(n)
                else:
                    target: Any = args[donor] if isinstance(donor, int) else donor
                    storage = target._storage
                    if getrefcount(storage) > _OWN:  # another tensor needs these elements
                        copied = empty_storage(program.outputs[n][2])
                        copied.array[...] = storage.array
                        storage = copied
                slots[slot] = storage.address
                made.append(storage)
            program.invocation.call()
        return self._finish(args, made)

    def _finish(self, args: Sequence[Tensor], made: list[Storage]) -> Any:
        """Give tensors their new elements and gradients, print, and build what the function returns."""
        effects = self.effects
        for target, n in effects.rebound:
            tensor = args[target] if target.__class__ is int else target
            tensor._storage = made[n]
            tensor._trace = None
            if tensor._alias is not None:
                refresh_views((tensor,))
        specs = self.program.specs
        for target, new in effects.grads:
            tensor = args[target] if target.__class__ is int else target
            tensor.grad = _tensor(specs[new], made[new]) if new.__class__ is int else new
        for text, numbers in effects.prints:
            print(text.format(*[shown(made[n].array) for n in numbers]))
        leaves: list[Any] = []
        for result in self._results:
            kind, item = result.kind, result.item
            if kind == "new":
                leaves.append(_tensor(specs[item], made[item]))
            else:
                leaves.append(args[item] if kind == "argument" else item)
        return self._unflatten(leaves)


def shown(array: np.ndarray) -> Any:
    """What to format: a number for a single element, so that formats of numbers apply."""
    return array.item() if array.size == 1 else array


def _tensor(spec: Spec, storage: Storage) -> Tensor:
    tensor = Tensor.__new__(Tensor)
    tensor._spec = spec
    tensor._storage = storage
    return tensor


def _builder(structure: Structure) -> Callable[[list[Any]], Any]:
    """The function that builds a tree from its leaves, without a walk for the usual ones."""
    if structure is LEAF or structure == LEAF:
        return lambda leaves: leaves[0]
    if structure.kind is tuple and all(child == LEAF for child in structure.children):
        return tuple
    return lambda leaves: tree_unflatten(structure, leaves)
