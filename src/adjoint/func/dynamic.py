"""Sizes that change: a function that is compiled for a largest size of the leading axis runs on any smaller one.

The graph is that of the largest size, in which rows that are not there count for nothing (`adjoint.transforms.
mask_batch`): sums, means and statistics are those of the rows that there are. Arguments are filled up to the largest
size with copies of their first row, and results with the axis are cut.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import Function
from adjoint.lazy_dataclass import dataclass
from adjoint.tensor.storage import Storage, empty_storage, storage_of
from adjoint.tensor.structure import Spec, spec_of
from adjoint.tensor.tensor import Tensor, from_array
from adjoint.transforms.batch_axis import Axis, batch_inputs
from adjoint.transforms.inline_calls import inline_calls
from adjoint.transforms.mask_batch import mask_batch

__all__ = ["Dynamic", "Masked", "cut", "masked"]


@dataclass(frozen=True, slots=True)
class Masked:
    """A graph for any number of rows up to a largest one.

    Attributes
    ----------
    function : Function
        The graph. Its last parameter is the number of rows, i32[].
    axes : tuple of Axis or None
        For each result, its axis of rows.
    """

    function: Function
    axes: tuple[Axis | None, ...]


def masked(function: Function, candidates: Sequence[int]) -> Masked:
    """Add a parameter with the number of rows to a graph.

    Parameters
    ----------
    function : Function
        The graph for the largest number of rows.
    candidates : sequence of int
        The parameters whose first axis counts rows.

    Raises
    ------
    TypeRuleError
        If rows cannot be left out.
    """
    flat = inline_calls(function)
    axes = batch_inputs(flat, [flat.params[n] for n in candidates])
    missing = next((flat.params[n] for n in candidates if flat.params[n] not in axes.of), None)
    if missing is not None:
        raise TypeRuleError(
            f"jit: arguments of the same dynamic size must be combined row by row, got %{missing.label}: "
            f"{missing.type}, which is not; name its size differently, or leave it out of dynamic"
        )
    name = "rows"
    while any(p.label == name for p in flat.params):
        name += "_"
    try:
        made = mask_batch(flat, axes, name)
    except InvalidValueError as error:
        raise TypeRuleError(
            f"jit: a function with a dynamic size must treat rows alike, but {error.message}; leave dynamic out, or "
            "compute it outside of the function"
        ) from None
    return Masked(made, tuple(axes.axis(result) for result in flat.results))


class Dynamic:
    """The arguments of a function whose leading axis has any size up to a bound.

    Parameters
    ----------
    given : mapping of str to mapping of int to str
        For arguments by name, the names of the sizes of axes. Only axis 0 can have one, and all have the same.
    bound : int, optional
        The largest size; default: the first one that occurs, rounded up to a power of two. It grows when a larger one
        occurs.
    """

    def __init__(self, given: Mapping[str, Mapping[int, str]], bound: int | None) -> None:
        for name, axes in given.items():
            if not isinstance(axes, Mapping) or list(axes) != [0]:
                raise InvalidValueError(
                    f"jit: dynamic must name axis 0 of arguments, as in {{'x': {{0: 'n'}}}}, got {axes!r} for {name}; "
                    "call the function for each other size, or fill up to one"
                )
        if len({axes[0] for axes in given.values()}) > 1:
            raise InvalidValueError(
                f"jit: dynamic must have one size, got {', '.join(sorted({a[0] for a in given.values()}))}; name them "
                "equally"
            )
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int) or bound < 2):
            raise InvalidValueError(
                f"jit: bound must be an integer of at least 2, got {bound!r}; omit it for a default"
            )
        self.names = tuple(given)
        self.bound = bound
        self._fixed = bound is not None
        self._spare: dict[tuple[int, Spec], Storage] = {}

    def rows(self, tensors: Sequence[Tensor], places: Sequence[int]) -> int:
        """The size of a call, which the bound grows to."""
        sizes = {tensors[place].shape[0] if tensors[place].shape else -1 for place in places}
        if len(sizes) != 1 or min(sizes) < 1:
            raise TypeRuleError(
                f"jit: the arguments {', '.join(self.names)} must have the same size of axis 0, at least 1, got "
                f"{', '.join(map(str, sorted(sizes)))}; pass the same number of rows"
            )
        (size,) = sizes
        if self.bound is None or size > self.bound:
            if self._fixed:
                raise InvalidValueError(
                    f"jit: the size of axis 0 must be at most bound={self.bound}, got {size}; choose a larger bound"
                )
            self.bound = max(2, 1 << (size - 1).bit_length())
        return size

    def filled(self, tensors: Sequence[Tensor], places: Sequence[int], rows: int) -> list[Tensor]:
        """The tensors of a call with as many rows as the bound, followed by the number of rows."""
        assert self.bound is not None
        made = list(tensors)
        for place in places:
            tensor = made[place]
            spec = spec_of(tensor._spec.type.with_shape((self.bound, *tensor.shape[1:])))
            if rows == self.bound:
                made[place] = _tensor(spec, tensor.elements())
                continue
            storage = self._spare.get((place, spec))
            if storage is None:
                storage = self._spare[place, spec] = empty_storage(spec.type)
            storage.array[:rows] = tensor.elements().array
            storage.array[rows:] = storage.array[0]
            made[place] = _tensor(spec, storage)
        return [*made, from_array(np.array(rows, np.int32), copy=False)]


def _tensor(spec: Spec, storage: Storage) -> Tensor:
    tensor = Tensor.__new__(Tensor)
    tensor._spec, tensor._storage = spec, storage
    return tensor


def cut(tensor: Any, axis: Axis, rows: int) -> Tensor:
    """The part of a result that belongs to the rows that there are."""
    array = tensor.elements().array
    part = array[(*[slice(None)] * axis.position, slice(rows * axis.each))]
    return _tensor(spec_of(tensor._spec.type.with_shape(part.shape)), storage_of(part, copy=False))
