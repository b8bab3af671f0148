"""Every CPU with fused multiply-adds gives the same bits on any number of threads: AVX-512, AVX2, emulated AArch64.

SSE2, which rounds products before it adds them, is outside of this promise.
"""

import numpy as np
import pytest

from adjoint import ops
from adjoint.codegen.targets import target_for
from adjoint.compiler import CompileOptions, compile, host
from adjoint.ir import Function, param
from adjoint.testing.grown import program
from adjoint.testing.interpreter import interpret
from adjoint.testing.programs import network
from tests.closeness import agrees_with_graph
from tests.codegen.emulator import run
from tests.hardware import missing
from tests.runtime.networks import NETWORKS, step_of

#: This CPU, and the other level of x86-64 that the promise is about: AVX2 beside AVX-512.
FUSED = ["host", *(["avx2"] if host().architecture == "x86_64" and not missing("avx512") else [])]
THREADS = (1, 2, 3, 7)
#: Random networks: at all levels, and those of few operations in an emulator too.
PROGRAMS, EMULATED_WORK = range(5_001, 5_007), 1e5
#: Random programs of all operators, one of each kind.
SMALL = range(3_000, 3_005)


def bits(results):
    results = results if isinstance(results, list | tuple) else [results]
    return [np.asarray(result).tobytes() for result in results]


def compiled_bits(function, arrays, level, threads):
    return bits(compile(function, level, CompileOptions(threads=threads))(*(a.copy() for a in arrays)))


def different(found, want):
    """Numbers of the results that differ."""
    return [n for n, (a, b) in enumerate(zip(found, want, strict=True)) if a != b]


@pytest.mark.parametrize("name", NETWORKS)
def test_training_steps_are_equal_at_all_widths_on_any_number_of_threads(name):
    step, arrays = step_of(name)
    want = compiled_bits(step, arrays, FUSED[0], 1)
    for level in FUSED:
        for threads in THREADS:
            assert different(compiled_bits(step, arrays, level, threads), want) == [], (level, threads)


@pytest.mark.parametrize("name", NETWORKS)
def test_training_steps_are_equal_on_aarch64(name):
    step, arrays = step_of(name)
    want = compiled_bits(step, arrays, FUSED[0], 1)
    found = run(step, target_for("neon"), *arrays)
    assert different(bits(found), want) == []
    if name in ("mlp", "lenet", "gpt"):
        agrees_with_graph(found, step, *arrays)


@pytest.mark.parametrize("number", PROGRAMS)
def test_random_networks_are_equal_at_all_widths(number):
    program = network(number)
    want = compiled_bits(program.function, program.arrays, FUSED[0], 1)
    for level in FUSED:
        for threads in THREADS:
            found = compiled_bits(program.function, program.arrays, level, threads)
            assert different(found, want) == [], (level, threads, program.steps)


@pytest.mark.parametrize("number", PROGRAMS)
def test_random_networks_are_equal_on_aarch64(number):
    program = network(number, work=EMULATED_WORK)
    want = compiled_bits(program.function, program.arrays, FUSED[0], 1)
    assert different(bits(run(program.function, target_for("neon"), *program.arrays)), want) == [], program.steps


@pytest.mark.parametrize("number", SMALL)
def test_random_programs_of_all_operators_are_equal_everywhere(number):
    made = program(number)
    want = compiled_bits(made.function, made.arrays, FUSED[0], 1)
    for level, threads in ((FUSED[0], 2), (FUSED[-1], 3)):
        found = compiled_bits(made.function, made.arrays, level, threads)
        assert different(found, want) == [], (level, threads, made.steps)
    assert different(bits(run(made.function, target_for("neon"), *made.arrays)), want) == [], made.steps


def drawn(normal):
    """A function that draws from every distribution, more than one unit of work from some."""
    key = param("key", (2,), "u32")
    random = ops.random
    keys = random.split(key, 8)
    results = [
        random.bits(keys[0], (40, 1000)),
        random.uniform(keys[1], 999),
        random.uniform(keys[2], 99, "f64", -1.0, 3.0),
        random.uniform(keys[3], 99, "bf16"),
        random.randint(keys[4], 99, -5, 2**40),
        random.permutation(keys[5], 99),
    ]
    if normal:
        results += [random.normal(random.fold_in(keys[6], 1), 999), random.normal(keys[7], 99, "f64")]
    return Function("drawn", (key,), tuple(results))


def test_random_numbers_are_equal_everywhere():
    key = ops.random.key_array(1)
    want = compiled_bits(drawn(True), [key], FUSED[0], 1)
    for level in FUSED:
        assert different(compiled_bits(drawn(True), [key], level, 3), want) == [], level
    assert different(bits(run(drawn(True), target_for("neon"), key)), want) == []
    if host().architecture == "x86_64":
        assert different(compiled_bits(drawn(False), [key], "sse2", 2), want[:6]) == []
    assert different(bits(interpret(drawn(False), key)), want[:6]) == []


def test_bits_that_differ_are_seen():
    """What the tests above rely on: SSE2 rounds products, and that is found."""
    if host().architecture != "x86_64":
        pytest.skip("there is no CPU without fused multiply-adds of this architecture")
    step, arrays = step_of("mlp")
    want = compiled_bits(step, arrays, FUSED[0], 1)
    assert different(compiled_bits(step, arrays, "sse2", 1), want)
