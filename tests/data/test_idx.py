import gzip

import numpy as np
import pytest

from adjoint.data.idx import parse_idx, read_idx
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
        (b"\0\0\x0a\x01" + SIX[4:], "one of the types 8, 9, 11, 12, 13, 14, labels has type 10; convert them"),
        (SIX[:-1], r"promises 18 bytes for shape \(2, 3\), got 17; fetch the file again"),
        (SIX + b"\0", "promises 18 bytes .* got 19"),
        (SIX[:9], "fetch the file again"),
    ],
)
def test_refuses_anything_else(content, message):
    with pytest.raises(DataError, match=message):
        parse_idx(content, "labels")


@pytest.mark.parametrize(
    ("kind", "elements", "dtype", "value"),
    [
        (0x09, b"\xfe", np.int8, -2),
        (0x0B, b"\xff\xfe", np.int16, -2),
        (0x0C, b"\x00\x01\x00\x00", np.int32, 65536),
        (0x0D, b"\x3f\xc0\x00\x00", np.float32, 1.5),
        (0x0E, b"\xbf\xf8\x00\x00\x00\x00\x00\x00", np.float64, -1.5),
    ],
)
def test_other_elements_are_big_endian(kind, elements, dtype, value):
    array = parse_idx(bytes([0, 0, kind, 1, 0, 0, 0, 1]) + elements)
    assert array.dtype == dtype
    assert array.tolist() == [value]
    assert not array.flags.writeable


def test_a_file_may_be_compressed(tmp_path):
    (tmp_path / "a").write_bytes(SIX)
    (tmp_path / "a.gz").write_bytes(gzip.compress(SIX))
    np.testing.assert_array_equal(read_idx(tmp_path / "a"), read_idx(str(tmp_path / "a.gz")))
    (tmp_path / "b.gz").write_bytes(gzip.compress(SIX)[:-9])
    with pytest.raises(DataError, match=r"b\.gz is truncated or no gzip file \(.*\); fetch the file again"):
        read_idx(tmp_path / "b.gz")
    with pytest.raises(DataError, match=r"there is no file .*c; check the path"):
        read_idx(tmp_path / "c")
