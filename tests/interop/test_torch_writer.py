"""What is written for PyTorch: read again, taken apart with the standard library, and loaded by PyTorch if it is there.

The opcodes and names below are those that PyTorch 2.13 reads with ``weights_only=True``. The last test loads the file
with it.
"""

import io
import pickletools
import zipfile
from collections import Counter, OrderedDict

import ml_dtypes
import numpy as np
import pytest

from adjoint.errors import TypeRuleError
from adjoint.interop import TorchTensor, read_torch, write_torch

#: What `torch._weights_only_unpickler` of PyTorch 2.13 interprets, of what a writer of protocol 2 needs.
OPCODES = {
    *("PROTO", "STOP", "GLOBAL", "REDUCE", "BUILD", "BINPERSID", "MARK", "BINFLOAT", "BINUNICODE", "LONG_BINPUT"),
    *("NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "LONG_BINGET", "EMPTY_DICT", "SETITEMS"),
    *("EMPTY_LIST", "APPENDS", "TUPLE", "EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
}
NAMES = {
    *("torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_tensor_v3", "torch._utils _rebuild_parameter"),
    *(
        "collections OrderedDict",
        "collections Counter",
        "_codecs encode",
        "torch float32",
        "torch.storage UntypedStorage",
    ),
    *("__builtin__ set", "__builtin__ complex", "__builtin__ bytearray"),
    *(
        f"torch {kind}Storage"
        for kind in ("Float", "Double", "Half", "BFloat16", "Bool", "Int", "Long", "Short", "Char")
    ),
    *(f"torch {kind}Storage" for kind in ("Byte", "ComplexFloat", "ComplexDouble")),
    *(f"torch {dtype}" for dtype in ("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2")),
}
DTYPES = (
    *("float64", "float32", "float16", "bfloat16", "bool", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)
W = np.arange(6, dtype=np.float32).reshape(2, 3)
STATE = OrderedDict({"0.weight": W, "2.weight": W, "turned": W.T, "steps": np.array(7)})
STATE._metadata = OrderedDict({"": {"version": 1}})
OBJECT = {
    "model": STATE,
    "dtypes": {name: np.array([0, 1, 1]).astype(getattr(ml_dtypes, name, name)) for name in DTYPES},
    "layouts": [
        W[::-1],
        W[:, ::2],
        W.astype(">f4"),
        np.zeros((0, 3)),
        np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1),
    ],
    "python": [1, -1, 300, 70_000, -(2**31), 2**40, -(2**70), 1.5, True, None, "é\ud800", (), (1, (2, [3])), {}, []],
    "bytes": [b"", b"\0\xff", bytearray(b"b"), 1 + 2j, {1, "a"}, Counter("aab"), {None: 1, 2: 3, 1.5: 4, b"k": 5}],
    "numpy": [np.float32(1.5), np.int64(3), np.bool_(True), np.float64(2.5), np.str_("s"), np.dtype(np.float32)],
    "optimizer": {"state": {0: {"step": np.float32(1)}}, "param_groups": [{"betas": (0.9, 0.999), "params": [0]}]},
}


def written(value, **settings):
    file = io.BytesIO()
    write_torch(file, value, **settings)
    return file.getvalue()


def reread(value, **settings):
    return read_torch(io.BytesIO(written(value)), **settings)


def test_objects_are_read_as_they_were_written():
    found = reread(OBJECT)
    assert list(found) == list(OBJECT)
    for key, array in OBJECT["dtypes"].items():
        assert found["dtypes"][key].dtype == array.dtype
        assert found["dtypes"][key].tobytes() == array.tobytes(), key
    for array, given in zip(found["layouts"], OBJECT["layouts"], strict=True):
        np.testing.assert_array_equal(array, given)
        assert array.dtype == given.dtype.newbyteorder("=")
    assert found["layouts"][4].strides == OBJECT["layouts"][4].strides
    for key in ("python", "bytes"):
        assert found[key] == OBJECT[key]
        assert list(map(type, found[key])) == list(map(type, OBJECT[key]))
    assert found["numpy"] == [1.5, 3, True, 2.5, "s", np.dtype(np.float32)]
    assert list(map(type, found["numpy"][:5])) == [float, int, bool, float, str]
    assert type(found["model"]) is OrderedDict
    assert found["model"]._metadata == STATE._metadata


def test_arrays_in_the_same_memory_are_one_storage():
    found = reread(STATE)
    assert found["0.weight"] is found["2.weight"]
    np.testing.assert_array_equal(found["turned"], W.T)
    assert np.shares_memory(found["turned"], found["0.weight"])
    with zipfile.ZipFile(io.BytesIO(written([W, W[:], W.T, W[:1], np.empty(0), np.empty(0)]))) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist() if "/data/" in entry.filename}
    assert sizes == {"archive/data/0": 24, "archive/data/1": 12, "archive/data/2": 0, "archive/data/3": 0}


def test_objects_that_occur_twice_or_contain_themselves_stay_so():
    shared, endless = [1], {}
    endless["self"] = [endless, (shared,), shared]
    found = reread(endless)
    assert found["self"][0] is found
    assert found["self"][1][0] is found["self"][2] == [1]


def test_a_chain_of_any_length_is_written():
    chain = []
    for _ in range(5000):
        chain = [chain]
    found = reread(chain)
    for _ in range(5000):
        (found,) = found
    assert found == []


def test_the_pickle_has_only_what_pytorch_reads():
    with zipfile.ZipFile(io.BytesIO(written([OBJECT, TorchTensor(W, True, True)]))) as archive:
        assert archive.testzip() is None
        assert archive.read("archive/version") == b"3\n"
        pickled = archive.read("archive/data.pkl")
    steps = [(opcode.name, argument) for opcode, argument, _ in pickletools.genops(pickled)]
    assert {name for name, _ in steps} <= OPCODES
    assert {argument for name, argument in steps if name == "GLOBAL"} <= NAMES
    assert ("PROTO", 2) in steps


def test_storages_are_aligned_and_equal_objects_make_equal_files():
    content = written(OBJECT)
    assert content == written(OBJECT)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for entry in archive.infolist():
            sizes = np.frombuffer(content, "<u2", 2, entry.header_offset + 26)
            assert (entry.header_offset + 30 + sizes.sum()) % 64 == 0, entry.filename


def test_long_entries_are_aligned_too(monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1000)
    content = written([np.arange(size) for size in (100, 120, 130)])  # 800, 960 and 1040 bytes: the second by a margin
    found = read_torch(io.BytesIO(content))
    assert [array.tolist() for array in found] == [list(range(size)) for size in (100, 120, 130)]
    for size in (100, 120, 130):
        assert content.index(np.arange(size).tobytes()) % 64 == 0


class Mine:
    def __init__(self, array, requires_grad):
        self.array, self.requires_grad = array, requires_grad


def test_objects_of_the_caller_are_written_as_tensors():
    weight = Mine(W, True)
    content = written(
        {"a": weight, "b": weight, "c": 1},
        take=lambda value: TorchTensor(value.array, value.requires_grad, True) if isinstance(value, Mine) else None,
    )
    found = read_torch(io.BytesIO(content), lambda given: Mine(given.array, (given.requires_grad, given.is_parameter)))
    assert found["a"] is found["b"]
    assert (found["a"].requires_grad, found["c"]) == ((True, True), 1)
    np.testing.assert_array_equal(found["a"].array, W)
    tensors = [TorchTensor(W), TorchTensor(W * 2, True)]
    kinds = reread(tensors, make=lambda given: (given.requires_grad, given.is_parameter))
    assert kinds == [(False, False), (True, False)]


LOOP = ([],)
LOOP[0].append(LOOP)
ALL = (
    "float64, float32, float16, complex64, complex128, bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, "
)
REFUSED = {
    "an object": (
        {"a": [0, len]},
        "writes arrays, numbers, strings, None, and lists, tuples, sets and dicts of them, got a "
        "builtin_function_or_method at ['a'][1]; convert it, or leave it out",
    ),
    "a dtype": (
        [np.array(["text"])],
        f"writes arrays of {ALL}bfloat16, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, got <U4 at "
        "[0]; convert it with .astype",
    ),
    "a key": (
        {"a": {(1, 2): 3}},
        "writes dicts and sets whose keys are numbers, strings or None, got a tuple at ['a']; convert it",
    ),
    "an integer": ([2**2040], "writes integers of up to 255 bytes, got one of 256 at [0]; write it as a string"),
    "a tuple in itself": (LOOP, "cannot write a tuple that contains itself at [0][0]; use a list"),
}


@pytest.mark.parametrize(("value", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_written_is_refused_by_its_place(value, message):
    file = io.BytesIO()
    with pytest.raises(TypeRuleError) as caught:
        write_torch(file, value)
    assert caught.value.message == f"write_torch {message}"
    assert file.getvalue() == b""


def test_pytorch_loads_it():
    torch = pytest.importorskip("torch")
    content = written([OBJECT, TorchTensor(W * 2, True, True)])
    found, parameter = torch.load(io.BytesIO(content), weights_only=True)
    assert isinstance(parameter, torch.nn.Parameter)
    assert parameter.requires_grad
    assert parameter.tolist() == (W * 2).tolist()
    model = found["model"]
    assert model["0.weight"].data_ptr() == model["2.weight"].data_ptr() == model["turned"].data_ptr()
    assert model["turned"].stride() == (1, 3)
    assert model._metadata == STATE._metadata
    for name, tensor in found["dtypes"].items():
        assert tensor.dtype == getattr(torch, name)
        assert tensor.tolist() == [0, 1, 1]
    for tensor, array in zip(found["layouts"], OBJECT["layouts"], strict=True):
        assert tensor.tolist() == array.tolist()
    assert found["python"] == OBJECT["python"]
    assert found["bytes"] == OBJECT["bytes"]
    assert found["optimizer"]["param_groups"] == OBJECT["optimizer"]["param_groups"]
