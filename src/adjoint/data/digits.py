"""MNIST: 70,000 greyscale images of handwritten digits."""

import os
from collections.abc import Mapping

from adjoint.data.files import DataFile, Progress
from adjoint.data.image_sets import ImageClassification, images_of_idx
from adjoint.data.retrieval import Locations, retrieve

__all__ = ["MNIST", "MNIST_CLASSES", "mnist"]

#: The four files. Their authors' site does not serve them any more; the addresses are mirrors that the PyTorch and
#: TensorFlow projects keep. The MD5 sums are those that torchvision verifies; the SHA-256 sums of the contents are the
#: ones that users of these files publish with their results.
MNIST = Locations(
    title="MNIST",
    folder="mnist",
    files=(
        DataFile(
            "train-images-idx3-ubyte",
            sha256="ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            md5="f68b3c2dcbeaaa9fbdd348bbdeb94873",
        ),
        DataFile(
            "train-labels-idx1-ubyte",
            sha256="65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            md5="d53e105ee54ea40749a09fcbcd1e9432",
        ),
        DataFile(
            "t10k-images-idx3-ubyte",
            sha256="0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            md5="9fb629c4189551a2d022fa330f9573f3",
        ),
        DataFile(
            "t10k-labels-idx1-ubyte",
            sha256="ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            md5="ec29112dd5afa0611ce80d1b7f02629c",
        ),
    ),
    urls=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
)

MNIST_CLASSES = tuple("0123456789")


def mnist(
    cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    *,
    locations: Locations = MNIST,
    environ: Mapping[str, str] | None = None,
) -> ImageClassification:
    """Load MNIST from this machine or else from the network, verified by checksums.

    These are 60,000 training and 10,000 test images of handwritten digits, uint8 [28, 28] (LeCun, Bottou, Bengio and
    Haffner, Proceedings of the IEEE 86(11), 1998).

    Each of its four files (``.gz`` or uncompressed) is searched for in the cache, and in the directory ``mnist`` below
    the one given by ``ADJOINT_DATA``, or in that one itself. Missing files are downloaded into the cache.

    Parameters
    ----------
    cache : path, optional
        Directory for downloaded files; default: ``mnist`` in `adjoint.paths.cache_dir`.
    progress : callable, optional
        Called as ``progress(file name, bytes so far, total bytes)`` during a download; default: a line on a terminal.
    locations : Locations, optional
        Other locations, for mirrors and tests.
    environ : mapping, optional
        The environment; default: `os.environ`.

    Raises
    ------
    DataError
        If the data cannot be obtained, with all attempts; if ``ADJOINT_DATA`` is not a directory, or a file in it is
        wrong.
    CacheError
        If the cache directory cannot be written.
    """
    return images_of_idx(retrieve(locations, cache, progress, environ), locations, MNIST_CLASSES)
