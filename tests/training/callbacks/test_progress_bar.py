"""`ProgressBar`: a bar in a terminal, a line elsewhere."""

import io
import re

import pytest

from adjoint.errors import InvalidValueError
from adjoint.training.callbacks import ProgressBar
from tests.training.callbacks.running import FakeRun

LOSSES = [[4.0, 3.0], [1.0, 0.5]]
RESULTS = [{"accuracy": 0.5}, {"accuracy": 0.75}]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")


def test_a_file_gets_a_line_for_each_epoch():
    file = io.StringIO()
    FakeRun(LOSSES, RESULTS).train(ProgressBar(file=file))
    assert re.sub(r"in \d+\.\d s", "in T s", file.getvalue()) == (
        "epoch 1/2: loss 3.5000, valid accuracy 0.5000, 2 steps in T s, 10 steps/s, 40 rows/s\n"
        "epoch 2/2: loss 0.7500, valid accuracy 0.7500, 2 steps in T s, 10 steps/s, 40 rows/s\n"
    )


def plain(file):
    """What a terminal shows, without the codes that move the cursor."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue())


def test_a_terminal_gets_a_bar():
    file, run = Terminal(), FakeRun(LOSSES, RESULTS)
    run.train(ProgressBar(file=file))
    text = plain(file)
    assert re.search(r"epoch 1/2 [━╺╸]+ 1/2 loss 4\.0000, 10 steps/s, 0:00 left, 40 rows/s, [\d,]+ MB", text)
    assert "loss 3.0000, evaluating" in text
    assert re.search(
        r"epoch 2/2: loss 0\.7500, valid accuracy 0\.7500, 2 steps in \d+\.\d s, 10 steps/s, 40 rows/s\n", text
    )


def test_a_narrow_terminal_gets_what_there_is_room_for(monkeypatch):
    monkeypatch.setenv("COLUMNS", "64")
    file = Terminal()
    FakeRun(LOSSES, RESULTS).train(ProgressBar(file=file))
    assert re.search(r"1/2 loss 4\.0000, 10 steps/s *\r", plain(file))


def test_the_loss_may_be_late_and_the_length_unknown():
    file, run = Terminal(), FakeRun(LOSSES, late=True)
    run.steps_per_epoch = run.batch_size = None
    run.train(ProgressBar(file=file))
    assert "loss nan" not in plain(file)
    assert re.search(r"2/\? loss 4\.0000, 10 steps/s, [\d,]+ MB", plain(file))


def test_the_time_that_is_left_counts_all_epochs():
    file, run = Terminal(), FakeRun([[1.0, 1.0]] * 2)
    run.steps_per_second = 1 / 3600
    run.train(ProgressBar(file=file), until=1)
    run.tell("on_exception", KeyboardInterrupt())
    assert "3:00:00 left" in file.getvalue()


def test_an_interrupted_bar_shows_the_cursor_again():
    file, run = Terminal(), FakeRun(LOSSES)
    run.train(ProgressBar(file=file), until=1)
    run.tell("on_exception", KeyboardInterrupt())
    assert file.getvalue().rfind("\x1b[?25h") > file.getvalue().rfind("\x1b[?25l")


def test_the_interval_is_checked():
    with pytest.raises(InvalidValueError) as error:
        ProgressBar(seconds=0)
    assert error.value.message == "ProgressBar: seconds must be above 0, got 0"
