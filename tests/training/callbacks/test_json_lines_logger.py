"""`JSONLinesLogger`, and what files of rows are after a kill and a resume."""

import json
import math

import numpy as np
import pytest

from adjoint.errors import AdjointWarning, InvalidValueError
from adjoint.training.callbacks import JSONLinesLogger
from tests.training.callbacks.running import FakeRun

LOSSES = [[4.0, 3.0, 2.0], [1.0, 1.0, 0.5]]
RESULTS = [{"accuracy": 0.5, "confusion": np.array([[3, 1], [0, 4]])}, {"accuracy": np.float32(math.inf)}]


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_line_is_an_object(tmp_path):
    path = tmp_path / "runs" / "run.jsonl"
    FakeRun(LOSSES, RESULTS).train(JSONLinesLogger(path, every=2))
    found = rows(path)
    assert [row["step"] for row in found] == [2, 3, 4, 6, 6]
    assert found[0] == {"step": 2, "epoch": 1, "seconds": 0.25, "loss": 3.0}
    assert found[1]["valid_confusion"] == [[3, 1], [0, 4]]
    assert found[-1]["valid_accuracy"] is None  # JSON has no infinity


def test_a_row_is_in_the_file_before_training_goes_on(tmp_path):
    path = tmp_path / "run.jsonl"
    FakeRun(LOSSES).train(JSONLinesLogger(path, every=1), until=2)  # killed here
    assert [row["loss"] for row in rows(path)] == [4.0, 3.0]


@pytest.mark.parametrize("killed", range(7))
@pytest.mark.parametrize("checkpoint", range(7))
def test_a_resumed_file_is_that_of_an_undisturbed_run(checkpoint, killed, tmp_path):
    if killed < checkpoint:
        return
    whole, path = tmp_path / "whole.jsonl", tmp_path / "run.jsonl"
    FakeRun(LOSSES, RESULTS).train(JSONLinesLogger(whole, every=1))
    FakeRun(LOSSES, RESULTS).train(JSONLinesLogger(path, every=1), until=killed)
    with path.open("a") as file:
        file.write('{"step": 5, "ep')  # the line that was being written
    run = FakeRun(LOSSES, RESULTS).resume(checkpoint)
    run.train(JSONLinesLogger(path, every=1))
    found, expected = rows(path), rows(whole)
    for row in (*found, *expected):
        row.pop("train_loss", None)  # a mean of those since the resume
    assert found == expected


def test_an_epoch_row_is_not_written_twice(tmp_path):
    path = tmp_path / "run.jsonl"
    FakeRun(LOSSES, RESULTS).train(JSONLinesLogger(path, every=1), until=6)
    before = rows(path)
    run = FakeRun(LOSSES, RESULTS)
    run.resumed, run.step, run.step_in_epoch = True, 3, 3  # a checkpoint before evaluation, which is done again
    logger = JSONLinesLogger(path, every=1)
    run.train(logger, until=6)
    assert rows(path) == before


def test_a_new_run_begins_the_file_anew(tmp_path):
    path = tmp_path / "run.jsonl"
    for _ in range(2):
        FakeRun(LOSSES).train(JSONLinesLogger(path, every=None))
    assert len(rows(path)) == 2


@pytest.mark.parametrize(("text", "why"), [("a,b\n", "Expecting value"), ('{"loss": 1}\n', "'step'"), ("[]\n", "list")])
def test_a_foreign_file_is_not_continued(text, why, tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text(text)
    with pytest.raises(InvalidValueError) as error:
        FakeRun(LOSSES).resume(2).train(JSONLinesLogger(path))
    begin = f"JSONLinesLogger: a resumed run continues its file, got {path}, which this logger has not written ("
    assert error.value.message.startswith(begin + why)
    assert error.value.message.endswith("); pass another path")
    assert path.read_text() == text


def test_a_path_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "run.jsonl"
    with pytest.raises(InvalidValueError) as error:
        FakeRun(LOSSES).train(JSONLinesLogger(path))
    assert error.value.message == (
        f"JSONLinesLogger: {path} cannot be read and written (File exists); pass another path, or make room"
    )


class FullDisk:
    """A file on a disk that takes three bytes more, until there is room again."""

    def __init__(self, file):
        self.file, self.full = file, True

    def __getattr__(self, name):
        return getattr(self.file, name)

    def write(self, data):
        return self.file.write(data[:3] if self.full else data)


def test_a_full_disk_does_not_end_the_run(tmp_path):
    def step():
        if run.step == 1:
            logger._file = FullDisk(logger._file)
        elif run.step == 4:
            logger._file.full = False

    logger, run = JSONLinesLogger(tmp_path / "run.jsonl", every=1), FakeRun(LOSSES)
    with pytest.warns(AdjointWarning) as caught:
        run.train(logger, step=step)
    assert [str(one.message) for one in caught] == [
        f"JSONLinesLogger: rows are lost, because {logger.path} cannot be written (No space left on device); make room"
    ]
    assert [row["step"] for row in rows(logger.path)] == [1, 5, 6, 6]


def test_an_exception_loses_no_row(tmp_path):
    def step():
        if run.step == 2:
            raise KeyError

    logger, run = JSONLinesLogger(tmp_path / "run.jsonl", every=1), FakeRun(LOSSES, late=True)
    logger.on_exception(run, ValueError())  # before anything was opened
    with pytest.raises(KeyError):
        run.train(logger, step=step)
    assert [row["loss"] for row in rows(logger.path)] == [4.0, 3.0]
