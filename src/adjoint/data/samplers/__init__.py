"""Samplers: which rows of a source an epoch has, and in which order.

An order is a pure function of the number of rows, the seed of the dataset and the epoch. It depends on nothing that was
drawn before, nor on the number of workers.
"""

from adjoint.data.samplers.base import Sampler
from adjoint.data.samplers.choosing import as_sampler
from adjoint.data.samplers.distributed import DistributedSampler
from adjoint.data.samplers.in_order import IndexSampler, SequentialSampler, SubsetSampler
from adjoint.data.samplers.random import RandomSampler, SubsetRandomSampler
from adjoint.data.samplers.weighted import PKSampler, WeightedRandomSampler

__all__ = [
    "DistributedSampler",
    "IndexSampler",
    "PKSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "SubsetSampler",
    "WeightedRandomSampler",
    "as_sampler",
]
