"""What a worker process runs: it receives items, calls the function, and puts results into shared memory."""

import contextlib
import faulthandler
import gc
import os
import pickle
import reprlib
import select
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from adjoint.data.workers.channel import Channel, ChannelClosed
from adjoint.data.workers.memory import ALIGNMENT, AVAILABLE, anonymous_file, make_segment, rounded

__all__ = ["STACK_SIGNAL", "STARTING", "Failure", "Outcome", "described_failure", "described_item", "work"]

#: The signal at which a worker writes its stack, if the system has such signals.
STACK_SIGNAL = getattr(signal, "SIGUSR1", None)

#: In place of the number of an item: what happens before the first one.
STARTING = -1

#: Arrays of fewer bytes are copied into the message: mapping and releasing memory costs more.
_SMALLEST_SHARED = 4096

#: Seconds that a function may take when the parent is gone. A parent that closes the pool allows less (`processes`).
_PATIENCE = 0.7


class Outcome(NamedTuple):
    """The message about one item.

    Attributes
    ----------
    serial : int
        The number of the item.
    failed : bool
        Whether the function raised; the result is a `Failure` then.
    slot : int
        The segment that has the bytes; -1 if none is needed.
    size : int
        The size of the segment if it is new, and its descriptor comes with the message; else 0.
    parts : list of (int, int)
        Begin and end of the arrays in the segment.
    text : bytes or None
        The pickled result; None if it is the first of the parts.
    """

    serial: int
    failed: bool
    slot: int
    size: int
    parts: list[tuple[int, int]]
    text: bytes | None


class Failure(NamedTuple):
    """An exception on its way to another process: pickled, if that is possible, and as text."""

    pickled: bytes | None
    name: str
    traceback: str


class _Slots:
    """The segments of a worker. The parent says when it does not read one any more."""

    def __init__(self) -> None:
        self._segments: list[np.ndarray] = []
        self._free: list[int] = []

    def release(self, slots: Iterable[int]) -> None:
        self._free.extend(slots)

    def take(self, size: int) -> tuple[int, np.ndarray, int | None]:
        """The number and bytes of a segment that is large enough and not in use; the descriptor of a new one."""
        fitting = [slot for slot in self._free if len(self._segments[slot]) >= size]
        if fitting:
            slot = min(fitting, key=lambda slot: len(self._segments[slot]))
            self._free.remove(slot)
            return slot, self._segments[slot], None
        descriptor, memory = make_segment(rounded(size))
        if self._free:  # one that is too small is replaced
            slot = self._free.pop()
            self._segments[slot] = memory
        else:
            slot = len(self._segments)
            self._segments.append(memory)
        return slot, memory, descriptor


class _Sender:
    """Sends results: arrays by shared memory, and small ones with the message."""

    def __init__(self, channel: Channel, inline: int) -> None:
        self._channel, self._inline = channel, inline
        self.slots = _Slots()

    def send(self, serial: int, result: Any, failed: bool = False) -> None:
        arrays: list[memoryview] = []

        def shared(buffer: pickle.PickleBuffer) -> bool:
            # The result says whether the buffer stays in the pickle.
            raw = buffer.raw()
            if not AVAILABLE or raw.nbytes < _SMALLEST_SHARED:
                return True
            arrays.append(raw)
            return False

        text: bytes | None = pickle.dumps(result, pickle.HIGHEST_PROTOCOL, buffer_callback=shared)
        if text is not None and AVAILABLE and len(text) > self._inline:
            # The socket holds as many messages as there are items under way, so that no worker waits to send one
            # while its parent waits to send it an item.
            arrays.insert(0, memoryview(text))
            text = None
        if not arrays:
            self._channel.send(Outcome(serial, failed, -1, 0, [], text))
            return
        parts = _places([array.nbytes for array in arrays])
        slot, memory, descriptor = self.slots.take(parts[-1][1])
        for (start, end), array in zip(parts, arrays, strict=True):
            memory[start:end] = np.frombuffer(array, np.uint8)
        size = 0 if descriptor is None else len(memory)
        self._channel.send(Outcome(serial, failed, slot, size, parts, text), descriptor)
        if descriptor is not None:
            os.close(descriptor)


def _places(sizes: list[int]) -> list[tuple[int, int]]:
    """Begin and end of arrays one after the other."""
    parts, end = [], 0
    for size in sizes:
        start = -(-end // ALIGNMENT) * ALIGNMENT
        end = start + size
        parts.append((start, end))
    return parts


def work(
    number: int,
    function: Callable[[Any], Any],
    init: Callable[[int], object] | None,
    connection: socket.socket,
    others: list[socket.socket],
    inline: int,
) -> None:
    """The main function of a worker process.

    Parameters
    ----------
    number : int
        Of the worker.
    function : callable
        What is called with each item.
    init : callable, optional
        Called with the number of the worker, first.
    connection : socket.socket
        The end of this worker.
    others : list of socket.socket
        Ends that a forked process inherits. As long as it had those of the parent open, no worker would notice the
        parent's end.
    inline : int
        Most bytes of a result in a message.
    """
    for other in others:
        other.close()
    _settle_signals()
    gc.freeze()  # Collections would write to, and thereby copy, the memory that a forked process shares.
    channel = Channel(connection)
    # A parent that has ended takes no results.
    with contextlib.suppress(ChannelClosed):
        _announce_stacks(channel)
        _end_with_parent(connection)
        _serve(number, function, init, channel, _Sender(channel, inline))


def _serve(
    number: int,
    function: Callable[[Any], Any],
    init: Callable[[int], object] | None,
    channel: Channel,
    sender: _Sender,
) -> None:
    try:
        if init is not None:
            init(number)
    except Exception as error:
        sender.send(STARTING, described_failure(error), failed=True)
        return
    for serial, freed, item in channel.messages():
        sender.slots.release(freed)
        try:
            sender.send(serial, function(pickle.loads(item)))
        except ChannelClosed:
            raise
        except Exception as error:
            sender.send(serial, described_failure(error), failed=True)


def _settle_signals() -> None:
    """Leave Ctrl-C to the parent, which ends its workers, and undo what a forked process inherits."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})


def _end_with_parent(connection: socket.socket) -> None:
    """Start a thread that ends this process if the parent is gone, also while the function runs."""
    if hasattr(select, "poll"):
        threading.Thread(target=_watch, args=(connection,), name="adjoint-watch", daemon=True).start()


def _watch(connection: socket.socket) -> None:
    watched = select.poll()
    watched.register(connection, getattr(select, "POLLRDHUP", select.POLLHUP))
    watched.poll()
    time.sleep(_PATIENCE)
    os._exit(1)


def _announce_stacks(channel: Channel) -> None:
    """Send the file to which the stack of this process is written at a signal, also if native code hangs."""
    if STACK_SIGNAL is None or not AVAILABLE:
        return
    descriptor = anonymous_file()
    faulthandler.register(STACK_SIGNAL, file=descriptor, all_threads=False)
    channel.send(None, descriptor)


def described_failure(error: BaseException) -> Failure:
    """An exception as a message, whose traceback begins below the function that caught it."""
    trace = error.__traceback__
    text = "".join(traceback.format_exception(type(error), error, trace.tb_next if trace else None))
    try:
        pickled = pickle.dumps(error)
    except Exception:
        pickled = None
    return Failure(pickled, type(error).__name__, text)


def described_item(number: int, item: Any) -> str:
    """Which item a worker was given, for messages."""
    return f"while it worked on item {number}, {reprlib.repr(item)}"
