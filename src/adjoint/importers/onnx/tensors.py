"""Tensors of ONNX files as arrays: their dtypes, and the checks before anything is allocated."""

import os
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.errors import CheckpointError, TypeRuleError
from adjoint.ir import DTYPES

__all__ = ["DTYPE_CODES", "array_of", "dtype_of_code"]

#: The number of each dtype in ``TensorProto.DataType``, and the field that holds elements that are not raw bytes.
_CODES = {
    "f32": (1, "float_data"),
    "u8": (2, "int32_data"),
    "i8": (3, "int32_data"),
    "u16": (4, "int32_data"),
    "i16": (5, "int32_data"),
    "i32": (6, "int32_data"),
    "i64": (7, "int64_data"),
    "bool": (9, "int32_data"),
    "f16": (10, "int32_data"),
    "f64": (11, "double_data"),
    "u32": (12, "uint64_data"),
    "u64": (13, "uint64_data"),
    "bf16": (16, "int32_data"),
}

#: The number in files of each dtype.
DTYPE_CODES: dict[np.dtype, int] = {DTYPES[name]: code for name, (code, _) in _CODES.items()}

_BY_CODE = {code: (DTYPES[name], field) for name, (code, field) in _CODES.items()}

#: ``TensorProto.EXTERNAL``: the elements are in another file.
_EXTERNAL = 1


def dtype_of_code(code: int, what: str) -> np.dtype:
    """The dtype of a number in a file; `what` it belongs to is named in messages."""
    if code not in _BY_CODE:
        raise TypeRuleError(
            f"from_onnx: {what} must have a dtype that adjoint has, got number {code} of TensorProto.DataType; export "
            "the model with floats, integers and bools"
        )
    return _BY_CODE[code][0]


def array_of(tensor: Any, what: str, folder: Path | None) -> np.ndarray:
    """The elements of a ``TensorProto``, copied.

    Parameters
    ----------
    tensor : onnx.TensorProto
        The tensor.
    what : str
        What it is called in messages.
    folder : Path or None
        The folder of the model, in which external data lies; None if it is unknown.

    Raises
    ------
    CheckpointError
        If the file has more, or fewer, elements than its sizes say, or its external data cannot be used.
    TypeRuleError
        If there is no such dtype.
    """
    dtype = dtype_of_code(tensor.data_type, what)
    shape = tuple(tensor.dims)
    if any(size < 0 for size in shape):
        raise CheckpointError(f"from_onnx: {what} must have sizes of at least 0, got {list(shape)}; export it again")
    count = prod(shape)
    if tensor.data_location == _EXTERNAL:
        content: Any = _external_bytes(tensor, what, count * dtype.itemsize, folder)
    elif tensor.HasField("raw_data"):
        content = tensor.raw_data
    else:
        return _from_field(tensor, what, dtype, shape)
    if len(content) != count * dtype.itemsize:
        raise _wrong_size(what, shape, count * dtype.itemsize, len(content), "bytes")
    if dtype == np.bool_:
        return np.asarray(np.frombuffer(content, np.uint8).reshape(shape) != 0)
    return np.frombuffer(content, dtype.newbyteorder("<")).astype(dtype).reshape(shape)


def _from_field(tensor: Any, what: str, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    field = getattr(tensor, _BY_CODE[tensor.data_type][1])
    if len(field) != prod(shape):
        raise _wrong_size(what, shape, prod(shape), len(field), "elements")
    numbers: np.ndarray = np.asarray(field)
    if dtype.itemsize == 2 and dtype.kind != "i" and dtype.kind != "u":  # the bits of 16-bit floats
        return numbers.astype(np.uint16).view(dtype).reshape(shape)
    return numbers.astype(dtype).reshape(shape)


def _wrong_size(what: str, shape: tuple[int, ...], wanted: int, found: int, unit: str) -> CheckpointError:
    return CheckpointError(
        f"from_onnx: {what} of shape {list(shape)} must have {wanted} {unit}, got {found}; the file is damaged, export "
        "it again"
    )


def _external_bytes(tensor: Any, what: str, size: int, folder: Path | None) -> bytes:
    """The bytes of a tensor in a file of its own, which must lie in the model's folder."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise CheckpointError(
            f"from_onnx: {what} is in a file of its own, {location!r}, which needs the model's folder; pass the path "
            "of the model"
        )
    base = Path(os.path.realpath(folder))
    sound = isinstance(location, str) and "\0" not in location  # bytes are what is not UTF-8
    path = Path(os.path.realpath(base / location)) if sound else base
    if not sound or not location or Path(location).is_absolute() or not path.is_relative_to(base) or path == base:
        raise CheckpointError(
            f"from_onnx: external data must be in the folder of the model, got {location!r} for {what}; do not use "
            "this file"
        )
    offset, length = (_number(entries.get(key, default)) for key, default in (("offset", "0"), ("length", str(size))))
    if offset is None or length != size:
        raise CheckpointError(
            f"from_onnx: the external data of {what} must be {size} bytes from an offset of at least 0, got offset "
            f"{entries.get('offset', '0')!r} and length {entries.get('length')!r}; export it again"
        )
    try:
        found = path.stat().st_size
        if not path.is_file() or found < offset + size:
            raise CheckpointError(
                f"from_onnx: {location!r} must have {offset + size} bytes for {what}, got {found}; copy it again"
            )
        with path.open("rb") as stream:
            stream.seek(offset)
            return stream.read(size)
    except (OSError, ValueError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"from_onnx: {location!r}, which has the elements of {what}, cannot be read "
            f"({getattr(error, 'strerror', None) or error}); keep it beside the model"
        ) from error


def _number(text: str) -> int | None:
    """A number of at least 0 that is written in digits; None for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
