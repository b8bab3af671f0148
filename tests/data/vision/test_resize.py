import numpy as np
import pytest

from adjoint.data.vision import Resize
from adjoint.errors import DataError, InvalidValueError

SQUARES = np.arange(20, dtype=np.float32).reshape(4, 5) ** 2

# torchvision 0.28 and torch 2.13 of the same image: resize(x, size, interpolation, antialias=...).
TORCHVISION = [
    ((3, 2), "bilinear", True, [[12.2272730, 26.2272720], [79.2272720, 117.2272644], [216.2273102, 278.2272644]]),
    ((3, 2), "bilinear", False, [[6.1666675, 20.3333340], [74.5, 122.0], [226.1666870, 307.0000305]]),
    ((5, 3), "bilinear", True, [
        [0.4285714, 4.4444447, 12.9999990], [20.9285717, 35.9444466, 55.4999962], [69.3571396, 96.9444427, 129.0714111],
        [147.7857056, 187.9444275, 232.6428528], [238.2857208, 289.4444275, 345.1428528]]),
    ((3, 7), "nearest", True, [
        [0, 0, 1, 4, 4, 9, 16], [25, 25, 36, 49, 49, 64, 81], [100, 100, 121, 144, 144, 169, 196]]),
    # mindspore.dataset.vision.Resize((3, 2), Inter.AREA)
    ((3, 2), "area", True, [[9.45, 25.050001], [75.700005, 121.3], [216.95, 292.55002]]),
]  # fmt: skip


@pytest.mark.parametrize(("size", "interpolation", "antialias", "expected"), TORCHVISION)
def test_values_are_those_of_others(size, interpolation, antialias, expected):
    found = Resize(size, interpolation, antialias)(SQUARES)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def triangle(old, new):
    """The definition in float64: the weight of an old pixel falls linearly with the distance of the centers."""
    scale = max(old / new, 1)
    distance = np.abs((np.arange(new)[:, None] + 0.5) * old / new - (np.arange(old) + 0.5))
    weights = np.maximum(0, 1 - distance / scale)
    return weights / weights.sum(1, keepdims=True)


@pytest.mark.parametrize("size", [(2, 11), (9, 3), (13, 8)])
def test_bytes_are_rounded_and_batches_resized_at_once(size):
    images = np.random.default_rng(1).integers(0, 256, (2, 7, 8, 3), dtype=np.uint8)
    exact = np.einsum("ih,jw,nhwc->nijc", triangle(7, size[0]), triangle(8, size[1]), images.astype(np.float64))
    found = Resize(size)(images)
    assert found.dtype == np.uint8
    assert found.shape == (2, *size, 3)
    assert np.abs(found - exact).max() <= 0.5 + 1e-4
    assert np.array_equal(found[1], Resize(size)(images[1]))
    assert np.array_equal(Resize(size)(images[1, :, :, 2]), found[1, :, :, 2])


def test_one_number_is_the_shorter_side():
    images = np.zeros((13, 17, 3), np.uint8)
    assert Resize(6)(images).shape == (6, 7, 3)
    assert Resize(6)(images.transpose(1, 0, 2)).shape == (7, 6, 3)
    assert Resize(26, "nearest")(images).shape == (26, 34, 3)


def test_the_same_size_is_a_copy():
    copy = Resize((4, 5))(SQUARES)
    assert np.array_equal(copy, SQUARES)
    assert not np.shares_memory(copy, SQUARES)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Resize(0), InvalidValueError, "Resize: size is a number of pixels or a pair (height, width) of at "
         "least 1, got 0; choose another"),
        (lambda: Resize((1, 2, 3)), InvalidValueError, "Resize: size is a number of pixels or a pair (height, width) "
         "of at least 1, got (1, 2, 3); choose another"),
        (lambda: Resize(3, "cubic"), InvalidValueError, "Resize: interpolation is one of nearest, bilinear, area, got "
         "'cubic'; choose one of them"),
        (lambda: Resize(3)(np.zeros((0, 3, 1))), DataError, "Resize takes an image [H, W] or [H, W, C] or a batch [N, "
         "H, W, C] of numbers, got float64 [0, 3, 1]; convert it"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert caught.value.message == message
