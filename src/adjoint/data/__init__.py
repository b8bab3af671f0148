"""Datasets: find them on this machine or download them, verify them, and split them into batches.

`fashion` is the dataset that the command line trains on; the other modules are formats, downloads and batches.
"""

from adjoint.data.arrays import ArrayBatches, ArrayDataset
from adjoint.data.batching import Rows, batches
from adjoint.data.fashion import FashionMnist, fashion_mnist
from adjoint.data.prefetch import Prefetcher

__all__ = ["ArrayBatches", "ArrayDataset", "FashionMnist", "Prefetcher", "Rows", "batches", "fashion_mnist"]
