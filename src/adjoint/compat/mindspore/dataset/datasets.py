"""`mindspore.dataset.engine`: adjoint's datasets, shuffled by default, with iterators that make tensors."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adjoint import data as native
from adjoint.compat.mindspore.common.tensor import Tensor
from adjoint.compat.uncovered import uncovered
from adjoint.data.datasets.node import Node
from adjoint.data.idx import read_idx
from adjoint.errors import DataError, InvalidValueError

__all__ = [
    "CSVDataset",
    "Dataset",
    "GeneratorDataset",
    "ImageFolderDataset",
    "MnistDataset",
    "NumpySlicesDataset",
    "TextFileDataset",
]


class Dataset(native.Dataset):
    """An `adjoint.data.Dataset` whose iterators make tensors unless they are asked for arrays."""

    def _with(self, node: Node) -> "Dataset":
        return Dataset(node, self._seed)

    def create_tuple_iterator(
        self, columns: str | Sequence[str] | None = None, num_epochs: int = -1, output_numpy: bool = False,
        do_copy: bool = True,  # noqa: ARG002
    ) -> Any:  # fmt: skip
        """An iterator over tuples of tensors, each loop over which is the next epoch."""
        found = native.Dataset.create_tuple_iterator(self, columns, num_epochs)
        return found if output_numpy else _Converted(found, lambda row: tuple(map(_tensor, row)))

    def create_dict_iterator(
        self, num_epochs: int = -1, output_numpy: bool = False, do_copy: bool = True  # noqa: ARG002
    ) -> Any:  # fmt: skip
        """An iterator over dicts of tensors, each loop over which is the next epoch."""
        found = native.Dataset.create_dict_iterator(self, num_epochs)
        return found if output_numpy else _Converted(found, lambda row: {name: _tensor(x) for name, x in row.items()})

    def get_dataset_size(self) -> int:
        """The number of elements of an epoch."""
        return len(self)

    def get_col_names(self) -> list[str]:
        """The names of the columns."""
        return list(self._node.columns)


class _Converted:
    """An iterator whose elements are converted."""

    def __init__(self, found: Any, convert: Callable[[Any], Any]) -> None:
        self._found, self._convert = found, convert

    def __iter__(self) -> Iterator[Any]:
        return map(self._convert, iter(self._found))

    def __next__(self) -> Any:
        return self._convert(next(self._found))


def _tensor(array: np.ndarray) -> Any:
    return array if array.dtype.kind in "OUS" else Tensor(array)


def _shuffled(shuffle: bool | None, sampler: Any, indexed: bool = True) -> bool | None:
    """MindSpore shuffles what has random access unless it is told otherwise."""
    return True if shuffle is None and sampler is None and indexed else shuffle


class GeneratorDataset(Dataset):
    """``GeneratorDataset(source, column_names)``: shuffled if the source has random access."""

    def __init__(
        self, source: Any, column_names: Any = None, column_types: Any = None, schema: Any = None,
        num_samples: int | None = None, num_parallel_workers: int = 1, shuffle: bool | None = None, sampler: Any = None,
        num_shards: int | None = None, shard_id: int | None = None, python_multiprocessing: bool = True,  # noqa: ARG002
        max_rowsize: Any = None,  # noqa: ARG002
    ) -> None:  # fmt: skip
        if schema is not None:
            raise InvalidValueError("GeneratorDataset: schema is not covered, got one; pass column_names")
        shuffle = _shuffled(shuffle, sampler, hasattr(source, "__getitem__"))
        made = native.GeneratorDataset(
            source,
            column_names,
            column_types,
            num_samples,
            num_parallel_workers,
            shuffle,
            sampler,
            num_shards,
            shard_id,
        )
        super().__init__(made._node)


class NumpySlicesDataset(Dataset):
    """``NumpySlicesDataset(data, column_names)``: shuffled unless `shuffle` is False."""

    def __init__(
        self, data: Any, column_names: Any = None, num_samples: int | None = None, num_parallel_workers: int = 1,  # noqa: ARG002
        shuffle: bool | None = None, sampler: Any = None, num_shards: int | None = None, shard_id: int | None = None,
    ) -> None:  # fmt: skip
        made = native.NumpySlicesDataset(
            data, column_names, num_samples, _shuffled(shuffle, sampler), sampler, num_shards, shard_id
        )
        super().__init__(made._node)


class MnistDataset(Dataset):
    """``MnistDataset(dataset_dir, usage="all")``: the columns image, uint8 [28, 28, 1], and label, uint32."""

    def __init__(
        self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: bool | None = None, sampler: Any = None,  # noqa: ARG002
        num_shards: int | None = None, shard_id: int | None = None, cache: Any = None,  # noqa: ARG002
    ) -> None:  # fmt: skip
        kinds = {"train": ["train"], "test": ["t10k"], "all": ["train", "t10k"], None: ["train", "t10k"]}
        if usage not in kinds:
            raise InvalidValueError(f"MnistDataset: usage must be 'train', 'test' or 'all', got {usage!r}")
        folder = Path(dataset_dir)
        present = [kind for kind in kinds[usage] if any(folder.glob(f"{kind}-images*idx3-ubyte*"))]
        if not present:
            raise DataError(
                f"MnistDataset: {folder} must have {kinds[usage][0]}-images-idx3-ubyte and its labels, got none; check "
                "the path"
            )
        images, labels = (
            np.concatenate([read_idx(next(folder.glob(f"{kind}-{what}*ubyte*"))) for kind in present])
            for what in ("images", "labels")
        )
        made = native.NumpySlicesDataset(
            (images[..., None], labels.astype(np.uint32)), ["image", "label"], num_samples, _shuffled(shuffle, sampler),
            sampler, num_shards, shard_id,
        )  # fmt: skip
        super().__init__(made._node)


def _files(name: str, source: Callable[..., Any]) -> Any:
    """A dataset of files, with the arguments of adjoint's by name."""

    def initialize(self: Any, *args: Any, shuffle: bool | None = None, sampler: Any = None, **options: Any) -> None:
        made = source(*args, shuffle=_shuffled(shuffle, sampler), sampler=sampler, **options)
        Dataset.__init__(self, made._node)

    body = {"__init__": initialize, "__doc__": f"`adjoint.data.{name}`, shuffled by default.", "__module__": __name__}
    return type(name, (Dataset,), body)


CSVDataset = _files("CSVDataset", native.CSVDataset)
ImageFolderDataset = _files("ImageFolderDataset", native.ImageFolderDataset)
TextFileDataset = _files("TextFileDataset", native.TextFileDataset)

__getattr__ = uncovered(__name__, {}, "adjoint.data")
