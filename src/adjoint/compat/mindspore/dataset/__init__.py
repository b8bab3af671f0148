"""`mindspore.dataset`: datasets, samplers, and operations on their columns."""

from adjoint.compat.mindspore.dataset import transforms as transforms
from adjoint.compat.mindspore.dataset import vision as vision
from adjoint.compat.mindspore.dataset.datasets import *  # noqa: F403
from adjoint.compat.mindspore.dataset.datasets import __all__ as _datasets
from adjoint.compat.uncovered import uncovered
from adjoint.data import (
    DistributedSampler,
    PKSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    SubsetSampler,
    WeightedRandomSampler,
)

__all__ = [
    *_datasets,
    "DistributedSampler",
    "PKSampler",
    "RandomSampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "SubsetSampler",
    "WeightedRandomSampler",
]

__getattr__ = uncovered(
    __name__,
    {"Cifar10Dataset": "use adjoint.data.cifar10()", "MindDataset": "export the rows, and use GeneratorDataset"},
    "adjoint.data",
)
