"""Transforms of sequences of tokens: cut, padded, split into windows."""

from typing import Any

import numpy as np

from adjoint.data.checking import require_count
from adjoint.errors import DataError
from adjoint.lazy_dataclass import dataclass

__all__ = ["PadEnd", "SlidingWindow", "Truncate"]


@dataclass(frozen=True)
class Truncate:
    """At most so many elements of a sequence.

    Parameters
    ----------
    max_seq_len : int
        The number.
    from_end : bool, default False
        Whether the last ones are kept rather than the first ones.

    Raises
    ------
    InvalidValueError
        If the number is below 1.
    """

    max_seq_len: int
    from_end: bool = False

    def __post_init__(self) -> None:
        require_count("Truncate", "max_seq_len", self.max_seq_len)

    def __call__(self, sequence: Any) -> Any:
        """The first or last elements of an array (along axis 0), a list, a tuple or a string."""
        return sequence[-self.max_seq_len :] if self.from_end else sequence[: self.max_seq_len]


@dataclass(frozen=True)
class PadEnd:
    """Sequences of one length: values are appended to shorter ones.

    Parameters
    ----------
    length : int
        The length.
    pad_value : float, default 0
        What is appended.

    Raises
    ------
    InvalidValueError
        If the length is below 1.
    DataError
        When called, if the sequence is longer.
    """

    length: int
    pad_value: float = 0

    def __post_init__(self) -> None:
        require_count("PadEnd", "length", self.length)

    def __call__(self, sequence: Any) -> np.ndarray:
        """An array [length, ...] of the sequence's dtype for one of [N, ...]."""
        array = np.asarray(sequence)
        if array.ndim < 1 or len(array) > self.length:
            given = f"one of {len(array)}" if array.ndim else "a number"
            raise DataError(f"PadEnd takes sequences of at most {self.length} elements, got {given}; truncate it first")
        result = np.full((self.length, *array.shape[1:]), self.pad_value, array.dtype)
        result[: len(array)] = array
        return result


@dataclass(frozen=True)
class SlidingWindow:
    """All parts of a sequence that have one length.

    Parameters
    ----------
    width : int
        The length.
    stride : int, default 1
        How far each part begins behind the one before.

    Raises
    ------
    InvalidValueError
        If a number is below 1.
    DataError
        When called, if the sequence is shorter.
    """

    width: int
    stride: int = 1

    def __post_init__(self) -> None:
        require_count("SlidingWindow", "width", self.width)
        require_count("SlidingWindow", "stride", self.stride)

    def __call__(self, sequence: Any) -> np.ndarray:
        """A read-only view [windows, width, ...] of a sequence [N, ...]."""
        array = np.asarray(sequence)
        if array.ndim < 1 or len(array) < self.width:
            given = f"one of {len(array)}" if array.ndim else "a number"
            raise DataError(
                f"SlidingWindow takes sequences of at least {self.width} elements, got {given}; pad it first"
            )
        windows = np.lib.stride_tricks.sliding_window_view(array, self.width, axis=0)[:: self.stride]
        return np.moveaxis(windows, -1, 1)
