"""The text of kernels, letter by letter where it is short, and in linear time where it is long."""

import numpy as np

from adjoint.kernel.index import Dynamic, Var, as_index
from adjoint.kernel.ir import Across, Apply, Buffer, Const, Coordinate, For, Kernel, Load, Prefetch, Store, When
from adjoint.kernel.printer import print_kernel
from adjoint.kernel.scalars import SCALARS
from adjoint.lower.vector_math import expand

F32, I32, I64, BOOL = (np.dtype(t) for t in (np.float32, np.int32, np.int64, np.bool_))


def buffer(name, size, dtype=F32, space="external"):
    return Buffer(name, dtype, size, space)


def call(function, *args):
    return Apply(function, args, BOOL if SCALARS[function].result == "bool" else args[0].dtype)


def at(index):
    return as_index(index)


def text(*body, **fields):
    made = Kernel("k", Var("u", 2), body, **fields)
    return print_kernel(made).splitlines()


def test_a_tiled_product():
    x, w, y = buffer("x", 64), buffer("w", 256), buffer("y", 128)
    acc = buffer("acc", 32, space="register")
    u, i, j, k = Var("u", 4), Var("i", 2), Var("l", 16), Var("k", 8)
    place = at(i) * 16 + at(j)
    row = at(u) * 2 + at(i)
    fma = call("fma", Load(x, row * 8 + at(k)), Load(w, at(k) * 32 + at(j)), Load(acc, place))
    step = Store(((acc, place, fma),))
    out = Store(((y, row * 16 + at(j), call("max", Load(acc, place), Const(0.0, F32))),))
    made = Kernel(
        "matmul",
        u,
        (
            For(k, (For(i, (For(j, (step,), "vector"),), "unroll"),)),
            For(i, (For(j, (out,), "vector"),), "unroll"),
        ),
        values=("scores", "hidden"),
        flops=2048,
        bytes=1792,
    )
    assert print_kernel(made) == (
        "kernel matmul: computes scores, hidden\n"
        "  4 units, shared by threads; 2048 flops, 1792 bytes\n"
        "  reads x f32[64], w f32[256]; writes y f32[128]; registers acc f32[32]\n"
        "  for u in 0..4 units:\n"
        "    for k in 0..8:\n"
        "      for i in 0..2 unroll:\n"
        "        for l in 0..16 vector:\n"
        "          acc[i*16 + l] = fma(x[u*16 + i*8 + k], w[k*32 + l], acc[i*16 + l])\n"
        "    for i in 0..2 unroll:\n"
        "      for l in 0..16 vector:\n"
        "        y[u*32 + i*16 + l] = max(acc[i*16 + l], 0.0)"
    )


def test_what_is_shared_is_printed_once():
    x, y, z = buffer("x", 2), buffer("y", 2), buffer("z", 2)
    t = call("tanh", Load(x, at(0)))
    slope = call("sub", Const(1.0, F32), call("mul", t, t))
    lines = text(Store(((y, at(0), t), (z, at(0), slope))), parallel=False)
    assert lines[1] == "  2 units, on one thread; 0 flops, 0 bytes"
    assert lines[4:] == ["    t0 = tanh(x[0])", "    y[0] = t0,", "    z[0] = sub(1.0, mul(t0, t0))"]


def test_assignments_of_one_statement_are_joined_by_commas():
    x = buffer("x", 2)
    swap = Store(((x, at(0), Load(x, at(1))), (x, at(1), Load(x, at(0)))))
    assert text(swap)[4:] == ["    x[0] = x[1],", "    x[1] = x[0]"]


def test_conditions_guards_dynamics_casts_and_lanes():
    ids, x, y = buffer("ids", 9, I64), buffer("x", 27), buffer("y", 8)
    acc = buffer("acc", 5, space="register")
    i = Var("i", 8)
    row = at(Dynamic(Load(ids, at(i)), 9))
    guard = call("lt", Coordinate(at(i) - 1, I64), Const(5, I64))
    load = Load(x, row * 3 + at(i) // 3 * 2 + at(i) % 2 - 1, guard)
    bits = Apply("bitcast", (load,), I32)
    then = Store(((y, at(i), Apply("cast", (bits,), F32)),))
    other = Store(((y, at(0), Across("add", acc, 5, 8)),))
    assert text(For(i, (When(at(i) + 1, 2, 5, (then,), (other,)),)))[4:] == [
        "    for i in 0..8:",
        "      if 2 <= i + 1 < 5:",
        "        y[i] = cast(bitcast("
        "x[[ids[i] in 0..9]*3 + ((i) // 3)*2 + (i) % 2 - 1 if lt(i - 1, 5)] as i32) as f32)",
        "      else:",
        "        y[0] = across(add, acc[0..5] in 8 lanes)",
    ]


def test_different_things_of_one_name_are_told_apart():
    x, other, y = buffer("x", 2), buffer("x", 2), buffer("y", 4)
    outer, inner, later = Var("i", 2), Var("i", 2), Var("i", 2)
    total = call("add", Load(x, at(outer)), Load(other, at(inner)))
    first = For(outer, (For(inner, (Store(((y, at(outer) * 2 + at(inner), total),)),)),))
    last = For(later, (Store(((y, at(later), Const(0.0, F32)),)),))
    lines = text(first, last)
    assert lines[2] == "  reads x f32[2], x.1 f32[2]; writes y f32[4]"
    assert lines[4:] == [
        "    for i in 0..2:",
        "      for i.1 in 0..2:",
        "        y[i*2 + i.1] = add(x[i], x.1[i.1])",
        "    for i in 0..2:",
        "      y[i] = 0.0",
    ]


def test_long_expressions_are_broken_up():
    x, y = buffer("x", 1), buffer("y", 1)
    expr = expand("pow", (Load(x, at(0)), Load(y, at(0))), F32)
    lines = text(Store(((y, at(0), expr),)))
    assert max(map(len, lines)) < 400
    assert len(lines) > 20


def test_a_chain_of_100000_operations_is_printed():
    x, y = buffer("x", 1), buffer("y", 1)
    expr = Load(x, at(0))
    for _ in range(100_000):
        expr = call("neg", expr)
    lines = text(Store(((y, at(0), expr),)))
    assert sum(line.count("neg(") for line in lines) == 100_000
    assert max(map(len, lines)) < 200


def test_hints():
    x, y = buffer("x", 8), buffer("y", 8)
    i = Var("i", 8)
    copy = Store(((y, at(i), Load(x, at(i))),))
    lines = text(For(i, (Prefetch(x, at(i)), Prefetch(y, at(i), write=True), copy)))
    assert lines[-3:] == ["      prefetch x[i]", "      prefetch y[i] to write", "      y[i] = x[i]"]
