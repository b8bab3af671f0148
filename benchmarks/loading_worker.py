"""One process of benchmarks/data_loading.py: rows per second of the data loader of one library.

It is started with the Python of that library, from a folder in which the files are, and prints JSON.
"""

import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

__all__ = ["main"]

#: Rows of the arrays, and values of a row.
_ROWS, _WIDTH = 60_000, 64


def _library(name: str) -> Any:
    if name == "torch":
        import torch  # noqa: PLC0415

        torch.set_num_threads(1)
        return torch.utils.data, torch.from_numpy
    import adjoint.utils.data  # noqa: PLC0415

    return adjoint.utils.data, np.asarray


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
    data, tensor = _library(name)
    random = np.random.default_rng(0)
    images, labels = random.random((_ROWS, _WIDTH), np.float32), random.integers(0, 10, _ROWS)
    arrays, files = data.TensorDataset(tensor(images), tensor(labels)), Files(folder)
    loaders = {f"arrays, {size} a batch": data.DataLoader(arrays, size, shuffle=True) for size in (1, 8, 64, 512)} | {
        f"files, {workers} workers": data.DataLoader(files, 64, shuffle=True, num_workers=workers)
        for workers in (0, 1, 2)
    }
    print(json.dumps({case: max(_rate(one, seconds) for _ in range(rounds)) for case, one in loaders.items()}))


if __name__ == "__main__":
    main()
