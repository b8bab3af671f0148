"""Elements of tensors: every dtype, sizes that do not fit, and external data, also outside of the model's folder."""

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper

import adjoint as torch
from adjoint.errors import CheckpointError, TypeRuleError
from adjoint.importers.onnx.tensors import array_of
from tests.importers.onnx.models import perceptron, weights


@pytest.mark.parametrize(
    "dtype",
    ["f4", "f8", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", ml_dtypes.bfloat16],
)
def test_dtypes_raw_and_in_fields(dtype):
    array = np.array([[0, 1, 3]]).astype(dtype)
    code = 16 if dtype is ml_dtypes.bfloat16 else helper.np_dtype_to_tensor_dtype(array.dtype)
    raw, wide = TensorProto(data_type=code, dims=[1, 3], raw_data=array.tobytes()), code in (1, 11)
    fields = {1: "float_data", 11: "double_data", 7: "int64_data", 12: "uint64_data", 13: "uint64_data"}
    bits = array.view(np.uint16) if code in (10, 16) else array
    spread = TensorProto(data_type=code, dims=[1, 3])
    getattr(spread, fields.get(code, "int32_data")).extend(bits.ravel().astype(float if wide else int).tolist())
    for proto in (raw, spread):
        made = array_of(proto, "w", None)
        assert made.dtype == array.dtype
        assert made.tolist() == array.tolist()


def refused(kind=CheckpointError, **fields):
    with pytest.raises(kind) as error:
        array_of(TensorProto(**fields), "the initializer 'w'", None)
    return error.value.message


def test_sizes_are_checked_before_anything_is_allocated():
    assert refused(data_type=1, dims=[1 << 40, 1 << 20], raw_data=b"1234") == (
        "from_onnx: the initializer 'w' of shape [1099511627776, 1048576] must have 4611686018427387904 bytes, got "
        "4; the file is damaged, export it again"
    )
    assert refused(data_type=7, dims=[3], int64_data=[1]) == (
        "from_onnx: the initializer 'w' of shape [3] must have 3 elements, got 1; the file is damaged, export it again"
    )
    assert refused(data_type=1, dims=[-1]) == (
        "from_onnx: the initializer 'w' must have sizes of at least 0, got [-1]; export it again"
    )
    assert refused(TypeRuleError, data_type=8, dims=[1]) == (
        "from_onnx: the initializer 'w' must have a dtype that adjoint has, got number 8 of TensorProto.DataType; "
        "export the model with floats, integers and bools"
    )


@pytest.fixture
def external(tmp_path):
    """Saves a model whose weight is in another file, and returns its path."""
    (tmp_path / "models").mkdir()
    (tmp_path / "secret").write_bytes(bytes(24))
    (tmp_path / "models" / "data").write_bytes(b"head" + weights(3, 2).tobytes())

    def save(**entries):
        made = perceptron()
        tensor = made.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=str(value))
        path = tmp_path / "models" / "net.onnx"
        path.write_bytes(made.SerializeToString())
        return path

    return save


def test_external_data_is_read(external):
    path = external(location="data", offset=4, length=24)
    assert torch.equal(torch.from_onnx(path).layer.w, torch.tensor(weights(3, 2)))
    with pytest.raises(CheckpointError, match=r"'data', which needs the model's folder; pass the path of the model"):
        torch.from_onnx(path.read_bytes())


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "link", "", ".", "a\0b", "x/../../secret"])
def test_external_data_outside_of_the_folder_is_refused(external, tmp_path, location):
    (tmp_path / "models" / "link").symlink_to(tmp_path / "secret")
    path = external(location=location, length=24)
    with pytest.raises(CheckpointError) as error:
        torch.from_onnx(path)
    assert error.value.message == (
        f"from_onnx: external data must be in the folder of the model, got {location!r} for the initializer "
        "'layer.w'; do not use this file"
    )


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"offset": "-4"}, "must be 24 bytes from an offset of at least 0, got offset '-4' and length None"),
        ({"length": 1 << 50}, "must be 24 bytes from an offset of at least 0, got offset '0' and length '11258999"),
        ({"offset": 8}, "'data' must have 32 bytes for the initializer 'layer.w', got 28; copy it again"),
        (
            {"location": "none"},
            r"'none', which has the elements of the initializer 'layer.w', cannot be read \(No such",
        ),
    ],
)
def test_external_data_must_fit(external, entries, message):
    path = external(**{"location": "data", **entries})
    with pytest.raises(CheckpointError, match=message):
        torch.from_onnx(path)
