"""The files of a run: which is the newest whole one, which are kept, and who may write."""

import os
import subprocess
import sys

import pytest

from adjoint import nn
from adjoint.errors import AdjointWarning, CheckpointError, InvalidValueError
from adjoint.training.checkpoints import CheckpointDirectory, Snapshot, capture, write_snapshot


def save(directory, epoch, step, minutes=0.0):
    snapshot = capture(nn.Identity(), sequence=directory.next_sequence())
    path = directory.file(epoch, step)
    write_snapshot(path, Snapshot(snapshot.arrays, {**snapshot.manifest, "time": 60.0 * minutes}))
    return path


def names(directory):
    return [path.name.removesuffix(".safetensors") for path in directory.checkpoints()]


def test_the_newest_is_the_one_that_was_written_last(tmp_path):
    directory = CheckpointDirectory(tmp_path, "lin")
    assert directory.latest() is None
    save(directory, 10, 1)
    path = save(directory, 2, 1)
    (tmp_path / "lin-99_1_breakpoint.safetensors").touch()
    (tmp_path / "other-99_1.safetensors").touch()
    assert directory.latest() == path


def test_damaged_files_are_skipped_with_a_warning(tmp_path):
    directory = CheckpointDirectory(tmp_path, "lin")
    good, cut, flipped = (save(directory, 1, step) for step in (1, 2, 3))
    cut.write_bytes(cut.read_bytes()[:100])
    content = bytearray(flipped.read_bytes())
    content[-1] ^= 1
    flipped.write_bytes(content)
    with pytest.warns(AdjointWarning) as warnings:
        assert CheckpointDirectory(tmp_path, "lin").latest() == good
    assert [str(w.message).partition(" (")[0] for w in warnings] == [
        "checkpoints: lin-1_3.safetensors is skipped, because it is not whole",
        "checkpoints: lin-1_2.safetensors is skipped, because it is damaged or no checkpoint; remove it",
    ]


def test_the_newest_are_kept_and_the_best(tmp_path):
    directory = CheckpointDirectory(tmp_path, "lin", keep_checkpoint_max=2)
    best = save(directory, 1, 1)
    for step in (2, 3, 4):
        directory.written(save(directory, 1, step), keep=[best, None])
    assert names(directory) == ["lin-1_1", "lin-1_3", "lin-1_4"]


def test_of_older_files_one_is_kept_for_some_minutes(tmp_path):
    directory = CheckpointDirectory(tmp_path, keep_checkpoint_max=1, keep_checkpoint_per_n_minutes=10)
    for step in range(1, 8):
        directory.written(save(directory, 1, step, minutes=4 * step))  # 4, 8, ... 28
    assert names(directory) == ["CKP-1_1", "CKP-1_4", "CKP-1_7"]


def test_a_new_run_leaves_the_files_of_another_one_alone(tmp_path):
    first = CheckpointDirectory(tmp_path, "lin", keep_checkpoint_max=1)
    save(first, 1, 1)
    second = CheckpointDirectory(tmp_path, "lin", keep_checkpoint_max=1)
    second.continue_from(None)
    second.written(save(second, 1, 1))
    second.written(newest := save(second, 1, 2))
    assert names(second) == ["lin-1_1", "lin_1-1_2"]
    third = CheckpointDirectory(tmp_path, "lin")
    assert third.latest() == newest
    third.continue_from(newest)
    assert third.file(1, 3).name == "lin_1-1_3.safetensors"


@pytest.mark.skipif(sys.platform == "win32", reason="the other process uses a lock of POSIX")
def test_a_directory_belongs_to_one_run(tmp_path):
    place = tmp_path / "new" / "dir"
    with CheckpointDirectory(place):
        pass
    code = f"""if True:
        import fcntl, os, sys
        file = open({str(place / ".lock")!r}, "w")
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("process", os.getpid(), file=file, flush=True)
        print("locked", flush=True)
        sys.stdin.read()"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"locked\n"
        with pytest.raises(
            CheckpointError,
            match=rf"^checkpoints: a directory takes the checkpoints of one run at a time, and .*dir is in use by "
            rf"process {other.pid}; wait for it, or give this run another directory",
        ):
            CheckpointDirectory(place).lock()
        other.kill()
        other.wait()
    with CheckpointDirectory(place) as mine:
        mine.lock()
        assert f"process {os.getpid()} on " in (place / ".lock").read_text()
        with pytest.raises(CheckpointError, match=rf"in use by process {os.getpid()}, which is this one; wait"):
            CheckpointDirectory(place / ".." / "dir").lock()
    second = CheckpointDirectory(place)
    second.lock()
    second.unlock()
    second.unlock()


def test_temporary_files_of_killed_runs_are_removed(tmp_path):
    stale = tmp_path / f".lin-1_2.safetensors.{'0f' * 8}.part"
    other = tmp_path / ".mine.part"
    stale.touch()
    other.touch()
    with CheckpointDirectory(tmp_path):
        assert (stale.exists(), other.exists()) == (False, True)


def test_a_directory_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match=r"^checkpoints: .*a must be a directory that can be made, got Not a dir"):
        CheckpointDirectory(tmp_path / "file" / "a").lock()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep_checkpoint_max": 0}, "keep_checkpoint_max must be an integer of at least 1, got 0; None keeps all"),
        ({"keep_checkpoint_per_n_minutes": -1}, "keep_checkpoint_per_n_minutes must be above 0, got -1"),
        ({"prefix": "a/b"}, "the prefix must be a text that can begin the name of a file, got 'a/b'; pass such as"),
    ],
)
def test_settings_out_of_range_are_refused(options, message, tmp_path):
    with pytest.raises(InvalidValueError, match=f"^checkpoints: {message}"):
        CheckpointDirectory(tmp_path, **options)
