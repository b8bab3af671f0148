"""Subnormal numbers: the same rule in the interpreter, in compiled code, in every thread, and nothing left behind."""

import ctypes
from dataclasses import replace

import llvmlite.binding as llvm
import numpy as np
import pytest

from adjoint import Function, ops, param
from adjoint.codegen.native import NativeCode
from adjoint.codegen.targets import host_target, target_for
from adjoint.compiler import CompileOptions, compile
from adjoint.errors import InvalidValueError
from adjoint.kernel.interpreter import run_kernel
from adjoint.kernel.target import Target
from adjoint.nativelib.float_mode import enter_mode, float_mode_text, flushes_subnormals
from adjoint.pipeline import finish_program, lower_function
from adjoint.runtime.epoch import EpochLoop
from adjoint.runtime.library import Library
from tests.codegen.emulator import run as emulate
from tests.hardware import levels

FLUSH = pytest.mark.parametrize("flush", [True, False], ids=["flushed", "gradual"])
FLOATS = pytest.mark.parametrize("dtype", ["f32", "f64"])
LEVELS = levels()

#: What has a rule of its own about subnormal numbers, of one operand or two.
UNARY = {
    "neg": ops.negative,
    "abs": ops.abs,
    "sqrt": ops.sqrt,
    "floor": ops.floor,
    "square": ops.square,
    "sum": lambda x: ops.sum(x, (1,)),
    "max of all": lambda x: ops.max(x, (1,)),
    "copy": lambda x: ops.permute(x, (1, 0)),
    "to f32": lambda x: ops.cast(x, "f32"),
    "to f64": lambda x: ops.cast(x, "f64"),
    "to bf16": lambda x: ops.cast(x, "bf16"),
    "to i32": lambda x: ops.cast(x, "i32"),
    "to bool": lambda x: ops.cast(x, "bool"),
    "is positive": lambda x: ops.greater(x, 0.0),
}
BINARY = {
    "add": ops.add,
    "subtract": ops.subtract,
    "multiply": ops.multiply,
    "divide": ops.divide,
    "maximum": ops.maximum,
    "minimum": ops.minimum,
    "equal": ops.equal,
    "less": ops.less,
    "where": lambda x, y: ops.where(ops.greater(x, 0.0), x, y),
}
NAMES = (*UNARY, *BINARY)


def numbers(dtype, seed, shape=(16, 24)):
    """Subnormal numbers, zeros, numbers near the border and ordinary ones, of both signs."""
    rng = np.random.default_rng(seed)
    info = np.finfo({"f32": np.float32, "f64": np.float64}[dtype])
    kinds = [
        rng.integers(1, 50, shape) * info.smallest_subnormal,
        rng.uniform(0, 1, shape) * info.smallest_normal,
        rng.uniform(1, 3, shape) * info.smallest_normal,
        rng.uniform(0.1, 3, shape),
        np.sqrt(info.smallest_normal) * rng.uniform(0.1, 3, shape),
        np.zeros(shape),
    ]
    return (np.choose(rng.integers(0, len(kinds), shape), kinds) * rng.choice([-1, 1], shape)).astype(info.dtype)


def built(name, dtype):
    params = (param("x", (16, 24), dtype), param("y", (16, 24), dtype))
    used = params[: 1 if name in UNARY else 2]
    return Function("f", used, ((UNARY | BINARY)[name](*used),))


def built_all(dtype):
    """Every operation beside the others, so that a target and mode need one program only."""
    x, y = (param(name, (16, 24), dtype) for name in ("x", "y"))
    return Function("f", (x, y), (*(of(x) for of in UNARY.values()), *(of(x, y) for of in BINARY.values())))


def interpreted(function, target, flush, *arrays):
    """What the kernels of a function mean: all of its results."""
    program = finish_program(lower_function(function, target))
    memory = {b: np.zeros(b.size, b.dtype) for k in program.kernels for b in (*k.reads, *k.writes)}
    memory |= {buffer: np.frombuffer(data, buffer.dtype) for buffer, data in program.literals.items()}
    for argument, array in zip(program.arguments, arrays, strict=True):
        memory[program.slots[argument.slot]] = array.reshape(-1).copy()
    for kernel in program.kernels:
        run_kernel(kernel, memory, flush_subnormals=flush)
    return [memory[program.slots[result.slot]].reshape(result.shape) for result in program.results]


def same_bits(got, wanted, name=""):
    """Equal to the bit, but that minimum and maximum may give either zero."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), name
    np.testing.assert_array_equal(got, wanted, err_msg=name)


@FLUSH
@FLOATS
@pytest.mark.parametrize("level", LEVELS)
def test_compiled_code_does_what_kernels_mean(level, dtype, flush):
    function, target = built_all(dtype), target_for(level)
    arrays = [numbers(dtype, n) for n, _ in enumerate(function.params)]
    options = CompileOptions(threads=1, cache=False, flush_subnormals=flush)
    found = compile(function, target, options)(*arrays)
    for name, got, wanted in zip(NAMES, found, interpreted(function, target, flush, *arrays), strict=True):
        same_bits(got, wanted, name)


@FLOATS
def test_aarch64_flushes_alike(dtype):
    function, target = built_all(dtype), target_for("neon")
    arrays = [numbers(dtype, n) for n, _ in enumerate(function.params)]
    found = emulate(function, target, *arrays)
    for name, got, wanted in zip(NAMES, found, interpreted(function, target, True, *arrays), strict=True):
        info = np.finfo(got.dtype) if got.dtype.kind == "f" else None
        # AArch64 looks whether a result is subnormal before it is rounded, x86-64 after: half a step below the border.
        border = (np.abs(wanted) == info.smallest_normal) & (got == 0) if info else np.zeros(got.shape, bool)
        same_bits(np.where(border, wanted, got), wanted, name)


@FLUSH
@FLOATS
@pytest.mark.parametrize("level", LEVELS)
def test_products_of_matrices_flush_what_they_add(level, dtype, flush):
    x, y = (numbers(dtype, n) for n in range(2))
    params = param("x", x.shape, dtype), param("y", y.shape, dtype)
    function = Function("f", params, (ops.matmul(*params, transpose_b=True),))
    options = CompileOptions(threads=1, cache=False, flush_subnormals=flush)
    got = compile(function, target_for(level), options)(x, y)
    wide, info = np.longdouble, np.finfo(x.dtype)
    exact, depth = x.astype(wide) @ y.astype(wide).T, x.shape[1]
    # Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., (3.5); each step may lose a subnormal number.
    bound = depth * info.eps * (np.abs(x).astype(wide) @ np.abs(y).astype(wide).T)
    largest = max(1, np.abs(x).max(), np.abs(y).max())
    lost = info.smallest_normal * largest if flush else info.smallest_subnormal
    assert (np.abs(got - exact) <= bound + 2 * depth * lost).all()


def test_flushing_is_seen_in_each_of_the_two():
    """What the tests above rely on: these numbers make a difference."""
    x, y = (numbers("f32", n) for n in range(2))
    found = [interpreted(built("multiply", "f32"), host_target(), flush, x, y)[0] for flush in (True, False)]
    tiny = np.finfo(np.float32).smallest_normal
    assert not ((found[0] != 0) & (np.abs(found[0]) < tiny)).any()
    assert ((found[1] != 0) & (np.abs(found[1]) < tiny)).sum() > 20


def test_fused_multiply_add_flushes_its_result_and_not_its_product():
    x = param("x", (64,))
    function = Function("f", (x,), (ops.subtract(ops.multiply(x, x), ops.multiply(x, 1e-20)),))
    array = np.linspace(1e-20, 3e-19, 64, dtype=np.float32)
    got = compile(function, options=CompileOptions(cache=False))(array)
    same_bits(got, *interpreted(function, host_target(), True, array))


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_every_thread_flushes(threads):
    x, y = param("x", (512, 512)), param("y", (512, 512))
    function = Function("f", (x, y), (ops.add(ops.multiply(x, y), ops.matmul(x, y)), ops.sum(ops.multiply(x, y))))
    arrays = [numbers("f32", n, (512, 512)) for n in range(2)]
    run = {n: compile(function, options=CompileOptions(threads=n)) for n in (1, threads)}
    for one, other in zip(run[1](*arrays), run[threads](*arrays), strict=True):
        np.testing.assert_array_equal(one.view("u4"), other.view("u4"))


MODES = """
{declarations}
define i32 @get() {{
  %at = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %at)
  %now = load i32, ptr %at
  ret i32 %now
}}
define void @set(i32 %new) {{
  %at = alloca i32
  store i32 %new, ptr %at
  call void @llvm.x86.sse.ldmxcsr(ptr %at)
  ret void
}}
"""


@pytest.fixture(scope="module")
def mode():
    """Two functions that read and write this thread's MXCSR, and what keeps them."""
    if host_target().architecture != "x86_64":
        pytest.skip("reads a register of x86-64")
    declared = "declare void @llvm.x86.sse.stmxcsr(ptr)\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)"
    library = Library((NativeCode(MODES.format(declarations=declared), host_target()).object(),), ("get", "set"))
    get = ctypes.CFUNCTYPE(ctypes.c_uint32)(library["get"])
    put = ctypes.CFUNCTYPE(None, ctypes.c_uint32)(library["set"])
    yield lambda: get() & 0xFFC0, put
    del library


#: Control words of a caller: as usual; with flushing; rounding up; rounding towards zero with flushing of results.
WORDS = [0x1F80, 0x9FC0, 0x5F80, 0xFF80]


@FLUSH
@pytest.mark.parametrize("word", WORDS, ids=hex)
def test_the_callers_mode_is_left_alone_and_changes_no_bit(mode, word, flush):
    get, put = mode
    function = built("multiply", "f32")
    arrays = [numbers("f32", n) for n in range(2)]
    run = compile(function, options=CompileOptions(threads=1, cache=False, flush_subnormals=flush))
    expected = run(*arrays).tobytes()
    slow = [np.asfortranarray(a) for a in arrays]  # takes the slow way in
    before = get()
    try:
        put(word)
        found = [run(*arrays).tobytes(), run(*slow).tobytes()]
        after = get()
    finally:
        put(before)
    assert found == [expected] * 2
    assert after == word


@FLUSH
def test_an_epoch_leaves_the_mode_alone_and_steps_do_as_they_are_told(mode, flush):
    get, _ = mode
    options = CompileOptions(threads=2, cache=False, flush_subnormals=flush)
    table, order, w, x = param("table", (6, 4)), param("order", (2,), "i64"), param("w", (4,)), param("x", (2, 4))
    gather = compile(Function("gather", (table, order), (ops.take(table, order),)), options=options)["gather"]
    new = ops.add(w, ops.sum(x, (0,)))
    step = Function("step", (x, w), (ops.sum(ops.multiply(new, 0.5)), new), {"donate": (("w", 1),)})
    kept = {"w": np.zeros(4, "f4")}
    tiny = np.float32(1e-40)
    before = get()
    loop = EpochLoop(
        gather.bind({}), compile(step, options=options)["step"].bind(kept), (np.full((6, 4), tiny),),
        np.arange(6), np.zeros(3, "f4"), {},
    )  # fmt: skip
    loop.run(3)
    assert get() == before
    np.testing.assert_allclose(kept["w"], 0 if flush else 6 * tiny, rtol=1e-4)
    assert np.float32(1e-20) * np.float32(1e-20) > 0  # NumPy's numbers are as they were


def test_targets_without_a_mode_say_so():
    assert not flushes_subnormals("riscv64-unknown-linux-gnu")
    text = float_mode_text("riscv64-unknown-linux-gnu")
    assert "ret i32 0" in text
    target = target_for("rvv")
    call, _ = enter_mode(target.triple, True)
    body = f"define i32 @f() {{\n  %mode = {call}\n  ret i32 %mode\n}}\n{text}"
    assert "fcsr" not in NativeCode(f'target triple = "{target.triple}"\n{body}', target).assembly()


@pytest.mark.parametrize(
    ("target", "instruction"),
    [
        (target_for("neon"), "msr\tFPCR"),
        (Target("thumbv7em-none-eabihf", "cortex-m7", "", 4, 32), "vmsr\tfpscr"),
    ],
    ids=["aarch64", "cortex-m7"],
)
def test_other_architectures_write_their_own_register(target, instruction):
    enter, leave = enter_mode(target.triple, True)
    kind = enter.split()[1]
    body = f"define void @f() {{\n  %mode = {enter}\n  %left = {leave}\n  ret void\n}}\n"
    text = f'target triple = "{target.triple}"\n{float_mode_text(target.triple)}{body}'
    assert instruction in NativeCode(text, target).assembly()
    assert kind in ("i32", "i64")


def test_the_option_is_a_bool_and_part_of_the_key(tmp_path):
    with pytest.raises(InvalidValueError, match="flush_subnormals must be True or False, got 1"):
        CompileOptions(flush_subnormals=1)
    options = CompileOptions(cache_directory=tmp_path)
    function, tiny = built("add", "f32"), np.full((16, 24), 1e-40, np.float32)
    for _ in range(2):
        assert (compile(function, options=options)(tiny, tiny) == 0).all()
        assert (compile(function, options=replace(options, flush_subnormals=False))(tiny, tiny) == 2 * tiny).all()


def test_constants_are_folded_as_the_mode_has_it():
    """LLVM computes with constants at compile time."""
    x = param("x", (3,))
    tiny = ops.multiply(ops.full(1e-20, (3,)), ops.full(1e-20, (3,)))
    for flush in (True, False):
        options = CompileOptions(cache=False, flush_subnormals=flush)
        got = compile(Function("f", (x,), (ops.add(ops.multiply(x, 0.0), tiny),)), options=options)(np.ones(3, "f4"))
        assert (got == 0).all() == flush


def test_llvm_is_told():
    entry = compile(built("add", "f32"), options=CompileOptions(cache=False))["f"]
    llvm.parse_assembly(entry.text("llvm"))
    assert "preserve-sign" in entry.text("llvm") or "denormal_fpenv" in entry.text("llvm")
