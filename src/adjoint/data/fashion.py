"""Fashion-MNIST: search, download and verification."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from adjoint.data.debian import files_of_package
from adjoint.data.files import DataFile, Progress, download, terminal_progress
from adjoint.data.idx import parse_idx
from adjoint.errors import DataError
from adjoint.paths import cache_dir, check_writable, write_whole

__all__ = ["FILES", "FashionMnist", "Sources", "fashion_mnist"]

#: The four files. The MD5 sums of the compressed files are from the table in the project's README; the SHA-256 sums of
#: the contents were computed from files with those MD5 sums.
FILES = (
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
)

CLASS_NAMES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sources:
    """Locations of a dataset's files; by default the public ones of Fashion-MNIST.

    Parameters
    ----------
    files : tuple of DataFile
        The files: training images and labels, test images and labels.
    system : Path
        The directory in which the system's package installs them.
    urls : tuple of str
        Base URLs for downloads, tried in order.
    package : str
        The Debian package that installs them in `system`.
    apt_get : str or None
        The program ``apt-get``; default: found in PATH.
    """

    files: tuple[DataFile, ...] = FILES
    system: Path = Path("/usr/share/datasets/fashion-mnist")
    urls: tuple[str, ...] = (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    )
    package: str = "dataset-fashion-mnist"
    apt_get: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class FashionMnist:
    """70,000 greyscale images of clothes, 28x28, in 10 classes (Xiao, Rasul and Vollgraf, arXiv:1708.07747).

    Parameters
    ----------
    train_images : numpy.ndarray
        uint8 [60000, 28, 28], read-only.
    train_labels : numpy.ndarray
        uint8 [60000], 0 to 9, read-only.
    test_images : numpy.ndarray
        uint8 [10000, 28, 28], read-only.
    test_labels : numpy.ndarray
        uint8 [10000], read-only.
    class_names : tuple of str
        Name of each label.
    """

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
    class_names: tuple[str, ...] = CLASS_NAMES


def fashion_mnist(
    cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    *,
    sources: Sources | None = None,
    environ: Mapping[str, str] | None = None,
) -> FashionMnist:
    """Load Fashion-MNIST from this machine or else from the network, verified by checksums.

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
    sources : Sources, optional
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
    environ = os.environ if environ is None else environ
    sources = sources or Sources()
    directory = Path(cache) if cache is not None else cache_dir(environ) / "fashion-mnist"
    chosen = _chosen(environ)
    contents: dict[str, bytes] = {}
    reasons: list[str] = []
    for file in sources.files:
        if (content := _find(file, directory, chosen, sources.system, reasons)) is not None:
            contents[file.name] = content
    missing = [file for file in sources.files if file.name not in contents]
    if missing:
        check_writable(directory)
        contents |= _fetch(missing, directory, sources, progress or terminal_progress, reasons)
    train_images, train_labels, test_images, test_labels = (
        parse_idx(contents[file.name], file.name) for file in sources.files
    )
    return FashionMnist(train_images, train_labels, test_images, test_labels)


def _chosen(environ: Mapping[str, str]) -> Path | None:
    """The directory given by ``ADJOINT_DATA``; raises if it does not exist, instead of silently downloading."""
    name = environ.get("ADJOINT_DATA")
    if not name:
        return None
    if not (directory := Path(name).expanduser()).is_dir():
        raise DataError(f"ADJOINT_DATA must name a directory, got {name}; correct it or unset it")
    return directory


def _find(file: DataFile, cache: Path, chosen: Path | None, system: Path, reasons: list[str]) -> bytes | None:
    """The content of the file on this machine, or None; problems with copies are appended to `reasons`."""
    if (path := file.find(cache)) is not None:
        try:
            return file.read(path)
        except DataError as error:
            # The cache is adjoint's own, so a corrupt file in it is deleted and downloaded again.
            reasons.append(error.message)
            path.unlink(missing_ok=True)
    for folder in (chosen, chosen / "fashion-mnist") if chosen is not None else ():
        if (path := file.find(folder)) is not None:
            # The user chose this directory, so a corrupt file in it is an error.
            return file.read(path)
    if (path := file.find(system)) is not None:
        try:
            return file.read(path)
        except DataError as error:
            reasons.append(error.message)
    return None


def _fetch(
    missing: list[DataFile], cache: Path, sources: Sources, progress: Progress, reasons: list[str]
) -> dict[str, bytes]:
    """Contents by name of files fetched into the cache; raises a single error that lists all attempts."""
    for fetch in (_download_all, _from_package):
        try:
            packed = fetch(missing, sources, progress)
            contents = {file.name: file.unpack(packed[file.name], file.packed_name) for file in missing}
        except DataError as error:
            reasons.append(error.message)
            continue
        for file in missing:
            write_whole(cache / file.packed_name, packed[file.name])
        return contents
    names = ", ".join(file.packed_name for file in missing)
    raise DataError(
        f"Fashion-MNIST is neither on this machine nor can it be fetched ({'; '.join(reasons)}): put {names} into "
        f"{cache}, or into a directory that ADJOINT_DATA names, or run 'apt-get install {sources.package}', or "
        f"connect to the network so that they come from {' or '.join(sources.urls)}"
    )


def _download_all(missing: list[DataFile], sources: Sources, progress: Progress) -> dict[str, bytes]:
    reasons = []
    for url in sources.urls:
        try:
            return {file.name: download(file, url, progress) for file in missing}
        except DataError as error:
            reasons.append(error.message)
    raise DataError("; ".join(reasons))


def _from_package(missing: list[DataFile], sources: Sources, progress: Progress) -> dict[str, bytes]:
    paths = {file.name: f"{str(sources.system).lstrip('/')}/{file.packed_name}" for file in missing}
    packed = files_of_package(sources.package, paths.values(), sources.apt_get)
    for file in missing:
        size = len(packed[paths[file.name]])
        progress(file.packed_name, size, size)
    return {name: packed[path] for name, path in paths.items()}
