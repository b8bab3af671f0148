"""Lines of text files."""

import mmap
from bisect import bisect_right
from itertools import accumulate
from pathlib import Path

import numpy as np

from adjoint.data.datasets.dataset import Dataset
from adjoint.data.samplers import as_sampler
from adjoint.data.sources.files import Paths, paths_of, readable
from adjoint.data.sources.tables import IndexedSource
from adjoint.errors import DataError

__all__ = ["TextFileDataset"]

_NAME = "TextFileDataset"


class TextFileDataset(Dataset):
    """The lines of text files in UTF-8, without their ends, in a column ``text``.

    Files are mapped into memory, and a line is decoded when it is asked for.

    Parameters
    ----------
    dataset_files : path or sequence of path
        The files, in order.
    num_samples : int, optional
        At most how many lines; default: all.
    shuffle : bool, default False
        Whether the order is random, another one in each epoch.
    sampler : Sampler or collection of int, optional
        The order, in place of `shuffle`, `num_samples` and `num_shards`.
    num_shards, shard_id : int, optional
        Keep every `num_shards`-th line from the one with the number `shard_id` on (`DistributedSampler`).

    Raises
    ------
    DataError
        If a file does not exist or, during iteration, a line is not UTF-8.
    """

    def __init__(
        self,
        dataset_files: Paths,
        num_samples: int | None = None,
        shuffle: bool | None = None,
        sampler: object = None,
        num_shards: int | None = None,
        shard_id: int | None = None,
    ) -> None:
        lines = _Lines(paths_of(_NAME, dataset_files))
        picked = as_sampler(_NAME, shuffle, sampler, num_samples, num_shards, shard_id)
        super().__init__(IndexedSource(lines, ["text"], lines.count, picked))


class _Lines:
    """Lines of several files by number."""

    def __init__(self, paths: list[Path]) -> None:
        self._files = [_File(path) for path in paths]
        self._ends = list(accumulate(len(file.starts) - 1 for file in self._files))
        self.count = self._ends[-1]

    def __call__(self, index: int) -> tuple[str]:
        number = bisect_right(self._ends, index)
        return (self._files[number].line(index - (self._ends[number - 1] if number else 0)),)


class _File:
    """A file in memory, or mapped, and where its lines begin."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with readable(_NAME, path), path.open("rb") as file:
            empty = path.stat().st_size == 0
            self._content: mmap.mmap | bytes = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        ends = np.flatnonzero(np.frombuffer(self._content, np.uint8) == ord("\n")) + 1
        last = [] if empty or (len(ends) and ends[-1] == len(self._content)) else [len(self._content)]
        self.starts = np.concatenate([[0], ends, last]).astype(np.int64)

    def __reduce__(self) -> tuple[type, tuple[Path]]:
        return _File, (self._path,)  # another process maps the file itself

    def line(self, number: int) -> str:
        begin, end = int(self.starts[number]), int(self.starts[number + 1])
        try:
            return self._content[begin:end].decode().rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{_NAME}: files must be UTF-8, line {number + 1} of {str(self._path)!r} has the byte "
                f"{error.object[error.start]:#04x}; convert the file"
            ) from error
