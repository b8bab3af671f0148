"""Paths and open files of PyTorch's format, read and written."""

import io

import numpy as np
import pytest

from adjoint.errors import CheckpointError, TypeRuleError
from adjoint.interop import read_torch, write_torch

W = np.arange(3.0)


def test_paths_and_open_files(tmp_path):
    path = tmp_path / "weights.pt"
    write_torch(path, {"w": W})
    np.testing.assert_array_equal(read_torch(str(path))["w"], W)
    with path.open("rb") as file:
        np.testing.assert_array_equal(read_torch(file)["w"], W)
    with path.open("wb") as file:
        write_torch(file, [W])
    np.testing.assert_array_equal(read_torch(path)[0], W)
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_replaced_as_a_whole(tmp_path, monkeypatch):
    path = tmp_path / "weights.pt"
    write_torch(path, W)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("adjoint.paths.replace_file", full)
    with pytest.raises(CheckpointError) as caught:
        write_torch(path, W + 1)
    assert caught.value.message == (
        f"write_torch: {path} cannot be written (No space left on device), and an older file is unchanged; free space "
        "or choose another place"
    )
    np.testing.assert_array_equal(read_torch(path), W)


def test_paths_that_are_wrong(tmp_path):
    for call, path, message in (
        (read_torch, tmp_path / "none", f"read_torch: there is no file {tmp_path / 'none'}; check the path"),
        (read_torch, tmp_path, f"read_torch: {tmp_path} is a directory; give the path of a file in it"),
        (
            lambda p: write_torch(p, W),
            tmp_path,
            f"write_torch: {tmp_path} is a directory; give the path of a file in it",
        ),
        (
            lambda p: write_torch(p, W),
            tmp_path / "none" / "file",
            f"write_torch: the directory {tmp_path / 'none'} does not exist; create it first",
        ),
    ):
        with pytest.raises(CheckpointError) as caught:
            call(path)
        assert caught.value.message == message


def test_errors_name_the_file(tmp_path):
    path = tmp_path / "text.pt"
    path.write_text("weights")
    with pytest.raises(CheckpointError) as caught:
        read_torch(path)
    assert caught.value.message == (
        f"read_torch: {path} is truncated or not a file of torch.save; save it again with torch.save"
    )
    with path.open("rb") as file, pytest.raises(CheckpointError, match=f"read_torch: {path} is truncated"):
        read_torch(file)


def test_other_objects_than_files_are_refused():
    with pytest.raises(TypeRuleError) as caught:
        read_torch({"w": W})
    assert caught.value.message == "read_torch reads a path or a binary file, got a dict; pass one of them"
    with pytest.raises(TypeRuleError) as caught:
        write_torch({"w": W}, "weights.pt")
    assert caught.value.message == "write_torch writes to a path or a binary file, got a dict; pass one of them"
    with pytest.raises(TypeRuleError) as caught:
        read_torch(io.StringIO("text"))
    assert caught.value.message == "read_torch reads a path or a binary file, got a text file; open it in mode 'rb'"
