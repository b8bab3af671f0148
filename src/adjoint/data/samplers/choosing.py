"""The sampler that the arguments of a source describe."""

from collections.abc import Iterable

from adjoint.data.checking import require_flag
from adjoint.data.samplers.base import Sampler, optional_count
from adjoint.data.samplers.distributed import DistributedSampler
from adjoint.data.samplers.in_order import IndexSampler, SequentialSampler
from adjoint.data.samplers.random import RandomSampler
from adjoint.errors import InvalidValueError, TypeRuleError, kind_of

__all__ = ["as_sampler"]


def as_sampler(
    name: str,
    shuffle: bool | None,
    sampler: object,
    num_samples: int | None,
    num_shards: int | None,
    shard_id: int | None,
) -> Sampler:
    """The sampler that the arguments of a source describe; `name` is the source, for errors.

    Raises
    ------
    InvalidValueError
        If arguments exclude each other, or only one of `num_shards` and `shard_id` is given.
    """
    if (num_shards is None) != (shard_id is None):
        missing = "num_shards" if num_shards is None else "shard_id"
        raise InvalidValueError(f"{name}: num_shards and shard_id belong together, got no {missing}; pass both")
    if sampler is None:
        mixed = False if shuffle is None else require_flag(name, "shuffle", shuffle)
        if num_shards is not None and shard_id is not None:
            return DistributedSampler(num_shards, shard_id, mixed, num_samples)
        return RandomSampler(num_samples=num_samples) if mixed else _Head(name, num_samples)
    for what, given in (("shuffle", shuffle), ("num_samples", num_samples), ("num_shards", num_shards)):
        if given is not None:
            raise InvalidValueError(f"{name}: the sampler decides the order, got {what} as well; pass one of them")
    if isinstance(sampler, Sampler):
        return sampler
    if isinstance(sampler, Iterable) and iter(sampler) is not sampler:
        return IndexSampler(sampler)
    raise TypeRuleError(
        f"{name}: sampler must be a Sampler or a collection of integers, got {kind_of(sampler)}; pass one such as "
        "RandomSampler()"
    )


class _Head(SequentialSampler):
    """The first rows, also of none."""

    def __init__(self, name: str, num_samples: int | None) -> None:
        self._first, self._most = 0, optional_count(name, num_samples)
