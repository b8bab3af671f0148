"""Batches of fewer rows than an entry point is compiled for."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.kernel.program import Argument
from adjoint.lazy_dataclass import dataclass
from adjoint.runtime.arguments import as_array

__all__ = ["PartialBatch", "filled_up"]


@dataclass(frozen=True, slots=True)
class PartialBatch:
    """How an entry point takes fewer rows: it reads their number from a scalar, and ignores the rows after them.

    Parameters
    ----------
    most : int
        The number of rows that it is compiled for.
    each : mapping of str to int
        For each argument whose first axis is the batch axis: the number of elements along it that belong to a row.
    rows : str, default ""
        Name of the resident i32 scalar that holds the number of rows; "" if the entry point only takes all.
    reason : str, default ""
        Why there is no such scalar.
    """

    most: int
    each: Mapping[str, int]
    rows: str = ""
    reason: str = ""

    def present(self, entry: str, arguments: Sequence[Argument], given: Sequence[Any]) -> int:
        """The number of rows of the arguments; the full number if they do not match for another reason.

        Raises
        ------
        TypeRuleError
            If the arguments have different numbers of rows, none, too many, or fewer than an entry point takes that
            takes only all.
        """
        counts: dict[str, int] = {}
        for argument, array in zip(arguments, given, strict=True):
            each = self.each.get(argument.name)
            if each is None:
                continue
            shape = as_array(entry, argument.name, array).shape
            if len(shape) != len(argument.shape) or shape[1:] != argument.shape[1:] or shape[0] % each:
                return self.most
            counts[argument.name] = shape[0] // each
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise TypeRuleError(
                f"{entry}: all arrays of a batch must have the same number of rows, got {listed}; shorten the longer "
                "ones"
            )
        present = next(iter(counts.values()), self.most)
        if not 1 <= present <= self.most:
            raise TypeRuleError(
                f"{entry}: a batch must have from 1 to {self.most} rows, got {present}; split it, or build the model "
                "for larger batches"
            )
        if present < self.most and not self.rows:
            raise TypeRuleError(
                f"{entry}: a batch must have exactly {self.most} rows, because {self.reason}, got {present}; drop it, "
                "or build the model for smaller batches"
            )
        return present

    def shortened(self, arguments: Sequence[Argument], present: int) -> list[Argument]:
        """The arguments with that many rows."""
        return [
            replace(a, shape=(present * self.each[a.name], *a.shape[1:])) if a.name in self.each else a
            for a in arguments
        ]


def filled_up(argument: Argument, array: np.ndarray, each: int = 1) -> np.ndarray:
    """An array with all rows that the program reads: the given ones, then copies of the last one, which is valid data.

    If the program reads no others, it is the given array; the result may have fewer rows than the argument.

    Parameters
    ----------
    argument : Argument
        The argument.
    array : numpy.ndarray
        Its rows that are present.
    each : int, default 1
        Number of elements along the first axis that belong to a row.
    """
    if array.shape == argument.shape:
        return array
    read = argument.shape[0]
    if argument.together:
        tile = argument.together * each
        read = min(read, -(-len(array) // tile) * tile)
    if read == len(array):
        return array
    return np.concatenate([array, np.repeat(array[-1:], read - len(array), axis=0)])
