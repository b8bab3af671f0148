"""Datasets and loaders of ``grain``, for data on disk, mixtures and processes that prefetch."""

import base64
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from adjoint.data.checking import names_of, require_count
from adjoint.data.datasets.dataset import Dataset
from adjoint.data.datasets.node import ENDLESS, Row
from adjoint.data.datasets.stacking import as_array
from adjoint.data.samplers import SequentialSampler
from adjoint.data.sources.items import RowMaker, default_columns
from adjoint.data.sources.tables import IndexedSource, StreamSource
from adjoint.errors import DataError, TypeRuleError, kind_of

__all__ = ["GrainDataset"]

_NAME = "GrainDataset"

#: States of the iterator that are kept: a training loop may have taken a few elements that it has not used yet.
_MOST_STATES = 8


class GrainDataset(Dataset):
    """The elements of a dataset or loader of ``grain``.

    A ``grain.MapDataset`` has random access. Other ones are iterated over from their beginning in each epoch; their
    iterators have states, with which `state_dict` and `load_state_dict` resume an epoch without reading it again. Order
    and random numbers are those of ``grain``.

    Parameters
    ----------
    source : object
        A ``grain.MapDataset``, ``grain.IterDataset`` or ``grain.DataLoader``, or any object that has a length and
        ``__getitem__``, or an iterator with ``get_state()`` and ``set_state(state)``. Elements are tuples with a value
        per column, dicts from names of columns, or single values.
    column_names : str or sequence of str, optional
        Names of the columns; default: the keys of dicts, otherwise ``column_0`` and so on, for which the first element
        is read at once.

    Raises
    ------
    DataError
        If elements do not fit the columns, during iteration.
    TypeRuleError
        If the source is something else.
    """

    def __init__(self, source: Any, column_names: str | Sequence[str] | None = None) -> None:
        # A MapDataset that is repeated for ever has the length sys.maxsize.
        indexed = hasattr(source, "__getitem__") and hasattr(source, "__len__") and len(source) < ENDLESS
        if not indexed and not hasattr(source, "__iter__"):
            raise TypeRuleError(
                f"{_NAME} takes a MapDataset, an IterDataset or a DataLoader of grain, got {kind_of(source)}; pass one"
            )
        self._source = source
        names = self._first_names(indexed) if column_names is None else names_of(_NAME, "column_names", column_names)
        self._rows = RowMaker(_NAME, names)
        self._states: deque[tuple[int, int, Any]] = deque(maxlen=_MOST_STATES)
        self._resumed: list[tuple[int, int, Any]] = []
        self._indexed = indexed
        if indexed:
            read = _Read(source, self._rows)
            super().__init__(IndexedSource(read, names, len(source), SequentialSampler()))
        else:
            super().__init__(StreamSource(lambda epoch: self._stream(epoch, 0), names, None))

    def _first_names(self, indexed: bool) -> tuple[str, ...]:
        for item in (self._source[n] for n in range(1)) if indexed else self._source:
            return default_columns(item)
        raise DataError(f"{_NAME}: names of columns are taken from the first element, got none; pass column_names")

    def epoch(self, number: int, start: int = 0) -> Iterator[Row]:
        """The elements of one epoch, as `Dataset.epoch`; from the state that was loaded, if it is before `start`."""
        if self._indexed:
            return super().epoch(number, start)
        rows = self._stream(require_count("epoch", "number", number, 0), require_count("epoch", "start", start, 0))
        return map(_as_arrays, rows)

    def _stream(self, epoch: int, start: int) -> Iterator[Row]:
        """The elements of one epoch, of which the states are kept."""
        iterator = iter(self._source)
        place = 0
        usable = [state for state in self._resumed if state[0] == epoch and state[1] <= start]
        if usable:
            _, place, state = max(usable, key=lambda each: each[1])
            iterator.set_state(state)
        saves = hasattr(iterator, "get_state")
        for item in iterator:
            place += 1
            if saves:
                self._states.append((epoch, place, iterator.get_state()))
            if place > start:
                yield self._rows(item, place - 1)

    def state_dict(self) -> dict[str, Any]:
        """The last states of the iterator, as plain data: epochs, numbers of elements, and states of ``grain``."""
        return {"states": [[epoch, place, _encoded(state)] for epoch, place, state in self._states]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Use states that `state_dict` returned for the next `epoch` that begins at or after one of them.

        Raises
        ------
        DataError
            If it is no such dict.
        """
        try:
            self._resumed = [(int(e), int(place), _decoded(state)) for e, place, state in state_dict["states"]]
        except (TypeError, KeyError, ValueError) as error:
            raise DataError(
                f"{_NAME}: load_state_dict takes what state_dict returned, got {state_dict!r}; pass that"
            ) from error


class _Read:
    """Reads an element by index."""

    def __init__(self, source: Any, rows: RowMaker) -> None:
        self._source, self._rows = source, rows

    def __call__(self, index: int) -> Row:
        return self._rows(self._source[index], index)


def _as_arrays(row: Row) -> Row:
    return tuple(map(as_array, row))


def _encoded(state: Any) -> Any:
    """A state as plain data: some are bytes."""
    return {"base64": base64.b64encode(state).decode()} if isinstance(state, bytes) else state


def _decoded(state: Any) -> Any:
    if isinstance(state, Mapping) and set(state) == {"base64"}:
        return base64.b64decode(state["base64"])
    return state
