import gzip

import numpy as np
import pytest

from adjoint.data import DATASETS, ImageClassification, TextCorpus, load_dataset
from adjoint.data.cifar import CIFAR10_CLASSES
from adjoint.data.digits import MNIST_CLASSES
from adjoint.data.fashion import FASHION_CLASSES
from adjoint.errors import DataError, NameLookupError
from tests.data.conftest import idx


def test_the_table_says_what_a_data_set_has():
    for name, shape, classes in (
        ("mnist", (28, 28, 1), MNIST_CLASSES),
        ("fashion-mnist", (28, 28, 1), FASHION_CLASSES),
        ("cifar-10", (32, 32, 3), CIFAR10_CLASSES),
    ):
        assert (DATASETS[name].image_shape, DATASETS[name].classes) == (shape, len(classes))
    assert [name for name, each in DATASETS.items() if each.image_shape is None] == ["jargon", "python-help"]


def test_a_name_loads_a_data_set():
    assert load_dataset("python-help").name == "python-help"


def test_a_wrong_file_that_the_user_named_is_found_by_the_name(tmp_path, monkeypatch):
    monkeypatch.setenv("ADJOINT_DATA", str(tmp_path))
    monkeypatch.setenv("ADJOINT_CACHE", str(tmp_path / "cache"))
    for name, folder, file in (
        ("mnist", "mnist", "train-images-idx3-ubyte.gz"),
        ("cifar-10", "cifar-10", "cifar-10-binary.tar.gz"),
        ("jargon", "jargon", "jargon.txt.gz"),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_bytes(gzip.compress(b"other"))
        with pytest.raises(DataError, match=rf"{folder}/{file} must .* sha256"):
            load_dataset(name)


def test_a_path_loads_a_data_set(tmp_path):
    parts = {"train_images": np.zeros((2, 3, 3), np.uint8), "train_labels": np.arange(2)}
    parts |= {"test_images": np.zeros((1, 3, 3), np.uint8), "test_labels": np.zeros(1, np.int64)}
    np.savez(tmp_path / "a.npz", **parts)
    assert isinstance(load_dataset(str(tmp_path / "a.npz")), ImageClassification)
    (tmp_path / "b.txt").write_text("a text of 26 letters or so")
    assert isinstance(load_dataset(str(tmp_path / "b.txt")), TextCorpus)


def test_an_unknown_name_is_refused():
    with pytest.raises(NameLookupError) as caught:
        load_dataset("fashion_mnist")
    assert caught.value.message == (
        "there is neither a dataset nor a file 'fashion_mnist', the datasets are mnist, fashion-mnist, cifar-10, "
        "jargon, python-help; did you mean fashion-mnist?"
    )
    with pytest.raises(NameLookupError, match=r"; name one, or give the path of an \.npz file, a directory or a text "):
        load_dataset("/no/such/thing")


def test_idx_helper_writes_what_the_format_says():
    assert idx(np.array([[1, 2]], np.uint8)) == b"\0\0\x08\x02\0\0\0\x01\0\0\0\x02\x01\x02"
