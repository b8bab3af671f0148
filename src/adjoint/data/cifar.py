"""CIFAR-10: 60,000 small colour images."""

import io
import os
import tarfile
import zlib
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path

import numpy as np

from adjoint.data.files import Archive, Progress, contents_of, download, terminal_progress
from adjoint.data.image_sets import ImageClassification, npz_bytes, read_images
from adjoint.data.retrieval import cache_folder, chosen_folders
from adjoint.errors import DataError, plural
from adjoint.lazy_dataclass import dataclass
from adjoint.paths import check_writable, write_whole

__all__ = ["CIFAR10_CLASSES", "CifarLocations", "cifar10", "parse_cifar"]

_TITLE = "CIFAR-10"
_FOLDER = "cifar-10"

#: The directory in the archive, and its files of training images and of test images.
_UNPACKED = "cifar-10-batches-bin"
_TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
_TEST = "test_batch.bin"

_SHAPE = (3, 32, 32)

CIFAR10_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CifarLocations:
    """The archive of CIFAR-10, where to download it, and how many images it has.

    Parameters
    ----------
    archive : Archive
        The file; its page gives the MD5 sum c32a1d4ab5d03f1284b67883e8d87530 for the one with this SHA-256 sum.
    urls : tuple of str
        Base URLs for downloads, tried in order.
    counts : tuple of int
        Numbers of training and test images.
    """

    archive: Archive = Archive(
        "cifar-10-binary.tar.gz", "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
    )
    urls: tuple[str, ...] = ("https://www.cs.toronto.edu/~kriz/",)
    counts: tuple[int, int] = (50_000, 10_000)


def cifar10(
    cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    *,
    locations: CifarLocations | None = None,
    environ: Mapping[str, str] | None = None,
) -> ImageClassification:
    """Load CIFAR-10 from this machine or else from the network.

    These are 50,000 training and 10,000 test images, uint8 [32, 32, 3], in 10 classes of the same size (Krizhevsky,
    "Learning multiple layers of features from tiny images", 2009).

    They are searched for in the cache, in the directory ``cifar-10`` below the one given by ``ADJOINT_DATA``, and in
    that one itself: as ``cifar-10.npz`` or four idx files (as in `read_images`), as the directory
    ``cifar-10-batches-bin`` or as the archive ``cifar-10-binary.tar.gz`` of the official page. Otherwise the archive is
    downloaded, verified by its checksum, and kept in the cache as ``cifar-10.npz``.

    Parameters
    ----------
    cache : path, optional
        Directory for downloaded files; default: ``cifar-10`` in `adjoint.paths.cache_dir`.
    progress : callable, optional
        Called as ``progress(file name, bytes so far, total bytes)`` during a download; default: a line on a terminal.
    locations : CifarLocations, optional
        Other locations, for mirrors and tests.
    environ : mapping, optional
        The environment; default: `os.environ`.

    Raises
    ------
    DataError
        If the data cannot be obtained, with all attempts; if ``ADJOINT_DATA`` is not a directory, or files in it are
        wrong.
    CacheError
        If the cache directory cannot be written.
    """
    locations = locations or CifarLocations()
    directory = cache_folder(_FOLDER, cache, environ)
    chosen = chosen_folders(_FOLDER, environ)
    reasons: list[str] = []
    try:
        if (found := _read_in(directory, locations)) is not None:
            return found
    except DataError as error:
        # The cache is adjoint's own, so a corrupt file in it is replaced by a downloaded one.
        reasons.append(error.message)
    for folder in chosen:
        # The user chose this directory, so a corrupt file in it is an error.
        if (found := _read_in(folder, locations, folder.name == _FOLDER)) is not None:
            return found
    return _fetch(directory, locations, progress or terminal_progress, reasons)


def _read_in(folder: Path, locations: CifarLocations, own: bool = True) -> ImageClassification | None:
    """The dataset in a directory, or None if it is not there; idx files only if the directory is its `own`."""
    if (path := folder / "cifar-10.npz").is_file():
        found = read_images(path, CIFAR10_CLASSES, _TITLE)
    elif (path := folder / _UNPACKED).is_dir():
        found = parse_cifar(lambda name: contents_of(path / name), str(path))
    elif (path := folder / locations.archive.packed_name).is_file():
        found = _unpacked(locations.archive.check_packed(contents_of(path), str(path)), str(path))
    elif own and any((path := folder).glob("train-images-idx4-ubyte*")):
        found = read_images(path, CIFAR10_CLASSES, _TITLE)
    else:
        return None
    return _counted(found, locations, str(path))


def _counted(found: ImageClassification, locations: CifarLocations, where: str) -> ImageClassification:
    """The dataset, after a check of its shape."""
    shape, counts = found.image_shape, (len(found.train_labels), len(found.test_labels))
    if shape != (32, 32, 3) or counts != locations.counts:
        train, test = locations.counts
        raise DataError(
            f"{_TITLE} is {train} training and {test} test images [32, 32, 3], {where} has {counts[0]} and {counts[1]} "
            f"of {list(shape)}; remove it and fetch it again"
        )
    return found


def parse_cifar(content: Callable[[str], bytes], where: str) -> ImageClassification:
    """Read the six files of the binary version.

    Parameters
    ----------
    content : callable
        Returns the content of the file with a name, as ``data_batch_1.bin``.
    where : str
        The directory or archive in error messages.

    Raises
    ------
    DataError
        If the length of a file is wrong, or a label is not below 10.

    Notes
    -----
    Each file is a sequence of images of 3,073 bytes: the label, then the red, the green and the blue pixels, each row
    by row, as https://www.cs.toronto.edu/~kriz/cifar.html describes.
    """
    parts = [_images_in(content(name), f"{where}/{name}") for name in (*_TRAIN, _TEST)]
    images = [np.concatenate([pixels for pixels, _ in group]) for group in (parts[:-1], parts[-1:])]
    labels = [np.concatenate([label for _, label in group]) for group in (parts[:-1], parts[-1:])]
    for array in (*images, *labels):
        array.setflags(write=False)
    return ImageClassification(images[0], labels[0], images[1], labels[1], CIFAR10_CLASSES, _TITLE)


def _images_in(content: bytes, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 [N, 32, 32, 3] and labels uint8 [N] of one file."""
    size = 1 + prod(_SHAPE)
    if not content or len(content) % size:
        raise DataError(
            f"a file of {_TITLE} has {size} bytes an image, {where} has {plural(len(content), 'byte')}; fetch it again"
        )
    rows = np.frombuffer(content, np.uint8).reshape(-1, size)
    if rows[:, 0].max() >= len(CIFAR10_CLASSES):
        raise DataError(f"labels of {_TITLE} are below 10, {where} has {rows[:, 0].max()}; fetch it again")
    return rows[:, 1:].reshape(-1, *_SHAPE).transpose(0, 2, 3, 1), rows[:, 0]


def _unpacked(packed: bytes, where: str) -> ImageClassification:
    """The dataset in the archive. Nothing is extracted to the disk."""
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
            return parse_cifar(lambda name: _member(archive, f"{_UNPACKED}/{name}", where), where)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise DataError(f"{where} is truncated or no archive ({error}); remove it and fetch it again") from error


def _member(archive: tarfile.TarFile, name: str, where: str) -> bytes:
    try:
        file = archive.extractfile(name)
    except KeyError:
        file = None
    if file is None:
        raise DataError(f"the archive {where} must hold the file {name}, it does not; remove it and fetch it again")
    return file.read()


def _fetch(directory: Path, locations: CifarLocations, progress: Progress, reasons: list[str]) -> ImageClassification:
    """The dataset from the network, which is then in the cache; raises a single error that lists all attempts."""
    check_writable(directory)
    for url in locations.urls:
        try:
            packed = download(locations.archive, url, progress)
            found = _counted(_unpacked(packed, url + locations.archive.packed_name), locations, url)
        except DataError as error:
            reasons.append(error.message)
            continue
        write_whole(directory / "cifar-10.npz", npz_bytes(found))
        return found
    raise DataError(
        f"{_TITLE} is neither on this machine nor can it be fetched ({'; '.join(reasons)}): put "
        f"{locations.archive.packed_name}, its directory {_UNPACKED} or cifar-10.npz into {directory}, or into a "
        f"directory {_FOLDER} in one that ADJOINT_DATA names, or connect to the network so that it comes from "
        f"{' or '.join(locations.urls)}"
    )
