"""`WorkerPool`: a function of items, computed ahead by processes or threads, with results in the order of the items."""

import itertools
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Literal

from adjoint.data.checking import require_count, require_flag
from adjoint.data.workers.processes import Processes, context_of
from adjoint.data.workers.threads import Threads
from adjoint.errors import InvalidValueError, TypeRuleError, kind_of

__all__ = ["WorkerPool"]


class WorkerPool:
    """Workers that compute a function of items ahead of their use.

    Arrays in results of worker processes, inside tuples, lists, dicts and other objects, are in memory that both
    processes share, and are not copied again: the worker uses it for another result when nothing refers to the arrays
    any more. The memory has no name, so that nothing is left behind however the processes end.

    Worker processes of the default start method on Linux, ``fork``, begin with the memory of this process: the function
    may be of any kind, and large arrays that it refers to are not copied. Other methods start new interpreters, for
    which the function must be picklable, and a script needs ``if __name__ == "__main__":``. From Python 3.12 on,
    ``fork`` warns in processes with threads, such as those of compiled steps; it does not here, where it is safe: they
    hold no locks. If threads of your own may hold a lock that the function needs, choose another method.

    Parameters
    ----------
    function : callable
        ``function(item)`` returns the result of an item, which must be picklable if workers are processes. It should
        not run compiled steps, for which workers compete with the training process.
    num_workers : int
        Number of workers.
    kind : {"process", "thread"}, default "process"
        Threads suit functions that release Python's lock most of the time, as reading files does.
    context : str or context of multiprocessing, optional
        How processes start: ``"fork"``, ``"spawn"`` or ``"forkserver"``. Default: ``"fork"`` on Linux, else
        ``"spawn"``.
    init : callable, optional
        ``init(number)`` is called first in each worker, counted from 0.
    timeout : float, optional
        Seconds that a result may take after it is asked for. Default: any time.
    depth : int, default 2
        Most items per worker that have been given to it and whose results have not been returned.

    Raises
    ------
    InvalidValueError
        If a number or a choice is out of range, or in a worker process.
    TypeRuleError
        If something else than a function is given, or it cannot be pickled for a new interpreter.
    WorkerError
        In `imap`: if a worker process dies, or no result arrives in time. The pool is closed then.

    Examples
    --------
    >>> with WorkerPool(len, num_workers=2) as pool:
    ...     list(pool.imap(["a", "bcd", "ef"]))
    [1, 3, 2]
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        num_workers: int,
        *,
        kind: Literal["process", "thread"] = "process",
        context: object = None,
        init: Callable[[int], object] | None = None,
        timeout: float | None = None,
        depth: int = 2,
    ) -> None:
        for name, given in (("function", function), ("init", init)):
            if not callable(given) and (name == "function" or given is not None):
                raise TypeRuleError(f"WorkerPool: {name} must be callable, got {kind_of(given)}; pass a function")
        self.num_workers = require_count("WorkerPool", "num_workers", num_workers)
        self.depth = require_count("WorkerPool", "depth", depth)
        if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout <= 0):
            raise InvalidValueError(f"WorkerPool: timeout must be a number above 0, got {timeout!r}; choose another")
        self.timeout = timeout
        self._workers: Processes | Threads
        if kind == "process":
            self._workers = Processes(function, num_workers, depth, context_of(context), init)
        elif kind == "thread":
            self._workers = Threads(function, num_workers, depth, init)
        else:
            raise InvalidValueError(f"WorkerPool: kind must be 'process' or 'thread', got {kind!r}; choose one")
        self._serials = itertools.count()
        self._current: _Run | None = None
        self._close = weakref.finalize(self, self._workers.close)

    def imap(self, items: Iterable[Any], *, ordered: bool = True) -> Iterator[Any]:
        """The results of items, which are taken from the iterable at most ``depth * num_workers`` ahead.

        Parameters
        ----------
        items : iterable
            Picklable, if workers are processes. Item ``i`` goes to worker ``i % num_workers``.
        ordered : bool, default True
            Whether results come in the order of the items. Otherwise each comes when it is ready, and items go to the
            worker that has the fewest.

        Yields
        ------
        object
            ``function(item)``. If it raises, so does the iterator, with a note that has the worker, the item and the
            traceback; the pool can be used again.
        """
        require_flag("WorkerPool.imap", "ordered", ordered)
        self._require_open()
        self._current = run = _Run(self._workers, self.num_workers, self._serials, ordered)
        return self._results(run, iter(items))

    def _results(self, run: "_Run", items: Iterator[Any]) -> Iterator[Any]:
        most = self.num_workers * self._workers.depth
        more = True
        try:
            while True:
                self._require_open()
                if self._current is not run:
                    raise InvalidValueError(
                        "WorkerPool: a pool goes through one iterable at a time, got the next item of an earlier one; "
                        "finish it first, or make a pool for each"
                    )
                while more and run.under_way < most:
                    more = False
                    for item in itertools.islice(items, 1):
                        run.submit(item)
                        more = True
                if not run.under_way:
                    return
                yield run.next_result(self.timeout)
        finally:
            run.abandon()

    def _require_open(self) -> None:
        if self._workers.closed:
            raise InvalidValueError("WorkerPool: a closed pool has no workers, got a use of it; make a new pool")

    @property
    def closed(self) -> bool:
        """Whether the workers have been ended, by `close` or after an error."""
        return self._workers.closed

    def close(self) -> None:
        """End the workers. Those that are busy have half a second to finish; threads are not waited for."""
        self._close()

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Run:
    """One iterable on its way through the workers."""

    def __init__(self, workers: Any, count: int, serials: Iterator[int], ordered: bool) -> None:
        self._workers, self._serials, self._ordered = workers, serials, ordered
        self._numbers = itertools.count()
        #: By serial number, in order: the worker, the number and the item.
        self._under_way: dict[int, tuple[int, int, Any]] = {}
        self._outcomes: dict[int, Any] = {}
        #: How many items each worker has not finished.
        self._busy = [0] * count

    @property
    def under_way(self) -> int:
        """The number of items that have been submitted, and whose results have not been returned."""
        return len(self._under_way)

    def submit(self, item: Any) -> None:
        """Give an item to a worker."""
        number, serial = next(self._numbers), next(self._serials)
        worker = number % len(self._busy) if self._ordered else self._busy.index(min(self._busy))
        self._workers.submit(worker, serial, number, item)
        self._under_way[serial] = worker, number, item
        self._busy[worker] += 1

    def next_result(self, timeout: float | None) -> Any:
        """The result of the first item, or without order of any."""
        end = None if timeout is None else time.monotonic() + timeout
        while (serial := self._ready()) is None:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise self._workers.hung(next(iter(self._under_way.values()))[0], timeout or 0)
            for arrived, worker, outcome in self._workers.receive(left):
                if arrived in self._under_way:
                    self._outcomes[arrived] = outcome
                    self._busy[worker] -= 1
                else:
                    self._workers.discard(worker, outcome)
        worker, number, item = self._under_way.pop(serial)
        return self._workers.result(worker, self._outcomes.pop(serial), number, item)

    def _ready(self) -> int | None:
        """The serial number of the result that comes next, if it has arrived."""
        first = next(iter(self._under_way if self._ordered else self._outcomes), None)
        return first if first in self._outcomes else None

    def abandon(self) -> None:
        """Release results that have arrived and are not needed."""
        for serial, outcome in self._outcomes.items():
            self._workers.discard(self._under_way[serial][0], outcome)
        self._outcomes.clear()
