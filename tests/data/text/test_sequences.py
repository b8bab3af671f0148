import numpy as np
import pytest

from adjoint.data.text import PadEnd, SlidingWindow, Truncate
from adjoint.errors import DataError, InvalidValueError

ROWS = np.arange(10).reshape(5, 2)


def test_sequences_are_cut_and_padded():
    assert Truncate(2)(ROWS).tolist() == ROWS[:2].tolist()
    assert Truncate(2, from_end=True)("abc") == "bc"
    assert Truncate(9)([1, 2]) == [1, 2]
    found = PadEnd(7, -1)(ROWS.astype(np.int16))
    assert found.dtype == np.int16
    assert found.tolist() == [*ROWS.tolist(), [-1, -1], [-1, -1]]
    assert PadEnd(2)([1, 2]).tolist() == [1, 2]


def test_windows_slide():
    # mindspore.dataset.text.SlidingWindow(2)([1, 2, 3, 4])
    assert SlidingWindow(2)([1, 2, 3, 4]).tolist() == [[1, 2], [2, 3], [3, 4]]
    found = SlidingWindow(2, 3)(ROWS)
    assert found.tolist() == [ROWS[0:2].tolist(), ROWS[3:5].tolist()]
    assert np.shares_memory(found, ROWS)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Truncate(0), InvalidValueError, "Truncate: max_seq_len must be an integer of at least 1, got 0; "
         "choose another"),
        (lambda: PadEnd(2)(ROWS), DataError, "PadEnd takes sequences of at most 2 elements, got one of 5; truncate it "
         "first"),
        (lambda: PadEnd(2)(3), DataError, "PadEnd takes sequences of at most 2 elements, got a number; truncate it "
         "first"),
        (lambda: SlidingWindow(6)(ROWS), DataError, "SlidingWindow takes sequences of at least 6 elements, got one of "
         "5; pad it first"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert caught.value.message == message
