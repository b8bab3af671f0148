"""Datasets, as in ``torch.utils.data``: items by index, items one after the other, and combinations of both."""

import itertools
import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from adjoint.errors import DataError, InvalidValueError, TypeRuleError, kind_of, listed, warn
from adjoint.tensor.generator import Generator, as_generator, host_permutation
from adjoint.tensor.making import from_array
from adjoint.tensor.tensor import Tensor

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "length_of",
    "random_split",
]

T_co = TypeVar("T_co", covariant=True)


def length_of(dataset: object, name: str) -> int:
    """The number of items of a dataset; `name` is the function that needs it, for the error."""
    try:
        return len(dataset)  # type: ignore[arg-type]
    except TypeError:
        raise TypeRuleError(
            f"{name}: the dataset must have a length, got {kind_of(dataset)} without one; define __len__"
        ) from None


class Dataset(Generic[T_co]):
    """Items by index. A subclass defines ``__getitem__(index)`` and ``__len__()``.

    If it also defines ``__getitems__(indices)``, which returns a list of items, a `DataLoader` calls that once a batch.
    """

    def __getitem__(self, index: Any) -> T_co:
        name = type(self).__name__
        raise TypeRuleError(
            f"{name}: a dataset must define __getitem__(index), got none; define it, or derive {name} from "
            "IterableDataset"
        )

    def __add__(self, other: "Dataset[Any]") -> "ConcatDataset[Any]":
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """Items one after the other, for data without indices such as a stream. A subclass defines ``__iter__()``."""

    def __iter__(self) -> Iterator[T_co]:
        raise TypeRuleError(
            f"{type(self).__name__}: an iterable dataset must define __iter__(), got none; define it as a generator"
        )

    def __add__(self, other: Dataset[Any]) -> "ChainDataset[Any]":  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Tensors whose rows, along axis 0, belong together. An item is a tuple with one row of each.

    A `DataLoader` copies the rows of a batch with one NumPy call a tensor.

    Parameters
    ----------
    *tensors : Tensor or numpy.ndarray
        Shape [N, ...] each, any dtype. An array becomes a tensor that shares its memory, if its layout allows.

    Attributes
    ----------
    tensors : tuple of Tensor
        The tensors.

    Raises
    ------
    TypeRuleError
        If something else is given, or a tensor requires a gradient: items are read, not computed.
    DataError
        If the numbers of rows differ.
    """

    def __init__(self, *tensors: Tensor | np.ndarray) -> None:
        self.tensors = tuple(_rows(tensor) for tensor in tensors)
        if not tensors:
            raise DataError("TensorDataset takes at least one tensor, got none; pass the inputs and the targets")
        counts = [tensor.shape[0] for tensor in self.tensors]
        if len(set(counts)) != 1:
            raise DataError(
                f"TensorDataset takes tensors with equally many rows, got {listed(counts)}; shorten the longer ones"
            )

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(from_array(tensor.elements().array[index, ...]) for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]


def _rows(given: object) -> Tensor:
    if isinstance(given, np.ndarray):
        given = from_array(given, copy=False)
    if not isinstance(given, Tensor):
        raise TypeRuleError(f"TensorDataset takes tensors, got {kind_of(given)}; convert it with adjoint.tensor(...)")
    if not given.shape:
        raise TypeRuleError("TensorDataset takes tensors [N, ...], got a scalar; stack the rows along axis 0")
    if given.requires_grad:
        raise TypeRuleError(
            "TensorDataset takes tensors without gradients, got one that requires a gradient; pass tensor.detach()"
        )
    return given


class StackDataset(Dataset[Any]):
    """Several datasets side by side: an item is a tuple with one item of each, or a dict if they have names.

    Parameters
    ----------
    *args : dataset
        Datasets of the same length.
    **kwargs : dataset
        In place of these, datasets of the same length by name.

    Raises
    ------
    TypeRuleError
        If there are none, or some with and some without a name, or one has no length.
    DataError
        If the lengths differ.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            given = "both" if args else "nothing"
            raise TypeRuleError(f"StackDataset takes datasets either in order or by name, got {given}; pass one kind")
        self.datasets: tuple[Any, ...] | dict[str, Any] = args or kwargs
        counts = [length_of(dataset, "StackDataset") for dataset in self._parts()]
        if len(set(counts)) != 1:
            raise DataError(
                f"StackDataset takes datasets of the same length, got {listed(counts)}; shorten the longer ones"
            )

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, Mapping):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __len__(self) -> int:
        return len(self._parts()[0])

    def _parts(self) -> list[Any]:
        return list(self.datasets.values() if isinstance(self.datasets, Mapping) else self.datasets)


class ConcatDataset(Dataset[T_co]):
    """Datasets one after the other, by index.

    Parameters
    ----------
    datasets : iterable of dataset
        Each with indices and a length.

    Raises
    ------
    InvalidValueError
        If there are none.
    TypeRuleError
        If one is an `IterableDataset`, or has no length.

    Attributes
    ----------
    datasets : list
        The datasets.
    cumulative_sizes : list of int
        The number of items up to the end of each.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise InvalidValueError("ConcatDataset takes at least one dataset, got an empty list; pass some")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise TypeRuleError("ConcatDataset takes datasets with indices, got an IterableDataset; use ChainDataset")
        sizes = [length_of(dataset, "ConcatDataset") for dataset in self.datasets]
        self.cumulative_sizes = list(itertools.accumulate(sizes))

    def __getitem__(self, index: Any) -> T_co:
        place = index + len(self) if index < 0 else index
        # Beyond the end, there is no dataset with this number, whose IndexError ends a loop over the items.
        which = bisect_right(self.cumulative_sizes, place) if place >= 0 else len(self.datasets)
        dataset = self.datasets[which]
        item: T_co = dataset[place - (self.cumulative_sizes[which - 1] if which else 0)]
        return item

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class ChainDataset(IterableDataset[T_co]):
    """Iterable datasets one after the other.

    Parameters
    ----------
    datasets : iterable of IterableDataset
        The datasets.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)

    def __iter__(self) -> Iterator[T_co]:
        return itertools.chain.from_iterable(self.datasets)

    def __len__(self) -> int:
        return sum(length_of(dataset, "ChainDataset") for dataset in self.datasets)


class Subset(Dataset[T_co]):
    """The items of a dataset with some indices.

    Parameters
    ----------
    dataset : dataset
        The whole dataset.
    indices : sequence
        Indices in it.
    """

    def __init__(self, dataset: Any, indices: Sequence[Any]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> T_co:
        item: T_co = self.dataset[[self.indices[i] for i in index] if isinstance(index, list) else self.indices[index]]
        return item

    def __getitems__(self, indices: Sequence[int]) -> list[T_co]:
        picked = [self.indices[index] for index in indices]
        if callable(getattr(self.dataset, "__getitems__", None)):
            items: list[T_co] = self.dataset.__getitems__(picked)
            return items
        return [self.dataset[index] for index in picked]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Any, lengths: Sequence[float], generator: Generator | None = None) -> list[Subset[Any]]:
    """Split a dataset into parts without common items, at random.

    Parameters
    ----------
    dataset : dataset
        With a length.
    lengths : sequence of int or float
        The number of items of each part; or fractions whose sum is 1, each rounded down, where the items that are left
        are given to the parts in turn.
    generator : Generator, optional
        Where random numbers come from; default: the default generator (`adjoint.manual_seed`).

    Raises
    ------
    InvalidValueError
        If the lengths are negative, or do not sum to that of the dataset, or fractions to 1.
    """
    count = length_of(dataset, "random_split")
    sizes = _part_sizes(list(lengths), count)
    order = host_permutation(count, as_generator(generator, "random_split")).tolist()
    ends = list(itertools.accumulate(sizes))
    return [Subset(dataset, order[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


def _part_sizes(lengths: list[float], count: int) -> list[int]:
    """The numbers of items of the parts."""
    if any(not isinstance(n, int | float | np.number) or not math.isfinite(n) or n < 0 for n in lengths):
        raise InvalidValueError(f"random_split: lengths must be numbers of at least 0, got {lengths}; choose others")
    if all(isinstance(n, int | np.integer) for n in lengths) and sum(lengths) == count:
        return [int(n) for n in lengths]
    if not math.isclose(sum(lengths), 1):
        raise InvalidValueError(
            f"random_split: lengths must sum to the length of the dataset, {count}, or fractions to 1, got {lengths}; "
            "change one"
        )
    sizes = [math.floor(count * n) for n in lengths]
    for part in range(count - sum(sizes)):
        sizes[part % len(sizes)] += 1
    for part, size in enumerate(sizes):
        if size == 0:
            warn(f"random_split: part {part} has no items, {lengths[part]} of {count}")
    return sizes
