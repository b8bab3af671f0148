import numpy as np
import pytest

from adjoint.data.vision import HWC2CHW, Normalize, Rescale, ToTensor
from adjoint.errors import DataError, InvalidValueError

IMAGE = np.random.default_rng(0).integers(0, 256, (3, 4, 3), dtype=np.uint8)
MEAN, STD = (10.0, 20.0, 30.0), (2.0, 4.0, 5.0)


def test_each_channel_is_normalized():
    expected = (IMAGE.astype(np.float64) - MEAN) / STD
    found = Normalize(MEAN, STD)(IMAGE)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    planes = Normalize(MEAN, STD, is_hwc=False)(IMAGE.transpose(2, 0, 1))
    assert np.array_equal(planes, found.transpose(2, 0, 1))
    batch = np.stack([IMAGE, IMAGE[::-1]])
    assert np.array_equal(Normalize(MEAN, STD)(batch), [found, found[::-1]])
    assert np.array_equal(Normalize([1], [2])(IMAGE[..., 0]), (IMAGE[..., 0] - np.float32(1)) / 2)
    assert Normalize(MEAN, STD)(IMAGE.astype(np.float64)).dtype == np.float64


def test_values_are_rescaled():
    found = Rescale(1 / 127.5, -1)(IMAGE)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, IMAGE / 127.5 - 1, atol=1e-6)
    assert IMAGE.dtype == np.uint8
    floats = IMAGE.astype(np.float32)
    assert np.array_equal(Rescale(2)(floats), 2 * floats)


def test_channels_come_first():
    for given in (IMAGE, np.stack([IMAGE, IMAGE])):
        moved = HWC2CHW()(given)
        assert np.array_equal(moved, np.moveaxis(given, -1, -3))
        assert moved.flags.c_contiguous
        # torchvision's to_tensor divides in float32 too.
        assert np.array_equal(ToTensor()(given), moved.astype(np.float32) / np.float32(255))
    assert HWC2CHW()(IMAGE[..., 0]).shape == (1, 3, 4)
    floats = IMAGE.astype(np.float32)
    assert np.array_equal(ToTensor()(floats), HWC2CHW()(floats))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Normalize([], []), InvalidValueError, "Normalize: mean is a list of numbers, one for each channel, "
         "got []; pass a list"),
        (lambda: Normalize([0.5], [0]), InvalidValueError, "Normalize: std must be finite numbers above 0, got [0]; "
         "choose others"),
        (lambda: Normalize([float("nan")], [1]), InvalidValueError, "Normalize: mean must be finite numbers, got "
         "[nan]; choose others"),
        (lambda: Normalize([1], [1, 2]), InvalidValueError, "Normalize: mean and std must have the same length, got 1 "
         "and 2; pass as many"),
        (lambda: Normalize([1, 2], [1, 2])(IMAGE), DataError, "Normalize has 2 means, got an image with 3 channels, "
         "[3, 4, 3]; pass one for each, or is_hwc=False"),
        (lambda: Rescale(float("inf")), InvalidValueError, "Rescale: rescale is a finite number, got inf; choose "
         "another"),
        (lambda: Rescale(1, True), InvalidValueError, "Rescale: shift is a finite number, got True; choose another"),
        (lambda: ToTensor()(np.zeros(3)), DataError, "ToTensor takes an image [H, W] or [H, W, C] or a batch [N, H, W, "
         "C] of numbers, got float64 [3]; convert it"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert caught.value.message == message
