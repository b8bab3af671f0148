"""Operations of a pipeline: what each makes of the rows of its inputs, by position where that is possible.

A `Dataset` is a chain, or tree, of nodes. A node has *random access* if each row of an epoch can be computed on its
own, as a function of its position. Then an epoch begins at any row without computing those before it, and worker
threads or processes compute whole rows in parallel. The other nodes are streams: their rows come one after the other.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from adjoint.data.batching import Rows
from adjoint.data.datasets.parallel import NO_WORKERS, Workers, ordered
from adjoint.data.draw import Draw, stream_of
from adjoint.lazy_dataclass import dataclass

__all__ = ["ENDLESS", "Node", "PickedRows", "Row", "View", "size_of_times", "skipped"]

#: The values of one row, or of one batch, in the order of the columns.
Row = tuple[Any, ...]

#: The size of a dataset that is repeated for ever: more than any index of rows.
ENDLESS = 2**62


class View:
    """The rows of one epoch by position. Each is computed independently, so that threads may ask for several at once.

    Attributes
    ----------
    size : int
        The number of rows, or `ENDLESS`.
    """

    size: int

    def row(self, position: int) -> Row:
        """The row at a position from 0 to ``size - 1``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class PickedRows:
    """Rows of arrays, of which nothing is computed: what native code can gather.

    Parameters
    ----------
    tables : tuple of Rows
        One array [N, ...] per column, with its conversion.
    order : callable
        ``order(draw)``, int64 [size]: the rows of an epoch.
    size : int
        The number of rows of each epoch.
    batch_size : int or None, default None
        Rows per batch; None before rows are batched.
    drop_last : bool, default False
        Whether an incomplete last batch is left out.
    """

    tables: tuple[Rows, ...]
    order: Callable[[Draw], np.ndarray]
    size: int
    batch_size: int | None = None
    drop_last: bool = False


class Node:
    """One operation of a pipeline.

    Parameters
    ----------
    inputs : sequence of Node
        What it reads.
    columns : sequence of str
        Names of its columns.
    random_access : bool
        Whether it has a `view`.
    draws : bool, default False
        Whether it draws random numbers. Only such operations are counted, so that one that draws none can be added
        without changing the numbers of the others.

    Attributes
    ----------
    operation : int
        The number of the operation among those that draw.
    shard : int
        The shard of the source.
    workers : Workers
        What computes rows in parallel.
    ahead : int
        How many rows a thread prepares in advance.
    batch_size : int
        Rows of the source per row of this node.
    """

    def __init__(
        self, inputs: Sequence["Node"], columns: Sequence[str], random_access: bool, draws: bool = False
    ) -> None:
        self.inputs = tuple(inputs)
        self.columns = tuple(columns)
        self.random_access = random_access
        self.operation: int = max((node.operations for node in inputs), default=0)
        self.operations: int = self.operation + draws
        self.shard: int = inputs[0].shard if inputs else 0
        self.workers: Workers = max((node.workers for node in inputs), default=NO_WORKERS)
        self.ahead: int = max((node.ahead for node in inputs), default=0)
        self.batch_size: int = inputs[0].batch_size if inputs else 1

    @property
    def random_stream(self) -> int:
        """The stream from which the operation draws."""
        return stream_of(self.operation, self.shard)

    def size(self) -> int | None:
        """The number of rows of each epoch: `ENDLESS`, or None if it is unknown before they are computed."""
        return self.inputs[0].size()

    def view(self, draw: Draw) -> View:
        """The rows of an epoch by position, if the node has random access."""
        raise NotImplementedError

    def stream(self, draw: Draw, start: int) -> Iterator[Row]:
        """The rows of an epoch from `start` on, if the node has no random access."""
        raise NotImplementedError

    def picked(self) -> PickedRows | None:
        """The rows as rows of arrays, if they are such and nothing is computed of them."""
        return None

    def rows(self, draw: Draw, start: int = 0) -> Iterator[Row]:
        """The rows of an epoch from `start` on."""
        if not self.random_access:
            return self.stream(draw, start)
        view = self.view(draw)
        return ordered(view.row, range(start, view.size), self.workers)


def skipped(rows: Iterator[Row], count: int) -> Iterator[Row]:
    """The rows after the first `count`, which are computed and discarded."""
    return islice(rows, count, None) if count else rows


def size_of_times(size: int | None, count: int) -> int | None:
    """The size of something repeated."""
    if size is None or size == 0:
        return size
    return ENDLESS if ENDLESS in (size, count) else size * count
