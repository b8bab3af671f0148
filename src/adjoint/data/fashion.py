"""Fashion-MNIST: 70,000 greyscale images of clothes."""

import os
from collections.abc import Mapping
from pathlib import Path

from adjoint.data.files import DataFile, Progress
from adjoint.data.image_sets import ImageClassification, images_of_idx
from adjoint.data.retrieval import Locations, retrieve

__all__ = ["FASHION_CLASSES", "FASHION_MNIST", "fashion_mnist"]

#: The four files. The MD5 sums of the compressed files are from the table in the project's README; the SHA-256 sums of
#: the contents were computed from files with those MD5 sums.
FASHION_MNIST = Locations(
    title="Fashion-MNIST",
    folder="fashion-mnist",
    files=(
        DataFile(
            "train-images-idx3-ubyte",
            sha256="c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            md5="8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        ),
        DataFile(
            "train-labels-idx1-ubyte",
            sha256="bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            md5="25c81989df183df01b3e8a0aad5dffbe",
        ),
        DataFile(
            "t10k-images-idx3-ubyte",
            sha256="5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            md5="bef4ecab320f06d8554ea6380940ec79",
        ),
        DataFile(
            "t10k-labels-idx1-ubyte",
            sha256="0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
            md5="bb300cfdad3c16e7a12a480ee83cd310",
        ),
    ),
    urls=(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    ),
    package="dataset-fashion-mnist",
    system=Path("/usr/share/datasets/fashion-mnist"),
)

FASHION_CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


def fashion_mnist(
    cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    *,
    locations: Locations = FASHION_MNIST,
    environ: Mapping[str, str] | None = None,
) -> ImageClassification:
    """Load Fashion-MNIST from this machine or else from the network, verified by checksums.

    These are 60,000 training and 10,000 test images of clothes, uint8 [28, 28], in 10 classes of the same size (Xiao,
    Rasul and Vollgraf, arXiv:1708.07747).

    Each of its four files (``.gz`` or uncompressed) is searched for in the cache, in the directory given by
    ``ADJOINT_DATA``, and where Debian's package ``dataset-fashion-mnist`` installs it. Missing files are downloaded
    into the cache from the project's own URLs or, if that fails, extracted from that Debian package, which ``apt-get``
    fetches without root.

    Parameters
    ----------
    cache : path, optional
        Directory for downloaded files; default: ``fashion-mnist`` in `adjoint.paths.cache_dir`.
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
    return images_of_idx(retrieve(locations, cache, progress, environ), locations, FASHION_CLASSES)
