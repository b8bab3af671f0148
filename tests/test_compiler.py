"""`compile` as a whole: options, stages, depth."""

import builtins
import dataclasses
import importlib.util
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import adjoint
import adjoint.pipeline
from adjoint import ops
from adjoint.compiler import CompileOptions, compile, host
from adjoint.errors import (
    CompileError,
    InternalError,
    InvalidValueError,
    NameLookupError,
    TypeRuleError,
    VerifyError,
    located,
)
from adjoint.ir import Function, IRModule, TensorType, param
from adjoint.kernel.index import as_index
from adjoint.kernel.ir import Const, Store
from adjoint.pipeline import GRAPH_PASSES, lower_function

OPTIONS = CompileOptions(cache=False, threads=1)
compile_text = builtins.compile


def chain(length):
    """``y = y / 2 + x`` over and over, with a negation in turn."""
    x = param("x", (40,))
    y = x
    for i in range(length):
        y = ops.add(ops.multiply(y, 0.5), x) if i % 2 else ops.negative(y)
    return Function("chain", (x,), (y,))


def test_a_chain_far_longer_than_the_stack_compiles_and_is_right():
    function = chain(2500)
    assert len(function.values()) > 3 * sys.getrecursionlimit()
    made = compile(function, options=OPTIONS)["chain"]
    assert max(len(k.values) for k in made.kernels) <= 100
    # The fixed point of y -> -y/2 + x is 2/3 x.
    np.testing.assert_allclose(made(np.ones(40, "f4")), np.full(40, 2 / 3), rtol=1e-6)


def test_lowering_is_linear_in_the_length_of_a_chain():
    """Counted in Python function calls, which do not depend on the machine's speed."""

    def calls(length):
        count = 0

        def tick(_frame, event, _arg):
            nonlocal count
            count += event == "call"

        function = chain(length)
        sys.setprofile(tick)
        try:
            lower_function(function, host())
        finally:
            sys.setprofile(None)
        return count

    assert 1.8 < calls(1000) / calls(500) < 2.3


def test_passes_are_one_visible_list():
    assert [p.__name__ for p in GRAPH_PASSES] == [
        "inline_calls",
        "polyphase",
        "simplify",
        "cse",
        "fuse_cross_entropy",
        "merge_loops",
        "keep_padded",
        "separate_results",
    ]


def test_stages_are_text():
    entry = compile(chain(3), options=OPTIONS)["chain"]
    assert "kernel" in entry.text("kernels")
    assert "define i32 @adjoint.chain" in entry.text("llvm")
    assert "chain:" in entry.text("asm")
    with pytest.raises(InvalidValueError, match="stage must be one of kernels, llvm, asm, got 'mlir'"):
        entry.text("mlir")


def test_only_the_wanted_functions_are_compiled():
    x = param("x", (2,))
    module = IRModule((Function("a", (x,), (ops.exp(x),)), Function("b", (x,), (ops.log(x),))))
    assert list(compile(module, options=OPTIONS, entries=("b",))) == ["b"]
    with pytest.raises(NameLookupError, match="no function 'c'; known functions: a, b"):
        compile(module, options=OPTIONS, entries=("c",))


def test_the_number_of_threads_overrides_that_of_the_options():
    x = param("x", (2,))
    function = Function("exp", (x,), (ops.exp(x),))
    assert compile(function, options=OPTIONS)["exp"].threads == OPTIONS.threads
    assert compile(function, options=OPTIONS, threads=3)["exp"].threads == 3
    with pytest.raises(InvalidValueError, match="threads must be an integer from 1 to 1024, got 0"):
        compile(function, threads=0)


@pytest.mark.parametrize(
    ("arguments", "settings", "sentence"),
    [
        (
            [()],
            {},
            "compile takes an IRModule or a Function, got a tuple; pass a Function, or IRModule((function, ...))",
        ),
        (
            [SimpleNamespace(module=IRModule(()))],
            {},
            "compile takes an IRModule or a Function, got a SimpleNamespace; pass its module, trainer.module",
        ),
        (
            [IRModule(()), OPTIONS],
            {},
            "compile: the target must be a name or a Target, got a CompileOptions; pass others by name, as in "
            "compile(function, options=CompileOptions(...))",
        ),
        (
            [IRModule(())],
            {"entries": "step"},
            "compile: entries must be a tuple of names, got the string 'step'; write ('step',)",
        ),
    ],
)
def test_arguments_of_another_kind_are_refused(arguments, settings, sentence):
    with pytest.raises(TypeRuleError) as refusal:
        compile(*arguments, **settings)
    assert refusal.value.message == sentence


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", True, 100_000])
def test_wrong_threads_are_refused(threads):
    with pytest.raises(InvalidValueError, match="threads must be an integer from 1 to 1024, got"):
        CompileOptions(threads=threads)


def test_calls_are_compiled_into_their_caller():
    x = param("x", (3,))
    square = Function("square", (x,), (ops.square(x),))
    y = param("y", (3,))
    outer = Function("outer", (y,), (ops.call(square, ops.call(square, y)),))
    np.testing.assert_array_equal(compile(outer, options=OPTIONS)([1, 2, 3]), [1, 16, 81])


def _out_of_bounds(kernel):
    """A kernel that writes far beyond its buffer."""
    (buffer,) = kernel.writes
    return replace(kernel, body=(Store(((buffer, as_index(10**6), Const(0.0, buffer.dtype)),)),))


def _no_attribute(given):
    return given.attribute_that_is_not_there


def _not_llvm(text):
    raise VerifyError(f"generated code is not valid LLVM: {len(text)}")


def broken(monkeypatch, where):
    """Break the compiler in one place, and say what is to be read of it."""
    if where == "graph pass":
        monkeypatch.setattr(adjoint.pipeline, "GRAPH_PASSES", (*GRAPH_PASSES, _no_attribute))
        return "AttributeError: 'Function' object has no attribute 'attribute_that_is_not_there'"
    if where == "kernel pass":
        monkeypatch.setattr(adjoint.pipeline, "CODE_PASSES", (_no_attribute,))
        return "AttributeError: 'Kernel' object has no attribute 'attribute_that_is_not_there'"
    if where == "lowering":
        whole = adjoint.pipeline.lower

        def lowered(*args):
            program = whole(*args)
            return replace(program, kernels=tuple(map(_out_of_bounds, program.kernels)))

        monkeypatch.setattr(adjoint.pipeline, "lower", lowered)
        return "kernel square_0: an access is inside its buffer, but "
    monkeypatch.setattr(adjoint.codegen.native, "_parse", _not_llvm)
    return "generated code is not valid LLVM: "


@pytest.mark.parametrize("where", ["graph pass", "lowering", "kernel pass", "code generation"])
def test_what_the_compiler_cannot_do_with_a_valid_graph_is_reported_as_its_bug(monkeypatch, where):
    x = param("x", (3,))
    inner = Function("square", (x,), (ops.square(x),))
    y = param("y", (3,))
    function = Function("f", (y,), (ops.call(inner, y),))
    why = broken(monkeypatch, where)
    with pytest.raises(InternalError, match=r"^@f is a valid graph, but compiling it failed, which is a bug") as caught:
        compile(function, options=OPTIONS)
    assert why in caught.value.message
    assert caught.value.message.endswith("; please report it together with the graph below")
    assert caught.value.__cause__ is not None
    # The functions that it calls are part of it, and tracebacks show it all.
    assert caught.value.graph == str(function)
    assert str(function) in "".join(traceback.format_exception(caught.value))
    assert caught.value.where is not None
    assert caught.value.where.startswith(__file__)


def test_a_long_graph_goes_to_a_file(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    broken(monkeypatch, "graph pass")
    with pytest.raises(InternalError) as caught:
        compile(chain(200), options=OPTIONS)
    (file,) = tmp_path.iterdir()
    assert file.read_text() == caught.value.graph == str(chain(200))
    (note,) = caught.value.__notes__
    assert note == f"the graph, {len(file.read_text().splitlines())} lines, is in {file}"


def test_what_is_refused_on_purpose_is_no_bug(monkeypatch):
    x, w = param("x", (40, 30)), param("w", (30, 20))
    twice = Function("f", (x, w), (ops.sum(ops.softmax(ops.exp(ops.matmul(x, w)))),))
    with pytest.raises(CompileError, match="needs at least") as caught:
        compile(twice, options=CompileOptions(cache=False, memory_budget=0))
    assert not isinstance(caught.value, InternalError)

    def out_of_memory(_function):
        raise MemoryError

    monkeypatch.setattr(adjoint.pipeline, "GRAPH_PASSES", (out_of_memory,))
    with pytest.raises(MemoryError):
        compile(chain(3), options=OPTIONS)


def test_a_graph_that_breaks_the_rules_is_no_bug():
    x, y = param("x", (3,)), param("y", (3,))
    with pytest.raises(VerifyError):
        compile(Function("f", (x,), (ops.add(x, y),)), options=OPTIONS)


def test_an_error_names_the_users_file_even_if_the_standard_library_is_reached_through_a_link(tmp_path):
    (tmp_path / "lib").symlink_to(Path(dataclasses.__file__).parent)
    spec = importlib.util.spec_from_file_location("linked_dataclasses", tmp_path / "lib" / "dataclasses.py")
    linked = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(linked)
    for made in (replace, linked.replace):
        with pytest.raises(InvalidValueError, match="from 1 to 1024, got 0") as refused:
            made(OPTIONS, threads=0)
        assert refused.value.where.rpartition(":")[0] == __file__


def test_a_file_beside_the_package_is_the_users():
    path = f"{Path(adjoint.__file__).parent}_example.py"
    code = compile_text("CompileOptions(threads=0)", path, "exec")
    with pytest.raises(InvalidValueError, match="got 0") as refused:
        exec(code, {"CompileOptions": CompileOptions})
    assert refused.value.where == f"{path}:1"


def test_a_bug_found_at_a_value_is_reported_at_the_line_of_the_value(monkeypatch):
    with located("model.py:4"):
        function = Function("f", (x := param("x", (3,)),), (ops.exp(x),))

    def wrong(given):
        (made,) = given.results
        return Function(given.name, given.params, (replace(made, type=TensorType((4,))),))

    monkeypatch.setattr(adjoint.pipeline, "GRAPH_PASSES", (wrong,))
    with pytest.raises(InternalError) as caught:
        compile(function, options=OPTIONS)
    assert caught.value.where == "model.py:4"


def test_kernels_have_the_operators_and_lines_of_the_graph_that_was_compiled(tmp_path):
    """Also where equal code is in the compile cache, which was compiled for a graph that is written elsewhere."""

    def layer(line):
        x, w = param("x", (4, 8)), param("w", (8, 8))
        with located(f"/models/{line}"):
            product = ops.matmul(x, w)
        with located("/models/net.py:9"):
            return Function("layer", (x, w), (ops.negative(ops.relu(product)),))

    options = CompileOptions(threads=1, cache_directory=tmp_path)
    for line, cached in (("one.py:3", False), ("other.py:77", True)):
        made = compile(layer(line), options=options)
        assert made.cached is cached
        (kernel,) = made.kernels
        assert kernel.operators == ("matmul", "relu", "negative")
        assert kernel.lines == (f"/models/{line}", "/models/net.py:9", "/models/net.py:9")
        assert kernel.listed_lines() == f"{line}, net.py:9"
        assert kernel.listed_operators(2) == "matmul, relu and 1 more"


def test_the_line_of_a_value_does_not_compile_it_again(tmp_path):
    options = CompileOptions(threads=1, cache_directory=tmp_path)
    compile(chain(3), options=options)
    assert compile(chain(3), options=options).cached


def test_kernels_of_a_recomputing_function_have_operators_too():
    x, w, v = param("x", (64, 32)), param("w", (32, 32)), param("v", (32, 32))
    h = ops.tanh(ops.matmul(x, w))
    z = ops.matmul(ops.matmul(h, v), v)
    results = ops.matmul(x, z, transpose_a=True), ops.matmul(h, z, transpose_a=True)
    function = Function("f", (x, w, v), results)
    plain = lower_function(function, host()).working_bytes(1)
    options = replace(OPTIONS, memory_budget=plain - 1)
    kernels = compile(function, options=options).kernels
    assert sum(kernel.operators.count("tanh") for kernel in kernels) == 2
    again = [line for k in kernels for op, line in zip(k.operators, k.lines, strict=True) if op == "tanh"]
    assert again == [h.line] * 2
