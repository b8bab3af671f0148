"""Datasets: shuffled by default, with iterators over tensors."""

import gzip
import struct

import numpy as np
import pytest

import adjoint.compat.mindspore as ms
import adjoint.compat.mindspore.dataset as ds
import adjoint.compat.mindspore.dataset.transforms.c_transforms as C
import adjoint.compat.mindspore.dataset.vision.c_transforms as CV
from adjoint.compat.mindspore import dtype as mstype
from adjoint.errors import DataError


def idx(path, array):
    with gzip.open(path, "wb") as file:
        file.write(struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes())


def test_mnist_from_files_through_operations_to_batches(tmp_path):
    images = np.arange(4 * 28 * 28, dtype=np.uint8).reshape(4, 28, 28)
    idx(tmp_path / "train-images-idx3-ubyte.gz", images)
    idx(tmp_path / "train-labels-idx1-ubyte.gz", np.arange(4, dtype=np.uint8))
    data = ds.MnistDataset(str(tmp_path), shuffle=False)
    data = data.map(operations=C.TypeCast(mstype.int32), input_columns="label")
    operations = [CV.Resize((32, 32), interpolation=CV.Inter.LINEAR), CV.Rescale(1 / 255.0, 0.0), CV.HWC2CHW()]
    data = data.map(operations=operations, input_columns="image").batch(2, drop_remainder=True).repeat(2)
    assert (data.get_dataset_size(), data.get_col_names()) == (4, ["image", "label"])
    rows = list(data.create_dict_iterator(num_epochs=1))
    assert rows[0]["image"].shape == (2, 1, 32, 32)
    assert rows[1]["label"].dtype == ms.int32
    assert rows[1]["label"].asnumpy().tolist() == [2, 3]
    arrays = next(data.create_tuple_iterator(output_numpy=True))
    assert isinstance(arrays[0], np.ndarray)
    with pytest.raises(DataError, match=r"^MnistDataset: .* must have t10k-images-idx3-ubyte and its labels, got none"):
        ds.MnistDataset(str(tmp_path), usage="test")


def test_rows_with_random_access_are_shuffled_unless_refused():
    numbers = np.arange(64)
    order = [int(row[0].item()) for row in ds.NumpySlicesDataset(numbers, ["x"]).create_tuple_iterator(num_epochs=1)]
    assert sorted(order) == list(range(64)) != order
    plain = ds.NumpySlicesDataset(numbers, ["x"], shuffle=False)
    assert [int(row["x"].item()) for row in plain.create_dict_iterator(num_epochs=1)] == list(range(64))
