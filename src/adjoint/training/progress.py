"""How far the epochs of a trainer are, so that an interrupted one can be saved and resumed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.lazy_dataclass import dataclass

__all__ = ["Position", "Progress", "resumed_order"]


@dataclass(frozen=True, slots=True, eq=False)
class Position:
    """Where an epoch is that has not reached its end.

    Parameters
    ----------
    order : numpy.ndarray or None
        i64 [N]: the row numbers in the order of the epoch; None for batches.
    shuffle, drop_last : bool
        The arguments of `run_epoch`.
    losses : numpy.ndarray
        The losses of the completed steps.
    """

    order: np.ndarray | None
    shuffle: bool
    drop_last: bool
    losses: np.ndarray

    @property
    def done(self) -> int:
        """Number of completed steps."""
        return len(self.losses)


#: The position of a running epoch now, or None if all its steps are done.
Place = Callable[[], Position | None]


class Progress:
    """How far the epochs of a trainer are.

    Attributes
    ----------
    begun : int
        Number of epochs begun.
    """

    def __init__(self, begun: int = 0, unfinished: Position | None = None) -> None:
        self.begun = begun
        self._unfinished = unfinished
        # Innermost last: a callback may run an epoch of its own.
        self._running: list[Place] = []

    @property
    def unfinished(self) -> Position | None:
        """The position of the innermost running epoch, or else of the last one; None if it is finished."""
        return self._running[-1]() if self._running else self._unfinished

    @property
    def finished(self) -> int:
        """Number of epochs begun, without the one that can be resumed."""
        return self.begun - (self.unfinished is not None)

    @property
    def done(self) -> int:
        """Number of completed steps of the unfinished epoch."""
        return 0 if self.unfinished is None else self.unfinished.done

    def resumable(self) -> Position | None:
        """The position from which `run_epoch` can go on; None in an epoch's callback, which begins another."""
        return None if self._running else self._unfinished

    @contextmanager
    def running(self, place: Place, resumed: bool) -> Iterator[None]:
        """Count an epoch, unless it is resumed, and keep its position, however it ends."""
        self.begun += not resumed
        self._running.append(place)
        try:
            yield
        finally:
            self._unfinished = place()
            self._running.remove(place)


def resumed_order(
    position: Position, shuffle: bool, drop_last: bool, seeded: Callable[[int], np.ndarray] | None
) -> Callable[[int], np.ndarray]:
    """The order of an epoch to resume as a function of the number of rows, after checking the arguments given now.

    Parameters
    ----------
    position : Position
        Where the epoch was interrupted.
    shuffle, drop_last : bool
        The arguments of `run_epoch`.
    seeded : callable or None
        The order of that many rows that a seed of `run_epoch` gives; None without one.

    Raises
    ------
    InvalidValueError
        If an argument differs from those that the epoch was begun with; the order that is returned raises it for
        another number of rows.
    TypeRuleError
        If the epoch ran over batches.
    """
    order = position.order
    if order is None:
        raise TypeRuleError(
            "run_epoch: the epoch to be resumed ran over an iterable of batches, got arrays; pass batches, or begin "
            "another epoch without resume"
        )
    for name, given, begun in (("shuffle", shuffle, position.shuffle), ("drop_last", drop_last, position.drop_last)):
        if given != begun:
            raise InvalidValueError(
                f"run_epoch: the epoch to be resumed was begun with {name}={begun}, got {given}; pass {name}={begun}, "
                "or begin another epoch without resume"
            )

    def of(rows: int) -> np.ndarray:
        if rows != len(order):
            raise InvalidValueError(
                f"run_epoch: the epoch to be resumed runs over {len(order)} rows, got {rows}; pass the same arrays, or "
                "begin another epoch without resume"
            )
        if seeded is not None and not np.array_equal(seeded(rows), order):
            raise InvalidValueError(
                "run_epoch: the epoch to be resumed was begun with another seed, got one that gives a different "
                "order; omit it, or begin another epoch without resume"
            )
        return order

    return of
