"""Pipelines: operations on datasets, one family per file.

`dataset` has the class that users call; `node` is what operations are made of.
"""

from adjoint.data.datasets.batch import BatchInfo
from adjoint.data.datasets.dataset import Dataset

__all__ = ["BatchInfo", "Dataset"]
