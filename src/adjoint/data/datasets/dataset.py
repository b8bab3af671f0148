"""`Dataset`: a pipeline of operations, each of which returns a new dataset."""

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.data.checking import names_of, require_columns, require_count, require_flag, require_seed
from adjoint.data.datasets.batch import Batch, rows_map
from adjoint.data.datasets.buckets import Buckets
from adjoint.data.datasets.columns import Columns
from adjoint.data.datasets.combine import Concat, Seeded, Zip
from adjoint.data.datasets.filter import Filter
from adjoint.data.datasets.map import Map
from adjoint.data.datasets.node import ENDLESS, Node
from adjoint.data.datasets.pipeline import Pipeline
from adjoint.data.datasets.prefetching import Ahead
from adjoint.data.datasets.repeat import Repeat
from adjoint.data.datasets.select import Part, Select, split_sizes
from adjoint.data.datasets.shuffle import Shuffle
from adjoint.data.datasets.stacking import PadInfo, checked_padding
from adjoint.errors import DataError, InvalidValueError, TypeRuleError, kind_of, listed, plural

__all__ = ["Dataset"]


class Dataset(Pipeline):
    """Rows of named columns, or batches of them, and operations that make other datasets of it.

    A dataset does not change: each operation returns a new one, and elements are computed when they are iterated over.
    An element is a tuple with one NumPy array per column. What an epoch consists of is a pure function of the dataset,
    its seed and the number of the epoch: it is the same on every machine, with any number of workers, and from whatever
    element it is resumed.

    Sources such as `GeneratorDataset` and `NumpySlicesDataset` are datasets; this class is not created by itself.
    """

    # Operations on rows

    def map(
        self,
        operations: Callable[..., Any] | Sequence[Callable[..., Any]],
        input_columns: str | Sequence[str] | None = None,
        output_columns: str | Sequence[str] | None = None,
        num_parallel_workers: int | None = None,
        python_multiprocessing: bool = False,
    ) -> "Dataset":
        """Apply functions to some columns.

        Parameters
        ----------
        operations : callable or sequence of callable
            Functions that are called one after the other, each with the results of the one before. One that has a
            parameter ``rng`` gets a `numpy.random.Generator` for it, which is seeded by the dataset's seed, the epoch,
            the operation and the index of the element. Its numbers do not depend on which elements were computed
            before, or by which worker.
        input_columns : str or sequence of str, optional
            The columns that the first function is called with; default: as many of the first columns as it has
            parameters without default.
        output_columns : str or sequence of str, optional
            Names of the results; default: those of the inputs. They take the place of the input columns if there are
            equally many; otherwise they come first, before the columns that remain.
        num_parallel_workers : int, optional
            How many threads compute elements; default: one.
        python_multiprocessing : bool, default False
            Whether processes compute them instead, as functions need that are written in Python. They are forked on
            Linux; elsewhere they are new interpreters, for which functions and sources must be picklable.

        Raises
        ------
        DataError
            If names of columns occur twice; during iteration, if a function raises an exception or returns another
            number of values.
        NameLookupError
            If there is no such column.
        """
        return self._with(
            Map(self._node, operations, input_columns, output_columns, num_parallel_workers, python_multiprocessing)
        )

    def filter(self, predicate: Callable[..., object], input_columns: str | Sequence[str] | None = None) -> "Dataset":
        """Keep the elements for which a function is true.

        Parameters
        ----------
        predicate : callable
            Called with the values of the columns, and with `rng` as functions of `map`.
        input_columns : str or sequence of str, optional
            These columns; default: as for `map`.
        """
        return self._with(Filter(self._node, predicate, input_columns))

    def shuffle(self, buffer_size: int | None = None) -> "Dataset":
        """Put the elements into random order, another one in each epoch.

        Parameters
        ----------
        buffer_size : int, optional
            Where elements come one after the other, as of generators and after `filter`, how many are kept to draw the
            next one from. It has no effect on datasets with random access, whose order is a permutation of all elements
            whatever comes before or after.

        Raises
        ------
        InvalidValueError
            If it is missing for a dataset without random access.
        """
        return self._with(Shuffle(self._node, buffer_size))

    def rename(self, input_columns: str | Sequence[str], output_columns: str | Sequence[str]) -> "Dataset":
        """Give columns other names.

        Parameters
        ----------
        input_columns : str or sequence of str
            The columns.
        output_columns : str or sequence of str
            Their new names.
        """
        old = names_of("rename", "input_columns", input_columns)
        new = names_of("rename", "output_columns", output_columns)
        names = list(self._node.columns)
        if len(old) != len(new):
            raise DataError(
                f"rename: output_columns must have a name for each of {plural(len(old), 'column')}, got {len(new)}"
                "; name as many"
            )
        for place, name in zip(require_columns("rename", old, names), new, strict=True):
            names[place] = name
        if len(set(names)) != len(names):
            raise DataError(f"rename: columns must have different names, got {listed(names, 12)}; choose another name")
        return self._with(Columns(self._node, range(len(names)), names))

    def project(self, columns: str | Sequence[str]) -> "Dataset":
        """Keep some columns, in the given order.

        Parameters
        ----------
        columns : str or sequence of str
            The columns.
        """
        names = names_of("project", "columns", columns)
        return self._with(Columns(self._node, require_columns("project", names, self._node.columns), names))

    # Operations on the sequence of elements

    def take(self, count: int = -1) -> "Dataset":
        """Keep the first `count` elements of each epoch; -1 for all."""
        if count == -1:
            return self
        return self._with(Select(self._node, 0, require_count("take", "count", count)))

    def skip(self, count: int) -> "Dataset":
        """Leave out the first `count` elements of each epoch."""
        return self._with(Select(self._node, require_count("skip", "count", count, 0)))

    def repeat(self, count: int | None = None) -> "Dataset":
        """Pass over the elements several times in each epoch, each time in another order if they are shuffled.

        Parameters
        ----------
        count : int, optional
            How many times; default, and -1: for ever.
        """
        times = ENDLESS if count is None or count == -1 else require_count("repeat", "count", count)
        return self._with(Repeat(self._node, times))

    def split(self, sizes: Sequence[int] | Sequence[float], randomize: bool = True) -> list["Dataset"]:
        """Split the elements into parts, which are disjoint and the same in all epochs.

        Elements of a dataset that is shuffled have the same order in all epochs after it is split; shuffle the parts.

        Parameters
        ----------
        sizes : sequence of int or of float
            Sizes that sum to the number of elements, or fractions that sum to 1. Of fractions, each part has the
            product with that number rounded down; the elements that are left go one each to the first parts.
        randomize : bool, default True
            Whether the parts are random, by the seed of the dataset. Otherwise they are consecutive.

        Raises
        ------
        InvalidValueError
            If the sizes do not sum to the number of elements.
        TypeRuleError
            If the dataset has no random access or no end.
        """
        total = self._node.size()
        if not self._node.random_access or total is None or total == ENDLESS:
            raise TypeRuleError(
                "split takes a dataset with random access and an end, got one whose elements come one after the other; "
                "use take and skip"
            )
        random = require_flag("split", "randomize", randomize)
        parts: list[Dataset] = []
        first = 0
        for size in split_sizes(sizes, total):
            parts.append(self._with(Part(self._node, self._seed or 0, random, first, size)))
            first += size
        return parts

    def zip(self, datasets: "Dataset | Sequence[Dataset]") -> "Dataset":
        """Put the columns of other datasets next to those of this one, element by element.

        Parameters
        ----------
        datasets : Dataset or sequence of Dataset
            The other datasets. The result has as many elements as the shortest of all.

        Raises
        ------
        DataError
            If columns have the same name.
        """
        return Dataset(Zip(self._combined("zip", datasets)))

    def concat(self, datasets: "Dataset | Sequence[Dataset]") -> "Dataset":
        """Append the elements of other datasets with the same columns, as ``+`` does.

        Parameters
        ----------
        datasets : Dataset or sequence of Dataset
            The other datasets.

        Raises
        ------
        DataError
            If the columns differ.
        """
        return Dataset(Concat(self._combined("concat", datasets)))

    def __add__(self, other: "Dataset") -> "Dataset":
        return self.concat(other)

    # Batches

    def batch(
        self,
        batch_size: int,
        drop_remainder: bool = False,
        num_parallel_workers: int | None = None,
        per_batch_map: Callable[..., Any] | None = None,
        input_columns: str | Sequence[str] | None = None,
        output_columns: str | Sequence[str] | None = None,
    ) -> "Dataset":
        """Make batches: arrays [B, ...] of elements that have one shape.

        Parameters
        ----------
        batch_size : int
            Elements per batch.
        drop_remainder : bool, default False
            Whether to omit an incomplete last batch.
        num_parallel_workers : int, optional
            How many threads compute batches; default: one, or as many as an operation before it has.
        per_batch_map : callable, optional
            Called before the elements are stacked, with a list of values for each column and a `BatchInfo`; it returns
            as many lists. It gets `rng` as functions of `map`, by the index of the batch.
        input_columns : str or sequence of str, optional
            The columns that it is called with; default: all.
        output_columns : str or sequence of str, optional
            Names of its results; default: those of its inputs.

        Raises
        ------
        DataError
            During iteration, if the shapes of elements differ, or a value cannot be an array.
        """
        mapped = None
        if per_batch_map is not None:
            mapped = rows_map(self._node, per_batch_map, input_columns, output_columns)
        elif input_columns is not None or output_columns is not None:
            raise InvalidValueError(
                "batch: input_columns and output_columns are those of per_batch_map, got none; leave them out"
            )
        return self._with(Batch(self._node, batch_size, drop_remainder, None, mapped, num_parallel_workers))

    def padded_batch(self, batch_size: int, drop_remainder: bool = False, pad_info: PadInfo | None = None) -> "Dataset":
        """Make batches of elements that are padded at their ends to one shape.

        Parameters
        ----------
        batch_size : int
            Elements per batch.
        drop_remainder : bool, default False
            Whether to omit an incomplete last batch.
        pad_info : dict, optional
            The shape and the element of each column to pad, as in ``{"x": ([None, 8], 0)}``: None stands for the
            longest element of the batch, also in place of the whole shape. Default: all columns, to the longest, with
            zeros.
        """
        padding = checked_padding("padded_batch", self._node.columns, pad_info)
        return self._with(Batch(self._node, batch_size, drop_remainder, padding))

    def bucket_batch_by_length(
        self,
        column_names: str | Sequence[str],
        bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int],
        element_length_function: Callable[..., int] | None = None,
        pad_info: PadInfo | None = None,
        pad_to_bucket_boundary: bool = False,
        drop_remainder: bool = False,
    ) -> "Dataset":
        """Make padded batches of elements of similar lengths.

        Elements are collected in buckets, one for the lengths below the first boundary, one from each boundary to the
        next, and one from the last boundary on. A bucket that is full becomes a batch.

        Parameters
        ----------
        column_names : str or sequence of str
            The columns that decide the length.
        bucket_boundaries : sequence of int
            Ascending lengths.
        bucket_batch_sizes : sequence of int
            Elements per batch of each bucket, one more than there are boundaries.
        element_length_function : callable, optional
            Called with the values of the columns, returns the length; default: ``len`` of a single column.
        pad_info : dict, optional
            As for `padded_batch`.
        pad_to_bucket_boundary : bool, default False
            Whether None in `pad_info` stands for the greatest length of the bucket, instead of the longest element.
            Elements beyond the last boundary are refused.
        drop_remainder : bool, default False
            Whether to omit incomplete batches at the end of an epoch.
        """
        return self._with(
            Buckets(
                self._node, column_names, bucket_boundaries, bucket_batch_sizes, element_length_function, pad_info,
                pad_to_bucket_boundary, drop_remainder,
            )
        )  # fmt: skip

    # How elements are computed

    def prefetch(self, depth: int = 2) -> "Dataset":
        """Prepare elements in a thread of their own, ahead of the loop that takes them.

        Parameters
        ----------
        depth : int, default 2
            How many elements are prepared at most. They are those of the whole pipeline, wherever this is called.
        """
        return self._with(Ahead(self._node, require_count("prefetch", "depth", depth)))

    def with_seed(self, seed: int) -> "Dataset":
        """The dataset with another seed, on which all its random numbers depend; that of new datasets is 0.

        Parameters
        ----------
        seed : int
            From 0 to ``2**64 - 1``. It applies to all operations before and after. Datasets that are combined by `zip`
            or `concat` keep seeds that they were given before.
        """
        return Dataset(self._node, require_seed("with_seed", seed))

    def _with(self, node: Node) -> "Dataset":
        return Dataset(node, self._seed)

    def _combined(self, name: str, others: "Dataset | Sequence[Dataset]") -> list[Node]:
        """The nodes of this dataset and others; those with a seed of their own keep it."""
        given = [others] if isinstance(others, Dataset) else list(others)
        for each in given:
            if not isinstance(each, Dataset):
                raise TypeRuleError(f"{name} takes datasets, got {kind_of(each)}; make one, as NumpySlicesDataset(...)")
        return [each._node if each._seed is None else Seeded(each._node, each._seed) for each in (self, *given)]
