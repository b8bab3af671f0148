"""The datasets that can be named: in configurations and on the command line."""

import difflib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from adjoint.data.cifar import cifar10
from adjoint.data.corpus import TextCorpus, read_text, text_corpus
from adjoint.data.digits import mnist
from adjoint.data.fashion import fashion_mnist
from adjoint.data.image_sets import ImageClassification, read_images
from adjoint.errors import NameLookupError
from adjoint.lazy_dataclass import dataclass

__all__ = ["DATASETS", "BuiltinDataset", "load_dataset"]


@dataclass(frozen=True, slots=True)
class BuiltinDataset:
    """A dataset that has a name.

    Parameters
    ----------
    title : str
        What it is called in texts.
    load : callable
        Returns it; takes no arguments.
    image_shape : tuple of int, optional
        Height, width and channels of its images, which are in `classes` classes; None for a text.
    classes : int, default 0
        Number of classes.
    """

    title: str
    load: Callable[[], ImageClassification | TextCorpus]
    image_shape: tuple[int, int, int] | None = None
    classes: int = 0


def _jargon() -> TextCorpus:
    return text_corpus("jargon")


def _python_help() -> TextCorpus:
    return text_corpus("python-help")


#: The built-in datasets by name.
DATASETS: Mapping[str, BuiltinDataset] = MappingProxyType(
    {
        "mnist": BuiltinDataset("MNIST", mnist, (28, 28, 1), 10),
        "fashion-mnist": BuiltinDataset("Fashion-MNIST", fashion_mnist, (28, 28, 1), 10),
        "cifar-10": BuiltinDataset("CIFAR-10", cifar10, (32, 32, 3), 10),
        "jargon": BuiltinDataset("The Jargon File", _jargon),
        "python-help": BuiltinDataset("The help of Python", _python_help),
    }
)


def load_dataset(name: str) -> ImageClassification | TextCorpus:
    """Load a built-in dataset by its name, or a user's own by its path.

    Parameters
    ----------
    name : str
        A name in `DATASETS`; or the path of an ``.npz`` file or directory that `read_images` reads, or of a ``.txt``
        file.

    Raises
    ------
    NameLookupError
        If there is neither a dataset with this name nor a file or directory.
    DataError
        If the dataset cannot be loaded.
    """
    if name in DATASETS:
        return DATASETS[name].load()
    path = Path(name)
    if path.suffix == ".txt" and path.is_file():
        return read_text(path)
    if path.exists():
        return read_images(path)
    near = difflib.get_close_matches(name, DATASETS, 1)
    raise NameLookupError(
        f"there is neither a dataset nor a file {name!r}, the datasets are {', '.join(DATASETS)}; "
        + (f"did you mean {near[0]}?" if near else "name one, or give the path of an .npz file, a directory or a text")
    )
