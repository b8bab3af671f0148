"""Reading of files: what is none is refused, functions are inlined, and nothing of a hostile file is executed."""

import contextlib
import sys

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import helper

import adjoint as torch
from adjoint.errors import CheckpointError, InvalidValueError, MissingFileError, TypeRuleError
from tests.importers.onnx.models import ROWS, model, perceptron, weights


def refused(source, kind=CheckpointError):
    with pytest.raises(kind) as error:
        torch.from_onnx(source)
    assert type(error.value) is kind
    return error.value.message


def test_paths_bytes_and_objects_are_the_same(tmp_path):
    made = perceptron()
    path = tmp_path / "net.onnx"
    path.write_bytes(made.SerializeToString())
    for source in (path, str(path), made.SerializeToString(), made):
        assert torch.equal(torch.from_onnx(source).layer.b, torch.tensor(weights(2)))


def test_what_is_no_file_of_onnx_is_refused(tmp_path):
    content = perceptron().SerializeToString()
    assert refused(content[:-20]) == (
        f"from_onnx: the model must be a model of ONNX, got {len(content) - 20} bytes that are none; is the file "
        "complete?"
    )
    (tmp_path / "a.onnx").write_bytes(b"\x80\x04K\x01.")
    assert refused(tmp_path / "a.onnx").startswith(f"from_onnx: {tmp_path / 'a.onnx'} must be a model of ONNX, got 5 ")
    assert refused(b"") == (
        "from_onnx: a model must state one version of ONNX's operators, got none; is it a model of ONNX?"
    )
    message = f"from_onnx: there is no file {tmp_path / 'b.onnx'}; check the path"
    assert refused(tmp_path / "b.onnx", MissingFileError) == message
    assert refused(3, TypeRuleError) == (
        "from_onnx reads a path, bytes or an onnx.ModelProto, got an int; pass one of them"
    )


def test_names_are_text():
    content = perceptron().SerializeToString().replace(b"layer.w", b"layer.\xff")
    message = r"b'layer.\xff'"
    assert refused(content) in (
        f"from_onnx: names must be text in UTF-8, got {message}; is the file damaged?",
        f"from_onnx: the model must be a model of ONNX, got {len(content)} bytes that are none; is the file complete?",
    )


def test_a_cut_or_changed_file_is_refused_or_read():
    content = perceptron().SerializeToString()
    rng = np.random.default_rng(0)
    for size in range(0, len(content), 7):
        changed = bytearray(content)
        changed[size] = rng.integers(256)
        for bad in (content[:size], bytes(changed)):
            with contextlib.suppress(torch.AdjointError):  # and no other error
                torch.from_onnx(bad)


def function(name, *calls):
    """A function of one input that applies functions, or operators, one after the other."""
    values = ["a", *(f"v{n}" for n in range(len(calls)))]
    nodes = [
        helper.make_node(call, [values[n]], [values[n + 1]], domain="own" if call[0] == "f" else "")
        for n, call in enumerate(calls)
    ]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, ["a"], [values[-1]], nodes, imports)


def calling(*functions):
    node = helper.make_node("f0", ["x"], ["y"], domain="own")
    return model([node], ROWS, ["y"], functions=functions, domains=["own"])


def test_functions_of_the_file_are_inlined():
    network = torch.from_onnx(calling(function("f0", "f1", "Neg"), function("f1", "Abs", "Sqrt")))
    assert network(torch.full((1, 3), -4.0)).tolist() == [[-2.0, -2.0, -2.0]]


def test_functions_must_end():
    assert refused(calling(function("f0", "f1"), function("f1", "f0"))) == (
        "from_onnx: functions must not call themselves, got 'f1'; export it again"
    )
    doubling = [function(f"f{n}", f"f{n + 1}", f"f{n + 1}") for n in range(40)]
    assert refused(calling(*doubling, function("f40", "Neg")), InvalidValueError) == (
        "from_onnx: a model must have at most 200000 operations, got more after its functions are inlined; do not use "
        "this file"
    )


def test_the_package_is_named_if_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.setitem(sys.modules, "onnx.checker", None)
    assert refused(b"") == (
        "from_onnx: ONNX models need the package onnx, which is not installed; install adjoint[onnx]"
    )
