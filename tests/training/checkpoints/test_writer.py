"""Writing while training goes on: what is written, what is given up, and what a full disk does."""

import errno
import threading
import time

import pytest

from adjoint import nn
from adjoint.errors import AdjointWarning, CheckpointError
from adjoint.training.checkpoints import CheckpointDirectory, CheckpointWriter, capture, read_snapshot, writer


@pytest.fixture
def snapshot():
    return capture(nn.Linear(1, 1))


@pytest.fixture
def gate(monkeypatch):
    """Writing begins only when the event is set."""
    event, write = threading.Event(), writer.write_snapshot

    def wait(path, given):
        assert event.wait(60)
        write(path, given)

    monkeypatch.setattr(writer, "write_snapshot", wait)
    return event


def test_the_caller_does_not_wait_and_the_newest_are_written(tmp_path, snapshot, gate):
    written = []
    one = CheckpointWriter(2, lambda path: written.append(path.name))
    for name in "abcd":
        one.submit(tmp_path / name, capture(nn.Linear(1, 1)))
    one.submit(tmp_path / "e", snapshot)
    assert list(tmp_path.iterdir()) == []
    gate.set()
    one.wait()
    assert written[-2:] == ["d", "e"]
    assert len(written) <= 3  # the thread may have taken one before the others came
    assert read_snapshot(tmp_path / "e").manifest == snapshot.manifest
    assert one.spare() is snapshot
    assert one.spare() is None


def test_the_best_is_not_given_up(tmp_path, gate):
    one = CheckpointWriter(1)
    for name in "abcdefg":
        one.submit(tmp_path / name, capture(nn.Linear(1, 1)), keep=name in "cd")
    gate.set()
    one.wait()
    # The thread may have taken one before the others came.
    names = {path.name for path in tmp_path.iterdir()}
    assert names >= {"d", "g"}
    assert len(names) <= 3


def test_large_snapshots_do_not_pile_up(tmp_path, gate, monkeypatch):
    monkeypatch.setattr(writer, "_MOST_WAITING", 10)
    one = CheckpointWriter(None)
    for name in "abcd":
        one.submit(tmp_path / name, capture(nn.Linear(1, 1)))
    gate.set()
    one.wait()
    names = {path.name for path in tmp_path.iterdir()}
    assert "d" in names
    assert len(names) <= 2  # the thread may have taken one before the others came


def test_without_a_thread_it_is_written_at_once(tmp_path, snapshot):
    CheckpointWriter(asynchronous=False).submit(tmp_path / "file", snapshot)
    assert read_snapshot(tmp_path / "file").manifest == snapshot.manifest


def test_a_failure_is_a_warning_and_one_of_the_last_an_error(tmp_path, snapshot):
    one = CheckpointWriter(asynchronous=False)
    with pytest.warns(
        AdjointWarning,
        match=r"^write_snapshot: the directory .*none does not exist; create it first; training goes on, and the last "
        r"good checkpoint is kept$",
    ):
        one.submit(tmp_path / "none" / "a", snapshot)
    one.submit(tmp_path / "none" / "b", snapshot)  # warns once
    with pytest.raises(CheckpointError, match=r"^write_snapshot: the directory .*none does not exist; create it first"):
        one.wait()
    one.wait()
    one.submit(tmp_path / "c", snapshot)
    one.wait()
    with pytest.warns(AdjointWarning, match="training goes on"):
        one.submit(tmp_path / "none" / "d", snapshot)


def test_a_failure_before_the_last_does_not_end_the_run(tmp_path, snapshot, gate):
    gate.set()
    one = CheckpointWriter(None)
    one.submit(tmp_path / "none" / "a", snapshot)
    while one._thread is not None:
        time.sleep(0.001)
    with pytest.warns(AdjointWarning, match="does not exist; create it first; training goes on"):
        one.submit(tmp_path / "b", snapshot)
    one.wait()
    assert (tmp_path / "b").exists()


def test_a_full_disk_loses_neither_the_run_nor_the_last_good_checkpoint(tmp_path, snapshot, monkeypatch):
    directory = CheckpointDirectory(tmp_path)
    one = CheckpointWriter(None, directory.written)
    one.submit(directory.file(1, 1), snapshot)
    one.wait()

    def full(_file):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("adjoint.paths.os.fsync", full)
        one.submit(directory.file(1, 2), snapshot)
        with pytest.raises(
            CheckpointError,
            match=r"^write_snapshot: .*CKP-1_2.safetensors cannot be written \(No space left on device\), and an older "
            "file is unchanged; free space or choose another place",
        ):
            one.wait()
    assert directory.latest() == directory.file(1, 1)
    one.submit(directory.file(1, 3), capture(nn.Linear(1, 1), sequence=5))
    one.wait()
    assert directory.latest() == directory.file(1, 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["CKP-1_1.safetensors", "CKP-1_3.safetensors"]
