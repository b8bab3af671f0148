"""Files of arrays: what any reader of safetensors reads and writes."""

import numpy as np
import pytest
from safetensors import SafetensorError, deserialize
from safetensors.numpy import load_file, save_file

from adjoint.errors import CheckpointError, TypeRuleError
from adjoint.ir import DTYPES
from adjoint.training import read_arrays, write_arrays


def test_every_dtype_and_shape_is_read_as_it_was_written(tmp_path):
    arrays = {name: np.arange(6).reshape(2, 3).astype(dtype) for name, dtype in DTYPES.items()}
    arrays |= {"scalar": np.array(2.5), "empty": np.zeros((0, 3), "f4"), "conv0.weight": np.ones((1, 2, 3), "f4")}
    write_arrays(tmp_path / "file", arrays)
    read = read_arrays(tmp_path / "file")
    assert list(read) == sorted(arrays)
    for name, array in arrays.items():
        assert (read[name].dtype, read[name].shape) == (array.dtype, array.shape), name
        assert read[name].tobytes() == array.tobytes(), name


def test_arrays_of_other_layouts_are_written_by_value(tmp_path):
    array = np.arange(12, dtype="f4").reshape(3, 4)
    write_arrays(tmp_path / "file", {"t": array.T, "part": array[:, ::2], "big": array.astype(">f4")})
    read = load_file(tmp_path / "file")
    np.testing.assert_array_equal(read["t"], array.T)
    np.testing.assert_array_equal(read["part"], array[:, ::2])
    np.testing.assert_array_equal(read["big"], array)


def test_files_of_other_writers_are_read(tmp_path):
    save_file({"fc.weight": np.ones((2, 3), "f2")}, tmp_path / "file", metadata={"format": "pt"})
    np.testing.assert_array_equal(read_arrays(str(tmp_path / "file"))["fc.weight"], np.ones((2, 3), "f2"))


def test_dtypes_that_adjoint_does_not_have_are_refused(tmp_path):
    path = tmp_path / "file"
    with pytest.raises(TypeRuleError) as caught:
        write_arrays(path, {"z": np.ones(3, "c16")})
    assert caught.value.message == (
        "write_arrays: arrays must have names and dtypes among f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, "
        "u64, bool, got 'z' of complex128; convert it with .astype"
    )
    assert not path.exists()
    header = b'{"z":{"dtype":"F8_E5M2","shape":[3],"data_offsets":[0,3]}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(3))
    try:
        deserialize(path.read_bytes())
    except SafetensorError:
        pytest.skip("this version of safetensors does not know the dtype either")
    with pytest.raises(CheckpointError) as caught:
        read_arrays(path)
    assert caught.value.message == (
        "read_arrays: arrays have dtypes among F32, F64, F16, BF16, I8, I16, I32, I64, U8, U16, U32, U64, BOOL, and "
        f"{path} holds 'z' of F8_E5M2; save it in another dtype"
    )


def test_the_name_of_the_metadata_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="an array in a safetensors file cannot be named '__metadata__'; rename"):
        write_arrays(tmp_path / "file", {"__metadata__": np.ones(3)})


def test_a_file_that_cannot_be_written_is_unchanged(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_arrays(path, {"w": np.ones(3)})

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("adjoint.paths.replace_file", full)
    with pytest.raises(CheckpointError) as caught:
        write_arrays(path, {"w": np.zeros(3)})
    assert caught.value.message == (
        f"write_arrays: {path} cannot be written (No space left on device), and an older file is unchanged; free space "
        "or choose another place"
    )
    np.testing.assert_array_equal(read_arrays(path)["w"], np.ones(3))
