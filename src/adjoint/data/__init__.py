"""Datasets: find them on this machine or download them, verify them, and make batches of them.

`datasets` has pipelines and their operations, `sources` what they read, and `samplers` the order. `arrays` has batches
of rows of arrays, which native code gathers. `builtin` lists the datasets that have a name, each in a file of its own;
`vision` and `text` have the transforms of images and texts. The other modules are formats, downloads and batches.
"""

from typing import TYPE_CHECKING

from adjoint.lazy_names import lazy_names

if TYPE_CHECKING:
    from adjoint.data import datasets, samplers, sources, text, transforms, vision
    from adjoint.data.arrays import ArrayBatches, ArrayDataset
    from adjoint.data.batching import Rows, batches
    from adjoint.data.builtin import DATASETS, BuiltinDataset, load_dataset
    from adjoint.data.cifar import cifar10
    from adjoint.data.corpus import TextCorpus, read_text, text_corpus
    from adjoint.data.datasets import BatchInfo, Dataset
    from adjoint.data.digits import mnist
    from adjoint.data.fashion import fashion_mnist
    from adjoint.data.image_sets import ImageClassification, read_images
    from adjoint.data.prefetch import Prefetcher
    from adjoint.data.samplers import (
        DistributedSampler,
        PKSampler,
        RandomSampler,
        Sampler,
        SequentialSampler,
        SubsetRandomSampler,
        SubsetSampler,
        WeightedRandomSampler,
    )
    from adjoint.data.sources import (
        CSVDataset,
        GeneratorDataset,
        GrainDataset,
        HuggingFaceDataset,
        IdxDataset,
        ImageFolderDataset,
        NumpySlicesDataset,
        ParquetDataset,
        TextFileDataset,
    )
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "adjoint.data": ("datasets", "samplers", "sources", "text", "transforms", "vision"),
            "adjoint.data.arrays": (
                "ArrayBatches",
                "ArrayDataset",
            ),
            "adjoint.data.batching": (
                "Rows",
                "batches",
            ),
            "adjoint.data.builtin": (
                "DATASETS",
                "BuiltinDataset",
                "load_dataset",
            ),
            "adjoint.data.cifar": ("cifar10",),
            "adjoint.data.corpus": (
                "TextCorpus",
                "read_text",
                "text_corpus",
            ),
            "adjoint.data.datasets": (
                "BatchInfo",
                "Dataset",
            ),
            "adjoint.data.fashion": ("fashion_mnist",),
            "adjoint.data.image_sets": (
                "ImageClassification",
                "read_images",
            ),
            "adjoint.data.digits": ("mnist",),
            "adjoint.data.prefetch": ("Prefetcher",),
            "adjoint.data.samplers": (
                "DistributedSampler",
                "PKSampler",
                "RandomSampler",
                "Sampler",
                "SequentialSampler",
                "SubsetRandomSampler",
                "SubsetSampler",
                "WeightedRandomSampler",
            ),
            "adjoint.data.sources": (
                "CSVDataset",
                "GeneratorDataset",
                "GrainDataset",
                "HuggingFaceDataset",
                "IdxDataset",
                "ImageFolderDataset",
                "NumpySlicesDataset",
                "ParquetDataset",
                "TextFileDataset",
            ),
        },
    )

__all__ = [
    "DATASETS",
    "ArrayBatches",
    "ArrayDataset",
    "BatchInfo",
    "BuiltinDataset",
    "CSVDataset",
    "Dataset",
    "DistributedSampler",
    "GeneratorDataset",
    "GrainDataset",
    "HuggingFaceDataset",
    "IdxDataset",
    "ImageClassification",
    "ImageFolderDataset",
    "NumpySlicesDataset",
    "PKSampler",
    "ParquetDataset",
    "Prefetcher",
    "RandomSampler",
    "Rows",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "SubsetSampler",
    "TextCorpus",
    "TextFileDataset",
    "WeightedRandomSampler",
    "batches",
    "cifar10",
    "datasets",
    "fashion_mnist",
    "load_dataset",
    "mnist",
    "read_images",
    "read_text",
    "samplers",
    "sources",
    "text",
    "text_corpus",
    "transforms",
    "vision",
]
