"""Images in folders, one folder per class."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from adjoint.data.checking import require_count, require_flag
from adjoint.data.datasets.dataset import Dataset
from adjoint.data.samplers import as_sampler
from adjoint.data.sources.files import readable
from adjoint.data.sources.image_files import SUFFIXES, read_image
from adjoint.data.sources.tables import IndexedSource
from adjoint.errors import DataError, listed

__all__ = ["ImageFolderDataset"]

_NAME = "ImageFolderDataset"


class ImageFolderDataset(Dataset):
    """Images in a folder with one folder per class, in columns ``image`` and ``label``.

    Images are uint8 [H, W, 3], labels int64. PPM, PGM and NumPy files are read by adjoint; other formats, such as PNG
    and JPEG, by Pillow, the extra ``images``. Arrays in NumPy files remain as they are.

    Parameters
    ----------
    dataset_dir : path
        The folder. Files in folders within those of the classes count, too.
    num_samples : int, optional
        At most how many images; default: all.
    num_parallel_workers : int, default 1
        How many threads read images.
    shuffle : bool, default False
        Whether the order is random, another one in each epoch. Otherwise it is that of the paths.
    sampler : Sampler or collection of int, optional
        The order, in place of `shuffle`, `num_samples` and `num_shards`.
    extensions : sequence of str, optional
        Suffixes of the files to read; default: those of PPM, PGM, NumPy, PNG, JPEG, BMP, GIF, TIFF and WebP.
    class_indexing : dict, optional
        The label of each folder; folders that it does not name are left out. Default: numbers in the order of the
        names.
    decode : bool, default True
        Whether images are decoded. Otherwise they are the bytes of the files, uint8 [n].
    num_shards, shard_id : int, optional
        Keep every `num_shards`-th image from the one with the number `shard_id` on (`DistributedSampler`).

    Attributes
    ----------
    class_indexing : dict
        The label of each folder.

    Raises
    ------
    DataError
        If there is no such folder or no image, or during iteration if a file is malformed.
    """

    def __init__(
        self,
        dataset_dir: str | os.PathLike[str],
        num_samples: int | None = None,
        num_parallel_workers: int = 1,
        shuffle: bool | None = None,
        sampler: object = None,
        extensions: Sequence[str] | None = None,
        class_indexing: Mapping[str, int] | None = None,
        decode: bool = True,
        num_shards: int | None = None,
        shard_id: int | None = None,
    ) -> None:
        folder = Path(dataset_dir)
        if not folder.is_dir():
            raise DataError(f"{_NAME}: there is no folder {str(folder)!r}; correct the path")
        there = sorted(part.name for part in folder.iterdir() if part.is_dir())
        numbered = {name: number for number, name in enumerate(there)} if class_indexing is None else class_indexing
        for name in numbered:
            if name not in there:
                raise DataError(f"{_NAME}: there is no folder of class {name!r}, only {listed(there, 12)}; correct it")
        suffixes = tuple(suffix.lower() for suffix in (SUFFIXES if extensions is None else extensions))
        files = [(path, label) for name, label in numbered.items() for path in _images(folder / name, suffixes)]
        if not files:
            raise DataError(
                f"{_NAME}: {str(folder)!r} must have folders with images ({listed(suffixes, 12)}), got none; put the "
                "images of each class into a folder"
            )
        self.class_indexing = dict(numbered)
        read = _Read(files, require_flag(_NAME, "decode", decode))
        picked = as_sampler(_NAME, shuffle, sampler, num_samples, num_shards, shard_id)
        workers = require_count(_NAME, "num_parallel_workers", num_parallel_workers)
        super().__init__(IndexedSource(read, ["image", "label"], len(files), picked, workers))


def _images(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in suffixes and path.is_file())


class _Read:
    """Reads an image by index."""

    def __init__(self, files: Sequence[tuple[Path, int]], decode: bool) -> None:
        self._files, self._decode = files, decode

    def __call__(self, index: int) -> tuple[np.ndarray, np.int64]:
        path, label = self._files[index]
        if self._decode:
            return read_image(_NAME, path), np.int64(label)
        with readable(_NAME, path):
            return np.frombuffer(path.read_bytes(), np.uint8), np.int64(label)
