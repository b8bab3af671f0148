"""`compile` as a whole: options, stages, depth."""

import sys

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import GRAPH_PASSES, CompileOptions, compile, host, lower_function
from adjoint.errors import InvalidValueError, NameLookupError
from adjoint.ir import Function, IRModule, param

OPTIONS = CompileOptions(cache=False, threads=1)


def chain(length):
    """``y = y / 2 + x`` over and over, with a negation in turn."""
    x = param("x", (40,))
    y = x
    for i in range(length):
        y = ops.add(ops.multiply(y, 0.5), x) if i % 2 else ops.negative(y)
    return Function("chain", (x,), (y,))


def test_a_chain_of_10000_values_compiles_and_is_right():
    function = chain(7000)
    assert len(function.values()) > 10_000
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

    assert 1.8 < calls(2000) / calls(1000) < 2.3


def test_passes_are_one_visible_list():
    assert [p.__name__ for p in GRAPH_PASSES] == ["inline_calls", "simplify", "cse", "keep_padded", "separate_results"]


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
    with pytest.raises(NameLookupError, match="no function 'c'; it has a, b"):
        compile(module, options=OPTIONS, entries=("c",))


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
