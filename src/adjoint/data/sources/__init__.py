"""Sources: where the rows of datasets come from, one kind per file."""

from adjoint.data.sources.generator import GeneratorDataset
from adjoint.data.sources.slices import NumpySlicesDataset

__all__ = ["GeneratorDataset", "NumpySlicesDataset"]
