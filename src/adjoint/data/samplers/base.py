"""What all samplers have: the order of an epoch, and checks of their arguments."""

import numpy as np

from adjoint.data.checking import require_count
from adjoint.data.draw import Draw
from adjoint.errors import InvalidValueError, TypeRuleError

__all__ = ["STREAM", "Sampler", "fewer", "integers", "optional_count", "rows_below"]


#: The stream of sources, the first one of a pipeline.
STREAM = 0


class Sampler:
    """The rows of an epoch. A subclass defines `order` and `size`.

    Attributes
    ----------
    shard : int
        The number of the shard that the rows are, 0 for all rows.
    """

    shard = 0

    def order(self, count: int, draw: Draw) -> np.ndarray:  # noqa: ARG002 - for subclasses
        """The rows of an epoch.

        Parameters
        ----------
        count : int
            The number of rows of the source.
        draw : Draw
            The seed and the epoch: random numbers come from ``draw.permutation(0, n)``, ``draw.uniforms(0, n)`` and
            ``draw.words(0, n)``, each a pure function of them.

        Returns
        -------
        numpy.ndarray
            int64, of length ``size(count)``.
        """
        raise TypeRuleError(
            f"{type(self).__name__}: a sampler must define order(count, draw), got none; return the rows of an epoch"
        )

    def size(self, count: int) -> int:
        """The number of rows of each epoch."""
        return len(self.order(count, Draw(0, 0)))


def optional_count(name: str, num_samples: int | None) -> int | None:
    """A number of samples, which may be left out; `name` is the sampler, for errors."""
    return None if num_samples is None else require_count(name, "num_samples", num_samples)


def fewer(count: int, most: int | None) -> int:
    """The smaller of a number of rows and a limit, if there is one."""
    return count if most is None else min(count, most)


def integers(name: str, given: object) -> np.ndarray:
    """Indices as an array, int64; `name` is the sampler, for errors."""
    found = np.asarray(given)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise TypeRuleError(
            f"{name}: indices must be a sequence of integers, got {found.dtype}{list(found.shape)}; convert them"
        )
    return found.astype(np.int64)


def rows_below(name: str, given: object, count: int) -> np.ndarray:
    """Indices of rows; negative ones count from the end."""
    found = integers(name, given)
    wrong = (found < -count) | (found >= count)
    if wrong.any():
        raise InvalidValueError(
            f"{name}: indices must be below the number of rows, {count}, got {found[wrong.argmax()]}; correct it"
        )
    return np.where(found < 0, found + count, found)
