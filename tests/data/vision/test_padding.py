import numpy as np
import pytest

from adjoint.data.vision import Pad
from adjoint.errors import DataError, InvalidValueError

IMAGE = np.arange(24, dtype=np.uint8).reshape(3, 4, 2)


@pytest.mark.parametrize(
    ("padding", "sides"),
    [(1, ((1, 1), (1, 1))), ([1, 2], ((2, 2), (1, 1))), ((1, 2, 3, 0), ((2, 0), (1, 3)))],
)
def test_borders_are_left_top_right_bottom(padding, sides):
    expected = np.pad(IMAGE, (*sides, (0, 0)), constant_values=7)
    assert np.array_equal(Pad(padding, 7)(IMAGE), expected)
    assert np.array_equal(Pad(padding, 7)(IMAGE[None]), expected[None])
    assert np.array_equal(Pad(padding, 7)(IMAGE[..., 0]), np.pad(IMAGE[..., 0], sides, constant_values=7))
    for mode in ("edge", "reflect", "symmetric"):
        assert np.array_equal(Pad(padding, padding_mode=mode)(IMAGE), np.pad(IMAGE, (*sides, (0, 0)), mode=mode))


def test_each_channel_may_have_its_own_border():
    found = Pad(1, (5, 6))(IMAGE)
    assert found.dtype == np.uint8
    assert found[0].tolist() == [[5, 6]] * 6


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Pad((1, 2, 3)), InvalidValueError, "Pad: padding is one, two or four numbers of pixels from 0 on, got "
         "(1, 2, 3); choose others"),
        (lambda: Pad(-1), InvalidValueError, "Pad: padding is one, two or four numbers of pixels from 0 on, got -1; "
         "choose others"),
        (lambda: Pad(1, padding_mode="wrap"), InvalidValueError, "Pad: padding_mode is one of constant, edge, reflect, "
         "symmetric, got 'wrap'; choose one of them"),
        (lambda: Pad(3, padding_mode="reflect")(IMAGE), DataError, "Pad: to be mirrored, an image must have at least 4 "
         "rows and 4 columns, got 3 and 4; pad less"),
        (lambda: Pad(1, (1, 2, 3))(IMAGE), DataError, "Pad: fill is one number or one for each of 2 channels, got (1, "
         "2, 3); pass as many"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert caught.value.message == message
