import numpy as np
import pytest

from adjoint.data.idx import parse_idx
from adjoint.errors import DataError

# Written out by hand from the description of the format: type 8, two axes, 2 x 3.
SIX = b"\x00\x00\x08\x02\x00\x00\x00\x02\x00\x00\x00\x03\x01\x02\x03\xff\x05\x06"


def test_reads_what_the_format_says():
    array = parse_idx(SIX)
    np.testing.assert_array_equal(array, np.array([[1, 2, 3], [255, 5, 6]], np.uint8))
    assert array.dtype == np.uint8
    assert not array.flags.writeable


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x1f\x8b\x08\x00", "begins with two zero bytes, labels begins with .*; is it unpacked?"),
        (b"", "begins with two zero bytes"),
        (b"\0\0\x0d\x01" + SIX[4:], "must be unsigned bytes .*, labels has type 13; convert them"),
        (SIX[:-1], r"promises 18 bytes for shape \(2, 3\), got 17; fetch the file again"),
        (SIX + b"\0", "promises 18 bytes .* got 19"),
        (SIX[:9], "fetch the file again"),
    ],
)
def test_refuses_anything_else(content, message):
    with pytest.raises(DataError, match=message):
        parse_idx(content, "labels")
