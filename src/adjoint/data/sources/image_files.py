"""Decode image files: PPM, PGM and NumPy files here, other formats by Pillow, the extra ``images``."""

import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from adjoint.data.sources.files import readable
from adjoint.errors import DataError, InvalidValueError

__all__ = ["SUFFIXES", "read_image"]

#: Suffixes of the formats that are read.
SUFFIXES = (
    ".ppm", ".pgm", ".npy", ".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp",
)  # fmt: skip

#: The header of a binary PGM or PPM file (netpbm.sourceforge.net/doc/ppm.html): the format, width, height and largest
#: value, separated by white space and comments, and one white space.
_SPACE = rb"(?:\s+|#[^\n]*\n)+"
_HEADER = re.compile(rb"P([56])" + _SPACE + rb"(\d{1,9})" + _SPACE + rb"(\d{1,9})" + _SPACE + rb"(\d{1,5})\s")


def read_image(name: str, path: Path) -> np.ndarray:
    """An image as uint8 [H, W, 3], or the array of a NumPy file; `name` is the source, for errors."""
    suffix = path.suffix.lower()
    if suffix == ".npy":
        with readable(name, path, ValueError, EOFError):
            array: np.ndarray = np.load(path, allow_pickle=False)
        return array
    if suffix in (".ppm", ".pgm"):
        with readable(name, path):
            content = path.read_bytes()
        return _netpbm(name, path, content)
    if find_spec("PIL") is None:
        raise InvalidValueError(
            f"{name}: images such as {path.name!r} require Pillow, which is not installed; run pip install "
            "'adjoint[images]'"
        )
    from PIL import Image  # noqa: PLC0415 - an optional dependency

    with readable(name, path, SyntaxError, ValueError, Image.DecompressionBombError), Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def _netpbm(name: str, path: Path, content: bytes) -> np.ndarray:
    """A binary PGM or PPM file with values of one byte."""
    header = _HEADER.match(content)
    if header is None or int(header[4]) != 255:
        raise DataError(
            f"{name}: PPM and PGM files must be binary (P6 or P5) with values up to 255, {str(path)!r} is not; "
            "convert it"
        )
    channels = 3 if header[1] == b"6" else 1
    width, height = int(header[2]), int(header[3])
    size = width * height * channels
    if len(content) - header.end() < size:
        raise DataError(
            f"{name}: {str(path)!r} must have {size} bytes for {width} x {height} pixels, got "
            f"{len(content) - header.end()}; fetch it again"
        )
    pixels = np.frombuffer(content, np.uint8, size, header.end()).reshape(height, width, channels)
    return pixels if channels == 3 else np.repeat(pixels, 3, axis=2)
