"""``tf.data``: datasets of arrays and of Python iterables, over `adjoint.data`."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

import numpy as np

from adjoint.compat.tensorflow.variables import tensor_of
from adjoint.compat.uncovered import uncovered
from adjoint.errors import InvalidValueError
from adjoint.func.tree import tree_flatten, tree_unflatten
from adjoint.tensor.tensor import Tensor

__all__ = ["AUTOTUNE", "Dataset"]
__getattr__ = uncovered(__name__, {}, "adjoint.data")

#: Numbers that TensorFlow chooses itself; without effect.
AUTOTUNE = -1


class Dataset:
    """Elements that can be walked several times.

    Parameters
    ----------
    make : callable
        Returns an iterator over the elements: arrays, or tuples and dicts of them.
    count : int, optional
        How many there are.
    arrays : tuple of numpy.ndarray, optional
        The arrays whose rows are the elements, in order; `fit` then trains in native code.
    """

    def __init__(
        self, make: Callable[[], Iterator[Any]], count: int | None = None, arrays: "Arrays | None" = None
    ) -> None:
        self._make, self._count, self.arrays = make, count, arrays

    @staticmethod
    def from_tensor_slices(tensors: Any) -> "Dataset":
        """The rows of arrays."""
        leaves, structure = tree_flatten(tensors)
        columns = [np.asarray(one.numpy() if isinstance(one, Tensor) else one) for one in leaves]
        count = len(columns[0])
        if any(len(column) != count for column in columns):
            raise InvalidValueError(
                f"from_tensor_slices: all arrays must have the same number of rows, got {[len(c) for c in columns]}; "
                "cut them"
            )

        def rows() -> Iterator[Any]:
            for n in range(count):
                yield tree_unflatten(structure, [column[n] for column in columns])

        plain = isinstance(tensors, tuple) and len(tensors) == 2 and len(leaves) == 2
        return Dataset(rows, count, Arrays(tuple(columns)) if plain else None)

    @staticmethod
    def from_tensors(tensors: Any) -> "Dataset":
        """A single element."""
        return Dataset(lambda: iter([tensors]), 1)

    @staticmethod
    def from_generator(generator: Callable[..., Iterable[Any]], args: Any = None, **_: Any) -> "Dataset":
        """What a function yields."""
        return Dataset(lambda: iter(generator(*(args or ()))))

    @staticmethod
    def range(*bounds: int) -> "Dataset":
        """Whole numbers."""
        numbers = np.arange(*bounds)
        return Dataset(lambda: iter(numbers), len(numbers))

    @staticmethod
    def zip(*datasets: Any) -> "Dataset":
        """Tuples of the elements of several datasets."""
        parts = datasets[0] if len(datasets) == 1 and isinstance(datasets[0], tuple) else datasets
        counts = [part.known_count for part in parts]
        count = None if any(n is None for n in counts) else min(n for n in counts if n is not None)
        return Dataset(lambda: iter(zip(*parts, strict=False)), count)

    @property
    def known_count(self) -> int | None:
        """How many elements there are; None if that is not known."""
        return self._count

    def __iter__(self) -> Iterator[Any]:
        for one in self._make():
            leaves, structure = tree_flatten(one)
            yield tree_unflatten(structure, [tensor_of(leaf) for leaf in leaves])

    def __len__(self) -> int:
        if self._count is None:
            raise TypeError("the number of elements is not known")
        return self._count

    def cardinality(self) -> Tensor:
        """How many elements there are, as a tensor; -2 if that is not known."""
        return tensor_of(-2 if self._count is None else self._count, "int64")

    def as_numpy_iterator(self) -> Iterator[Any]:
        """The elements as arrays."""
        return (_as_arrays(one) for one in self._make())

    def map(self, map_func: Callable[..., Any], num_parallel_calls: Any = None, **_: Any) -> "Dataset":
        """A function of each element; tuples are several arguments."""
        del num_parallel_calls

        def mapped() -> Iterator[Any]:
            for one in self:
                yield map_func(*one) if isinstance(one, tuple) else map_func(one)

        return Dataset(mapped, self._count)

    def filter(self, predicate: Callable[..., Any]) -> "Dataset":
        """The elements for which a function is true."""
        return Dataset(lambda: (x for x in self if bool(predicate(*x) if isinstance(x, tuple) else predicate(x))))

    def batch(self, batch_size: int, drop_remainder: bool = False, **_: Any) -> "Dataset":
        """Elements stacked along a new first axis."""

        def batches() -> Iterator[Any]:
            source = self._make()
            while items := list(islice(source, batch_size)):
                if len(items) < batch_size and drop_remainder:
                    return
                yield _stacked(items)

        whole, rest = (None, 0) if self._count is None else divmod(self._count, batch_size)
        count = None if whole is None else whole + bool(rest and not drop_remainder)
        arrays = (
            None if self.arrays is None or self.arrays.batch_size else self.arrays.batched(batch_size, drop_remainder)
        )
        return Dataset(batches, count, arrays)

    def shuffle(self, buffer_size: int, seed: int | None = None, reshuffle_each_iteration: bool = True) -> "Dataset":
        """The elements in random order, which a buffer of so many makes; another one in each walk."""
        state = {"walks": 0}

        def shuffled() -> Iterator[Any]:
            rng = np.random.default_rng((seed or 0, state["walks"] if reshuffle_each_iteration else 0))
            state["walks"] += 1
            source = self._make()
            buffer = list(islice(source, buffer_size))
            for one in chain(source, ()):
                place = int(rng.integers(len(buffer)))
                yield buffer[place]
                buffer[place] = one
            for place in rng.permutation(len(buffer)):
                yield buffer[place]

        whole = self.arrays is not None and self._count is not None and buffer_size >= self._count
        arrays = self.arrays.shuffled(seed or 0) if whole and self.arrays is not None else None
        return Dataset(shuffled, self._count, arrays)

    def repeat(self, count: int | None = None) -> "Dataset":
        """The elements again and again."""

        def repeated() -> Iterator[Any]:
            walks = 0
            while count is None or count < 0 or walks < count:
                yield from self._make()
                walks += 1

        known = None if count is None or count < 0 or self._count is None else count * self._count
        return Dataset(repeated, known)

    def take(self, count: int) -> "Dataset":
        """The first elements."""
        return Dataset(lambda: islice(self._make(), count), None if self._count is None else min(count, self._count))

    def skip(self, count: int) -> "Dataset":
        """Without the first elements."""
        known = None if self._count is None else max(self._count - count, 0)
        return Dataset(lambda: islice(self._make(), count, None), known)

    def concatenate(self, dataset: "Dataset") -> "Dataset":
        """These elements, then those of another dataset."""
        counts = self._count, dataset.known_count
        return Dataset(
            lambda: chain(self._make(), dataset._make()), None if None in counts else sum(n for n in counts if n)
        )

    def enumerate(self, start: int = 0) -> "Dataset":
        """Pairs of a number and an element."""
        return Dataset(lambda: iter(enumerate(self._make(), start)), self._count)

    def cache(self, filename: str = "") -> "Dataset":
        """The elements, kept in memory after the first walk."""
        del filename
        kept: list[Any] = []

        def cached() -> Iterator[Any]:
            if not kept:
                kept.extend(self._make())
            return iter(kept)

        return Dataset(cached, self._count, self.arrays)

    def prefetch(self, buffer_size: int = AUTOTUNE) -> "Dataset":
        """The same elements; `fit` prepares them ahead anyway."""
        del buffer_size
        return self


class Arrays:
    """Rows of arrays that are taken in batches.

    Parameters
    ----------
    columns : tuple of numpy.ndarray
        The arrays.
    batch_size : int, default 0
        Rows of a batch; 0 if they are single.
    drop_last, shuffle, seed
        As for `adjoint.data.ArrayDataset`.
    """

    def __init__(
        self, columns: tuple[np.ndarray, ...], batch_size: int = 0, drop_last: bool = False, shuffle: bool = False,
        seed: int = 0,
    ) -> None:  # fmt: skip
        self.columns, self.batch_size, self.drop_last = columns, batch_size, drop_last
        self.shuffle, self.seed = shuffle, seed

    def batched(self, batch_size: int, drop_last: bool) -> "Arrays":
        """In batches."""
        return Arrays(self.columns, batch_size, drop_last, self.shuffle, self.seed)

    def shuffled(self, seed: int) -> "Arrays | None":
        """In random order; None if they are in batches already."""
        return None if self.batch_size else Arrays(self.columns, 0, self.drop_last, True, seed)


def _as_arrays(one: Any) -> Any:
    leaves, structure = tree_flatten(one)
    return tree_unflatten(structure, [x.numpy() if isinstance(x, Tensor) else np.asarray(x) for x in leaves])


def _stacked(items: list[Any]) -> Any:
    flat = [tree_flatten(_as_arrays(item)) for item in items]
    columns = zip(*(leaves for leaves, _ in flat), strict=True)
    return tree_unflatten(flat[0][1], [np.stack(column) for column in columns])
