"""The rows of one of several shards."""

import numpy as np

from adjoint.data.checking import require_count, require_flag
from adjoint.data.draw import Draw
from adjoint.data.samplers.base import STREAM, Sampler, fewer, optional_count
from adjoint.errors import InvalidValueError

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler):
    """The rows of one of several shards: every `num_shards`-th row.

    All shards have equally many rows; those that are missing at the end are taken from the beginning. With an `offset`,
    no row occurs twice, and some shards may have one row less.

    Parameters
    ----------
    num_shards : int
        How many shards there are.
    shard_id : int
        Which one, from 0 to ``num_shards - 1``.
    shuffle : bool, default True
        Whether rows are in a random order, the same for all shards, before they are distributed.
    num_samples : int, optional
        How many rows of the shard; default: all.
    offset : int, default -1
        The shard that has the first row; -1 is shard 0, with rows repeated at the end.
    """

    def __init__(
        self,
        num_shards: int,
        shard_id: int,
        shuffle: bool = True,
        num_samples: int | None = None,
        offset: int = -1,
    ) -> None:
        name = "DistributedSampler"
        self._shards = require_count(name, "num_shards", num_shards)
        self.shard = require_count(name, "shard_id", shard_id, 0)
        self._offset = require_count(name, "offset", offset, -1)
        for what, given in (("shard_id", self.shard), ("offset", self._offset)):
            if given >= self._shards:
                raise InvalidValueError(
                    f"{name}: {what} must be below num_shards, {self._shards}, got {given}; shards are counted from 0"
                )
        self._shuffle = require_flag(name, "shuffle", shuffle)
        self._most = optional_count(name, num_samples)

    def order(self, count: int, draw: Draw) -> np.ndarray:
        """The rows of the shard."""
        rows = draw.permutation(STREAM, count) if self._shuffle else np.arange(count)
        if self._offset < 0:
            places = np.arange(self.shard, self.shard + self._even(count) * self._shards, self._shards)
            rows = rows[places % max(count, 1)]
        else:
            rows = rows[(self.shard - self._offset) % self._shards :: self._shards]
        return rows[: self._most]

    def _even(self, count: int) -> int:
        return -(-count // self._shards)

    def size(self, count: int) -> int:
        """The number of rows of the shard."""
        if self._offset < 0:
            return fewer(self._even(count), self._most)
        first = (self.shard - self._offset) % self._shards
        return fewer(max(-(-(count - first) // self._shards), 0), self._most)
