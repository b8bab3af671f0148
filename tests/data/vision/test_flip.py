import numpy as np
import pytest

from adjoint.data.vision import RandomHorizontalFlip, RandomVerticalFlip
from adjoint.errors import InvalidValueError, TypeRuleError

IMAGES = np.arange(2000 * 2 * 3 * 1, dtype=np.int32).reshape(2000, 2, 3, 1)


@pytest.mark.parametrize(("flip", "axis"), [(RandomHorizontalFlip, 2), (RandomVerticalFlip, 1)])
def test_images_are_flipped_with_the_probability(flip, axis):
    found = flip(0.3)(IMAGES, np.random.default_rng(0))
    mirrored = np.flip(IMAGES, axis)
    flipped = (found == mirrored).all((1, 2, 3))
    assert np.array_equal(found[~flipped], IMAGES[~flipped])
    assert abs(flipped.mean() - 0.3) < 4 * np.sqrt(0.3 * 0.7 / 2000)
    rng = np.random.default_rng(0)
    for image in (IMAGES[0], IMAGES[0, :, :, 0]):
        assert np.array_equal(flip(1)(image, rng), np.flip(image, axis - 1))
        assert np.array_equal(flip(0)(image, rng), image)


def test_the_result_follows_from_the_generator():
    first, second = (RandomHorizontalFlip()(IMAGES[:50], np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(first, second)


def test_wrong_arguments_are_refused():
    with pytest.raises(InvalidValueError) as caught:
        RandomHorizontalFlip(1.5)
    assert caught.value.message == ("RandomHorizontalFlip: p is a probability from 0 to 1, got 1.5; choose another")
    with pytest.raises(TypeRuleError, match=r"RandomVerticalFlip draws random numbers .*, got an int; pass rng="):
        RandomVerticalFlip()(IMAGES, 3)
