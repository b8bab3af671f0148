"""Worker processes, as their parent sees them: starting, messages, and how they end."""

import contextlib
import multiprocessing
import os
import pickle
import re
import selectors
import signal
import socket
import sys
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np

from adjoint.data.workers.channel import Channel, ChannelClosed
from adjoint.data.workers.child import STACK_SIGNAL, STARTING, Failure, Outcome, described_item, work
from adjoint.data.workers.memory import AVAILABLE, attach
from adjoint.errors import InvalidValueError, TypeRuleError, WorkerError, kind_of

__all__ = ["Processes", "context_of"]

#: Seconds that a worker has to finish its item when the pool is closed, and then to end at SIGTERM.
_PATIENCE, _TERMINATION = 0.5, 1.0

#: Seconds to wait for the stack of a worker that hangs.
_STACK_PATIENCE = 0.5

#: Bytes of results that are under way to the parent at most, besides shared memory. The buffers of the sockets are four
#: times as large, because systems count the overhead of messages too.
_SOCKET_BYTES = 1 << 16

#: Most segments of a worker that the results of earlier items may keep. Further results are copied, because a process
#: can have only so many files open (often 1,024), and before Python 3.13 a mapped file is an open one.
_MOST_KEPT = 16

#: What to do where a signal ended a worker.
_ADVICE = {
    "SIGKILL": "use fewer workers if the system ran out of memory",
    "SIGSEGV": "look for a fault in a native library that the function calls",
    "SIGBUS": "use smaller batches or fewer workers if the system ran out of memory",
}


def context_of(context: object) -> BaseContext:
    """How worker processes start: a start method, a context of multiprocessing, or by default ``fork`` on Linux.

    Raises
    ------
    InvalidValueError
        If the system has no such start method, or this process is itself a worker.
    """
    if multiprocessing.current_process().daemon:
        raise InvalidValueError(
            "WorkerPool: a worker process cannot start worker processes; use threads or no workers in it"
        )
    if isinstance(context, BaseContext):
        return context
    known = multiprocessing.get_all_start_methods()
    if context is None:
        # As Python did up to 3.13. `start` says why a process with threads may fork here.
        return multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    if context not in known:
        raise InvalidValueError(
            f"WorkerPool: context must be one of the start methods {', '.join(map(repr, known))}, got {context!r}; "
            "choose one"
        )
    return multiprocessing.get_context(str(context))


class _Child:
    """One worker process: its connection, its shared memory, and the items that it has."""

    def __init__(self, number: int, process: BaseProcess, channel: Channel) -> None:
        self.number, self.process, self.channel = number, process, channel
        self.items: dict[int, tuple[int, Any]] = {}
        #: The memory of each segment, and those that the worker may use again.
        self.segments: dict[int, np.ndarray] = {}
        self.free: deque[int] = deque()
        #: By segment, the arrays that results refer to.
        self._lent: dict[int, list[weakref.ref[np.ndarray]]] = {}
        self.stacks: int | None = None

    def received(self, message: Outcome | None) -> None:
        """Take the descriptor that comes with a message."""
        if message is None:
            self.stacks = self.channel.descriptors.popleft()
        elif message.size:
            descriptor = self.channel.descriptors.popleft()
            self.segments[message.slot] = attach(descriptor, message.size)
            os.close(descriptor)

    def result(self, outcome: Outcome) -> Any:
        """The result, whose arrays are in shared memory; the worker uses the memory again when they are gone."""
        if outcome.slot < 0:
            return pickle.loads(outcome.text or b"")
        segment = self.segments[outcome.slot]
        copied = len(self._lent) >= _MOST_KEPT
        parts = [segment[start:end] for start, end in outcome.parts]
        # Views refer to the array at the end of a chain of views. Arrays of memory views are such ends, one for each
        # part: its references tell whether the part is in use, here and in `tensor.storage`.
        buffers = [part.copy() if copied else np.frombuffer(part.data, np.uint8) for part in parts]
        text: Any = outcome.text if outcome.text is not None else buffers.pop(0)
        if copied:
            self.free.append(outcome.slot)
        else:
            self._lend(outcome.slot, buffers)
        return pickle.loads(text, buffers=buffers)

    def discard(self, outcome: Outcome) -> None:
        """Let the worker use the memory of a result again that nobody needs."""
        if outcome.slot >= 0:
            self.free.append(outcome.slot)

    def _lend(self, slot: int, buffers: list[np.ndarray]) -> None:
        """Release a segment when these arrays, and all that refer to them, are gone."""
        if not buffers:
            self.free.append(slot)
            return

        def gone(reference: weakref.ref[np.ndarray]) -> None:
            lent = self._lent.get(slot, [])
            if reference in lent:
                lent.remove(reference)
                if not lent:
                    del self._lent[slot]
                    self.free.append(slot)

        self._lent[slot] = [weakref.ref(buffer, gone) for buffer in buffers]

    def stack(self) -> str:
        """Where the worker is, the innermost call first; "" if it does not answer."""
        if self.stacks is None or STACK_SIGNAL is None or self.process.pid is None:
            return ""
        with contextlib.suppress(OSError):
            os.kill(self.process.pid, STACK_SIGNAL)
            end = time.monotonic() + _STACK_PATIENCE
            size = -1
            while time.monotonic() < end:  # until a text is there that does not grow any more
                before, size = size, os.fstat(self.stacks).st_size
                if size and size == before:
                    return os.pread(self.stacks, size, 0).decode(errors="replace")
                time.sleep(0.002)
        return ""

    def doing(self) -> str:
        """What the worker is doing, for messages."""
        return described_item(*next(iter(self.items.values()))) if self.items else "while it had no item"

    def close(self, ended: bool) -> None:
        """Close the connection, and end it for processes that have inherited it; arrays in shared memory remain."""
        if ended:
            with contextlib.suppress(OSError):
                self.channel.connection.shutdown(socket.SHUT_RDWR)
        self.channel.close()
        self.segments.clear()
        self._lent.clear()
        if self.stacks is not None:
            os.close(self.stacks)
            self.stacks = None
        while self.channel.descriptors:
            os.close(self.channel.descriptors.pop())


class Processes:
    """Worker processes that call a function.

    Parameters
    ----------
    function : callable
        What is called with each item.
    count : int
        Number of workers.
    depth : int
        Most items that a worker has at a time.
    context : BaseContext
        How processes start.
    init : callable, optional
        Called in each worker with its number, first.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        count: int,
        depth: int,
        context: BaseContext,
        init: Callable[[int], object] | None,
    ) -> None:
        # Without shared memory, results may fill the socket: no item is sent to a worker that may wait for that.
        self.depth = depth if AVAILABLE else 1
        self.closed = False
        self._owner = os.getpid()
        self._children: list[_Child] = []
        self._selector = selectors.DefaultSelector()
        try:
            for number in range(count):
                self._children.append(self._start(number, function, context, init))
        except BaseException:
            self.close()
            raise

    def _start(
        self, number: int, function: Callable[[Any], Any], context: BaseContext, init: Callable[[int], object] | None
    ) -> _Child:
        own, other = socket.socketpair()
        for end in (own, other):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * _SOCKET_BYTES)
        forked = context.get_start_method() == "fork"
        # A forked process inherits the ends of the others, which it closes; others get their own only.
        inherited = [own, *(child.channel.connection for child in self._children)] if forked else []
        settings = (number, function, init, other, inherited, _SOCKET_BYTES // self.depth)
        process: BaseProcess = context.Process(  # type: ignore[attr-defined]
            target=work, args=settings, name=f"adjoint-worker-{number}", daemon=True
        )
        try:
            _launch(process, forked)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            own.close()
            raise TypeRuleError(
                f"WorkerPool: with the start method {context.get_start_method()!r}, the function and what it refers "
                f"to must be picklable, got {kind_of(function)} ({error}); define it at the top level of a module, or "
                "use 'fork' where the system has it"
            ) from error
        except BaseException:
            own.close()
            raise
        finally:
            other.close()
        child = _Child(number, process, Channel(own))
        self._selector.register(own, selectors.EVENT_READ, child)
        if os.name == "posix":
            self._selector.register(process.sentinel, selectors.EVENT_READ, child)
        return child

    def submit(self, worker: int, serial: int, number: int, item: Any) -> None:
        """Send an item, which is the one with this number for users."""
        child = self._children[worker]
        text = pickle.dumps(item, pickle.HIGHEST_PROTOCOL)
        freed = [child.free.popleft() for _ in range(len(child.free))]
        child.items[serial] = number, item
        try:
            child.channel.send((serial, freed, text))
        except ChannelClosed:
            self._collect_remains(child)

    def receive(self, timeout: float | None) -> list[tuple[int, int, Outcome]]:
        """Serial numbers, workers and outcomes, at least one unless `timeout` seconds have passed.

        Raises
        ------
        WorkerError
            If a worker has died.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            events = self._selector.select(None if end is None else max(end - time.monotonic(), 0))
            found = []
            for child in {key.data.number: key.data for key, _ in events}.values():
                found.extend(self._messages(child))
            if found or (end is not None and time.monotonic() >= end):
                return found

    def _messages(self, child: _Child) -> list[tuple[int, int, Outcome]]:
        """The outcomes that have arrived; raises if the worker has died and there are none."""
        try:
            messages = child.channel.arrived(wait=False)
        except BlockingIOError:
            # Another process may have the end of a dead worker open, if the worker has started one.
            messages, child.channel.ended = [], not child.process.is_alive()
        found = []
        for message in messages:
            child.received(message)
            if message is None:
                continue
            if message.serial == STARTING:
                error = self.failure(child.number, child.result(message), "while it started")
                self.close()
                raise error
            child.items.pop(message.serial, None)
            found.append((message.serial, child.number, message))
        if child.channel.ended and not found:
            raise self._died(child)
        return found

    def _collect_remains(self, child: _Child) -> None:
        """Raise the error of a worker that takes no more items."""
        self._messages(child)
        raise self._died(child)

    def _died(self, child: _Child) -> WorkerError:
        child.process.join(_TERMINATION)
        code = child.process.exitcode
        doing = child.doing()
        process = f"worker {child.number} (process {child.process.pid})"
        begun = child.stacks is not None or STACK_SIGNAL is None or not AVAILABLE
        self.close()
        if code is not None and code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            advice = _ADVICE.get(name, "find out what sent the signal")
            return WorkerError(f"WorkerPool: {process} was ended by {name} {doing}; {advice}")
        advice = "do not end the process in the function"
        if code and not begun:
            advice = "guard the script with if __name__ == '__main__', because new interpreters import it"
        return WorkerError(f"WorkerPool: {process} ended with exit status {code} {doing}; {advice}")

    def result(self, worker: int, outcome: Outcome, number: int, item: Any) -> Any:
        """The result; raises what the function raised."""
        found = self._children[worker].result(outcome)
        if outcome.failed:
            raise self.failure(worker, found, described_item(number, item))
        return found

    def discard(self, worker: int, outcome: Outcome) -> None:
        """Release the memory of a result that nobody needs."""
        if not self.closed:
            self._children[worker].discard(outcome)

    def failure(self, worker: int, failure: Failure, doing: str) -> BaseException:
        """The exception that the function raised, with the traceback of the worker as a note."""
        where = f"worker {worker} (process {self._children[worker].process.pid})"
        error: BaseException | None = None
        # What unpickles an exception is its own code, which may not fit the arguments that it was given.
        with contextlib.suppress(Exception):
            error = pickle.loads(failure.pickled) if failure.pickled is not None else None
        if not isinstance(error, BaseException):
            error = WorkerError(
                f"WorkerPool: {where} raised an exception that cannot be pickled, {failure.name}, {doing}; see its "
                "traceback below"
            )
        error.add_note(f"raised in {where} {doing}:\n{failure.traceback.rstrip()}")
        return error

    def hung(self, worker: int, seconds: float) -> WorkerError:
        """Close the pool; the error says where the worker hangs."""
        child = self._children[worker]
        stack, doing = child.stack(), child.doing()
        place = re.search(r'File "(.*)", line (\d+)', stack)
        where = f" at {place[1]}:{place[2]}" if place else ""
        error = WorkerError(
            f"WorkerPool: worker {worker} (process {child.process.pid}) has not finished within the timeout of "
            f"{seconds:g} seconds, {doing}{where}; find out why it hangs, or allow more time"
        )
        if stack:
            error.add_note(f"the stack of the worker:\n{stack.rstrip()}")
        self.close(patience=0)
        return error

    def close(self, patience: float = _PATIENCE) -> None:
        """End the workers: those without an item at once, the others after `patience` seconds.

        In a process that was forked from the one that started the workers, only the connections are closed.
        """
        if self.closed:
            return
        self.closed = True
        children, self._children = self._children, []
        for child in children:
            child.close(ended=os.getpid() == self._owner)
        self._selector.close()
        if os.getpid() != self._owner:
            return
        end = time.monotonic() + patience
        for child in children:
            child.process.join(max(end - time.monotonic(), 0))
        for end_it in (BaseProcess.terminate, BaseProcess.kill):
            alive = [child.process for child in children if child.process.is_alive()]
            for process in alive:
                end_it(process)
            end = time.monotonic() + _TERMINATION
            for process in alive:
                process.join(max(end - time.monotonic(), 0))


def _launch(process: BaseProcess, forked: bool) -> None:
    """Start a process; a forked one ignores Ctrl-C from its first instruction on.

    From Python 3.12 on, a warning says that a process with threads should not fork, because locks that other threads
    hold stay locked in the child. The threads of compiled steps wait in native code and hold none, and the worker
    calls nothing but the function, which is made for workers.
    """
    if not forked:
        process.start()
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
