"""Writing checkpoints while training goes on: a thread that ends when there is nothing more to write."""

import threading
from collections.abc import Callable
from pathlib import Path

from adjoint.errors import CheckpointError, warn
from adjoint.training.checkpoints.snapshot import Snapshot, write_snapshot

__all__ = ["CheckpointWriter"]

#: The most bytes, 256 MiB, that wait in memory beside the newest snapshot.
_MOST_WAITING = 1 << 28


class CheckpointWriter:
    """Writes snapshots to files in the order in which they come, in a thread of its own.

    The caller never waits for the disk. While a snapshot is being written, the newest ones wait in memory: as many as
    `most`, and beside the newest no more than 256 MiB. Older ones are given up. With as many as are kept on the disk,
    the files are in the end those that there would be without the thread, unless the snapshots are large.

    A failure does not end training: it is a warning, at the next call of `submit`. Only if the very last snapshot
    cannot be written, `wait` raises an error.

    Parameters
    ----------
    most : int or None, default 1
        The number of snapshots that wait; None for as many as fit.
    written : callable, optional
        Called in the thread with the path of each file that has been written, for example to remove older ones.
    asynchronous : bool, default True
        Whether there is a thread. Without, `submit` writes.

    Examples
    --------
    >>> writer = CheckpointWriter()
    >>> writer.submit("model.safetensors", capture(network, optimizer))
    >>> writer.wait()
    """

    def __init__(
        self,
        most: int | None = 1,
        written: Callable[[Path], None] | None = None,
        *,
        asynchronous: bool = True,
    ) -> None:
        self._most, self._written, self._asynchronous = most, written, asynchronous
        self._changed = threading.Condition()
        self._waiting: list[tuple[Path, Snapshot]] = []
        #: The newest of those that wait and must not be given up.
        self._kept: Snapshot | None = None
        self._thread: threading.Thread | None = None
        self._free: Snapshot | None = None
        #: Why the newest snapshot could not be written; None if it could.
        self._failure: CheckpointError | None = None
        #: The first failure after a success, until the caller has been warned.
        self._news: CheckpointError | None = None

    def spare(self) -> Snapshot | None:
        """A snapshot that has been written, whose memory `capture` may use again; None if there is none."""
        with self._changed:
            free, self._free = self._free, None
        return free

    def submit(self, path: Path | str, snapshot: Snapshot, *, keep: bool = False) -> None:
        """Write a snapshot as soon as possible, without waiting for it.

        Parameters
        ----------
        path : str or Path
            The file.
        snapshot : Snapshot
            What to write. It belongs to the writer from now on.
        keep : bool, default False
            Whether it is not given up until another one with `keep` comes, such as a better one.
        """
        with self._changed:
            news, self._news = self._news, None  # of earlier ones: what becomes of this one, a later call says
            self._waiting.append((Path(path), snapshot))
            if keep:
                self._kept = snapshot
            self._give_up()
            if self._asynchronous and self._thread is None:
                # Not a daemon: the interpreter waits for it, so that the last checkpoint is written.
                self._thread = threading.Thread(target=self._run, name="adjoint-checkpoints")
                self._thread.start()
        if not self._asynchronous:
            self._run()
            news, self._news = self._news or news, None
        _warn(news)

    def wait(self) -> None:
        """Wait until everything is on the disk.

        Raises
        ------
        CheckpointError
            If the last snapshot could not be written.
        """
        with self._changed:
            thread = self._thread
        if thread is not None:
            thread.join()
        with self._changed:
            failure, self._failure = self._failure, None
            news, self._news = self._news, None
        if failure is not None:
            raise failure
        _warn(news)

    def _give_up(self) -> None:
        """Drop the oldest of those that wait if there are too many."""
        while len(self._waiting) > 1:
            older = [snapshot for _, snapshot in self._waiting[:-1] if snapshot is not self._kept]
            waiting = sum(array.nbytes for snapshot in older for array in snapshot.arrays.values())
            if not older or (waiting <= _MOST_WAITING and (self._most is None or len(older) < self._most)):
                return
            self._free = older[0]
            self._waiting = [each for each in self._waiting if each[1] is not older[0]]

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._thread = None
                    return
                path, snapshot = self._waiting.pop(0)
            failure: CheckpointError | None = None
            try:
                write_snapshot(path, snapshot)
                if self._written is not None:
                    self._written(path)
            except CheckpointError as error:
                failure = error
            except Exception as error:  # a bug must not end the thread with checkpoints waiting
                failure = CheckpointError(f"checkpoints: {path} cannot be written ({error}); choose another place")
            with self._changed:
                self._free = snapshot
                if failure is not None and self._failure is None:
                    self._news = failure
                self._failure = failure


def _warn(failure: CheckpointError | None) -> None:
    """Warn of a failure in the thread of the caller, where a warning may be an error."""
    if failure is not None:
        warn(f"{failure.message}; training goes on, and the last good checkpoint is kept")
