"""One process of benchmarks/data_loading.py: rows per second of the data loader of one library.

It is started with the Python of that library, from a folder in which the files are, and prints JSON.
"""

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

__all__ = ["main"]

#: Rows of the arrays, and values of a row.
_ROWS, _WIDTH = 60_000, 64


#: Rows of a batch of arrays and of one of files, and numbers of worker processes for files.
_SIZES, _FILES, _WORKERS = (1, 8, 64, 512), 64, (0, 1, 2)


class Files:
    """Images, one in each file, which are decoded and normalized in Python."""

    def __init__(self, folder: str) -> None:
        self.paths = sorted(entry.path for entry in os.scandir(folder))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        with open(self.paths[index], "rb") as file:
            image = np.frombuffer(file.read(), np.uint8)
        return (image.astype(np.float32) - np.float32(128)) / np.float32(64), index % 10


def _torch_loaders(name: str, arrays: Sequence[np.ndarray], files: Files) -> dict[str, Iterable[Any]]:
    """Loaders of PyTorch, or of adjoint, which has the same names."""
    if name == "torch":
        import torch  # noqa: PLC0415

        torch.set_num_threads(1)
        data, tensor = torch.utils.data, torch.from_numpy
    else:
        import adjoint.utils.data  # noqa: PLC0415

        data, tensor = adjoint.utils.data, np.asarray
    rows = data.TensorDataset(*map(tensor, arrays))
    return {f"arrays, {size} a batch": data.DataLoader(rows, size, shuffle=True) for size in _SIZES} | {
        f"files, {n} workers": data.DataLoader(files, _FILES, shuffle=True, num_workers=n) for n in _WORKERS
    }


def _tensorflow_loaders(arrays: Sequence[np.ndarray], files: Files) -> dict[str, Iterable[Any]]:
    """Pipelines of tf.data, which have threads in place of processes."""
    import tensorflow as tf  # noqa: PLC0415

    def decoded(path: Any, index: Any) -> Any:
        image = tf.cast(tf.io.decode_raw(tf.io.read_file(path), tf.uint8), tf.float32)
        return (image - 128.0) / 64.0, index % 10

    rows = tf.data.Dataset.from_tensor_slices(tuple(arrays)).shuffle(len(arrays[0]))
    paths = tf.data.Dataset.from_tensor_slices((files.paths, list(range(len(files))))).shuffle(len(files))
    found = {f"arrays, {size} a batch": rows.batch(size) for size in _SIZES}
    for n in _WORKERS:
        found[f"files, {n} workers"] = paths.map(decoded, num_parallel_calls=n or None).batch(_FILES)
    return {case: _Numpy(dataset) for case, dataset in found.items()}


class _Numpy:
    """Batches of a tf.data pipeline as arrays."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __iter__(self) -> Iterator[Any]:
        return iter(self.dataset.as_numpy_iterator())


class _Rows:
    """Rows of arrays, one by one."""

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        self.arrays = arrays

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return tuple(array[index] for array in self.arrays)


def _grain_loaders(arrays: Sequence[np.ndarray], files: Files) -> dict[str, Iterable[Any]]:
    """Pipelines of grain."""
    import grain  # noqa: PLC0415

    def loader(source: Any, size: int, workers: int) -> Iterable[Any]:
        dataset = grain.MapDataset.source(source).shuffle(seed=0).batch(size).to_iter_dataset()
        if not workers:
            return dataset
        return dataset.mp_prefetch(grain.multiprocessing.MultiprocessingOptions(num_workers=workers))

    return {f"arrays, {size} a batch": loader(_Rows(arrays), size, 0) for size in _SIZES} | {
        f"files, {n} workers": loader(files, _FILES, n) for n in _WORKERS
    }


def _rate(batches: Iterable[Sequence[Any]], seconds: float) -> float:
    """Rows per second until an epoch is over or `seconds` have passed, after the first batch."""
    rows = 0
    start = end = 0.0
    for batch in batches:
        if not start:
            start = time.perf_counter()
            continue
        rows += len(batch[0])
        end = time.perf_counter()
        if end - start > seconds:
            break
    return rows / (end - start)


def main() -> None:
    """Print the best rate of several rounds for each case: arguments are the library, folder, rounds and seconds."""
    name, folder, rounds, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    random = np.random.default_rng(0)
    arrays, files = (random.random((_ROWS, _WIDTH), np.float32), random.integers(0, 10, _ROWS)), Files(folder)
    if name == "tensorflow":
        loaders = _tensorflow_loaders(arrays, files)
    elif name == "grain":
        loaders = _grain_loaders(arrays, files)
    else:
        loaders = _torch_loaders(name, arrays, files)
    print(json.dumps({case: max(_rate(one, seconds) for _ in range(rounds)) for case, one in loaders.items()}))


if __name__ == "__main__":
    main()
