"""Worker threads, for functions that release Python's lock, such as reading files and decoding images."""

import queue
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

from adjoint.data.workers.child import STARTING, described_failure, described_item
from adjoint.errors import WorkerError

__all__ = ["Threads"]


class _Finished(NamedTuple):
    """What came of an item: its result, or the exception."""

    value: Any
    failed: bool


class _Inbox:
    """The items of a thread, with the one that it is working on."""

    def __init__(self) -> None:
        self.items: queue.SimpleQueue[tuple[int, Any] | None] = queue.SimpleQueue()
        self.under_way: dict[int, tuple[int, Any]] = {}


class Threads:
    """Worker threads that call a function; the same methods as of `Processes`."""

    def __init__(
        self, function: Callable[[Any], Any], count: int, depth: int, init: Callable[[int], object] | None
    ) -> None:
        self.depth = depth
        self.closed = False
        self._results: queue.SimpleQueue[tuple[int, int, _Finished]] = queue.SimpleQueue()
        self._inboxes = [_Inbox() for _ in range(count)]
        self._threads = [
            threading.Thread(
                target=_work,
                args=(number, function, init, inbox.items, self._results),
                name=f"adjoint-worker-{number}",
                daemon=True,
            )
            for number, inbox in enumerate(self._inboxes)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, worker: int, serial: int, number: int, item: Any) -> None:
        """Give an item to a thread, which is the one with this number for users."""
        self._inboxes[worker].under_way[serial] = number, item
        self._inboxes[worker].items.put((serial, item))

    def receive(self, timeout: float | None) -> list[tuple[int, int, _Finished]]:
        """Serial numbers, workers and outcomes, at least one unless `timeout` seconds have passed."""
        try:
            found = [self._results.get(timeout=timeout)]
        except queue.Empty:
            return []
        while not self._results.empty():
            found.append(self._results.get())
        for serial, worker, outcome in found:
            self._inboxes[worker].under_way.pop(serial, None)
            if serial == STARTING:
                self.close()
                raise _noted(outcome.value, worker, "while it started")
        return found

    def result(self, worker: int, outcome: _Finished, number: int, item: Any) -> Any:
        """The result; raises what the function raised."""
        if outcome.failed:
            raise _noted(outcome.value, worker, described_item(number, item))
        return outcome.value

    def discard(self, worker: int, outcome: _Finished) -> None:
        """Nothing has to be released."""

    def hung(self, worker: int, seconds: float) -> WorkerError:
        """Close the pool; the error says where the worker hangs."""
        given = list(self._inboxes[worker].under_way.values())
        doing = described_item(*given[0]) if given else "while it had no item"
        frame = sys._current_frames().get(self._threads[worker].ident or 0)
        stack = traceback.extract_stack(frame) if frame is not None else []
        where = f" at {stack[-1].filename}:{stack[-1].lineno}" if stack else ""
        error = WorkerError(
            f"WorkerPool: worker {worker} (a thread) has not finished within the timeout of {seconds:g} seconds, "
            f"{doing}{where}; find out why it hangs, or allow more time"
        )
        error.add_note("the stack of the worker:\n" + "".join(traceback.format_list(stack)).rstrip())
        self.close()
        return error

    def close(self) -> None:
        """End the threads after the items that they are working on, for which it does not wait."""
        if self.closed:
            return
        self.closed = True
        for inbox in self._inboxes:
            while not inbox.items.empty():
                inbox.items.get_nowait()
            inbox.items.put(None)


def _work(
    number: int,
    function: Callable[[Any], Any],
    init: Callable[[int], object] | None,
    items: "queue.SimpleQueue[tuple[int, Any] | None]",
    results: "queue.SimpleQueue[tuple[int, int, _Finished]]",
) -> None:
    """The main function of a thread."""
    try:
        if init is not None:
            init(number)
    except BaseException as error:
        results.put((STARTING, number, _Finished(error, True)))
        return
    while (given := items.get()) is not None:
        serial, item = given
        try:
            outcome = _Finished(function(item), False)
        except BaseException as error:
            outcome = _Finished(error, True)
        results.put((serial, number, outcome))
        del given, item, outcome  # a waiting thread keeps no result alive


def _noted(error: BaseException, worker: int, doing: str) -> BaseException:
    """The exception of a thread, which has its traceback, with the worker and the item."""
    text = described_failure(error).traceback.rstrip()
    error.add_note(f"raised in worker {worker} (a thread) {doing}:\n{text}")
    return error
