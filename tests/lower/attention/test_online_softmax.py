"""Fused attention: right at every vector width, with every shape and layout, and without a matrix of scores."""

import re
from functools import partial

import numpy as np
import pytest

from adjoint import costs, ops
from adjoint.codegen.targets import host_target
from adjoint.compiler import CompileOptions, compile
from adjoint.ir import DTYPES, Function, apply, param
from adjoint.kernel.interpreter import run_kernel
from adjoint.kernel.ir import Load, Store, postorder, walk
from adjoint.lower.analysis.access import access_pattern
from adjoint.ops.attention import Attention, AttentionLogSum
from adjoint.ops.attention_gradients import AttentionValueGradient
from adjoint.pipeline import finish_program, lower_function
from adjoint.testing import interpret
from adjoint.testing.rounding import rounding
from adjoint.transforms import gradient
from tests.closeness import agrees_with_graph, within
from tests.hardware import levels

OPTIONS = CompileOptions(threads=1, cache=False)

#: Batch axes, T, S, D, E, causal: one of each, vectors that are not full, several blocks, more and fewer keys.
CASES = [
    ((), 1, 1, 1, 1, False),
    ((3,), 5, 3, 2, 4, True),
    ((2, 2), 33, 65, 17, 9, False),
    ((2,), 70, 70, 16, 33, True),
    ((1,), 20, 101, 5, 16, True),
    ((1,), 101, 20, 32, 7, True),
]


def inputs(batch, t, s, d, e, dtype):
    rng = np.random.default_rng(t * s + d)
    shapes = [(*batch, t, d), (*batch, s, d), (*batch, s, e), (*batch, t, e)]
    arrays = [rng.standard_normal(shape).astype(DTYPES[dtype]) for shape in shapes]
    return [param(n, a.shape, a.dtype) for n, a in zip(("q", "k", "v", "ct"), arrays, strict=True)], arrays


def slopes(params, causal, scale):
    """A function of the result of attention and its gradients with the cotangent `ct`."""
    q, k, v, ct = params
    out = apply(Attention(scale, causal), q, k, v)
    return gradient(Function("f", tuple(params), (ops.sum(ops.multiply(out, ct)), out)), ["q", "k", "v"])


def closed_form(q, k, v, ct, causal, scale):
    """The same in NumPy and wider floats, with matrices of all scores."""
    q, k, v, ct = (x.astype(np.float64 if x.dtype == np.float32 else np.longdouble) for x in (q, k, v, ct))
    scores = np.einsum("...td,...sd->...ts", q, k) * scale
    if causal:
        scores[..., np.arange(q.shape[-2])[:, None] < np.arange(k.shape[-2])] = -np.inf
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    out = p @ v
    dp = np.einsum("...te,...se->...ts", ct, v)
    ds = p * (dp - (ct * out).sum(-1, keepdims=True)) * scale
    swap = np.swapaxes
    return np.sum(out * ct), out, ds @ k, swap(ds, -1, -2) @ q, swap(p, -1, -2) @ ct


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_attention_and_its_gradients_are_the_closed_form(level, dtype):
    """Every case in float32 at every width; in float64, which differs in the lanes of a vector, at one of them each."""
    params, results, arrays, wanted = [], [], [], []
    widths = [width for width in levels() if isinstance(width, str)]
    cases = CASES if dtype == "f32" else CASES[widths.index(level) :: len(widths)]
    for number, (*sizes, causal) in enumerate(cases):
        own, given = inputs(*sizes, dtype)
        own = [param(f"{p.label}{number}", p.shape, p.dtype) for p in own]
        q, k, v, ct = own
        out = apply(Attention(0.3, causal), q, k, v)
        params += own
        arrays += given
        results += [out, *out.op.vjp(ct, out, q, k, v)]
        wanted += closed_form(*given, causal, 0.3)[1:]
    function = Function("f", tuple(params), tuple(results))
    made = compile(function, level, OPTIONS)(*arrays)
    bounds = [bound for _, bound in rounding(function, *arrays)]
    for number, (found, expected, bound) in enumerate(zip(made, wanted, bounds, strict=True)):
        within(found, expected, bound, str(number))


def test_compiled_gradients_are_difference_quotients():
    params, arrays = inputs((2,), 19, 35, 3, 5, "f64")
    step = compile(slopes(params, True, 0.7), options=OPTIONS)
    _, _, *found = step(*arrays)
    rng = np.random.default_rng(1)
    for number, slope in enumerate(found):
        way = rng.standard_normal(arrays[number].shape)
        up, down = (
            step(*(x + sign * 1e-5 * way if n == number else x for n, x in enumerate(arrays)))[0] for sign in (1, -1)
        )
        np.testing.assert_allclose((up - down) / 2e-5, np.sum(slope * way), rtol=1e-7)


def test_kernels_mean_what_the_references_say():
    """By the interpreter of kernel IR, in which memory that was never written is no number."""
    params, arrays = inputs((), 18, 33, 3, 2, "f32")
    function = slopes(params, True, 0.5)
    program = finish_program(lower_function(function, host_target()))
    memory = {}
    for kernel in program.kernels:
        for store in (s for s in walk(kernel.body) if isinstance(s, Store)):
            loads = [e.buffer for e in postorder([v for _, _, v in store.targets]) if isinstance(e, Load)]
            for buffer in [*loads, *(b for b, _, _ in store.targets)]:
                if buffer.space != "register" and buffer not in memory:
                    memory[buffer] = np.full(buffer.size, np.nan, buffer.dtype)
    for buffer, data in program.literals.items():
        memory[buffer] = np.frombuffer(data, buffer.dtype)
    for argument, array in zip(program.arguments, arrays, strict=True):
        memory[program.slots[argument.slot]] = array.reshape(-1).copy()
    for kernel in program.kernels:
        run_kernel(kernel, memory)
    found = [memory[program.slots[result.slot]].reshape(result.shape) for result in program.results]
    agrees_with_graph(found, function, *arrays)


@pytest.mark.parametrize("layout", ["joined", "transposed", "broadcast", "half"])
def test_operands_are_read_where_they_are(layout):
    rng = np.random.default_rng(4)
    if layout == "joined":
        x = param("x", (2, 40, 3 * 24))
        parts = [ops.slice_axis(x, -1, n * 24, n * 24 + 24) for n in range(3)]
        q, k, v = (ops.permute(ops.reshape(p, (2, 40, 3, 8)), (0, 2, 1, 3)) for p in parts)
    elif layout == "transposed":
        x = param("x", (2, 17, 40))
        q = k = v = ops.permute(x, (0, 2, 1))
    elif layout == "broadcast":
        x = param("x", (40, 16))
        q = k = v = ops.broadcast_to(x, (3, 40, 16))
    else:
        x = param("x", (2, 40, 16), "bf16")
        q = k = v = x
    out = apply(Attention(0.25, True), q, k, v)
    function = gradient(Function("f", (x,), (ops.sum(ops.sin(out)),)))
    array = rng.standard_normal(x.shape).astype(x.dtype)
    agrees_with_graph(compile(function, options=OPTIONS)(array), function, array)


def test_nothing_has_an_element_for_each_pair_of_positions():
    def program(t):
        params, _ = inputs((1, 2), t, t, 16, 16, "f32")
        q, k, v, ct = params
        out = ops.scaled_dot_product_attention(q, k, v, causal=True)
        made = gradient(Function("f", tuple(params), (ops.sum(ops.multiply(out, ct)),)), ["q", "k", "v"])
        return lower_function(made, host_target())

    long, longer = program(1024), program(2048)
    sizes = [b.size for k in long.kernels for b in (*k.reads, *k.writes)]
    assert max(sizes) == 2 * 1024 * 16
    assert longer.arena_bytes <= 2.1 * long.arena_bytes
    assert long.arena_bytes < 1024 * 1024

    def own(program):
        stores = [s for k in program.kernels for s in walk(k.body) if isinstance(s, Store)]
        return {b: b.nbytes for s in stores for b, _, _ in s.targets if b.space == "scratch"}

    # A thread's own memory grows by the sums of the gradient of a head's queries, and by nothing else.
    assert sum(own(longer).values()) - sum(own(long).values()) == 4 * 1024 * 16
    assert sum(own(long).values()) < 256 * 1024


def test_masks_and_groups_of_heads_store_no_scores_either(monkeypatch):
    """A mask of positions, one of keys, and heads that share keys: read where they are, and added to nothing."""
    monkeypatch.setattr(costs, "stores_scores", lambda *_, **__: False)
    t, d = 512, 8
    q, ct = (param(n, (2, 4, t, d)) for n in ("q", "ct"))
    k, v = (param(n, (2, 2, t, d)) for n in "kv")
    positions, keys = param("positions", (t, t), "bool"), param("keys", (2, 1, 1, 1, t), "bool")
    grouped = ops.reshape(q, (2, 2, 2, t, d))
    attended = ops.scaled_dot_product_attention(
        grouped, k[:, :, None], v[:, :, None], mask=ops.logical_and(positions, keys)
    )
    total = ops.sum(ops.multiply(ops.reshape(attended, q.shape), ct))
    made = gradient(Function("f", (q, k, v, ct, positions, keys), (total,)), ["q", "k", "v"])
    program = lower_function(made, host_target())
    assert program.arena_bytes < 2 * 4 * t * t, "no scores of all heads"
    assert max(b.size for kernel in program.kernels for b in kernel.writes) <= 2 * t * t, "at most the mask itself"


def test_a_query_that_attends_to_no_key_gives_zeros(monkeypatch):
    """Streamed and stored, for bool masks and for floats to be added, with the gradient of the latter."""
    params, arrays = inputs((), 37, 40, 4, 5, "f64")
    hidden = np.random.default_rng(4).random((37, 40)) > 0.6
    hidden[5], hidden[7, :-1], hidden[7, -1] = True, True, False
    found = []
    for streamed in (False, True):
        monkeypatch.setattr(costs, "stores_scores", lambda *_, streamed=streamed, **__: not streamed)
        for dtype, mask in (("bool", ~hidden), ("f64", np.where(hidden, -np.inf, 0.25))):
            own = param("mask", mask.shape, dtype)
            out = ops.scaled_dot_product_attention(*params[:3], mask=own)
            function = Function("f", (*params, own), (ops.sum(ops.multiply(out, params[3])), out))
            wanted = ["q", "k", "v", "mask"] if dtype == "f64" else ["q", "k", "v"]
            whole = gradient(function, wanted)
            run = compile(whole, options=OPTIONS) if streamed else partial(interpret, whole)
            _, out, *slopes = run(*arrays, mask)
            assert np.isfinite(out).all()
            assert not out[5].any()
            assert not slopes[0][5].any()
            np.testing.assert_allclose(out[7], arrays[2][-1], rtol=1e-12)
            found.append((out, *slopes))
    for case in found[1:]:
        for one, other in zip(found[0], case, strict=False):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found[1][4], found[3][4], rtol=1e-9, atol=1e-12)


def test_a_step_has_two_kernels_that_stream():
    """Attention brings the logarithm of its sums, and the three gradients are computed together."""
    params, _ = inputs((2,), 40, 40, 8, 8, "f32")
    program = lower_function(slopes(params, True, 0.5), host_target())
    streamed = [k.name for k in program.kernels if re.search("attention|adjoint", k.name)]
    assert len(streamed) == 2
    assert len(program.kernels) <= 5, "delta and the sum are the others"


def test_so_has_a_step_whose_queries_keys_and_values_are_parts_of_one_tensor():
    """The gradient of values comes first then, and the forward pass has the rows of the gradient of queries."""
    joined = param("joined", (2, 128, 3 * 8))
    parts = [ops.slice(joined, (0, 0, 8 * n), (2, 128, 8 * n + 8)) for n in range(3)]
    loss = ops.sum(ops.square(ops.scaled_dot_product_attention(*parts, causal=True)))
    program = lower_function(gradient(Function("f", (joined,), (loss,)), ["joined"]), host_target())
    streamed = [k for k in program.kernels if "attention" in k.name]
    assert len(streamed) == 2


def test_what_follows_attention_ends_its_kernel():
    (q, k, v, _), arrays = inputs((2,), 40, 24, 8, 8, "f32")
    out = ops.add(ops.tanh(apply(Attention(0.5, False), q, k, v)), q)
    function = Function("f", (q, k, v), (out,))
    assert len(lower_function(function, host_target()).kernels) == 1
    agrees_with_graph(compile(function, options=OPTIONS)(*arrays[:3]), function, *arrays[:3])


def test_streams_that_wait_for_each_other_stay_apart():
    """The second attention looks, with the same queries and keys, at what the first one gave."""
    (q, k, v, _), arrays = inputs((), 40, 40, 8, 8, "f32")
    first = apply(Attention(0.5, True), q, k, v)
    second = apply(Attention(0.5, True), q, k, first)
    function = Function("f", (q, k, v), (first, second, apply(AttentionLogSum(0.5, True), q, k)))
    assert len(lower_function(function, host_target()).kernels) == 2
    found = compile(function, options=OPTIONS)(*arrays[:3])
    agrees_with_graph(found, function, *arrays[:3])


@pytest.mark.parametrize("read", [False, True])
def test_a_stream_waits_for_the_one_beside_it_unless_somebody_waits_for_it(read):
    """Values come later than queries and keys; the logarithm of the sums could be there before."""
    (q, k, v, _), arrays = inputs((), 40, 40, 8, 8, "f32")
    logsum = apply(AttentionLogSum(0.5, False), q, k)
    values = ops.matmul(ops.multiply(v, ops.expand_dims(logsum, -1)) if read else v, v, transpose_b=True)
    function = Function("f", (q, k, v), (logsum, apply(Attention(0.5, False), q, k, values)))
    program = lower_function(function, host_target())
    assert sum("attention" in kernel.name for kernel in program.kernels) == 1 + read
    found = compile(function, options=OPTIONS)(*arrays[:3])
    agrees_with_graph(found, function, *arrays[:3])


def test_streams_with_other_rows_steps_or_spans_do_not_share():
    (q, k, v, ct), _ = inputs((), 40, 40, 8, 8, "f32")
    logsum = apply(AttentionLogSum(0.5), q, k)
    patterns = [
        access_pattern(value)
        for value in (
            apply(Attention(0.5), q, k, v),
            logsum,
            apply(Attention(0.5, True), q, k, v),
            apply(Attention(0.5), k, q, v),
            apply(AttentionValueGradient(0.5), q, k, logsum, ct),
            apply(Attention(0.5), ops.tanh(q), k, v),
        )
    ]
    assert all(f.kind == "attention" for f in patterns)
    assert patterns[0].attention_key == patterns[1].attention_key
    assert len({f.attention_key for f in patterns}) == 4, (
        "with queries and keys exchanged, rows are those of the value gradient"
    )


def test_the_number_of_threads_changes_no_bit():
    params, arrays = inputs((3,), 150, 130, 24, 20, "f32")
    function = slopes(params, True, 0.5)
    made = [compile(function, options=CompileOptions(threads=n))(*arrays) for n in (1, 2, 3)]
    for one, *others in zip(*made, strict=True):
        for other in others:
            np.testing.assert_array_equal(one, other)


def test_keys_that_no_query_sees_are_not_looked_at():
    """Of blocks beyond the diagonal nothing is read, of the block on it nothing counts."""
    params, arrays = inputs((), 40, 100, 8, 8, "f32")
    function = Function("f", tuple(params[:3]), (apply(Attention(0.5, True), *params[:3]),))
    attend = compile(function, options=OPTIONS)
    expected = attend(*arrays[:3])
    arrays[1][40:] = np.nan
    arrays[2][64:] = np.nan
    np.testing.assert_array_equal(attend(*arrays[:3]), expected)


def test_a_row_with_something_that_is_no_number_has_none_and_others_do():
    params, arrays = inputs((), 40, 40, 8, 8, "f32")
    arrays[0][7] = np.nan
    arrays[0][9, 0] = np.inf
    function = Function("f", tuple(params[:3]), (apply(Attention(0.5), *params[:3]),))
    found = compile(function, options=OPTIONS)(*arrays[:3])
    assert np.isnan(found[[7, 9]]).all()
    assert np.isfinite(np.delete(found, [7, 9], 0)).all()


def test_recomputation_takes_streams():
    (q, k, v, ct), arrays = inputs((2,), 64, 64, 16, 16, "f32")
    x = q
    for _ in range(4):
        x = ops.add(apply(Attention(0.5, True), x, k, v), x)
    function = gradient(Function("f", (q, k, v, ct), (ops.sum(ops.multiply(x, ct)),)), ["q", "k"])
    whole = compile(function, options=OPTIONS)
    budget = int(0.85 * next(iter(whole.memory.values())).working)
    less = compile(function, options=CompileOptions(threads=1, cache=False, memory_budget=budget))
    assert next(iter(less.memory.values())).working <= budget
    for one, other in zip(whole(*arrays), less(*arrays), strict=True):
        np.testing.assert_array_equal(one, other)
