"""Datasets: find them on this machine or download them, verify them, and split them into batches.

`builtin` lists the datasets that have a name, each in a file of its own; `vision` and `text` have the transforms of
images and texts. The other modules are formats, downloads and batches.
"""

from adjoint.data.arrays import ArrayBatches, ArrayDataset
from adjoint.data.batching import Rows, batches
from adjoint.data.builtin import DATASETS, BuiltinDataset, load_dataset
from adjoint.data.cifar import cifar10
from adjoint.data.corpus import TextCorpus, read_text, text_corpus
from adjoint.data.fashion import fashion_mnist
from adjoint.data.image_sets import ImageClassification, read_images
from adjoint.data.mnist import mnist
from adjoint.data.prefetch import Prefetcher

__all__ = [
    "DATASETS",
    "ArrayBatches",
    "ArrayDataset",
    "BuiltinDataset",
    "ImageClassification",
    "Prefetcher",
    "Rows",
    "TextCorpus",
    "batches",
    "cifar10",
    "fashion_mnist",
    "load_dataset",
    "mnist",
    "read_images",
    "read_text",
    "text_corpus",
]
