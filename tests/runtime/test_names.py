"""A function may be called anything: its name is no symbol of the code."""

import numpy as np
import pytest

from adjoint import Function, IRModule, ops, param
from adjoint.compiler import CompileOptions, compile
from adjoint.kernel.program import check_symbol, entry_symbol, kernel_symbol

NAMES = [
    "barrier", "syscall", "main", "malloc", "enter_float_mode", "adjoint.f", "f.check", 'quotes "inside"', "a b", "a_b",
    "a$20b", "größe", "漢字", "new\nline", "%x", "@f", "0", "\\22",
]  # fmt: skip


def doubling(name, factor=2.0):
    x = param("x", (5,))
    return Function(name, (x,), (ops.multiply(x, factor),))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("threads", [1, 2])
def test_any_name_compiles(name, threads):
    run = compile(doubling(name), options=CompileOptions(threads=threads, cache=False))
    assert list(run) == [name]
    np.testing.assert_array_equal(run(np.ones(5, "f4")), np.full(5, 2, "f4"))


def test_names_that_differ_little_are_functions_of_their_own():
    module = IRModule(tuple(doubling(name, float(n)) for n, name in enumerate(NAMES)))
    run = compile(module, options=CompileOptions(cache=False))
    for n, name in enumerate(NAMES):
        np.testing.assert_array_equal(run[name](np.ones(5, "f4")), np.full(5, n, "f4"))


def test_no_two_names_share_a_symbol():
    symbols = [make(name) for name in NAMES for make in (entry_symbol, check_symbol)]
    symbols += [kernel_symbol(name, kernel) for name in NAMES for kernel in NAMES]
    assert len(set(symbols)) == len(symbols)
    assert entry_symbol("step") == "adjoint.step"
    assert kernel_symbol("a b", "c") == "adjoint.a$20b.kernel.c"
