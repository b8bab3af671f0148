"""Prefetching: a thread prepares items before they are needed."""

import threading
import warnings
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Generic, TypeVar

from adjoint.errors import InvalidValueError

__all__ = ["Prefetcher"]

T = TypeVar("T")

#: Seconds that `close` waits for an item in preparation.
_PATIENCE = 10.0


class Prefetcher(Generic[T]):
    """Iterate over an iterable in a separate thread that is up to `depth` items ahead.

    An exception of the iterable is raised in place of its item, with the thread's traceback. As a context manager, it
    ends the thread when the block is left for any reason.

    Parameters
    ----------
    source : iterable
        Yields the items, each a separate object rather than a reused buffer. An iterator remains the caller's: it is
        not closed, and items prepared but not consumed are lost to it.
    depth : int, default 3
        Maximum number of prepared items; an attribute that can be changed.

    Examples
    --------
    >>> with Prefetcher(number * number for number in range(4)) as squares:
    ...     print(*squares)
    0 1 4 9
    """

    def __init__(self, source: Iterable[T], depth: int = 3) -> None:
        self._queue: _Queue[T] = _Queue(_checked(depth))
        iterator = iter(source)
        owned = iterator is not source
        # The thread refers to the queue rather than to this object, so that deleting this object ends it.
        self._thread = threading.Thread(
            target=_fill, args=(self._queue, iterator, owned), name="adjoint-prefetch", daemon=True
        )
        self._finalizer = weakref.finalize(self, self._queue.close)
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        return self._queue.take()

    @property
    def depth(self) -> int:
        """Maximum number of prepared items."""
        return self._queue.depth

    @depth.setter
    def depth(self, depth: int) -> None:
        self._queue.depth = _checked(depth)

    def ready(self, most: int) -> list[T]:
        """Wait for an item and return up to `most` prepared ones; an empty list at the end."""
        return self._queue.take_ready(most)

    def close(self) -> None:
        """End the thread: it finishes the current item and requests no further ones."""
        self._finalizer()
        self._thread.join(_PATIENCE)
        if self._thread.is_alive():
            warnings.warn(
                f"an item is still being prepared {_PATIENCE:g} seconds after closing; its thread is left alone",
                RuntimeWarning,
                stacklevel=2,
            )

    def __enter__(self) -> "Prefetcher[T]":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Queue(Generic[T]):
    """Items passed between two threads: at most `depth`, followed by the end or an error."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self._items: deque[T] = deque()
        self._changed = threading.Condition()
        self._over = False
        self._error: BaseException | None = None

    def put(self, item: T) -> bool:
        """Add an item when there is room; return False if no more are wanted."""
        with self._changed:
            while len(self._items) >= self.depth and not self._over:
                self._changed.wait()
            if not self._over:
                self._items.append(item)
                if len(self._items) == 1:  # otherwise nobody waits for it
                    self._changed.notify_all()
            return not self._over

    def finish(self, error: BaseException | None = None) -> None:
        """Signal the end of the items, with an error if there was one."""
        with self._changed:
            self._over = True
            self._error = error
            self._changed.notify_all()

    def take(self) -> T:
        """Wait for the next item and return it; raise StopIteration at the end, or the error."""
        items = self.take_ready(1)
        if not items:
            raise StopIteration
        return items[0]

    def take_ready(self, most: int) -> list[T]:
        """Wait for an item and return up to `most`; return none at the end, or raise the error."""
        with self._changed:
            while not self._items and not self._over:
                self._changed.wait()
            items = [self._items.popleft() for _ in range(min(most, len(self._items)))]
            if items:
                # The thread sleeps until half of its items are gone: waking it takes longer than a short step.
                if len(self._items) <= self.depth // 2:
                    self._changed.notify_all()
                return items
            error, self._error = self._error, None
        if error is not None:
            raise error
        return []

    def close(self) -> None:
        """Discard all items and accept no more."""
        with self._changed:
            self._items.clear()
            self._over = True
            self._error = None
            self._changed.notify_all()


def _checked(depth: Any) -> int:
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
        raise InvalidValueError(f"Prefetcher: depth is an integer of at least 1, got {depth!r}")
    return depth


def _fill(queue: _Queue[Any], iterator: Iterator[Any], owned: bool) -> None:
    """The thread's main function."""
    try:
        while queue.put(next(iterator)):
            pass
    except StopIteration:
        queue.finish()
    except BaseException as error:
        queue.finish(error)
    finally:
        if owned and hasattr(iterator, "close"):
            iterator.close()
