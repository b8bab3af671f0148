import numpy as np
import pytest

from adjoint.data import ArrayBatches
from adjoint.data.text import LanguageModelWindows
from adjoint.errors import DataError, InvalidValueError
from adjoint.training.gather import source_of

IDS = np.arange(100, 147, dtype=np.uint16)


def windows_of(data, number=0, start=0):
    batches = list(data.epoch(number, start))
    return np.concatenate([x for x, _ in batches]), np.concatenate([y for _, y in batches])


def test_each_token_is_a_target_once():
    data = LanguageModelWindows(IDS, 5, 4)
    x, y = windows_of(data)
    assert x.shape == (9, 5)
    assert np.array_equal(y, x + 1)
    assert sorted(x[:, 0]) == list(range(100, 145, 5))
    assert sorted(y.ravel()) == list(range(101, 146))  # 146 would be in an incomplete window
    assert len(data) == 3
    assert len(LanguageModelWindows(IDS, 5, 4, drop_last=True)) == 2
    other = windows_of(data, 1)[0]
    assert other.tolist() != x.tolist()
    assert sorted(map(tuple, other)) == sorted(map(tuple, x))


@pytest.mark.parametrize("stride", [None, 2])
def test_native_code_gathers_windows_that_are_not_copies(stride):
    data = LanguageModelWindows(IDS, 5, 4, stride=stride)
    assert isinstance(data.arrays(), ArrayBatches)
    for first, table in zip((100, 101), data.tables, strict=True):
        assert np.shares_memory(table.array, IDS)
        source, step = source_of(table.array)
        # Adjacent windows are whole rows; others are found in the sequence by the step between their beginnings.
        assert (source.ravel()[0], step) == (first, stride or 0)
        assert source.flags.c_contiguous


@pytest.mark.parametrize("stride", [1, 3, 7])
def test_windows_may_overlap_or_have_gaps(stride):
    data = LanguageModelWindows(IDS, 5, 4, stride=stride, shuffle=False)
    x, y = windows_of(data)
    assert np.array_equal(y, x + 1)
    assert x[:, 0].tolist() == list(range(100, 142, stride))


def test_an_epoch_may_have_some_of_the_windows():
    data = LanguageModelWindows(IDS, 5, 2, stride=1, windows_per_epoch=6, seed=3)
    first, second = (windows_of(data, number)[0][:, 0].tolist() for number in range(2))
    assert len(data) == 3
    assert len(set(first)) == 6
    assert set(first) != set(second)
    again = LanguageModelWindows(IDS, 5, 2, stride=1, windows_per_epoch=6, seed=3)
    assert windows_of(again, 1, start=1)[0][:, 0].tolist() == second[2:]
    assert next(iter(again))[0][0, 0] == first[0]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: LanguageModelWindows("text", 5, 2), DataError, "LanguageModelWindows takes the numbers of tokens, "
         "integers [N], got str; encode the text first"),
        (lambda: LanguageModelWindows(np.zeros(9), 5, 2), DataError, "LanguageModelWindows takes the numbers of "
         "tokens, integers [N], got float64 [9]; encode the text first"),
        (lambda: LanguageModelWindows(IDS, 47, 2), DataError, "LanguageModelWindows: a window and its targets need 48 "
         "tokens, got 47; choose a shorter length"),
        (lambda: LanguageModelWindows(IDS, 5, 2, windows_per_epoch=10), InvalidValueError, "LanguageModelWindows: "
         "windows_per_epoch must be at most the number of windows, 9, got 10; choose a smaller stride"),
        (lambda: LanguageModelWindows(IDS, 0, 2), InvalidValueError, "LanguageModelWindows: length must be an integer "
         "of at least 1, got 0; choose another"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(make, error, message):
    with pytest.raises(error) as caught:
        make()
    assert caught.value.message == message


def test_one_window_is_enough():
    x, y = windows_of(LanguageModelWindows(IDS[:6], 5, 2))
    assert (x.tolist(), y.tolist()) == ([IDS[:5].tolist()], [IDS[1:6].tolist()])
