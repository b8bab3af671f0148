"""What tests of the command line share."""

import numpy as np

from adjoint.cli import main
from adjoint.data import ImageClassification


def clothes(train=640, test=130, seed=0):
    """Images in 10 classes that a perceptron can tell apart: each class brightens its own columns."""
    rng = np.random.default_rng(seed)

    def part(count):
        labels = rng.integers(0, 10, count).astype(np.uint8)
        images = rng.integers(0, 100, (count, 28, 28), dtype=np.uint8)
        for image, label in zip(images, labels, strict=True):
            image[:, 2 * label : 2 * label + 3] += 120
        return images, labels

    return ImageClassification(*part(train), *part(test), classes=tuple("0123456789"))


def refusal(capsys, *words):
    """The one line that a refused command says."""
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert len(lines) == 1, captured.err
    assert lines[0].startswith("adjoint: ")
    return lines[0].removeprefix("adjoint: ")
