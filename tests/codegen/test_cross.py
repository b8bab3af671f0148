"""Code for other CPUs: what the loops of products and convolutions are made of, and what it computes in an emulator.

NEON runs as it is. The emulator has no vectors of RISC-V, so the kernels that are written for them run with every
lane by itself; and kernels for a RISC-V CPU that has none.
"""

import re
from functools import cache

import numpy as np
import pytest
from unicorn import UcError

from adjoint import ops
from adjoint.codegen.module import emit_modules
from adjoint.codegen.native import NativeCode, compile_native
from adjoint.codegen.targets import target_for
from adjoint.errors import CompileError
from adjoint.ir import Function, apply, param
from adjoint.ir.printer import value_names
from adjoint.kernel.target import Target
from adjoint.lower.contractions import schedules
from adjoint.lower.program import contractions_of
from adjoint.ops.attention import Attention
from adjoint.ops.attention_base import AttentionOperator
from adjoint.ops.catalogue import CATALOGUE
from adjoint.pipeline import GRAPH_PASSES, finish_program, lower_function
from adjoint.testing.rounding import rounding, unit_roundoff
from adjoint.transforms.differentiate import gradient
from tests.closeness import agrees_with_graph, within
from tests.codegen.emulator import Emulator, run
from tests.codegen.test_targets import block
from tests.ops.test_compiled import joined

RV64 = "riscv64-unknown-linux-gnu", "generic-rv64", "+m,+a,+f,+d,+c"
#: Targets whose code the emulator runs.
RUN = {
    "neon": target_for("neon"),
    "cortex-a76": target_for("cortex-a76"),
    "rv64": Target(*RV64, 4, 32),
    "rv64, kernels for vectors": Target(*RV64, 16, 32),
}

#: Those whose code differs without float16.
OF_FLOAT32 = [name for name in RUN if name != "cortex-a76"]


def product(m, k, n, transpose_a=False, transpose_b=False, dtype="f32"):
    x = param("x", (k, m) if transpose_a else (m, k), dtype)
    w = param("w", (n, k) if transpose_b else (k, n), dtype)
    return Function("product", (x, w), (ops.matmul(x, w, transpose_a=transpose_a, transpose_b=transpose_b),))


def convolution(batch, channels, size, kernel, stride=1):
    x, w = param("x", (batch, channels, size, size)), param("w", (channels, channels, kernel, kernel))
    return Function("convolution", (x, w), (ops.conv2d(x, w, stride=stride, padding=kernel // 2),))


# The loops

#: Multiply-adds on vectors, the register that they add to, and stores, as the assembly of an architecture has them.
#: An accumulator is named only so: `vfmadd` of RISC-V would overwrite a factor.
FUSED = {
    "aarch64": re.compile(r"fmla\s+(v\d+)\.4s, v\d+\.4s, v\d+\.(?:4s|s\[\d\])"),
    "riscv64": re.compile(r"vfmacc\.v[fv]\s+(v\d+), \w+, v\d+"),
}
STORE = {"aarch64": re.compile(r"st\w+\s"), "riscv64": re.compile(r"(vs\w+\.v|fs[dw]|s[bhwd])\s")}
JUMP = re.compile(r"(?:b\S*|j)\s.*?(\.LBB\w+)$")

LOOPS = {
    "product": (lambda: product(64, 64, 64), "gemm"),
    "with edges": (lambda: product(33, 50, 45), "gemm"),
    "transposed": (lambda: product(64, 784, 128, transpose_b=True), "gemm"),
    "large": (lambda: product(128, 1024, 1024), "gemm"),
    "direct": (lambda: convolution(4, 32, 16, 11), "gemm", "channel_lanes"),
    "strided": (lambda: convolution(4, 32, 16, 3, stride=2), "gemm", "channel_lanes"),
    "winograd": (lambda: convolution(4, 32, 16, 3), "winograd"),
    "winograd, rows of seven": (lambda: convolution(16, 64, 7, 3), "winograd"),
}


def innermost_loops(assembly):
    """Instructions of each loop that holds no other one, from where it starts to the branch back."""
    found, lines, labels, starts = [], [], {}, []
    for line in assembly.splitlines():
        if label := re.match(r"([\w.$]+):", line):
            labels[label[1]] = len(lines)
        elif line.startswith("\t") and not line.startswith("\t."):
            lines.append(line.strip())
            start = labels.get(back[1]) if (back := JUMP.match(lines[-1])) else None
            if start is not None:
                if all(other <= start for other in starts):
                    found.append(lines[start:])
                starts.append(start)
    return found


def form_of(function, target):
    """In which form the only contraction of a function runs."""
    for graph_pass in GRAPH_PASSES:
        function = graph_pass(function)
    (found,) = contractions_of(function, target, value_names(function))[1].values()
    return str(found.plan).split()[0]


@pytest.mark.parametrize("name", ["neon", "cortex-a72", "cortex-a76", "rvv"])
@pytest.mark.parametrize("case", LOOPS)
def test_register_tiles_multiply_and_add_in_registers(case, name, monkeypatch):
    make, *forms = LOOPS[case]
    if "channel_lanes" not in forms:
        monkeypatch.setattr(schedules, "plan_channel_lanes", lambda *_: None)
    function, target = make(), target_for(name)
    assert form_of(function, target) in forms
    texts = emit_modules(finish_program(lower_function(function, target)), target)
    fused, store = FUSED[target.architecture], STORE[target.architecture]
    tiles = 0
    for loop in innermost_loops("".join(NativeCode(text, target).assembly() for text in texts)):
        adds = [match[1] for line in loop if (match := fused.match(line))]
        # Two multiply-adds a cycle, each of which waits four for the one before it: a tile has more accumulators than
        # that. Loops with fewer are transforms of Winograd's, which store what they make.
        if len(set(adds)) > 8:
            tiles += 1
            assert not [line for line in loop if store.match(line) or re.search(r"\bsp\b", line)], loop
            assert not [line for line in loop if re.match(r"v?f(mul|add)\b", line)], loop
    assert tiles


def test_stores_and_loops_are_seen_in_assembly():
    """What the test above relies on: a loop that stores is found, with its stores."""
    x = param("x", (1000,))
    for name in ("neon", "rvv"):
        target = target_for(name)
        texts = emit_modules(finish_program(lower_function(Function("f", (x,), (ops.exp(x),)), target)), target)
        loops = innermost_loops("".join(NativeCode(text, target).assembly() for text in texts))
        store, fused = STORE[target.architecture], FUSED[target.architecture]
        assert any(any(map(store.match, loop)) and any(map(fused.match, loop)) for loop in loops), name


# What it computes


def check(function, target, *arrays):
    """Results beside the graph's meaning in NumPy, and the results."""
    got = run(function, target, *arrays)
    agrees_with_graph(got, function, *arrays)
    return got


def normal(function):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(p.shape).astype(p.dtype) for p in function.params]


@pytest.mark.parametrize("name", OF_FLOAT32)
@pytest.mark.parametrize(
    "function",
    [
        product(33, 50, 45),
        product(16, 300, 7, transpose_b=True),
        product(7, 40, 66, transpose_a=True),
        product(13, 37, 29, dtype="f64"),
    ],
    ids=["edges", "packed", "transposed", "double"],
)
def test_products(function, name):
    check(function, RUN[name], *normal(function))


@pytest.mark.parametrize("name", RUN)
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_products_of_16_bits(dtype, name):
    """Sums are float32, so that only operands and results differ from those of float32."""
    if dtype == "f16" and not RUN[name].converts_half:
        pytest.skip("this CPU does not convert float16")
    function = product(33, 50, 45, transpose_b=True, dtype=dtype)
    arrays = normal(function)
    (got,) = run(function, RUN[name], *arrays)
    x, w = (array.astype("f4") for array in arrays)
    ((want, bound),) = rounding(product(33, 50, 45, transpose_b=True), x, w)
    within(got, want, bound + unit_roundoff(got.dtype) * (abs(want) + bound))


@pytest.mark.parametrize("name", OF_FLOAT32)
@pytest.mark.parametrize(
    "forward",
    [
        convolution(2, 16, 8, 3),
        convolution(2, 16, 7, 3),
        convolution(2, 16, 14, 3, stride=2),
        convolution(2, 4, 9, 5),
    ],
    ids=["winograd", "rows of seven", "strided", "direct"],
)
def test_convolutions_and_their_gradients(forward, name):
    (y,) = forward.results
    function = gradient(Function("loss", forward.params, (ops.sum(ops.square(y)),)), ("x", "w"))
    check(function, RUN[name], *normal(function))


@pytest.mark.parametrize("name", OF_FLOAT32)
def test_a_block_of_a_network(name):
    """Products, `gelu`, softmax, reductions and a gather."""
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype("f4") for s in ((13, 37), (37, 29)))
    check(block(), RUN[name], x, w, rng.integers(0, 37, 13).astype("i4"))


def dtypes(sample):
    """What a sample reads and makes."""
    params = [param(f"p{i}", x.shape, x.dtype) for i, x in enumerate(sample.inputs)]
    return frozenset(value.dtype for value in (*params, apply(sample.op, *params)))


@cache
def valid_samples(cls):
    """The samples of an operator that it accepts, each with its dtypes."""
    return [(sample, dtypes(sample)) for sample in cls.samples() if not sample.error]


def samples_of(cls, name):
    """The samples of an operator for a target: float16 where instructions convert it, and on the A76 nothing else.

    Its other code is that of ``neon``. For RISC-V there is one sample for each combination of dtypes, which alone
    decide between instructions: shapes and attributes make other indices, the same as on ``neon``. Sums and gradients
    of attention have one for each float: with masks and dropout they apply no scalar function to a dtype that attention
    itself or another operator does not.
    """
    half = np.dtype(np.float16)
    if name == "cortex-a76":
        return [sample for sample, kinds in valid_samples(cls) if half in kinds]
    found = [(sample, kinds) for sample, kinds in valid_samples(cls) if RUN[name].converts_half or half not in kinds]
    if RUN[name].architecture == "riscv64":
        if issubclass(cls, AttentionOperator) and cls is not Attention:
            found = {sample.inputs[0].dtype: (sample, kinds) for sample, kinds in found}.values()
        else:
            of_dtypes = {(tuple(x.dtype for x in sample.inputs), kinds): (sample, kinds) for sample, kinds in found}
            found = of_dtypes.values()
    return [sample for sample, _ in found]


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        pytest.param(cls, name, id=f"{cls.name}-{name}")
        for number, cls in enumerate(CATALOGUE)
        for name in RUN
        # NEON runs the kernels for vectors of all operators; here every third is enough to test the lane-by-lane code.
        if samples_of(cls, name) and (name != "rv64, kernels for vectors" or number % 3 == 0)
    ],
)
def test_every_operator(cls, name):
    """Every operator's samples: vector math, reductions, conversions of all dtypes, gathers and scatters."""
    samples = samples_of(cls, name)
    function = joined(samples)
    arrays = [x for sample in samples for x in sample.inputs]
    agrees_with_graph(run(function, RUN[name], *arrays), function, *arrays, message=cls.name)


def test_shares_of_threads_make_the_same_bits():
    function = product(33, 50, 45)
    arrays = normal(function)
    (one,), (three,) = (run(function, RUN["neon"], *arrays, shares=n) for n in (1, 3))
    assert one.tobytes() == three.tobytes()


def test_float16_is_refused_where_the_cpu_cannot_convert_it():
    x = param("x", (4,), "f16")
    function = Function("f", (x,), (ops.add(x, x),))
    with pytest.raises(CompileError, match=r"Zfhmin on RISC-V\), which generic-rv64 does not"):
        run(function, RUN["rv64"], np.ones(4, np.float16))


def test_the_emulator_stops_at_what_lies_beyond_an_array():
    """What the tests above rely on: code that is given too small an array does not read on."""
    x, target = param("x", (2000,)), RUN["neon"]
    program = finish_program(lower_function(Function("f", (x,), (ops.exp(x),)), target))
    emulator = Emulator(target, compile_native(emit_modules(program, target), target))
    whole, half = (emulator.place(np.zeros(count, "f4")) for count in (2000, 1984))
    table = emulator.place(np.array([half, whole], np.uint64))
    with pytest.raises(UcError, match="Invalid memory read"):
        emulator.call(program.symbol, table, whole, 0, 1, 0)
