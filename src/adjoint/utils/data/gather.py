"""Batches of datasets that consist of tensors: the rows of a batch are copied by one NumPy call a tensor."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.tensor.storage import StorageCache
from adjoint.tensor.tensor import Tensor
from adjoint.utils.data.collate import host_elements, tensor_of
from adjoint.utils.data.datasets import Subset, TensorDataset
from adjoint.utils.data.samplers import integers

__all__ = ["Gather", "gather_of"]

#: Most batches whose memory is kept for later ones. A loop over batches needs two, the present and the next one, and
#: one that runs several steps before it reads a loss a few more.
_MOST_SPARE = 8


class Gather:
    """Copies rows of tensors.

    Parameters
    ----------
    tensors : tuple of Tensor
        Shape [N, ...] each.
    rows : numpy.ndarray or None
        The rows that indices select from; None for all.
    single : bool
        Whether a batch is a tensor, not a list of tensors.
    """

    def __init__(self, tensors: tuple[Tensor, ...], rows: np.ndarray | None, single: bool) -> None:
        self.tensors, self._rows, self.single = tensors, rows, single

    def batches(self, indices: Iterable[Sequence[int]]) -> Iterator[Any]:
        """The batches with these indices; raises if one is out of range."""
        return self._copied(self.numbers(picked) for picked in indices)

    def split(self, order: np.ndarray, size: int) -> Iterator[Any]:
        """Batches of `size` rows in this order, which is checked at once."""
        rows = self.numbers(order)
        return self._copied(rows[start : start + size] for start in range(0, len(rows), size))

    def _copied(self, numbers: Iterator[np.ndarray]) -> Iterator[Any]:
        columns = [_Column(tensor) for tensor in self.tensors]
        for rows in numbers:
            yield columns[0].take(rows) if self.single else [column.take(rows) for column in columns]

    def numbers(self, indices: np.ndarray | Sequence[int]) -> np.ndarray:
        """The numbers of rows of the tensors that indices select."""
        count = self.tensors[0].shape[0]
        if self._rows is None:
            return _in_range(indices, count)
        return _in_range(self._rows[_in_range(indices, len(self._rows))], count)


def gather_of(dataset: object) -> Gather | None:
    """What copies the rows of a dataset; None if its items are more than rows of tensors."""
    subsets = []
    while isinstance(dataset, Subset) and _keeps_items(dataset, Subset):
        subsets.append(dataset.indices)
        dataset = dataset.dataset
    single = isinstance(dataset, Tensor | np.ndarray)
    if single:
        tensors = TensorDataset(dataset).tensors  # type: ignore[arg-type]
    elif isinstance(dataset, TensorDataset) and _keeps_items(dataset, TensorDataset):
        tensors = dataset.tensors
    else:
        return None
    rows: np.ndarray | None = None
    for indices in subsets:
        picked = integers("Subset", indices)
        rows = picked if rows is None else picked[_in_range(rows, len(picked))]
    return Gather(tensors, rows, single)


def _keeps_items(dataset: object, base: type) -> bool:
    """Whether the class of a dataset makes items as this base class does."""
    names = ("__getitem__", "__getitems__")
    return all(getattr(type(dataset), name, None) is getattr(base, name, None) for name in names)


def _in_range(indices: np.ndarray | Sequence[int], count: int) -> np.ndarray:
    """Indices as numbers from 0 to `count - 1`; negative ones count from the end."""
    found = integers("DataLoader", indices)
    # As unsigned numbers, negative ones are the largest.
    if found.size and found.view(np.uint64).max() >= count:
        wrong = found[(found < -count) | (found >= count)]
        if wrong.size:
            raise InvalidValueError(
                f"DataLoader: indices must be below the number of rows, {count}, got {wrong[0]}; check the sampler or "
                "the subset"
            )
        found = np.where(found < 0, found + count, found)
    return found


class _Column:
    """The rows of one tensor, and memory for batches of them."""

    def __init__(self, tensor: Tensor) -> None:
        host_elements(tensor, "DataLoader")
        self._tensor = tensor
        # A whole batch, and the incomplete last one of an epoch.
        self._memory = StorageCache(types=2, pieces=_MOST_SPARE)

    def take(self, order: np.ndarray) -> Tensor:
        """The rows with these numbers, as a new tensor."""
        array = self._tensor.elements().array  # which is another one after a change in place
        storage = self._memory.storage((len(order), *array.shape[1:]), array.dtype)
        # With the mode "raise", NumPy would copy twice; indices are in range.
        array.take(order, 0, storage.array, "clip")
        return tensor_of(storage)
