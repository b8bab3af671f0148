"""``adjoint predict``: what a trained model says about images."""

from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from adjoint.cli.experiment import Experiment, as_planes, trained_experiment
from adjoint.data.idx import read_idx
from adjoint.errors import DataError

__all__ = ["command"]

#: Images that are classified at a time.
_ROWS = 256


@click.command("predict")
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Most images of a file.")
def command(checkpoint: Path, files: tuple[Path, ...], limit: int) -> int:
    """Classify the images in FILES with CHECKPOINT, a file of ``adjoint train`` or a folder of them.

    A file is .npy, uint8 [H, W], [N, H, W] or [N, H, W, C], or idx.
    """
    experiment = trained_experiment(checkpoint)
    if experiment.data.kind != "images":
        raise click.UsageError("predict takes a checkpoint of a model for images; use generate for texts")
    table = Table("image", "class", "probability")
    for file in files:
        images = _images(file, experiment)[:limit]
        for start in range(0, len(images), _ROWS):
            probabilities = _probabilities(experiment, images[start : start + _ROWS])
            for number, row in enumerate(probabilities, start):
                best = int(row.argmax())
                name = f"{file}" if len(images) == 1 else f"{file}[{number}]"
                table.add_row(name, experiment.data.classes[best], f"{row[best]:.1%}")
    Console().print(table)
    return 0


def _probabilities(experiment: Experiment, images: np.ndarray) -> np.ndarray:
    planes = np.multiply(as_planes(images), np.float32(1 / 255), dtype=np.float32)
    logits = experiment.model.predict(planes).numpy().astype(np.float64)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    result: np.ndarray = weights / weights.sum(axis=1, keepdims=True)
    return result


def _images(file: Path, experiment: Experiment) -> np.ndarray:
    """The images of a file, uint8 [N, H, W] or [N, H, W, C]."""
    if not file.is_file():
        raise click.UsageError(f"there is no file {file}; check the path")
    if file.suffix == ".npy":
        try:
            images: np.ndarray = np.load(file, allow_pickle=False)
        except (ValueError, OSError, EOFError) as error:
            raise DataError(
                f"{file} must be an array of NumPy, got a file that is none ({error}); save it anew"
            ) from error
    else:
        images = read_idx(file)
    size, channels = experiment.data.sizes["size"], experiment.data.sizes["channels"]
    if images.ndim == 2:
        images = images[None]
    expected = {(size, size)} if channels == 1 else set()
    if images.dtype != np.uint8 or images.shape[1:] not in expected | {(size, size, channels)}:
        raise DataError(
            f"{file}: images must be uint8 [N, {size}, {size}, {channels}], as those of {experiment.data.name}, got "
            f"{images.dtype} {list(images.shape)}; convert them"
        )
    return images
