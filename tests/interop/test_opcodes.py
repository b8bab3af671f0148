"""Pickles as data: what the standard library writes is read, and nothing is imported or executed."""

import io
import os
import pickle
import random
import re
import time
import zipfile
from collections import Counter, OrderedDict
from pathlib import Path

import pytest

from adjoint.errors import CheckpointError
from adjoint.interop import read_torch
from tests.interop.archives import archive, call, name, plain, read

CHECKPOINT = Path(__file__).parents[1] / "golden/torch/checkpoint.pt"

PLAIN = {
    "numbers": [0, 255, 256, 65536, -1, 2**31, -(2**100), 2**3000, 1.5, float("inf"), True, False, None, 1 - 2j],
    "texts": ["", "é", "\ud800", "x" * 300, b"", b"\0\xff", b"y" * 300, bytearray(b"ab"), bytearray()],
    "containers": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, (4,)), [], [[]], {}, {1: {2.5: None}}, {1, "a"}],
    "collections": [OrderedDict(b=1, a=2), Counter("aab")],
}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_objects_of_the_standard_library_are_read(protocol):
    without = {key: value[:-2] if key == "texts" and protocol == 5 else value for key, value in PLAIN.items()}
    pickled = pickle.dumps(without, protocol)
    found = read_torch(io.BytesIO(archive(b"", {"data.pkl": pickled})))
    assert found == without
    assert [list(map(type, found[key])) for key in found] == [list(map(type, without[key])) for key in found]


def test_an_object_that_occurs_twice_is_one_object():
    shared = [1]
    first, second, (third,) = read(plain([shared, shared, (shared,)]))
    assert first is second is third


def test_containers_may_contain_themselves_and_be_nested_to_any_depth():
    endless = []
    endless.append((endless, {"key": endless}))
    found = read(plain(endless))
    assert found[0][0] is found[0][1]["key"] is found
    deep = read(b"]" * 20_000 + b"a" * 19_999)
    for _ in range(19_999):
        (deep,) = deep
    assert deep == []


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", [2, 4])
def test_names_that_are_not_in_the_table_are_refused_and_not_imported(tmp_path, protocol):
    pickled = pickle.dumps({"w": Evil(tmp_path / "made")}, protocol)
    with pytest.raises(CheckpointError) as caught:
        read_torch(io.BytesIO(archive(b"", {"data.pkl": pickled})))
    assert caught.value.message == (
        f"read_torch: the file needs {os.mkdir.__module__}.mkdir, which is none of the dense tensors, numbers and "
        "containers that are read without executing code, as weights_only=False would; save a state_dict instead"
    )
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "full",
    ["torch.nn.modules.linear.Linear", "builtins.eval", "__builtin__.getattr", "torch._utils._rebuild_sparse_tensor"],
)
def test_modules_builtins_and_other_tensors_are_refused(full):
    shown = full.replace("__builtin__", "builtins")
    with pytest.raises(CheckpointError, match=f"the file needs {shown}, which is none of the dense tensors"):
        read(call(full, plain("1")))


@pytest.mark.parametrize("opcodes", [b"I01\n", b"i__main__\nA\n", b"\x82\x01", b"2"])
def test_opcodes_that_pytorch_does_not_write_are_refused(opcodes):
    with pytest.raises(CheckpointError) as caught:
        read(b"]" + opcodes)
    assert caught.value.message == (
        f"read_torch: the file has the opcode {opcodes[0]:#04x} at byte 3 of its pickle, which files of PyTorch do not "
        "have; save it again with torch.save"
    )


HASH_BOMB = b")" + b"q\x00h\x00\x86" * 60  # a tuple of itself twice, 60 times: its hash would take 2 ** 60 steps
DAMAGED = {
    "nothing on the stack": b"",
    "text that ends early": b"X\xff\xff\xff\xff",
    "bytes that end early": b"\x8e" + b"\xff" * 8,
    "no such place in the memo": b"h\x07",
    "no mark": b"t",
    "append to a dict": b"}Na",
    "items of a list": b"]NNs",
    "a key without a value": b"}(Nu",
    "a tuple of two from one": b"N\x86",
    "elements of a list": b"](N\x90",
    "text that is not UTF-8": b"X\x01\0\0\0\xff",
    "a call of a number": b"K\x01)R",
    "a call of a dtype": name("torch.float32") + b")R",
    "arguments in a list": name("collections.OrderedDict") + b"]R",
    "the state of a number": b"K\x01}b",
    "the state of a list": b"]}b",
    "a list as key": b"}]Ns",
    "a tuple as key": b"}" + HASH_BOMB + b"Ns",
    "a tuple in a set": call("builtins.set", b"](" + HASH_BOMB + b"e"),
    "a tuple in an OrderedDict": call("collections.OrderedDict", b"]]" + HASH_BOMB + b"aNaa"),
    "calls within calls": name("torch._tensor._rebuild_from_type_v2")
    + (b"q\x01" + b"(h\x01N" * 5000 + b")" + b"Nt" * 5000 + b"R"),
}


@pytest.mark.parametrize("opcodes", DAMAGED.values(), ids=DAMAGED)
def test_damaged_pickles_are_refused_at_once(opcodes):
    began = time.perf_counter()
    with pytest.raises(CheckpointError) as caught:
        read(opcodes)
    assert re.fullmatch(r"read_torch: the file has a damaged pickle, at byte \d+; save it again", caught.value.message)
    assert time.perf_counter() - began < 5


def test_bytes_are_not_copied_more_often_than_the_file_has_them():
    once = name("_codecs.encode") + b"q\x01" + plain("x" * 1000) + plain("latin1") + b"\x86q\x02R"
    assert read(once) == b"x" * 1000
    with pytest.raises(CheckpointError) as caught:
        read(b"](" + once + b"h\x01h\x02R" * 1000 + b"e")
    assert caught.value.message == "read_torch: the file copies the same bytes many times in its pickle; save it again"


def test_random_damage_never_gives_another_error():
    with zipfile.ZipFile(CHECKPOINT) as opened:
        pickled = opened.read("checkpoint/data.pkl")
        entries = {entry.partition("/")[2]: opened.read(entry) for entry in opened.namelist()}
    random_ = random.Random(0)
    refused = 0
    for _ in range(150):
        damaged = bytearray(pickled)
        for _ in range(random_.choice((1, 2, 5))):
            damaged[random_.randrange(len(damaged))] = random_.randrange(256)
        try:
            read(b"", entries | {"data.pkl": bytes(damaged)})
        except CheckpointError:
            refused += 1
    assert refused > 50
