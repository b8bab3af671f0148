"""Transforms of items of any kind."""

import numpy as np
import pytest

from adjoint.data.transforms import Compose, OneHot, TypeCast, takes_generator
from adjoint.data.vision import RandomCrop, RandomHorizontalFlip
from adjoint.errors import DataError, InvalidValueError, TypeRuleError


def test_transforms_follow_each_other_and_random_ones_share_the_generator():
    image = np.arange(24, dtype=np.uint8).reshape(4, 6)
    both = Compose([RandomCrop(3), lambda x: x + 1, RandomHorizontalFlip()])
    assert takes_generator(both)
    assert not takes_generator(len)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        expected = RandomHorizontalFlip()(RandomCrop(3)(image, rng) + 1, rng)
        assert both(image, np.random.default_rng(seed)).tolist() == expected.tolist()
    assert Compose([abs, float])(-1) == 1.0
    assert Compose([abs]) == Compose([abs])


def test_labels_become_rows():
    rows = OneHot(3)(np.array([2, 0]))
    assert rows.dtype == np.float32
    assert rows.tolist() == [[0, 0, 1], [1, 0, 0]]
    # mindspore.dataset.transforms.OneHot(5, 0.1)(3)
    np.testing.assert_allclose(OneHot(5, 0.1)(3), [0.02, 0.02, 0.02, 0.92, 0.02], rtol=1e-6)
    assert OneHot(4)(np.zeros((2, 3), np.uint8)).shape == (2, 3, 4)


def test_items_are_cast():
    assert TypeCast("int32")([1.5, -2.5]).tolist() == [1, -2]
    assert TypeCast(np.float16)(np.uint8(3)).dtype == np.float16


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Compose([]), InvalidValueError, "Compose takes at least one transform, got none; leave it out"),
        (lambda: Compose(abs), TypeRuleError, "Compose takes a list of transforms, got a builtin_function_or_method; "
         "put it in a list"),
        (lambda: Compose([3]), TypeRuleError, "Compose: a transform must be callable, got the int 3; pass a function"),
        (lambda: Compose([RandomCrop(3)])(np.ones((4, 4))), TypeRuleError, "RandomCrop draws random numbers from a "
         "numpy.random.Generator, got None; pass rng=numpy.random.default_rng(seed), or use it in the map of a "
         "dataset, which passes one for each item"),
        (lambda: OneHot(0), InvalidValueError, "OneHot: num_classes must be an integer of at least 1, got 0; choose "
         "another"),
        (lambda: OneHot(3, 2), InvalidValueError, "OneHot: smoothing_rate is a share from 0 to 1, got 2; choose "
         "another"),
        (lambda: OneHot(3)(3), DataError, "OneHot: labels are from 0 to 2, got 3; raise num_classes"),
        (lambda: OneHot(3)([0, -1]), DataError, "OneHot: labels are from 0 to 2, got -1; raise num_classes"),
        (lambda: OneHot(3)(1.0), DataError, "OneHot takes integers, got float64; convert them"),
        (lambda: TypeCast("number"), TypeRuleError, "TypeCast takes a NumPy dtype, got 'number'; name one, as "
         "'float32'"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert caught.value.message == message
