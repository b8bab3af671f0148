"""Datasets for the classification of images: the class that all of them have, and files of a user's own."""

import io
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from adjoint.data.idx import parse_idx, read_idx
from adjoint.data.retrieval import Locations
from adjoint.errors import DataError, listed, plural
from adjoint.lazy_dataclass import dataclass

__all__ = ["ImageClassification", "images_of_idx", "npz_bytes", "read_images"]

#: Names of the arrays in an .npz file: those of this class, and those of Keras's files.
_NPZ_NAMES = (
    ("train_images", "train_labels", "test_images", "test_labels"),
    ("x_train", "y_train", "x_test", "y_test"),
)

#: Names of the idx files in a directory. MNIST calls the test images after the first 10,000 of another collection.
_IDX_NAMES = (
    ("train-images", "idx3-ubyte", "idx4-ubyte"),
    ("train-labels", "idx1-ubyte"),
    ("t10k-images", "idx3-ubyte", "idx4-ubyte"),
    ("t10k-labels", "idx1-ubyte"),
)


@dataclass(frozen=True, slots=True, eq=False)
class ImageClassification:
    """Images of equal size in classes, for training and for testing.

    Parameters
    ----------
    train_images : numpy.ndarray
        uint8 [N, H, W], or [N, H, W, C] with channels.
    train_labels : numpy.ndarray
        Integers [N], from 0 to the number of classes - 1.
    test_images : numpy.ndarray
        uint8 [M, H, W] or [M, H, W, C].
    test_labels : numpy.ndarray
        Integers [M].
    classes : tuple of str, default ()
        Name of each label; without them, the labels' numbers.
    name : str, default "images"
        Name of the dataset.

    Raises
    ------
    DataError
        If the arrays do not fit together, or a label has no class.
    """

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
    classes: tuple[str, ...] = ()
    name: str = "images"

    def __post_init__(self) -> None:
        parts = (("train", self.train_images, self.train_labels), ("test", self.test_images, self.test_labels))
        for part, images, labels in parts:
            self._check_part(part, images, labels)
        if self.train_images.shape[1:] != self.test_images.shape[1:]:
            raise DataError(
                f"{self.name}: training and test images must have the same size, got {self.train_images.shape[1:]} and "
                f"{self.test_images.shape[1:]}; resize one"
            )
        most = int(max(self.train_labels.max(), self.test_labels.max()))
        if not self.classes:
            object.__setattr__(self, "classes", tuple(str(label) for label in range(most + 1)))
        elif most >= len(self.classes):
            raise DataError(
                f"{self.name}: labels must be below the number of classes, {len(self.classes)}, got {most}; name every "
                "class"
            )

    def _check_part(self, part: str, images: np.ndarray, labels: np.ndarray) -> None:
        if images.dtype != np.uint8 or images.ndim not in (3, 4):
            raise DataError(
                f"{self.name}: {part} images must be uint8 [N, H, W] or [N, H, W, C], got {images.dtype} "
                f"{list(images.shape)}; convert them"
            )
        if labels.dtype.kind not in "iu" or labels.shape != images.shape[:1] or not len(labels):
            raise DataError(
                f"{self.name}: {part} labels must be integers, one for each of {plural(len(images), 'image')}, got "
                f"{labels.dtype} {list(labels.shape)}; convert them"
            )
        if labels.min() < 0:
            raise DataError(f"{self.name}: labels are counted from 0, got {labels.min()}; add to them")

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Height, width and channels of an image; images without an axis of channels have one."""
        height, width, *channels = self.train_images.shape[1:]
        return height, width, channels[0] if channels else 1


def images_of_idx(contents: Mapping[str, bytes], locations: Locations, classes: tuple[str, ...]) -> ImageClassification:
    """The dataset of the contents of four idx files, in the order of `locations.files`."""
    train_images, train_labels, test_images, test_labels = (
        parse_idx(contents[file.name], file.name) for file in locations.files
    )
    return ImageClassification(train_images, train_labels, test_images, test_labels, classes, locations.title)


def read_images(
    path: str | os.PathLike[str], classes: tuple[str, ...] = (), name: str | None = None
) -> ImageClassification:
    """Read a dataset of one's own.

    Parameters
    ----------
    path : path
        Either an ``.npz`` file with the arrays ``train_images``, ``train_labels``, ``test_images`` and ``test_labels``
        (or ``x_train``, ``y_train``, ``x_test`` and ``y_test``) and optionally ``classes``; or a directory with idx
        files named as MNIST's: ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte``, ``t10k-images-idx3-ubyte`` and
        ``t10k-labels-idx1-ubyte``, or ``idx4`` for images with channels, each also with ``.gz``.
    classes : tuple of str, optional
        Name of each label; default: those in the file, otherwise the labels' numbers.
    name : str, optional
        Name of the dataset; default: that of the file or directory.

    Raises
    ------
    DataError
        If a file is missing, truncated or malformed, or its arrays do not fit together. Nothing in it is executed.
    """
    path = Path(path)
    title = name or path.stem
    if path.is_dir():
        train_images, train_labels, test_images, test_labels = (_idx_in(path, *names) for names in _IDX_NAMES)
        return ImageClassification(train_images, train_labels, test_images, test_labels, classes, title)
    if path.suffix != ".npz":
        raise DataError(
            f"image datasets are an .npz file or a directory with idx files, got {path}; convert it with numpy.savez"
            if path.exists()
            else f"there is no file or directory {path}; check the path"
        )
    arrays = _read_npz(path)
    for names in _NPZ_NAMES:
        if all(each in arrays for each in names):
            break
    else:
        raise DataError(
            f"{path} must have the arrays {', '.join(_NPZ_NAMES[0])}, got {listed(list(arrays)) or 'none'}; save it "
            "again with numpy.savez"
        )
    images, labels, more_images, more_labels = (arrays[each] for each in names)
    found = tuple(str(each) for each in arrays["classes"].ravel()) if "classes" in arrays else ()
    return ImageClassification(images, _flat(labels), more_images, _flat(more_labels), classes or found, title)


def npz_bytes(data: ImageClassification) -> bytes:
    """The content of an uncompressed ``.npz`` file that `read_images` reads; its checksums are verified then."""
    buffer = io.BytesIO()
    np.savez(
        buffer,
        train_images=data.train_images,
        train_labels=data.train_labels,
        test_images=data.test_images,
        test_labels=data.test_labels,
        classes=np.array(data.classes),
    )
    return buffer.getvalue()


def _flat(labels: np.ndarray) -> np.ndarray:
    """Labels [N, 1], as in Keras's files, as [N]."""
    return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels


def _idx_in(directory: Path, stem: str, *kinds: str) -> np.ndarray:
    names = [f"{stem}-{kind}{packed}" for kind in kinds for packed in (".gz", "")]
    for each in names:
        if (directory / each).is_file():
            return read_idx(directory / each)
    raise DataError(
        f"a directory of images has four idx files named as MNIST's, {directory} lacks {stem}-{kinds[0]}; add it"
    )


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file, read-only. Arrays of Python objects, which would be unpickled, are refused."""
    if not path.is_file():
        raise DataError(f"there is no file {path}; check the path")
    try:
        with path.open("rb") as stream:
            file = np.load(stream, allow_pickle=False)
            if isinstance(file, np.ndarray):
                raise ValueError("it is a single array")
            with file:
                found = {each: np.asarray(file[each]) for each in file.files}
    except Exception as error:  # NumPy, zipfile and tokenize raise a dozen types for malformed files
        reason = " ".join((str(error) or type(error).__name__).split()).rstrip(".")
        raise DataError(
            f"{path} is truncated or no .npz file of numbers ({reason}); save it again with numpy.savez"
        ) from error
    for array in found.values():
        array.setflags(write=False)
    return found
