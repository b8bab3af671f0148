"""`CSVLogger`: a table that csv reads, also after a resume."""

import csv

import numpy as np
import pytest

from adjoint.errors import InvalidValueError
from adjoint.training.callbacks import CSVLogger
from tests.training.callbacks.running import FakeRun

LOSSES = [[4.0, 3.0], [1.0, 0.5]]
RESULTS = [{'a "b", c': 0.5, "confusion": np.eye(2)}, {'a "b", c': 0.75}]


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_table_has_a_row_for_each_step_and_epoch(tmp_path):
    path = tmp_path / "run.csv"
    FakeRun(LOSSES, RESULTS).train(CSVLogger(path, every=2))
    rows = table(path)
    assert [(row["step"], row["loss"], row["train_loss"], row['valid_a "b", c']) for row in rows] == [
        ("2", "3.0", "", ""),
        ("2", "", "3.5", "0.5"),
        ("4", "0.5", "", ""),
        ("4", "", "0.75", "0.75"),
    ]
    assert list(rows[0])[:6] == ["step", "epoch", "learning_rate", "seconds", "loss", "train_loss"]
    assert len(rows[0]) == 7  # arrays are left out


def test_the_names_of_columns_are_written_first(tmp_path):
    path = tmp_path / "run.csv"
    FakeRun(LOSSES).train(CSVLogger(path), until=0)
    assert path.read_text() == "step,epoch,learning_rate,seconds,loss,train_loss\n"


@pytest.mark.parametrize("checkpoint", [0, 1, 2, 3])
def test_a_resumed_table_is_that_of_an_undisturbed_run(checkpoint, tmp_path):
    whole, path = tmp_path / "whole.csv", tmp_path / "run.csv"
    FakeRun(LOSSES, RESULTS).train(CSVLogger(whole, every=1))
    FakeRun(LOSSES, RESULTS).train(CSVLogger(path, every=1), until=3)
    with path.open("a") as file:
        file.write("3,2,,0.")
    FakeRun(LOSSES, RESULTS).resume(checkpoint).train(CSVLogger(path, every=1))
    keys = ("step", "epoch", "seconds", "loss", 'valid_a "b", c')
    assert [[row[key] for key in keys] for row in table(path)] == [[row[key] for key in keys] for row in table(whole)]


def test_an_empty_file_is_continued(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text("")
    FakeRun(LOSSES).resume(2).train(CSVLogger(path, every=None))
    assert [row["step"] for row in table(path)] == ["4"]


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "step,epoch,learning_rate,seconds,loss,train_loss\n1,2\n"])
def test_a_foreign_file_is_not_continued(text, tmp_path):
    path = tmp_path / "run.csv"
    path.write_text(text)
    with pytest.raises(InvalidValueError, match="CSVLogger: a resumed run continues its file"):
        FakeRun(LOSSES).resume(2).train(CSVLogger(path))
    assert path.read_text() == text
