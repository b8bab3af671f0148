"""Arguments that are refused, and the fix for what was given."""

import re

import numpy as np
import pytest

from adjoint.errors import TypeRuleError
from adjoint.kernel.program import Argument
from adjoint.runtime.arguments import accept, axes_fix, in_other_order, is_one_hot, miscounted, refuse_swapped

IMAGES = Argument("x", (4, 2), np.dtype(np.float32), 0)
LABELS = Argument("y", (4,), np.dtype(np.int64), 1)
X, Y = np.zeros((4, 2), np.float32), np.arange(4)

REFUSED = [
    (
        LABELS,
        np.eye(4),
        "step: y must have shape (4,), got (4, 4); for one-hot rows, take argmax over the last axis, or train on float "
        "targets (probabilities) by giving their type in loss_args",
    ),
    (
        LABELS,
        np.ones((4, 4)),
        "step: y must have shape (4,), got (4, 4); reshape it, or build the model for this shape",
    ),
    (IMAGES, np.eye(4, 3), "step: x must have shape (4, 2), got (4, 3); reshape it, or build the model for this shape"),
    (IMAGES, np.zeros((2, 2, 2)), "step: x must have shape (4, 2), got (2, 2, 2); reshape it"),
    (
        IMAGES,
        X[:3],
        "step: x must have shape (4, 2), got (3, 2); pass 4 rows at a time, or build the model for this batch size",
    ),
    (
        IMAGES,
        X.astype(np.uint8),
        "step: x must be float32, got uint8; convert it with .astype('float32'), and divide images by 255",
    ),
    (IMAGES, X.astype(np.float64), "step: x must be float32, got float64; convert it with .astype('float32')"),
    (LABELS, Y.astype(np.int32), "step: y must be int64, got int32; convert it with .astype('int64')"),
    (LABELS, [0.5] * 4, "step: y must be int64, got float64; convert it with .astype('int64')"),
    (IMAGES, [[1], [2, 3]], "step: x must be an array, got nested lists of different lengths; make them equal"),
]


@pytest.mark.parametrize(
    ("wanted", "given", "fix"),
    [
        ((4, 3, 8, 6), (4, 8, 6, 3), "if its channels are last, pass x.transpose(0, 3, 1, 2)"),
        ((4, 8, 6, 3), (9, 3, 8, 6), "if its channels are first, pass x.transpose(0, 2, 3, 1)"),
        ((4, 3, 8), (4, 8, 3), "if its channels are last, pass x.transpose(0, 2, 1)"),
        (
            (4, 3, 8, 6),
            (8, 6, 3),
            "if its channels are last and it is a single row, pass x[None].transpose(0, 3, 1, 2)",
        ),
        ((4, 2), (2,), "pass x[None] if it is a single row"),
        ((4, 3, 8, 6), (3, 8, 6), "pass x[None] if it is a single row"),
        ((4, 1, 8, 6), (9, 8, 6), "add the axis that is missing, x[:, None]"),
        ((4, 8, 1), (4, 8), "add the axis that is missing, x[:, :, None]"),
        ((4, 1), (9,), "add the axis that is missing, x[:, None]"),
        ((4,), (9, 1), "remove its axis of size 1, x.squeeze(1)"),
        ((4, 8, 6), (4, 1, 8, 6), "remove its axis of size 1, x.squeeze(1)"),
        ((4, 48), (9, 1, 8, 6), "flatten its rows, x.reshape(len(x), -1)"),
        ((4, 3), (3, 9), "transpose it, x.T"),
    ],
)
def test_the_axes_to_change_are_named(wanted, given, fix):
    assert axes_fix("x", wanted, given) == fix
    written = re.search(r"\bx[.\[].*?(?= if|$)", fix)[0]
    changed = eval(written, {"x": np.zeros(given)})
    assert changed.shape[1:] == wanted[1:]


@pytest.mark.parametrize(("wanted", "given"), [((4, 2), (4, 3)), ((4,), (4, 4)), ((4, 2, 3), (4, 6)), ((), (2, 2))])
def test_no_axes_are_named_where_elements_would_be_mixed_up(wanted, given):
    assert axes_fix("x", wanted, given) == ""


@pytest.mark.parametrize(("argument", "given", "expected"), REFUSED)
def test_the_fix_is_that_of_what_was_given(argument, given, expected):
    with pytest.raises(TypeRuleError) as caught:
        accept("step", argument, given)
    assert caught.value.message == expected


def test_lists_are_converted():
    assert accept("step", IMAGES, X.tolist()).dtype == np.float32
    assert accept("step", LABELS, [0, 1, 2, 3]).dtype == np.int64


def test_one_argument_is_singular():
    assert miscounted("step", [IMAGES], [X, Y]).message == "step takes 1 argument (x), got 2; leave out the others"
    assert miscounted("f", [], [X]).message == "f takes 0 arguments (none), got 1; leave out the others"


def test_a_batch_that_is_not_unpacked_is_recognized():
    assert miscounted("update", [IMAGES, LABELS], [X]).message == (
        "update takes 2 arguments (x, y), got 1; give it all of them"
    )
    assert miscounted("update", [IMAGES, LABELS], [(X, Y)]).message == (
        "update takes 2 arguments (x, y), got a tuple of 2; unpack it, as in update(*batch)"
    )


def test_exchanged_arguments_are_recognized():
    with pytest.raises(TypeRuleError) as caught:
        refuse_swapped("step", [IMAGES, LABELS], [Y, X])
    assert caught.value.message == (
        "step: arguments must be in the order (x, y), got arrays that fit (y, x); exchange them"
    )
    refuse_swapped("step", [IMAGES, LABELS], [Y, X.astype(np.float64)])
    assert in_other_order(3, lambda place, array: array == (place + 1) % 3) == (1, 2, 0)
    assert in_other_order(2, lambda place, array: place == array) is None


def test_one_hot_rows_have_a_single_one():
    rows = np.eye(3)[[0, 2]]
    assert is_one_hot(rows, (2,), np.dtype(np.int64))
    assert not is_one_hot(rows, (2,), np.dtype(np.float32))
    assert not is_one_hot(rows * 2, (2,), np.dtype(np.int64))
    assert not is_one_hot(rows, (3,), np.dtype(np.int64))
