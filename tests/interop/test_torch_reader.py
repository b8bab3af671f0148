"""Files of PyTorch: `tests/golden/torch/record_files.py` wrote two of them; the others are made by hand."""

import io
import pickle
import sys
import zipfile
from collections import Counter, OrderedDict
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from adjoint.errors import CheckpointError
from adjoint.interop import TorchTensor, read_torch
from tests.interop.archives import FLOATS, archive, call, name, plain, read, storage, tensor

FILES = Path(__file__).parents[1] / "golden/torch"
NAMES = ("checkpoint.pt", "checkpoint_1_5.pt")


@pytest.fixture(scope="module", params=NAMES)
def found(request):
    return read_torch(FILES / request.param)


def numbers(p, *shape):
    """The elements of parameter p of the recipe."""
    return ((10 * p + np.arange(np.prod(shape)).reshape(shape)) / 8).astype(np.float32)


def test_a_state_dict_of_pytorch(found):
    model = found["model"]
    expected = {
        "0.weight": numbers(0, 3, 3),
        "0.bias": numbers(1, 3),
        "1.weight": numbers(2, 3),
        "1.bias": numbers(3, 3),
        "1.running_mean": np.zeros(3, np.float32),
        "1.running_var": np.ones(3, np.float32),
        "1.num_batches_tracked": np.array(0),
        "2.weight": numbers(0, 3, 3),
    }
    assert type(model) is OrderedDict
    assert list(model) == list(expected)
    for key, array in expected.items():
        assert (model[key].dtype, model[key].shape) == (array.dtype, array.shape), key
        np.testing.assert_array_equal(model[key], array)
        assert model[key].flags.writeable, key
    assert model["2.weight"] is model["0.weight"]  # tied
    assert model._metadata[""] == {"version": 1}
    assert model._metadata["1"] == {"version": 2}


def test_the_states_of_an_optimizer_and_a_scheduler(found):
    optimizer = found["optimizer"]
    assert list(optimizer["state"]) == [0, 1, 2, 3]
    np.testing.assert_allclose(optimizer["state"][1]["exp_avg"], np.full(3, 0.1), rtol=1e-6)
    np.testing.assert_allclose(optimizer["state"][1]["exp_avg_sq"], np.full(3, 0.001), rtol=1e-6)
    assert optimizer["state"][1]["step"].shape == ()
    assert optimizer["state"][1]["step"] == 1
    (group,) = optimizer["param_groups"]
    assert (group["lr"], group["betas"], group["params"]) == (0.5, (0.9, 0.999), [0, 1, 2, 3])
    assert found["scheduler"]["milestones"] == Counter({2: 2, 5: 1})
    assert type(found["scheduler"]["milestones"]) is Counter


def test_tensors_of_every_dtype(found):
    for key, array in found["dtypes"].items():
        assert array.dtype == np.dtype(getattr(ml_dtypes, key, key)), key
        np.testing.assert_array_equal(array.astype(np.float64 if "complex" not in key else complex), [0, 1, 1])
    assert len(found["dtypes"]) == 16


def test_tensors_of_every_layout(found):
    layouts = found["layouts"]
    matrix = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(layouts["matrix"], matrix)
    np.testing.assert_array_equal(layouts["transposed"], matrix.T)
    np.testing.assert_array_equal(layouts["part"], [3, 7, 11])
    np.testing.assert_array_equal(layouts["expanded"], np.full((2, 3), 2))
    assert (layouts["scalar"].shape, layouts["scalar"], layouts["scalar"].dtype) == ((), 2.5, np.float64)
    assert (layouts["empty"].shape, layouts["empty"].dtype) == ((0, 3), np.float32)
    layouts["matrix"][0, 3] = -1  # one storage
    assert layouts["transposed"][3, 0] == layouts["part"][0] == -1
    layouts["matrix"][0, 3] = 3
    assert not layouts["expanded"].flags.writeable


def test_other_objects(found):
    expected = [1, -1, 300, 2**40, 1.5, True, None, "é", (1, (2,)), b"\0\xff", bytearray(b"b"), 1 + 2j, {3}]
    assert found["python"] == expected
    assert list(map(type, found["python"])) == list(map(type, expected))
    assert found["torch"] == ((2, 3), np.dtype(np.float32), "cpu", "cuda:1")
    scalar, array = found["numpy"]
    assert (type(scalar), scalar) == (np.float32, 1.5)
    np.testing.assert_array_equal(array, np.arange(6, dtype=np.int16).reshape(2, 3).T)
    assert array.dtype == np.int16


@pytest.mark.parametrize("file", NAMES)
def test_each_tensor_is_made_once_by_the_caller(file):
    made = []

    def make(given):
        made.append(given)
        return given

    found = read_torch(FILES / file, make)
    assert all(isinstance(given, TorchTensor) for given in made)
    assert found["model"]["2.weight"] is found["model"]["0.weight"]
    assert [(t.requires_grad, t.is_parameter) for t in (found["parameter"], found["requires_grad"])] == [
        (True, True),
        (True, False),
    ]
    assert len(made) == len(set(map(id, made))) == 7 + 12 + 16 + 6 + 2
    read_torch(FILES / file, lambda given: made.append(given.array.tolist()))


def test_errors_of_the_callers_function_are_its_own():
    def make(_):
        raise TypeError("mine")

    with pytest.raises(TypeError, match=r"^mine$"):
        read(tensor(), make=make)


def test_files_of_machines_with_the_other_byte_order_are_converted():
    other = "big" if sys.byteorder == "little" else "little"
    swapped = np.frombuffer(FLOATS, "<f4").byteswap().tobytes()
    found = read(tensor(), {"data/0": swapped, "byteorder": other.encode()})
    np.testing.assert_array_equal(found, np.arange(6, dtype=np.float32).reshape(2, 3))
    where = storage("0", "ComplexFloatStorage", 3)
    found = read(tensor((3,), (1,), where=where), {"data/0": swapped, "byteorder": other.encode()})
    np.testing.assert_array_equal(found, np.array([1j, 2 + 3j, 4 + 5j], np.complex64))
    with pytest.raises(CheckpointError) as caught:
        read(tensor(), {"byteorder": b"middle"})
    assert caught.value.message == ("read_torch: the file has the byte order b'middle'; save it again with torch.save")


def test_every_byte_but_0_is_true():
    where = storage("0", "BoolStorage", 3)
    found = read(tensor((3,), (1,), where=where), {"data/0": b"\0\1\xff"})
    assert found.view(np.uint8).tolist() == [0, 1, 1]


OUTSIDE = (
    "read_torch: the file has a tensor of shape {}, strides {} and offset {} outside of its storage of 24 bytes; save"
)


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((2, 3), (3, 1), 1),
        ((2, 3), (4, 1), 0),
        ((7,), (1,), 0),
        ((1,), (1,), 6),
        ((2**40,), (1,), 0),
        ((2,), (2**62,), 0),
    ],
)
def test_tensors_outside_of_their_storage_are_refused(shape, strides, offset):
    with pytest.raises(CheckpointError) as caught:
        read(tensor(shape, strides, offset))
    assert caught.value.message == OUTSIDE.format(shape, strides, offset) + " it again"


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((2, 3), (-3, 1), 3),
        ((-1,), (1,), 0),
        ((2, 3), (3, 1), -1),
        ((2, 3), (3,), 0),
        ((2.0,), (1,), 0),
        ([2], (1,), 0),
        ((True,), (1,), 0),
        ((2**62, 2**62), (0, 0), 0),
        ((0, 2**62, 2**62), (0, 0, 0), 0),
        ((2**64,), (0,), 0),
        ((1,) * 65, (1,) * 65, 0),
    ],
)
def test_impossible_sizes_are_refused(shape, strides, offset):
    with pytest.raises(CheckpointError, match="the file has a damaged pickle, at byte"):
        read(tensor(shape, strides, offset))


def test_tensors_that_repeat_elements_without_end_are_refused():
    assert read(tensor((2**28,), (0,))).shape == (2**28,)
    with pytest.raises(CheckpointError) as caught:
        read(tensor((2**20, 2**20), (0, 0)))
    assert caught.value.message == (
        "read_torch: the file has a tensor of shape (1048576, 1048576) and strides (0, 0) that repeats its elements to "
        "more than 4 GiB; save the tensor before it is expanded"
    )


@pytest.mark.parametrize(
    ("count", "entries", "given"),
    [(7, {}, "28 bytes in data/0 and has 24 bytes"), (2**60, {}, f"{2**62} bytes in data/0 and has 24 bytes")],
)
def test_storages_of_another_size_are_refused(count, entries, given):
    with pytest.raises(CheckpointError) as caught:
        read(tensor(where=storage(count=count)), entries)
    assert caught.value.message == f"read_torch: the file promises {given}; save it again"


def test_a_missing_storage_is_refused():
    with pytest.raises(CheckpointError) as caught:
        read(tensor(where=storage("5")))
    assert caught.value.message == "read_torch: the file promises 24 bytes in data/5 and has nothing; save it again"


def test_a_storage_with_two_types_is_refused():
    second = tensor(where=storage(kind="DoubleStorage", count=3), shape=(3,), strides=(1,))
    with pytest.raises(CheckpointError) as caught:
        read(b"](" + tensor() + second + b"e")
    assert caught.value.message == "read_torch: the file gives the storage '0' two types or sizes; save it again"


@pytest.mark.parametrize("given", [plain(("module", 1)), plain(0), plain(("storage", 1, "0", "cpu", 6))])
def test_other_objects_outside_of_the_pickle_are_refused(given):
    with pytest.raises(CheckpointError) as caught:
        read(given + b"Q")
    assert caught.value.message == (
        "read_torch: the file refers to an object outside of its pickle that is not a storage; save it again"
    )


@pytest.mark.parametrize("part", [storage(), name("torch.FloatStorage"), name("torch.Tensor")])
def test_parts_of_tensors_alone_are_refused(part):
    with pytest.raises(CheckpointError) as caught:
        read(b"](" + tensor() + b"(" + part + b"te")
    assert caught.value.message == (
        "read_torch: the file has a part of a tensor outside of a tensor, such as a storage; save tensors instead"
    )


def test_tensors_that_are_changed_when_they_are_read_are_refused():
    with pytest.raises(CheckpointError) as caught:
        read(tensor(metadata=plain({"conj": True})))
    assert caught.value.message == (
        "read_torch: the file has a tensor that is conjugated or negated when it is read; save tensor.resolve_conj() "
        "or tensor.resolve_neg()"
    )


@pytest.mark.parametrize(
    ("opcodes", "given"),
    [
        (call("numpy.dtype", plain("O8"), b"\x89\x88"), "the dtype 'O8'"),
        (call("numpy.dtype", plain("f4"), b"\x89\x88") + plain((3, ">", None)) + b"b", "the byte order '>'"),
    ],
)
def test_numpy_arrays_of_objects_are_refused(opcodes, given):
    with pytest.raises(CheckpointError) as caught:
        read(opcodes)
    assert caught.value.message == (
        f"read_torch: the file has an array of NumPy with {given}, and only plain little-endian numbers are read; "
        "convert it with .astype, or save a tensor instead"
    )


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_numpy_arrays_and_scalars_of_the_standard_pickle(protocol):
    given = [
        np.zeros((100, 20)),
        np.arange(6, dtype="i2").reshape(2, 3).T,
        np.array(1.5, "f2"),
        np.float64(2),
        np.bool_(1),
    ]
    found = read(b"", {"data.pkl": pickle.dumps(given, protocol)})
    for array, expected in zip(found, given, strict=True):
        np.testing.assert_array_equal(array, expected)
        assert (type(array), array.dtype, array.shape) == (type(expected), expected.dtype, expected.shape)


def test_numpy_arrays_with_too_few_bytes_are_refused():
    dtype = call("numpy.dtype", plain("f4"), b"\x89\x88")
    content = call("_codecs.encode", plain("abcd"), plain("latin1"))
    array = call("numpy._core.multiarray._reconstruct", b"NNN")
    state = b"(K\x01" + plain((2**30,)) + dtype + b"\x89" + content + b"t"
    with pytest.raises(CheckpointError, match="damaged pickle"):
        read(array + state + b"b")


def test_attributes_of_state_dicts_cannot_replace_methods():
    found = read(name("collections.OrderedDict") + b")R" + plain({"items": 1, "_metadata": {"": 2}}) + b"b")
    assert list(found.items()) == []
    assert found._metadata == {"": 2}


def test_truncated_and_damaged_files_are_refused():
    whole = archive(tensor())
    for end in (0, 10, len(whole) // 2, len(whole) - 1):
        with pytest.raises(CheckpointError) as caught:
            read_torch(io.BytesIO(whole[:end]))
        assert caught.value.message == (
            "read_torch: the file is truncated or not a file of torch.save; save it again with torch.save"
        )
    at = whole.index(FLOATS)
    with pytest.raises(CheckpointError) as caught:
        read_torch(io.BytesIO(whole[:at] + b"\1" + whole[at + 1 :]))
    assert caught.value.message == "read_torch: the file is damaged in data/0; save it again"


def test_a_file_without_checksums_is_read():
    whole = bytearray(archive(tensor()))
    with zipfile.ZipFile(io.BytesIO(whole)) as opened:
        for entry in opened.infolist():
            whole = bytearray(bytes(whole).replace(entry.CRC.to_bytes(4, "little"), bytes(4)))
    assert read_torch(io.BytesIO(whole)).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_archives_that_grow_when_they_are_read_are_refused():
    bomb = archive(tensor(), {"data/1": bytes(10**6)}, zipfile.ZIP_DEFLATED)
    with pytest.raises(CheckpointError) as caught:
        read_torch(io.BytesIO(bomb))
    assert caught.value.message == (
        "read_torch: the file has entries that are compressed or overlap; save it again with torch.save"
    )
    small = archive(tensor(), {"data/1": bytes(1000)})
    with zipfile.ZipFile(file := io.BytesIO(small), "a") as opened:
        for copy in range(2, 50):  # further names of the same thousand bytes
            same = zipfile.ZipInfo(f"archive/data/{copy}")
            first = opened.getinfo("archive/data/1")
            same.header_offset, same.file_size, same.compress_size = first.header_offset, 1000, 1000
            same.CRC = first.CRC
            opened.filelist.append(same)
        opened._didModify = True
    with pytest.raises(CheckpointError, match="entries that are compressed or overlap"):
        read_torch(io.BytesIO(file.getvalue()))


def test_a_compressed_entry_is_refused():
    deflated = archive(tensor(), {"padding": np.random.default_rng(0).bytes(500)}, zipfile.ZIP_DEFLATED)
    with pytest.raises(CheckpointError, match=r"promises a whole entry in data.pkl and has \d+ bytes; save it"):
        read_torch(io.BytesIO(deflated))


def test_other_archives_are_refused():
    with pytest.raises(CheckpointError) as caught:
        read(tensor(), {"constants.pkl": b""})
    assert caught.value.message == (
        "read_torch: the file is a TorchScript program; save the state_dict of its module instead"
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as opened:
        opened.writestr("word/document.xml", "")
    file.seek(0)
    with pytest.raises(CheckpointError) as caught:
        read_torch(file)
    assert caught.value.message == "read_torch: the file is a zip archive, but not one of torch.save; check the path"


def test_truncated_files_from_before_1_6_are_refused():
    whole = (FILES / "checkpoint_1_5.pt").read_bytes()
    for end in (len(whole) - 1, whole.index(numbers(1, 3).tobytes())):
        with pytest.raises(CheckpointError) as caught:
            read_torch(io.BytesIO(whole[:end]))
        assert caught.value.message == "read_torch: the file is truncated or damaged in its storages; save it again"
    with pytest.raises(CheckpointError, match="damaged pickle"):
        read_torch(io.BytesIO(whole[:3000]))
    other = whole.replace((1001).to_bytes(2, "little"), (1002).to_bytes(2, "little"), 1)
    with pytest.raises(CheckpointError) as caught:
        read_torch(io.BytesIO(other))
    assert caught.value.message == (
        "read_torch: the file is not of the version that PyTorch wrote before 1.6; save it again"
    )
