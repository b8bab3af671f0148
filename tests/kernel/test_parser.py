"""Kernel IR reads back from its text."""

import numpy as np
import pytest

from adjoint.codegen.kernels import emit_kernel
from adjoint.codegen.targets import target_for
from adjoint.errors import ParseError
from adjoint.kernel.index import Dynamic, Index, Quotient, Remainder, Var, as_index
from adjoint.kernel.interpreter import run_kernel
from adjoint.kernel.ir import Across, Apply, Buffer, Const, Coordinate, For, Kernel, Load, Prefetch, Store, When
from adjoint.kernel.parser import parse_kernel, parse_kernels
from adjoint.kernel.printer import print_kernel, print_kernels
from adjoint.kernel.verifier import verify_kernel
from adjoint.pipeline import finish_program
from tests.runtime.networks import NETWORKS, program_of

F32, F16, I32, I64, BOOL = (np.dtype(t) for t in (np.float32, np.float16, np.int32, np.int64, np.bool_))


def code(kernel, target):
    """The machine code of a kernel as text, whatever it and its buffers are called."""
    return emit_kernel(kernel, "k", target, {})


#: The largest network is read back for one target only.
LARGEST = "resnet8"


@pytest.mark.parametrize(
    ("name", "level"),
    [
        *((name, "avx512") for name in NETWORKS if name != LARGEST),
        ("mlp", "sse2"),
        ("gpt", "sse2"),
        ("lenet", "neon"),
        (LARGEST, "neon"),
    ],
)
def test_kernels_of_networks_read_back_as_the_same_text_and_code(name, level):
    target = target_for(level)
    lowered = program_of(name, target)
    # Functions such as exp have no code before they are expanded.
    for program in (lowered, finish_program(lowered)):
        text = print_kernels(program.kernels)
        parsed = parse_kernels(text)
        assert print_kernels(parsed) == text
        for kernel, again in zip(program.kernels, parsed, strict=True):
            verify_kernel(again)
            if program is not lowered:
                assert code(again, target) == code(kernel, target)
            assert (again.flops, again.bytes, again.parallel) == (kernel.flops, kernel.bytes, kernel.parallel)
            assert (again.name, again.values) == (kernel.name, kernel.values)


def unusual():
    """A kernel of what is rare: names that need quotes, typed constants, every kind of index and statement."""
    ids, x, y = Buffer('i "ds"', I64, 9, "literal"), Buffer("t0", F32, 40, "arena"), Buffer("inf", F32, 16, "external")
    acc, own = Buffer("%6", F32, 5, "register"), Buffer("own", F16, 4, "scratch")
    u, i, j = Var("u", 2), Var("for", 8), Var("a b", 4)
    row = as_index(Dynamic(Load(ids, as_index(i)), 9))
    nested = Index(-3, frozenset(((Remainder(Index(0, frozenset(((Quotient(as_index(i) + 1, 2), 3),))), 5), -2),)))
    guard = Apply("and", (Const(True, BOOL), Apply("lt", (Coordinate(nested, I32), Const(-5, I32)), BOOL)), BOOL)
    whole = Apply("select", (guard, Const(float("-inf"), F32), Const(1, F32)), F32)
    bits = Apply("bitcast", (Apply("cast", (Coordinate(as_index(7), I64),), F32),), I32)
    swap = Store(((y, as_index(0), Load(y, as_index(1))), (y, as_index(1), Load(y, as_index(0)))))
    body = (
        For(i, (Prefetch(x, row * 4, write=True), Store(((y, as_index(i) + as_index(u) * 8, whole),)))),
        When(row + 1, -2, 5, (swap,), (Store(((y, as_index(0), Load(x, row * 4 - 1, guard)),)),)),
        When(as_index(u), 0, 1, (), (Store(((y, as_index(2), Apply("cast", (bits,), F32)),)),)),
        For(
            j, (Store(((own, as_index(j), Const(float("nan"), F16)), (acc, as_index(j), Const(1e-7, F32)))),), "vector"
        ),
        Store(((y, as_index(3), Across("add", acc, 4, 4)),)),
        For(Var("n", 3), (), "unroll"),
    )
    return Kernel("odd name: here", u, (For(Var("o", 1), body),), ("%a b", "c"), 7, 9, parallel=False)


def test_what_is_rare_reads_back():
    kernel = unusual()
    text = print_kernel(kernel)
    assert print_kernel(parse_kernel(text)) == text
    assert "literal" in text
    assert "f32(-inf), f32(1)" in text
    assert "y" not in text.split()


def test_a_kernel_that_was_read_does_the_same():
    x, y = Buffer("x", F32, 32, "external"), Buffer("y", F32, 32, "external")
    u, i = Var("u", 4), Var("i", 8)
    at = as_index(u) * 8 + as_index(i)
    value = Apply("max", (Apply("sub", (Load(x, at), Const(0.5, F32)), F32), Const(0.0, F32)), F32)
    kernel = Kernel("shifted", u, (For(i, (Store(((y, at, value),)),), "vector"),))
    again = parse_kernel(print_kernel(kernel))
    array = np.linspace(-1, 1, 32, dtype=F32)
    results = []
    for one in (kernel, again):
        memory = {b: array.copy() if b.name == "x" else np.zeros(32, F32) for b in (*one.reads, *one.writes)}
        run_kernel(one, memory)
        results.append(memory[one.writes[0]])
    np.testing.assert_array_equal(*results)


def test_kernels_of_one_text_share_their_buffers():
    text = """\
kernel first
  1 units, on one thread; 0 flops, 0 bytes
  writes h f32[4] arena
  for u in 0..1 units:
    h[0] = 1.0

kernel second
  1 units, on one thread; 0 flops, 0 bytes
  reads h f32[4] arena; writes y f32[4]; registers acc f32[1]
  for u in 0..1 units:
    acc[0] = h[0]
    y[0] = acc[0]"""
    first, second = parse_kernels(text)
    assert first.writes == second.reads
    assert second.writes[0].space == "external"
    assert print_kernels((first, second)) == text


HEAD = """\
kernel k
  2 units, shared by threads; 0 flops, 0 bytes
  reads x f32[8]; writes y f32[8]
  for u in 0..2 units:
"""


@pytest.mark.parametrize(
    ("body", "place", "message"),
    [
        ("    y[u] = x[v]", (5, 14), "a variable of a loop around was expected, got v"),
        ("    z[u] = x[u]", (5, 5), "a buffer that the head names was expected, got z"),
        ("    y[u] = gamma(x[u])", (5, 12), "a scalar function was expected, got gamma"),
        ("    y[u] = x[u] x", (5, 17), "the end of the line was expected, got x"),
        (
            "    y[u] = max(1.0, 2.0)",
            (5, 25),
            "an operand of max that says its dtype was expected, got the end of the line",
        ),
        ("    y[u] = x[u],", (5, 1), "a kernel ends before its body"),
        ("    y[u] = ?", (5, 11), "nothing in a kernel begins with '?'"),
        (
            "    for i in 0..3 quickly:\n      y[i] = 1.0",
            (5, 27),
            "unroll, vector or interleave was expected, got the end of the line",
        ),
        ("    y[u] = 1.0\n      y[u] = 2.0", (6, 7), "the indentation of the line before was expected, got y"),
    ],
)
def test_what_is_no_kernel_is_refused_with_its_place(body, place, message):
    with pytest.raises(ParseError) as caught:
        parse_kernel(HEAD + body)
    assert caught.value.message.startswith(message)
    assert (caught.value.line, caught.value.column) == place


def test_one_kernel_is_wanted():
    with pytest.raises(ParseError, match="the text must be that of one kernel, got 0; use parse_kernels"):
        parse_kernel("")
