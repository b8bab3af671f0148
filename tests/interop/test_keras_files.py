"""Weights of Keras: the layout of its files, with and without h5py."""

import sys
from pathlib import Path

import numpy as np
import pytest

from adjoint.errors import CheckpointError, MissingFileError
from adjoint.interop import keras_files, read_keras


class HardLink:
    pass


class SoftLink:
    pass


class Group(dict):
    """A group as h5py has it."""

    link = HardLink

    def get(self, name, getlink):
        assert getlink
        return self.link() if name == "bad" else HardLink()


class Dataset:
    """A variable as h5py has it."""

    compression, external, is_virtual, name = None, None, False, "/x"

    def __init__(self, shape):
        self.array = np.ones(shape, np.float32)
        self.shape, self.dtype, self.nbytes, self.id = shape, self.array.dtype, self.array.nbytes, self

    def __getitem__(self, _all):
        return self.array

    def get_storage_size(self):
        return self.nbytes


def layer(*shapes):
    return Group(vars=Group({str(i): Dataset(shape) for i, shape in enumerate(shapes)}))


def test_variables_have_the_roles_that_follow_from_their_ranks():
    layers = Group({"dense_10": layer((2, 3)), "dense_2": layer((3, 2), (2,)), "norm": layer((2,), (2,), (2,), (2,)),
                    "cell": Group(gru=layer((2, 6), (2, 6), (2, 6))), "empty": layer()})  # fmt: skip
    found = dict(keras_files._named("file", Group(layers=layers)))
    assert list(found) == [
        *(f"layers/cell/gru/vars/{i}" for i in range(3)),
        "layers/dense_2/kernel",
        "layers/dense_2/bias",
        "layers/dense_10/kernel",
        *(f"layers/norm/{role}" for role in ("gamma", "beta", "moving_mean", "moving_variance")),
    ]
    np.testing.assert_array_equal(keras_files._content("file", found["layers/dense_2/kernel"]), np.ones((3, 2)))


def test_links_compressed_and_external_data_are_refused():
    linked = Group(bad=Group())
    linked.link = SoftLink
    with pytest.raises(
        CheckpointError, match="and file has a link at 'layers/bad', which could lead to another file; save it again"
    ):
        list(keras_files._named("file", Group(layers=linked)))
    deep = Group()
    for _ in range(60):
        deep = Group(a=deep)
    with pytest.raises(CheckpointError, match="and file has too many levels of groups"):
        list(keras_files._named("file", deep))
    for attribute, value in (
        ("compression", "gzip"),
        ("external", ["/etc/passwd"]),
        ("is_virtual", True),
        ("nbytes", 9),
    ):
        dataset = Dataset((2,))
        setattr(dataset, attribute, value)
        if attribute == "nbytes":
            dataset.get_storage_size = lambda: 8
        with pytest.raises(CheckpointError, match="and file has compressed, external or other data in '/x'"):
            keras_files._content("file", dataset)


def test_without_h5py_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(
        CheckpointError, match=r"^read_keras needs h5py, which is not installed; pip install 'adjoint\[keras\]'"
    ):
        read_keras("file")


def test_a_file_is_read_with_h5py(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "model.weights.h5"
    kernel = np.arange(6, dtype=np.float32).reshape(2, 3)
    with h5py.File(path, "w") as file:
        variables = file.create_group("layers/dense/vars")
        variables["0"], variables["1"] = kernel, np.ones(3, np.float32)
        file.create_group("optimizer/vars")["0"] = np.int64(3)
    found = read_keras(path)
    assert list(found) == ["layers/dense/kernel", "layers/dense/bias", "optimizer/vars/0"]
    np.testing.assert_array_equal(found["layers/dense/kernel"], kernel)
    with h5py.File(path, "a") as file:
        file["layers/dense/vars/2"] = h5py.ExternalLink(str(path), "/layers")
    with pytest.raises(CheckpointError, match="has a link at 'layers/dense/vars/2', which could lead to another file"):
        read_keras(path)
    Path(path).write_bytes(b"nothing")
    with pytest.raises(
        CheckpointError, match=r"^read_keras reads files of model.save_weights, and .* is truncated or n"
    ):
        read_keras(path)
    with pytest.raises(MissingFileError, match=r"^read_keras: there is no file"):
        read_keras(tmp_path / "none")
