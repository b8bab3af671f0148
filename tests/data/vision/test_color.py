import numpy as np
import pytest

from adjoint.data.vision import ColorJitter, Grayscale
from adjoint.errors import DataError, InvalidValueError

PIXELS = np.array([[[10, 60, 220], [200, 100, 40]]], np.uint8)


def rng(seed=0):
    return np.random.default_rng(seed)


def test_gray_is_that_of_bt_601():
    expected = PIXELS.astype(np.float64) @ [0.299, 0.587, 0.114]
    assert Grayscale()(PIXELS)[..., 0].tolist() == np.round(expected).tolist() == [[63, 123]]
    assert Grayscale(3)(PIXELS).tolist() == [[[63] * 3, [123] * 3]]
    floats = PIXELS.astype(np.float32)
    np.testing.assert_allclose(Grayscale()(floats[None])[0, :, :, 0], expected, rtol=1e-6)
    assert np.array_equal(Grayscale()(PIXELS[..., 0]), PIXELS[..., 0])


@pytest.mark.parametrize(
    ("change", "expected", "of_floats"),
    [
        # torchvision 0.28: adjust_brightness(x, 1.5) and so on, of bytes and of bytes / 255.
        ("brightness", [[15, 90, 255], [255, 150, 60]], [0.0588235, 0.3529412, 1, 1, 0.5882353, 0.2352941]),
        ("contrast", [[0, 43, 255], [253, 103, 13]], [0, 0.1702657, 1, 0.9937952, 0.4055598, 0.0526186]),
        ("saturation", [[0, 58, 255], [238, 88, 0]], [0, 0.2288451, 1, 0.9352157, 0.3469804, 0]),
    ],
)
def test_changes_are_those_of_torchvision(change, expected, of_floats):
    jitter = ColorJitter(**{change: (1.5, 1.5)})
    assert jitter(PIXELS, rng())[0].tolist() == expected
    # torchvision weighs red with 0.2989 in floats.
    np.testing.assert_allclose(jitter(PIXELS.astype(np.float32) / 255, rng()).ravel(), of_floats, atol=1e-4)


def test_factors_are_drawn_from_their_range_for_each_image():
    images = np.full((500, 1, 1, 1), 0.5)
    factors = ColorJitter(brightness=0.4)(images, rng()).ravel() / 0.5
    assert 0.6 <= factors.min() < 0.62
    assert 1.38 < factors.max() <= 1.4
    assert abs(factors.mean() - 1) < 4 * 0.8 / np.sqrt(12 * 500)
    assert ColorJitter(brightness=3)(images, rng()).min() < 0.01  # not below 0


def test_changes_come_in_random_order():
    jitter = ColorJitter((1.5, 1.5), (0.5, 0.5), (2, 2))
    found = {jitter(PIXELS, rng(seed)).tobytes() for seed in range(40)}
    assert 2 <= len(found) <= 6
    assert np.array_equal(jitter(PIXELS, rng(1)), jitter(PIXELS, rng(1)))


def test_without_a_range_the_image_stays():
    assert np.array_equal(ColorJitter()(PIXELS, rng()), PIXELS)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Grayscale(2), InvalidValueError, "Grayscale: num_output_channels is 1 or 3, got 2; choose one"),
        (lambda: Grayscale()(np.zeros((3, 4, 5))), DataError, "Grayscale takes images with 1 or 3 channels, got 5; put "
         "the channels last, or select some"),
        (lambda: ColorJitter(-1), InvalidValueError, "ColorJitter: brightness is a number from 0 on, or a pair, got "
         "-1; choose another"),
        (lambda: ColorJitter(contrast=(2, 1)), InvalidValueError, "ColorJitter: contrast is a pair of numbers "
         "(smallest, largest) from 0 on, got (2, 1); choose another"),
        (lambda: ColorJitter(1)(np.zeros((3, 4, 3), np.int32), rng()), DataError, "ColorJitter takes bytes from 0 to "
         "255 or floats from 0 to 1, got int32; convert it"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert caught.value.message == message
