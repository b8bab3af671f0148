"""Compiled calls: a traced function as one executable that reads and writes tensors where they are."""

import threading
from collections.abc import Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from adjoint.compiler import compile as compile_function
from adjoint.errors import InvalidValueError
from adjoint.func.calling import Caller
from adjoint.func.tree import LEAF, Structure, tree_unflatten
from adjoint.ir import Function, TensorType
from adjoint.lazy_dataclass import dataclass
from adjoint.tensor.aliases import refresh_views
from adjoint.tensor.plan import options
from adjoint.tensor.storage import COUNTED_BY_CALL, Storage, empty_storage, is_exported
from adjoint.tensor.structure import Node, Spec, spec_of
from adjoint.tensor.tensor import Tensor
from adjoint.tensor.trace import Trace

__all__ = [
    "Captured",
    "Effects",
    "Program",
    "Result",
    "captured",
    "copied",
    "shown",
    "used_up",
    "write_call",
    "write_return",
]

#: References to elements that only one tensor has: by its attributes, by a variable, and by the call of getrefcount.
_OWN = 2 + COUNTED_BY_CALL
#: References to elements that only `Program.spare` has.
_SPARE = 2 + COUNTED_BY_CALL
#: Most results whose memory is kept for the next calls, for each result.
_MOST_SPARE = 2


class _UsedUp(Trace):
    """The trace of gradients that an optimizer has used inside a compiled function, which does not keep them."""

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
_USED_UP.done = True


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
        #: Its number among the compilations of this process.
        self.number = 0

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


def write_call(
    caller: Caller,
    program: Program,
    entered: Sequence[int | Captured],
    structure: Structure,
    results: Sequence[Result],
    effects: Effects,
) -> None:
    """Add the call of a program.

    Parameters
    ----------
    caller : Caller
        Where to add it.
    program : Program
        The compiled function.
    entered : sequence of int or Captured
        What entered the trace: arguments by number, and captured tensors.
    structure, results : Structure, sequence of Result
        What the function returns.
    effects : Effects
        What it changes.
    """
    slots, lines = caller.name(program.slots), []
    for place, slot in program.inputs.items():
        one = entered[place]
        target = f"a{one}" if isinstance(one, int) else captured(caller, one)
        lines += [*_elements("s", target), f"{slots}[{slot}] = s.address"]
    for n, slot, type_ in program.outputs:
        if n in program.donors:
            one = entered[program.donors[n]]
            target = f"a{one}" if isinstance(one, int) else captured(caller, one)
            lines += _elements(f"o{n}", target)
            # Another tensor may need the elements.
            copy = f"{caller.name(copied)}(o{n}, {caller.name(type_)})"
            lines.append(f"if {caller.name(getrefcount)}(o{n}) > {_OWN}: o{n} = {copy}")
        else:
            lines.append(f"o{n} = {caller.name(program.memory)}({n})")
        lines.append(f"{slots}[{slot}] = o{n}.address")
    lines.append(f"{caller.name(program.invocation.call)}()")
    caller.add(f"with {caller.name(program.lock)}:", *(f"    {line}" for line in lines))
    _write_effects(caller, program, effects)
    leaves = []
    for number, result in enumerate(results):
        if result.kind == "new":
            caller.add(*_tensor(caller, f"r{number}", program, result.item))
            leaves.append(f"r{number}")
        else:
            leaves.append(f"a{result.item}" if result.kind == "argument" else caller.name(result.item))
    write_return(caller, structure, leaves)


def write_return(caller: Caller, structure: Structure, leaves: Sequence[str]) -> None:
    """Add the statement that returns a tree with these leaves."""
    if structure == LEAF:
        caller.add(f"return {leaves[0]}")
    elif structure.kind is tuple and all(child == LEAF for child in structure.children):
        caller.add(f"return ({''.join(f'{leaf}, ' for leaf in leaves)})")
    else:
        caller.add(f"return {caller.name(tree_unflatten)}({caller.name(structure)}, [{', '.join(leaves)}])")


def captured(caller: Caller, one: Captured) -> str:
    """The name of a captured tensor, after the check that it is still the same, or of the same type."""
    where = caller.item(one.container, one.key)
    spec = caller.name(one.tensor._spec)
    if not one.moving:
        name = caller.name(one.tensor)
        caller.require(f"{where} is {name} and {name}._spec is {spec}")
        return name
    name = f"m{one.key}" if isinstance(one.key, str | int) else "m"
    name = caller.fresh(name)
    caller.check(f"{name} = {where}")
    caller.require(f"{name}._spec is {spec}")
    return name


def _elements(name: str, tensor: str) -> list[str]:
    return [f"{name} = {tensor}._storage", f"if {name} is None: {name} = {tensor}.elements()"]


def _write_effects(caller: Caller, program: Program, effects: Effects) -> None:
    """Add code that gives tensors their new elements and gradients, and prints."""
    for target, n in effects.rebound:
        tensor = f"a{target}" if isinstance(target, int) else caller.name(target)
        caller.add(
            f"{tensor}._storage = o{n}",
            f"{tensor}._trace = None",
            f"if {tensor}._alias is not None: {caller.name(refresh_views)}(({tensor},))",
        )
    for k, (target, new) in enumerate(effects.grads):
        tensor = f"a{target}" if isinstance(target, int) else caller.name(target)
        if isinstance(new, int):
            caller.add(*_tensor(caller, f"g{k}", program, new), f"{tensor}._grad = g{k}")
        else:
            caller.add(f"{tensor}._grad = {caller.name(new)}")
    for text, numbers in effects.prints:
        values = ", ".join(f"{caller.name(shown)}(o{n}.array)" for n in numbers)
        caller.add(f"print({caller.name(text)}.format({values}))")


def _tensor(caller: Caller, name: str, program: Program, n: int) -> list[str]:
    """Code that makes a tensor of a result."""
    spec = caller.name(program.specs[n])
    return [f"{name} = new(Tensor)", f"{name}._spec = {spec}", f"{name}._storage = o{n}"]


def copied(storage: Storage, type_: TensorType) -> Storage:
    """A copy of elements."""
    made = empty_storage(type_)
    made.array[...] = storage.array
    return made


def shown(array: np.ndarray) -> Any:
    """What to format: a number for a single element, so that formats of numbers apply."""
    return array.item() if array.size == 1 else array
