import gzip
import io
import os
import pickle
import zipfile

import numpy as np
import pytest

from adjoint.data import ImageClassification, read_images
from adjoint.data.image_sets import npz_bytes
from adjoint.errors import DataError
from tests.data.conftest import idx

RNG = np.random.default_rng(3)
PARTS = {
    "train_images": RNG.integers(0, 256, (6, 4, 5, 3), dtype=np.uint8),
    "train_labels": np.array([0, 1, 2, 2, 1, 0]),
    "test_images": RNG.integers(0, 256, (2, 4, 5, 3), dtype=np.uint8),
    "test_labels": np.array([2, 0]),
}


def same(found, parts=PARTS):
    return all(np.array_equal(getattr(found, name), array) for name, array in parts.items())


def test_an_npz_file_is_read_under_both_names(tmp_path):
    np.savez(tmp_path / "pets.npz", **PARTS, classes=["cat", "dog", "hen"])
    found = read_images(tmp_path / "pets.npz")
    assert same(found)
    assert (found.name, found.classes, found.image_shape) == ("pets", ("cat", "dog", "hen"), (4, 5, 3))
    assert not found.train_images.flags.writeable
    keras = dict(zip(("x_train", "y_train", "x_test", "y_test"), PARTS.values(), strict=True))
    keras["y_train"] = keras["y_train"][:, None]
    np.savez_compressed(tmp_path / "keras.npz", **keras)
    found = read_images(str(tmp_path / "keras.npz"), name="pets")
    assert same(found)
    assert (found.name, found.classes) == ("pets", ("0", "1", "2"))
    assert read_images(tmp_path / "keras.npz", ("a", "b", "c")).classes == ("a", "b", "c")
    (tmp_path / "again.npz").write_bytes(npz_bytes(found))
    assert same(read_images(tmp_path / "again.npz"))


def test_a_directory_of_idx_files_is_read(tmp_path):
    stems = ("train-images-idx4-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx4-ubyte", "t10k-labels-idx1-ubyte")
    for number, (stem, array) in enumerate(zip(stems, PARTS.values(), strict=True)):
        content = idx(array.astype(np.uint8))
        if number % 2:
            (tmp_path / f"{stem}.gz").write_bytes(gzip.compress(content))
        else:
            (tmp_path / stem).write_bytes(content)
    assert same(read_images(tmp_path))
    (tmp_path / "train-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError) as caught:
        read_images(tmp_path)
    assert caught.value.message == (
        f"a directory of images has four idx files named as MNIST's, {tmp_path} lacks train-labels-idx1-ubyte; add it"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_images": np.zeros((6, 4))}, "pets: train images must be uint8 [N, H, W] or [N, H, W, C], got float64 "
         "[6, 4]; convert them"),
        ({"test_labels": np.arange(3)}, "pets: test labels must be integers, one for each of 2 images, got int64 [3]; "
         "convert them"),
        ({"test_labels": np.array([0.5, 1])}, "pets: test labels must be integers, one for each of 2 images, got "
         "float64 [2]; convert them"),
        ({"test_labels": np.array([-1, 1])}, "pets: labels are counted from 0, got -1; add to them"),
        ({"test_labels": np.array([7, 1])}, "pets: labels must be below the number of classes, 3, got 7; name every "
         "class"),
        ({"test_images": np.zeros((2, 4, 5), np.uint8)}, "pets: training and test images must have the same size, got "
         "(4, 5, 3) and (4, 5); resize one"),
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit_together_are_refused(changes, message):
    with pytest.raises(DataError) as caught:
        ImageClassification(**{**PARTS, **changes}, classes=("cat", "dog", "hen"), name="pets")
    assert caught.value.message == message


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


WHOLE = zipped(**{name: npy(array) for name, array in PARTS.items()})
HUGE = npy(np.zeros(4, np.uint8)).replace(b"(4,), }              ", b"(99999999999999,), }")


@pytest.mark.parametrize(
    "content",
    [b"", b"PK", WHOLE[:-30], WHOLE[: len(WHOLE) // 2], WHOLE.replace(npy(PARTS["train_images"])[-9:], b"corrupted"),
     zipped(train_images=b"\x93NUMPY\x01\x00v\x00{'descr"), zipped(train_images=HUGE), npy(PARTS["test_images"]),
     zipped(train_images=npy(PARTS["train_images"])[:-1]),
     zipped(train_images=npy(np.zeros(2)).replace(b")", b" ")), b"junk" * 40],
)  # fmt: skip
def test_files_that_are_no_npz_files_are_refused(tmp_path, content):
    path = tmp_path / "bad.npz"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_images(path)
    assert caught.value.message.startswith(f"{path} is truncated or no .npz file of numbers (")
    assert caught.value.message.endswith("); save it again with numpy.savez")
    assert "\n" not in caught.value.message


class Trap:
    """Unpickling it makes a directory."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("inside", [True, False])
def test_a_pickle_is_refused_and_not_executed(tmp_path, inside):
    trap, path = tmp_path / "sprung", tmp_path / "bad.npz"
    if inside:
        np.savez(path, train_images=np.array([Trap(trap)], dtype=object))
    else:
        path.write_bytes(pickle.dumps(Trap(trap)))
    with pytest.raises(DataError, match=r"is truncated or no \.npz file of numbers"):
        read_images(path)
    assert not trap.exists()


def test_what_is_not_there_or_something_else_is_refused(tmp_path):
    for path, message in (
        (tmp_path / "no", f"there is no file or directory {tmp_path}/no; check the path"),
        (tmp_path / "no.npz", f"there is no file {tmp_path}/no.npz; check the path"),
        (tmp_path / "a.csv", f"image datasets are an .npz file or a directory with idx files, got {tmp_path}/a.csv; "
         "convert it with numpy.savez"),
        (tmp_path / "b.npz", f"{tmp_path}/b.npz must have the arrays train_images, train_labels, test_images, "
         "test_labels, got x; save it again with numpy.savez"),
    ):  # fmt: skip
        (tmp_path / "a.csv").write_text("1,2")
        np.savez(tmp_path / "b.npz", x=[1])
        with pytest.raises(DataError) as caught:
            read_images(path)
        assert caught.value.message == message
