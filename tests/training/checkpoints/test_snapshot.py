"""The file of a snapshot: what it holds, and that nothing else is ever read from it."""

import json
import pickle
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file

from adjoint import nn
from adjoint.errors import CheckpointError, MissingFileError, TypeRuleError
from adjoint.ir import DTYPES
from adjoint.training.checkpoints import Snapshot, capture, read_snapshot, write_snapshot
from adjoint.training.checkpoints.snapshot import read_manifest
from adjoint.training.tensors import digest_of, read_file, write_file


@pytest.fixture
def path(tmp_path):
    write_snapshot(tmp_path / "file", capture(nn.Linear(2, 1), config={"lr": 0.1}, run_cursor={"step": 5}))
    return tmp_path / "file"


def test_arrays_of_every_dtype_and_shape_and_name_come_back(tmp_path):
    arrays = {name: np.arange(6).reshape(2, 3).astype(dtype) for name, dtype in DTYPES.items()}
    arrays |= {"0-d": np.array(2.5), "empty": np.zeros((0, 3), np.float32), "größe.重み": np.ones(1, np.float16)}
    arrays["nan"] = np.array([0x7FC1, 0xFF81], np.uint16).view(ml_dtypes.bfloat16)
    manifest = capture(nn.Identity()).manifest
    write_snapshot(tmp_path / "file", Snapshot(arrays, manifest))
    found = read_snapshot(tmp_path / "file")
    assert found.manifest == manifest == read_manifest(tmp_path / "file")
    assert found.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        assert (found.arrays[name].dtype, found.arrays[name].shape) == (array.dtype, array.shape), name
        assert found.arrays[name].tobytes() == array.tobytes(), name


def test_other_readers_find_the_weights_by_their_names(path):
    assert load_file(path)["weight"].shape == (1, 2)


def test_the_manifest_has_the_configuration_and_where_the_run_is(path):
    manifest = read_manifest(path)
    assert (manifest["config"], manifest["cursor"]) == ({"lr": 0.1}, {"step": 5})


def test_a_snapshot_is_a_copy_which_may_use_old_memory_again():
    network = nn.Linear(2, 1)
    first = capture(network)
    weight = first.arrays["weight"]
    old = weight.copy()
    network.weight.data.fill_(3.0)
    np.testing.assert_array_equal(weight, old)
    assert capture(network, reuse=first).arrays["weight"] is weight
    np.testing.assert_array_equal(weight, np.full((1, 2), 3.0))


def test_what_json_does_not_have_is_refused():
    with pytest.raises(
        TypeRuleError, match=r"^capture: config must be data that JSON has, got Object of type set is not.*; convert it"
    ):
        capture(nn.Identity(), config={"a": {1}})
    optimizer = type("Odd", (), {"state_dict": lambda _: {"a": object()}})()
    with pytest.raises(
        TypeRuleError,
        match=r"^checkpoints: the loss scale must consist of numbers, strings, arrays, and lists and dicts of them, "
        r"got an object; convert it, or leave it out of state_dict\(\)",
    ):
        capture(nn.Identity(), scaler=optimizer)


def test_parameters_cannot_have_the_names_of_other_arrays():
    network = nn.Module()
    network._parameters["adjoint:x"] = nn.Linear(1, 1).weight
    with pytest.raises(CheckpointError, match=r"^capture: names that begin with 'adjoint:' are those of the file's"):
        capture(network)


def rewritten(path, **changes):
    """The file with other metadata, and the digest that belongs to it."""
    arrays, metadata = read_file(path, "test")
    metadata = {**metadata, **changes}
    metadata.pop("adjoint.sha256")
    metadata["adjoint.sha256"] = digest_of(arrays, metadata)
    write_file(path, arrays, metadata, "test")
    return path


def test_other_files_are_refused(path, tmp_path):
    with pytest.raises(MissingFileError, match=r"^read_snapshot: there is no file .*none; check the path"):
        read_snapshot(tmp_path / "none")
    write_file(tmp_path / "weights", {"a": np.ones(1)}, {}, "test")
    with pytest.raises(
        CheckpointError, match=r"^read_snapshot reads checkpoints of runs, and .*weights holds arrays o"
    ):
        read_snapshot(tmp_path / "weights")
    rewritten(path, **{"adjoint.snapshot": "2"})
    with pytest.raises(
        CheckpointError, match=r"^read_snapshot: .*file has format 2, and adjoint .* reads format 1; in"
    ):
        read_snapshot(path)


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "NaN", "[]", "{}", '{"time": 1, "sequence": "x"}'])
def test_a_manifest_that_is_not_one_is_refused(path, text):
    rewritten(path, **{"adjoint.manifest": text})
    with pytest.raises(CheckpointError, match=r"^read_snapshot: .* has a manifest (that is not JSON|without a valid )"):
        read_snapshot(path)


def test_every_flipped_or_missing_byte_is_noticed(path):
    content, whole = path.read_bytes(), read_snapshot(path)
    rng = np.random.default_rng(0)
    for case in range(300):
        damaged = bytearray(content)
        if case % 3:
            damaged[rng.integers(len(content))] ^= 1 << rng.integers(8)
        else:
            del damaged[rng.integers(len(content)) :]
        path.write_bytes(damaged)
        try:
            found = read_snapshot(path)
        except CheckpointError:
            continue
        # Spaces after the header belong to nothing.
        assert found.manifest == whole.manifest
        assert {n: a.tobytes() for n, a in found.arrays.items()} == {n: a.tobytes() for n, a in whole.arrays.items()}


def hostile(header, size=None, data=b""):
    text = json.dumps(header).encode()
    return (len(text) if size is None else size).to_bytes(8, "little") + text + data


@pytest.mark.parametrize(
    "content",
    [
        b"",
        hostile({}, size=1 << 62),
        hostile({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, data=b"1234"),
        hostile({"a": {"dtype": "F32", "shape": [1 << 60], "data_offsets": [0, 1 << 62]}}, data=b"1234"),
        hostile({n: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} for n in "ab"}, data=b"1234"),
        hostile({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}, data=b"1234"),
        hostile({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, data=b"12345678"),
        hostile({"__metadata__": {"a": [1]}}),
        pickle.dumps({"a": print}),
    ],
)
def test_hostile_files_are_refused_without_using_memory(content, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(
            CheckpointError, match=r"^read_snapshot reads safetensors files, and .* is truncated or not"
        ):
            read_snapshot(path)
        with pytest.raises(CheckpointError, match=r"^read_manifest: .* is truncated or no checkpoint of a run"):
            read_manifest(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
