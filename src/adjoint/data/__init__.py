"""Datasets: found on this machine or fetched, checked, and cut into batches."""

from adjoint.data.batching import batches
from adjoint.data.fashion import FashionMnist, fashion_mnist

__all__ = ["FashionMnist", "batches", "fashion_mnist"]
