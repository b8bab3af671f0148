import numpy as np
import pytest

from adjoint.data import batches
from adjoint.errors import DataError, InvalidValueError

IMAGES = np.arange(10 * 2 * 3, dtype=np.uint8).reshape(10, 2, 3)
LABELS = np.arange(10, dtype=np.uint8)


def test_batches_in_order_hold_the_images_over_255():
    got = list(batches(IMAGES, LABELS, 4, shuffle=False, drop_last=False))
    assert [len(y) for _, y in got] == [4, 4, 2]
    np.testing.assert_array_equal(np.concatenate([y for _, y in got]), LABELS)
    expected = (IMAGES.reshape(10, 6).astype(np.float64) / 255).astype(np.float32)
    np.testing.assert_array_equal(np.concatenate([x for x, _ in got]), expected)
    assert all(x.dtype == np.float32 and x.flags.c_contiguous for x, _ in got)


def test_every_row_comes_once_and_keeps_its_label():
    got = list(batches(IMAGES, LABELS, 3, seed=5, drop_last=False))
    labels = np.concatenate([y for _, y in got])
    assert sorted(labels) == list(range(10))
    assert list(labels) != list(range(10))
    np.testing.assert_array_equal(
        np.concatenate([x for x, _ in got]), IMAGES.reshape(10, 6)[labels].astype(np.float32) / np.float32(255)
    )


def test_the_short_last_batch_is_dropped_unless_asked_for():
    assert [len(y) for _, y in batches(IMAGES, LABELS, 4)] == [4, 4]


def test_the_order_follows_the_seed():
    def order(seed):
        return np.concatenate([y for _, y in batches(IMAGES, LABELS, 5, seed=seed)]).tolist()

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert order((1, 0)) != order((1, 1))


@pytest.mark.parametrize(
    ("images", "labels", "size", "error", "message"),
    [
        (IMAGES.astype(np.float32), LABELS, 2, DataError, "uint8 .* got float32 .*; convert them"),
        (IMAGES, LABELS[:9], 2, DataError, r"one label an image, got \(9,\) for 10 images"),
        (IMAGES, LABELS, 0, InvalidValueError, "from 1 to the number of images, 10, got 0"),
        (IMAGES, LABELS, 11, InvalidValueError, "got 11"),
    ],
)
def test_bad_arguments_are_refused_at_the_call(images, labels, size, error, message):
    with pytest.raises(error, match=message):
        batches(images, labels, size)
