"""The interpreter against what the docstring of kernel IR says, in Python's and NumPy's own arithmetic."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjoint
from adjoint import ops
from adjoint.compiler import host
from adjoint.errors import VerifyError
from adjoint.ir import param
from adjoint.kernel.index import Dynamic, Var, as_index
from adjoint.kernel.interpreter import convert, evaluate, run_kernel
from adjoint.kernel.ir import Across, Apply, Buffer, Const, Coordinate, For, Kernel, Load, Store, When
from adjoint.kernel.scalars import SCALARS
from adjoint.pipeline import finish_program, lower_function
from adjoint.testing.rounding import rounding
from tests.closeness import within

F32, F64, I32, I64, BOOL = (np.dtype(t) for t in (np.float32, np.float64, np.int32, np.int64, np.bool_))


def external(name, size, dtype=F32):
    return Buffer(name, dtype, size, "external")


def register(name, size, dtype=F32):
    return Buffer(name, dtype, size, "register")


def const(value, dtype=F32):
    return Const(value, dtype)


def call(function, *args):
    return Apply(function, args, BOOL if SCALARS[function].result == "bool" else args[0].dtype)


def at(index):
    return as_index(index)


def kernel(*body, units=1, unit=None):
    return Kernel("k", unit or Var("u", units), body)


def test_loops_of_every_kind_run_as_scalar_loops():
    """A tiled matrix product with an accumulator in registers, against NumPy."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(6, 5)).astype(F32), rng.normal(size=(5, 8)).astype(F32)
    x, w, y, acc = external("x", 30), external("w", 40), external("y", 48), register("acc", 16)
    u, i, j, k = Var("u", 3), Var("i", 2), Var("l", 8), Var("k", 5)

    def tile(store):
        return For(i, (For(j, (store,), "vector"),), "unroll")

    place = at(i) * 8 + at(j)
    row = at(u) * 2 + at(i)
    step = call("fma", Load(x, row * 5 + at(k)), Load(w, at(k) * 8 + at(j)), Load(acc, place))
    made = kernel(
        tile(Store(((acc, place, const(0.0)),))),
        For(k, (tile(Store(((acc, place, step),))),)),
        tile(Store(((y, row * 8 + at(j), Load(acc, place)),))),
        unit=u,
    )
    memory = {x: a.reshape(-1), w: b.reshape(-1), y: np.zeros(48, F32)}
    run_kernel(made, memory)
    wanted = np.zeros((6, 8), F32)
    for n in range(5):
        wanted = a[:, n : n + 1] * b[n] + wanted
    assert np.array_equal(memory[y].reshape(6, 8), wanted)


def test_an_assignment_computes_all_values_before_it_stores_any():
    x = external("x", 2)
    swap = Store(((x, at(0), Load(x, at(1))), (x, at(1), Load(x, at(0)))))
    memory = {x: np.array([1, 2], F32)}
    run_kernel(kernel(swap), memory)
    assert memory[x].tolist() == [2, 1]


def test_statements_run_in_order():
    x = external("x", 1)
    double = Store(((x, at(0), call("mul", Load(x, at(0)), const(2.0))),))
    add = Store(((x, at(0), call("add", Load(x, at(0)), const(3.0))),))
    memory = {x: np.array([5], F32)}
    run_kernel(kernel(double, add, units=2), memory)
    assert memory[x].tolist() == [29]


def test_when_takes_one_of_two_ways():
    y, i = external("y", 10, I64), Var("i", 10)
    then = Store(((y, at(i), Coordinate(at(i), I64)),))
    other = Store(((y, at(i), const(-1, I64)),))
    memory = {y: np.zeros(10, I64)}
    run_kernel(kernel(For(i, (When(at(i) * 2 + 1, 5, 12, (then,), (other,)),))), memory)
    assert memory[y].tolist() == [n if 5 <= 2 * n + 1 < 12 else -1 for n in range(10)]


def test_a_guarded_load_reads_nothing_where_the_guard_does_not_hold():
    """Padding: the index is outside the buffer where the guard fails."""
    x, y, i = external("x", 4), external("y", 8), Var("i", 8)
    where = at(i) - 2
    number = Coordinate(where, I64)
    inside = call("and", call("ge", number, const(0, I64)), call("lt", number, const(4, I64)))
    memory = {x: np.array([1, 2, 3, 4], F32), y: np.full(8, 9, F32)}
    run_kernel(kernel(For(i, (Store(((y, at(i), Load(x, where, inside)),)),), "vector")), memory)
    assert memory[y].tolist() == [0, 0, 1, 2, 3, 4, 0, 0]


def test_a_guarded_load_may_be_of_an_empty_buffer():
    x, y = external("x", 0), external("y", 1)
    memory = {x: np.zeros(0, F32), y: np.ones(1, F32)}
    run_kernel(kernel(Store(((y, at(0), Load(x, at(0), const(False, BOOL))),))), memory)
    assert memory[y].tolist() == [0]


def test_indices_may_be_read_from_memory_on_both_sides():
    ids, x, y, i = external("ids", 3, I64), external("x", 8), external("y", 8), Var("i", 3)
    place = at(Dynamic(Load(ids, at(i)), 4)) * 2 + 1
    memory = {ids: np.array([3, 0, 2]), x: np.arange(8, dtype=F32), y: np.zeros(8, F32)}
    moved = call("add", Load(x, place), Load(y, place))
    run_kernel(kernel(For(i, (Store(((y, place, moved),)),))), memory)
    assert memory[y].tolist() == [0, 1, 0, 0, 0, 5, 0, 7]


def test_quotients_and_remainders_are_those_of_python():
    y, i = external("y", 24, I64), Var("i", 24)
    index = at(i) // 5 * 3 + at(i) % 7
    memory = {y: np.zeros(24, I64)}
    run_kernel(kernel(For(i, (Store(((y, at(i), Coordinate(index, I64)),)),))), memory)
    assert memory[y].tolist() == [n // 5 * 3 + n % 7 for n in range(24)]


@pytest.mark.parametrize("function", ["add", "mul", "max", "min"])
def test_across_combines_halves(function):
    """13 numbers in 16 lanes: the order of combination shows in the last bits of sums and products."""
    values = np.random.default_rng(1).uniform(0.5, 1.5, 13).astype(F32)
    acc, x, y, i = register("acc", 13), external("x", 13), external("y", 1), Var("i", 13)
    made = kernel(
        For(i, (Store(((acc, at(i), Load(x, at(i))),)),), "unroll"),
        Store(((y, at(0), Across(function, acc, 13, 16)),)),
    )
    memory = {x: values, y: np.zeros(1, F32)}
    run_kernel(made, memory)

    def tree(lanes):
        if len(lanes) == 1:
            return lanes[0]
        half = len(lanes) // 2
        low, high = lanes[:half], lanes[half:]
        return tree([SCALARS[function].numpy(p, q) if q is not None else p for p, q in zip(low, high, strict=True)])

    assert memory[y][0] == tree([*values, None, None, None])


@pytest.mark.parametrize(
    ("function", "dtype", "identity"),
    [("max", I32, -(2**31)), ("min", I32, 2**31 - 1), ("min", F64, math.inf), ("and", BOOL, True), ("and", I64, -1)],
)
def test_across_nothing_is_the_identity(function, dtype, identity):
    acc = register("acc", 4, dtype)
    assert evaluate(Across(function, acc, 0, 4), {acc: np.zeros(4, dtype)}) == identity


def test_registers_start_undefined_in_every_unit():
    """A kernel that counts on what another unit left in registers is caught: threads share no registers."""
    acc, y, u = register("acc", 1), external("y", 2), Var("u", 2)
    first = When(at(u), 0, 1, (Store(((acc, at(0), const(7.0)),)),))
    memory = {y: np.zeros(2, F32)}
    run_kernel(kernel(first, Store(((y, at(u), Load(acc, at(0))),)), unit=u), memory)
    assert memory[y][0] == 7
    assert np.isnan(memory[y][1])


def test_a_shared_expression_is_computed_once():
    calls = []

    def count(x):
        calls.append(x)
        return x + 1

    shared = call("neg", const(2.0))
    total = call("add", shared, call("mul", shared, shared))
    assert evaluate(total, {}, {"neg": count}) == 12
    assert len(calls) == 1


def test_a_chain_of_100000_operations_is_evaluated():
    expr = leaf = Load(external("x", 1, F64), at(0))
    for _ in range(100_000):
        expr = call("add", expr, const(1.0, F64))
    assert evaluate(expr, {leaf: 0.5}) == 100_000.5


def test_expressions_are_evaluated_over_arrays():
    x, i = external("x", 6), Var("i", 6)
    expr = call("mul", Load(x, at(i) % 3), Coordinate(at(i), F32))
    values = np.arange(6, dtype=F32) + 10
    got = evaluate(expr, {x: values, i: np.arange(6)})
    assert got.dtype == F32
    assert got.tolist() == [0, 11, 24, 30, 44, 60]


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_integers_wrap_silently(x, y):
    def wrapped(n):
        return (n + 2**31) % 2**32 - 2**31

    a, b = const(x, I32), const(y, I32)
    assert evaluate(call("add", a, b), {}) == wrapped(x + y)
    assert evaluate(call("mul", a, b), {}) == wrapped(x * y)
    assert evaluate(call("neg", a), {}) == wrapped(-x)
    assert evaluate(call("shl", a, const(5, I32)), {}) == wrapped(x << 5)
    assert evaluate(call("shr", a, const(3, I32)), {}) == x >> 3
    assert evaluate(call("div", a, b), {}) == (wrapped(x // y) if y else 0)


@pytest.mark.parametrize(("dtype", "width"), [(np.uint8, 8), (np.uint32, 32), (np.uint64, 64)])
def test_bits_rotate(dtype, width):
    x = 0xF0E1D2C3B4A59687 % 2**width
    for by in (0, 1, 7, width - 1, width, width + 3):
        text = f"{x:0{width}b}"
        turned = int(text[by % width :] + text[: by % width], 2)
        assert evaluate(call("rotl", const(x, np.dtype(dtype)), const(by, np.dtype(dtype))), {}) == turned


@pytest.mark.parametrize(
    ("value", "to", "wanted"),
    [
        (2.9, I32, 2),
        (-2.9, I32, -2),
        (math.nan, I32, 0),
        (math.inf, I32, 2**31 - 1),
        (-math.inf, I64, -(2**63)),
        (1e19, I64, 2**63 - 1),
        (-1.5, np.uint8, 0),
        (300.0, np.uint8, 255),
        (0.25, BOOL, True),
        (math.nan, BOOL, True),
        (-0.0, BOOL, False),
    ],
)
def test_floats_become_integers_towards_zero_and_saturate(value, to, wanted):
    for dtype in (F32, F64):
        got = evaluate(Apply("cast", (const(value, dtype),), np.dtype(to)), {})
        assert got == wanted
        assert got.dtype == to


def test_other_casts_round_or_wrap():
    assert convert(np.int64(2**33 + 5), I32) == 5
    assert convert(np.int64(-1), np.dtype(np.uint8)) == 255
    assert convert(np.bool_(True), F32) == 1
    assert convert(np.float64(1e39), F32) == np.inf
    assert convert(np.float32(1.00390625), np.dtype(ml_dtypes.bfloat16)) == 1
    assert convert(ml_dtypes.bfloat16(3.5), I32) == 3


def test_bits_are_looked_at_as_another_type():
    assert evaluate(Apply("bitcast", (const(1.0),), I32), {}) == 0x3F800000
    assert evaluate(Apply("bitcast", (const(-(2**63), I64),), F64), {}) == 0
    assert math.copysign(1, evaluate(Apply("bitcast", (const(-(2**63), I64),), F64), {})) == -1


def test_select_computes_both_and_takes_one():
    choice = Apply("select", (call("lt", const(1.0), const(2.0)), const(5.0), call("div", const(1.0), const(0.0))), F32)
    got = evaluate(choice, {})
    assert got == 5
    assert got.dtype == F32


def access(index, value=None):
    """A kernel that loads from one buffer of four at `index`, or, given a value, stores to another."""
    x, y = external("weights", 4), external("y", 4)
    target = (y, at(0), Load(x, index)) if value is None else (y, index, value)
    return kernel(Store((target,))), x, y


@pytest.mark.parametrize(
    ("index", "value", "message"),
    [
        (at(4), None, r"an access must be inside its buffer: weights\[4\] of 4 elements"),
        (at(-1), None, r"an access must be inside its buffer: weights\[-1\] of 4 elements"),
        (at(7), const(1.0), r"an access must be inside its buffer: y\[7\] of 4 elements"),
        (at(Var("i", 3)), None, "no loop binds the variable i"),
        (
            at(Dynamic(const(9, I64), 4)),
            None,
            r"a number read as a coordinate must be in \[0, 4\), got 9; clamp it first",
        ),
    ],
)
def test_accesses_outside_are_refused(index, value, message):
    made, x, y = access(index, value)
    memory = {x: np.zeros(4, F32), y: np.zeros(4, F32)}
    with pytest.raises(VerifyError, match=message):
        run_kernel(made, memory)
    assert not memory[y].any()


def test_one_lane_outside_is_refused_over_arrays_too():
    x, i = external("x", 4), Var("i", 6)
    with pytest.raises(VerifyError, match=r"x\[4\] of 4 elements"):
        evaluate(Load(x, at(i)), {x: np.zeros(4, F32), i: np.arange(6)})


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3, F32), r"buffer weights needs a flat array of 4 float32 elements, got float32\[3\]"),
        (np.zeros((2, 2), F32), r"needs a flat array of 4 float32 elements, got float32\[2, 2\]; reshape\(-1\) it"),
        (np.zeros(4, F64), r"needs a flat array of 4 float32 elements, got float64\[4\]"),
    ],
)
def test_memory_must_fit(array, message):
    made, x, y = access(at(0))
    with pytest.raises(VerifyError, match=message):
        run_kernel(made, {x: array, y: np.zeros(4, F32)})


def test_memory_must_be_there():
    made, _, y = access(at(0))
    with pytest.raises(VerifyError, match="no memory was given for buffer weights; pass an array of 4 elements"):
        run_kernel(made, {y: np.zeros(4, F32)})


def test_unknown_functions_are_refused():
    with pytest.raises(VerifyError, match="gamma is no scalar function"):
        evaluate(Apply("gamma", (const(1.0),), F32), {})


def interpreted(function, *arrays):
    """Results of a graph by lowering it and interpreting every kernel."""
    program = finish_program(lower_function(function, host()))
    buffers = {b for k in program.kernels for b in (*k.reads, *k.writes)} | set(program.slots)
    memory = {b: np.zeros(b.size, b.dtype) for b in buffers}
    for buffer, data in program.literals.items():
        memory[buffer] = np.frombuffer(data, buffer.dtype)
    for argument, array in zip(program.arguments, arrays, strict=True):
        memory[program.slots[argument.slot]] = array.reshape(-1).copy()
    for made in program.kernels:
        run_kernel(made, memory)
    return [memory[program.slots[r.slot]].reshape(r.shape) for r in program.results]


def test_lowered_graphs_run_as_their_references_say():
    """Matrix product, softmax, gather, padding and a scatter, against NumPy: all of kernel IR that lowering makes."""
    rng = np.random.default_rng(2)
    x, w, ids = rng.normal(size=(5, 7)).astype(F32), rng.normal(size=(7, 19)).astype(F32), np.array([3, 0, 6, 3])
    px, pw, pids = param("x", (5, 7), "f32"), param("w", (7, 19), "f32"), param("ids", (4,), "i64")
    logits = ops.matmul(px, pw)
    results = (ops.softmax(logits), ops.take(pw, pids), ops.max(logits, axis=0), ops.tanh(ops.permute(px, (1, 0))))
    function = adjoint.Function("f", (px, pw, pids), results)
    scores = x.astype(F64) @ w
    weights = np.exp(scores)
    wanted = [weights / weights.sum(1, keepdims=True), w[ids], scores.max(0), np.tanh(x.T.astype(F64))]
    for a, b, (_, bound) in zip(interpreted(function, x, w, ids), wanted, rounding(function, x, w, ids), strict=True):
        within(a, b, bound)


def test_compiled_code_and_interpreter_agree_bit_for_bit():
    """Sums in vectors, trees of lanes and tails: the order is part of the meaning. No fma is involved."""
    x = np.random.default_rng(3).normal(size=(3, 77)).astype(F32)
    p = param("x", (3, 77), "f32")
    function = adjoint.Function("f", (p,), (ops.sum(p, axis=1), ops.sum(p, axis=0), ops.max(ops.negative(p), axis=1)))
    compiled = adjoint.compile(function)(x)
    for a, b in zip(interpreted(function, x), compiled, strict=True):
        assert np.array_equal(a, np.asarray(b))


@pytest.mark.parametrize(("number", "done"), [(-2, 0), (0, 0), (1, 2), (3, 6), (4, 7), (9, 7)])
def test_a_loop_and_units_end_at_run_time(number, done):
    """``2*number`` iterations, but none if that is negative, and 7 at most."""
    n, y, i = external("n", 1, I32), external("y", 7, I32), Var("i", 7)
    wide = Apply("cast", (Load(n, at(0)),), I64)
    count = at(Dynamic(Apply("add", (wide, const(10, I64)), I64), 20)) * 2 - 20
    one = const(1, I32)
    of_loop = kernel(For(i, (Store(((y, at(i), one),)),), until=count))
    unit = Var("u", 7)
    of_units = Kernel("k", unit, (Store(((y, at(unit), one),)),), until=count)
    for made in (of_loop, of_units):
        memory = {n: np.array([number], I32), y: np.zeros(7, I32)}
        run_kernel(made, memory)
        assert memory[y].tolist() == [1] * done + [0] * (7 - done)
        assert made.reads == (n,)
