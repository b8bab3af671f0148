import numpy as np
import pytest

from adjoint.data.vision import RandomErasing
from adjoint.errors import DataError, InvalidValueError

IMAGES = np.full((300, 20, 30, 3), 7, np.uint8)


def rng(seed=0):
    return np.random.default_rng(seed)


def test_rectangles_have_the_area_and_the_probability():
    found = RandomErasing(0.6, (0.1, 0.2), (0.5, 2), (1, 2, 3))(IMAGES, rng())
    assert IMAGES.min() == 7
    erased = (found == (1, 2, 3)).all(-1)
    assert (found[~erased] == 7).all()
    hit = erased.any((1, 2))
    assert abs(hit.mean() - 0.6) < 4 * np.sqrt(0.24 / 300)
    for image in erased[hit]:
        rows, columns = np.flatnonzero(image.any(1)), np.flatnonzero(image.any(0))
        assert image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()
        assert 0.07 < image.mean() < 0.24
    shares = erased[hit].mean((1, 2))
    assert shares.min() < 0.12
    assert shares.max() > 0.18


def test_planes_are_erased_like_pixels():
    planes = np.ascontiguousarray(IMAGES[:20].transpose(0, 3, 1, 2))
    found = RandomErasing(1, is_hwc=False)(planes, rng())
    assert np.array_equal(found.transpose(0, 2, 3, 1), RandomErasing(1)(IMAGES[:20], rng()))


def test_noise_has_its_distribution():
    erasing = RandomErasing(1, (1, 1), (1, 1), "random")
    numbers = erasing(np.zeros((40, 40), np.uint8), rng())
    assert abs(numbers.mean() - 127.5) < 4 * 256 / np.sqrt(12 * 1600)
    assert (numbers.min(), numbers.max()) == (0, 255)
    normal = erasing(np.zeros((2, 40, 40, 1), np.float32), rng())
    assert normal.dtype == np.float32
    assert abs(normal.mean()) < 4 / np.sqrt(3200)
    assert abs(normal.std() - 1) < 4 / np.sqrt(2 * 3200)
    assert abs((np.abs(normal) < 1).mean() - 0.6827) < 4 * np.sqrt(0.217 / 3200)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: RandomErasing(-0.1), InvalidValueError, "RandomErasing: p is a probability from 0 to 1, got -0.1; "
         "choose another"),
        (lambda: RandomErasing(value="noise"), InvalidValueError, "RandomErasing: value is a number, one for each "
         "channel, or \"random\", got 'noise'; choose one"),
        (lambda: RandomErasing(1, value=(1, 2))(IMAGES[0], rng()), DataError, "RandomErasing: value is one number or "
         "one for each of 3 channels, got (1, 2); pass as many"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert caught.value.message == message
