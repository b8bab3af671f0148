"""Small pictures in a page: PNG files as data addresses."""

import base64
import struct
import zlib

import numpy as np

__all__ = ["as_picture", "png_address"]

#: The channels of pictures: grey or colours.
_CHANNELS = (1, 3)


def as_picture(row: np.ndarray) -> np.ndarray | None:
    """One input of a network as a picture, scaled to its own range.

    Parameters
    ----------
    row : numpy.ndarray
        Numbers [height, width], [channels, height, width], [height, width, channels] or [height * width] of a square.

    Returns
    -------
    numpy.ndarray or None
        u8 [height, width, 1 or 3]; None if it does not look like a picture.
    """
    if row.dtype.kind not in "fiu":
        return None
    if row.ndim == 1:
        side = round(len(row) ** 0.5)
        if side < 4 or side * side != len(row):
            return None
        row = row.reshape(side, side)
    if row.ndim == 2:
        row = row[:, :, None]
    elif row.ndim == 3 and row.shape[0] in _CHANNELS:
        row = np.moveaxis(row, 0, 2)
    if row.ndim != 3 or row.shape[2] not in _CHANNELS or min(row.shape[:2]) < 4:
        return None
    values = row.astype(np.float64)
    if not np.isfinite(values).all():
        return None
    low, high = values.min(), values.max()
    scaled: np.ndarray = np.round((values - low) * (255.0 / (high - low if high > low else 1.0))).astype(np.uint8)
    return scaled


def png_address(picture: np.ndarray) -> str:
    """A picture as the address ``data:image/png;base64,...``.

    The format is that of the PNG specification, third edition, sections 5 and 11: signature, header, data and end.

    Parameters
    ----------
    picture : numpy.ndarray
        u8 [height, width, 1 or 3].
    """
    height, width, channels = picture.shape
    lines = np.zeros((height, 1 + width * channels), np.uint8)  # each begins with its filter, 0 for none
    lines[:, 1:] = picture.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        for name, content in parts
    )
    return f"data:image/png;base64,{base64.b64encode(data).decode('ascii')}"
