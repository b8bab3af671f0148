"""`Pipeline`: a node and a seed, and the epochs that follow from them."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from adjoint.data.arrays import ArrayBatches
from adjoint.data.checking import names_of, require_columns, require_count
from adjoint.data.datasets.columns import Columns
from adjoint.data.datasets.iteration import EpochIterator
from adjoint.data.datasets.node import ENDLESS, Node, Row
from adjoint.data.datasets.prefetching import prefetched
from adjoint.data.datasets.stacking import as_array
from adjoint.data.draw import Draw
from adjoint.errors import DataError, InvalidValueError, TypeRuleError

__all__ = ["Pipeline"]

#: Kinds of dtypes that steps do not take: objects, strings, times and complex numbers.
_NOT_NUMBERS = "OUSMmc"


class Pipeline:
    """What a dataset consists of, and iteration over it; `Dataset` adds the operations.

    Parameters
    ----------
    node : Node
        The last operation.
    seed : int, optional
        The seed of all random numbers; default: 0, also of datasets that are combined with others.
    """

    def __init__(self, node: Node, seed: int | None = None) -> None:
        self._node = node
        self._seed = seed
        self._iterations = 0

    def epoch(self, number: int, start: int = 0) -> Iterator[Row]:
        """The elements of one epoch, a pure function of the dataset, its seed and the arguments.

        Where elements have random access, those before `start` are not computed; otherwise they are discarded.

        Parameters
        ----------
        number : int
            The epoch, counted from 0.
        start : int, default 0
            The first element.
        """
        draw = Draw(self._seed or 0, require_count("epoch", "number", number, 0))
        first = require_count("epoch", "start", start, 0)
        if self._node.ahead:
            return prefetched(lambda: self._elements(draw, first), self._node.ahead)
        return self._elements(draw, first)

    def _elements(self, draw: Draw, start: int) -> Iterator[Row]:
        for row in self._node.rows(draw, start):
            yield tuple(map(as_array, row))

    def __iter__(self) -> Iterator[Row]:
        """The elements of the next epoch: the first iteration is epoch 0."""
        number, self._iterations = self._iterations, self._iterations + 1
        return self.epoch(number)

    def create_tuple_iterator(
        self, columns: str | Sequence[str] | None = None, num_epochs: int = -1, output_numpy: bool = True
    ) -> EpochIterator[Row]:
        """An iterator over tuples of arrays, each loop over which is the next epoch.

        Parameters
        ----------
        columns : str or sequence of str, optional
            The columns, in order; default: all.
        num_epochs : int, default -1
            How many epochs there are; -1 for no limit.
        output_numpy : bool, default True
            Only True: elements are NumPy arrays.
        """
        _refuse_tensors("create_tuple_iterator", output_numpy)
        chosen = self
        if columns is not None:
            names = names_of("create_tuple_iterator", "columns", columns)
            places = require_columns("create_tuple_iterator", names, self._node.columns)
            chosen = Pipeline(Columns(self._node, places, names), self._seed)
        return EpochIterator(chosen.epoch, require_count("create_tuple_iterator", "num_epochs", num_epochs, -1))

    def create_dict_iterator(self, num_epochs: int = -1, output_numpy: bool = True) -> EpochIterator[dict[str, Any]]:
        """An iterator over dicts from names of columns to arrays, each loop over which is the next epoch.

        Parameters
        ----------
        num_epochs : int, default -1
            How many epochs there are; -1 for no limit.
        output_numpy : bool, default True
            Only True: elements are NumPy arrays.
        """
        _refuse_tensors("create_dict_iterator", output_numpy)
        names = self._node.columns

        def epoch(number: int) -> Iterator[dict[str, Any]]:
            return (dict(zip(names, row, strict=True)) for row in self.epoch(number))

        return EpochIterator(epoch, require_count("create_dict_iterator", "num_epochs", num_epochs, -1))

    def arrays(self) -> ArrayBatches | None:
        """The batches as rows of arrays, if nothing else happens to them: then training gathers them in native code.

        They are of a `NumpySlicesDataset` or `IdxDataset` whose rows are sampled, shuffled, taken, skipped, repeated,
        split and batched, of which columns may be renamed or left out.
        """
        picked = self._node.picked()
        if (
            picked is None
            or picked.batch_size is None
            or any(table.array.dtype.kind in _NOT_NUMBERS for table in picked.tables)
        ):
            return None
        seed, order = self._seed or 0, picked.order
        return ArrayBatches(
            picked.tables,
            picked.batch_size,
            lambda number: order(Draw(seed, number)),
            drop_last=picked.drop_last and picked.size >= picked.batch_size,
            columns=self._node.columns,
        )

    # What there is

    def __len__(self) -> int:
        """The number of elements of each epoch."""
        size = self._node.size()
        if size is None:
            raise TypeRuleError(
                "the length of a dataset whose elements come one after the other is unknown, as of a generator or "
                "after filter; count them with get_dataset_size()"
            )
        if size == ENDLESS:
            raise TypeRuleError("a dataset with repeat() for ever has no length; pass a count, or take some elements")
        return size

    def get_dataset_size(self) -> int:
        """The number of elements of each epoch; where it is unknown, epoch 0 is iterated over to count them."""
        return len(self) if self._node.size() is not None else sum(1 for _ in self._node.rows(self._first()))

    @property
    def batch_size(self) -> int:
        """How many rows of the source an element has."""
        return self._node.batch_size

    def get_batch_size(self) -> int:
        """The same as `batch_size`."""
        return self._node.batch_size

    def get_col_names(self) -> list[str]:
        """The names of the columns."""
        return list(self._node.columns)

    def output_shapes(self) -> list[list[int]]:
        """The shape of each column in the first element of epoch 0, which is computed."""
        return [list(np.shape(value)) for value in self._peek("output_shapes")]

    def output_types(self) -> list[np.dtype[Any]]:
        """The dtype of each column in the first element of epoch 0, which is computed."""
        return [np.asarray(value).dtype for value in self._peek("output_types")]

    def __repr__(self) -> str:
        size = self._node.size()
        count = "unknown length" if size is None else "endless" if size == ENDLESS else f"length {size}"
        return f"<{type(self).__name__}: columns {', '.join(self._node.columns)}; {count}>"

    def _first(self) -> Draw:
        return Draw(self._seed or 0, 0)

    def _peek(self, name: str) -> Row:
        for row in self._node.rows(self._first()):
            return tuple(map(as_array, row))
        raise DataError(f"{name}: the shapes and types are those of the first element, got an empty dataset; add some")


def _refuse_tensors(name: str, output_numpy: object) -> None:
    if output_numpy is not True:
        raise InvalidValueError(
            f"{name}: elements are NumPy arrays, got output_numpy={output_numpy!r}; leave it out, and convert arrays "
            "with adjoint.tensor(...)"
        )
