"""Pictures: what looks like one, and the bytes of PNG files."""

import base64
import struct
import zlib

import numpy as np
import pytest

from adjoint.training.report.images import as_picture, png_address

GREY = np.arange(30.0).reshape(5, 6)


def decoded(address):
    """The pixels of a PNG file without filters, read by the specification."""
    data = base64.b64decode(address.removeprefix("data:image/png;base64,"))
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        name, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(name + content)
        chunks[name] = content
        at += 12 + size
    width, height, depth, colour, *_ = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (depth, list(chunks)) == (8, [b"IHDR", b"IDAT", b"IEND"])
    channels = {0: 1, 2: 3}[colour]
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + width * channels)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, channels)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_picture_is_read_back(channels):
    picture = np.random.default_rng(0).integers(0, 256, (5, 7, channels), np.uint8)
    assert (decoded(png_address(picture)) == picture).all()


def test_numbers_are_scaled_to_their_range():
    picture = as_picture(GREY)
    assert picture.shape == (5, 6, 1)
    assert (picture[:, :, 0] == np.round(GREY * 255 / 29)).all()
    assert as_picture(np.full((4, 4), 7)).max() == 0


@pytest.mark.parametrize(
    ("shape", "found"),
    [
        ((1, 5, 6), (5, 6, 1)),
        ((3, 5, 6), (5, 6, 3)),
        ((5, 6, 3), (5, 6, 3)),
        ((16,), (4, 4, 1)),
        ((15,), None),
        ((4,), None),
        ((2, 5, 6), None),
        ((2, 9), None),
        ((3, 3, 8, 8), None),
    ],
)
def test_shapes_of_pictures_are_known(shape, found):
    picture = as_picture(np.zeros(shape, np.float32))
    assert (None if picture is None else picture.shape) == found


def test_channels_come_last():
    colours = np.stack([GREY, GREY[::-1], GREY[:, ::-1]])
    assert (as_picture(colours)[:, :, 1] == as_picture(GREY)[::-1, :, 0]).all()


def test_what_is_no_numbers_is_no_picture():
    assert as_picture(np.array([["a"] * 4] * 4)) is None
    assert as_picture(np.full((4, 4), np.nan)) is None
