import numpy as np
import pytest

from adjoint.data.vision import CenterCrop, RandomCrop, RandomResizedCrop, Resize
from adjoint.data.vision.crop import drawn_box
from adjoint.errors import DataError, InvalidValueError

IMAGE = np.arange(6 * 7, dtype=np.uint8).reshape(6, 7)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (2, IMAGE[2:4, 2:4]),  # torchvision.transforms.functional.center_crop rounds 2.5 to 2
        ((5, 4), IMAGE[0:5, 2:6]),  # and 1.5 to 2
        ((6, 10), np.pad(IMAGE, ((0, 0), (1, 2)))),
        ((9, 3), np.pad(IMAGE, ((1, 2), (0, 0)))[:, 2:5]),
    ],
)
def test_the_center_is_torchvisions(size, expected):
    assert np.array_equal(CenterCrop(size)(IMAGE), expected)
    assert np.array_equal(CenterCrop(size)(np.stack([IMAGE] * 2)[..., None])[1, :, :, 0], expected)


def places(images, whole):
    """Where each image lies in the whole one, whose pixels are all different."""
    return [tuple(np.argwhere(whole == image.ravel()[0])[0]) for image in images]


def test_parts_begin_everywhere():
    images = np.stack([IMAGE[..., None]] * 600)
    found = RandomCrop((5, 4))(images, np.random.default_rng(0))
    assert found.shape == (600, 5, 4, 1)
    where = places(found, IMAGE)
    assert all(
        np.array_equal(f[..., 0], IMAGE[t : t + 5, left : left + 4]) for f, (t, left) in zip(found, where, strict=True)
    )
    counts = np.unique(where, axis=0, return_counts=True)[1]
    assert len(counts) == 2 * 4
    assert abs(counts - 75).max() < 4 * np.sqrt(75)
    single = RandomCrop((5, 4))(IMAGE, np.random.default_rng(1))
    assert np.array_equal(single, RandomCrop((5, 4))(IMAGE, np.random.default_rng(1)))
    assert single.shape == (5, 4)


def test_images_are_padded_first():
    padded = np.pad(IMAGE + 1, 2, mode="reflect")
    found = RandomCrop((10, 11), padding=2, padding_mode="reflect")(IMAGE + 1, np.random.default_rng(0))
    assert np.array_equal(found, padded)
    found = RandomCrop((8, 7), pad_if_needed=True, fill=9)(IMAGE, np.random.default_rng(0))
    assert any(np.array_equal(found, np.pad(IMAGE, ((2, 2), (0, 0)), constant_values=9)[t : t + 8]) for t in range(3))


def test_boxes_have_the_area_and_the_ratio():
    rng = np.random.default_rng(0)
    boxes = [drawn_box(rng, 400, 300, (0.1, 0.9), (0.5, 2.0)) for _ in range(400)]
    inside = [box for box in boxes if box is not None]
    assert 250 < len(inside) < 400
    for top, left, height, width in inside:
        assert 0 <= top <= 400 - height
        assert 0 <= left <= 300 - width
        assert 0.09 < height * width / (400 * 300) < 0.91
        assert 0.49 < width / height < 2.04
    shares = np.array([height * width / (400 * 300) for _, _, height, width in inside])
    assert shares.min() < 0.15


def test_a_box_is_resized():
    image = np.random.default_rng(0).integers(0, 256, (12, 10, 3), dtype=np.uint8)
    top, left, height, width = drawn_box(np.random.default_rng(3), 12, 10, (0.2, 0.5), (0.9, 1.1))
    crop = RandomResizedCrop((4, 5), (0.2, 0.5), (0.9, 1.1))
    expected = Resize((4, 5))(image[top : top + height, left : left + width])
    assert np.array_equal(crop(image, np.random.default_rng(3)), expected)
    assert crop(np.stack([image] * 3), np.random.default_rng(3)).shape == (3, 4, 5, 3)


@pytest.mark.parametrize(("shape", "ratio", "box"), [
    ((10, 100), (0.9, 1.5), (0, 42, 10, 15)), ((100, 10), (0.5, 1.0), (40, 0, 20, 10)),
    ((10, 10), (0.9, 1.1), (0, 0, 10, 10)),
])  # fmt: skip
def test_if_none_fits_it_is_the_largest_around_the_center(shape, ratio, box):
    # The whole area at this ratio never fits, unless it is the image's own; then it is the image.
    image = np.random.default_rng(0).random(shape)
    top, left, height, width = box
    found = RandomResizedCrop((height, width), (1, 1), ratio, "nearest")(image, np.random.default_rng(0))
    assert np.array_equal(found, image[top : top + height, left : left + width])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: RandomCrop(7)(IMAGE, np.random.default_rng(0)), DataError, "RandomCrop: the part must not be larger "
         "than the image with its padding, got 7 x 7 of 6 x 7; use pad_if_needed=True"),
        (lambda: RandomCrop(3, padding="same"), InvalidValueError, "RandomCrop: padding is one, two or four numbers of "
         "pixels from 0 on, got 'same'; choose others"),
        (lambda: CenterCrop(2.5), InvalidValueError, "CenterCrop: size is a number of pixels or a pair (height, width) "
         "of at least 1, got 2.5; choose another"),
        (lambda: RandomResizedCrop(3, (0.5, 0.1)), InvalidValueError, "RandomResizedCrop: scale is a pair of numbers "
         "(smallest, largest) from 1e-06 on, got (0.5, 0.1); choose another"),
        (lambda: RandomResizedCrop(3, ratio=2), InvalidValueError, "RandomResizedCrop: ratio is a pair of numbers "
         "(smallest, largest) from 1e-06 on, got 2; choose another"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert caught.value.message == message
