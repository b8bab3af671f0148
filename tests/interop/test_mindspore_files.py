"""Checkpoints of MindSpore are read as they were saved, and nothing else is."""

import base64

import numpy as np
import pytest

from adjoint.errors import CheckpointError, MissingFileError
from adjoint.interop import read_mindspore

#: What MindSpore 2.10 writes: ``save_checkpoint([{"name": "half", "data": Tensor(np.arange(3), float16)}, {"name":
#: "bf", "data": Tensor(np.arange(3), bfloat16)}, {"name": "scalar", "data": Tensor(2.5, float32)}, {"name": "b",
#: "data": Tensor([True, False])}], path)``.
FILE = base64.b64decode(
    "ChsKBGhhbGYSEwgDEgdGbG9hdDE2GgYAAAA8AEAKGgoCYmYSFAgDEghCRmxvYXQxNhoGAACAPwBAChkKBnNjYWxhchIPEgdGbG9hdDMyGgQAACBA"
    "ChEKAWISDAgCEgRCb29sGgIBAA=="
)


def test_a_file_of_mindspore_is_read(tmp_path):
    (tmp_path / "file").write_bytes(FILE)
    found = read_mindspore(tmp_path / "file")
    assert {name: (array.dtype.name, array.tolist()) for name, array in found.items()} == {
        "half": ("float16", [0.0, 1.0, 2.0]),
        "bf": ("bfloat16", [0.0, 1.0, 2.0]),
        "scalar": ("float32", 2.5),
        "b": ("bool", [True, False]),
    }


def field(number, value):
    """A field of a message: an integer below 128, or bytes shorter than that."""
    return bytes([8 * number, value]) if isinstance(value, int) else bytes([8 * number + 2, len(value)]) + value


def value(name, sizes, dtype, content):
    tensor = b"".join(field(1, size) for size in sizes) + field(2, dtype) + field(3, content)
    return field(1, field(1, name) + field(2, tensor))


def test_texts_slices_checksums_and_scalars_of_other_versions_are_read(tmp_path):
    rows = np.arange(6, dtype=np.int32)
    content = value(b"note", [0], b"str", "hi".encode("utf-32-le"))
    content += value(b"a", [3, 2], b"Int32", rows[:4].tobytes()) + value(b"a", [3, 2], b"Int32", rows[4:].tobytes())
    content += value(b"step", [0], b"Int64", b"\3" + bytes(7))
    content += field(1, field(1, b"u") + field(2, b"\n\2\1\2\22\5UInt8\32\2ab"))
    (tmp_path / "file").write_bytes(content + b"crc_num0123456789")
    found = read_mindspore(tmp_path / "file")
    assert found["note"] == "hi"
    assert found["a"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert (found["step"].shape, int(found["step"])) == ((), 3)
    assert found["u"].tolist() == [[97, 98]]


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "file"
    with pytest.raises(MissingFileError, match=r"^read_mindspore: there is no file .*; check the path"):
        read_mindspore(path)
    wrong = [FILE[:cut] for cut in range(1, len(FILE)) if cut not in (29, 57, 84)]  # not at the end of a value
    wrong += [b"\xff" * 20, b"\x0a\xff\xff\xff\xff\x7f", field(1, 3)]
    wrong += [value(b"a", [9], b"Int32", b"1234"), value(b"a", [1], b"Complex", b"1234")]
    wrong += [value(b"a", [1], b"Int8", b"1") + value(b"a", [1], b"UInt8", b"1")]
    for content in wrong:
        path.write_bytes(content)
        with pytest.raises(
            CheckpointError,
            match=r"^read_mindspore reads files of mindspore.save_checkpoint, and .*file is truncated, encrypted or",
        ):
            read_mindspore(path)
