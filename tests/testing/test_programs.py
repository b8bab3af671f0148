"""Random programs like networks, forward and all gradients, held against the reference interpreter in float64.

``--fuzz-seed N`` and ``--fuzz-count M`` choose the programs N, N + 1, ...; ``--fuzz-seed random`` begins anywhere. The
number of a program that fails is in the test's name, and its graph in the report.
"""

import re

import numpy as np
import pytest

from adjoint.codegen.targets import target_for
from adjoint.compiler import CompileOptions, compile
from adjoint.ir.printer import value_names
from adjoint.lower.program import contractions_of
from adjoint.pipeline import GRAPH_PASSES
from adjoint.testing import interpret
from adjoint.testing.programs import network
from tests.closeness import agrees_with_graph
from tests.codegen.emulator import run
from tests.codegen.test_cross import RUN

#: Programs that run in an emulator, on how many multiply-adds an operation.
EMULATED, EMULATED_WORK = 4, 1e5


def pytest_generate_tests(metafunc):
    first, count = (metafunc.config.getoption(name) for name in ("--fuzz-seed", "--fuzz-count"))
    if "number" in metafunc.fixturenames:
        emulated = "target" in metafunc.fixturenames
        metafunc.parametrize("number", range(first, first + (min(count, EMULATED) if emulated else count)))


def wrong(program, found):
    """What is wrong with results: an element further from the exact one than rounding reaches."""
    try:
        # Where greatest elements nearly tie results jump, and two may jump that did so in no trial together.
        agrees_with_graph(found, program.function, *program.arrays, slack=2)
    except AssertionError as error:
        return str(error)
    return ""


def told(program, what):
    return f"program {program.number}, {' '.join(program.steps)}: {what}\n{program.function}"


def test_compiled_programs_are_right_on_any_number_of_threads(number):
    program = network(number)
    # Compiled once: the second and third time it comes from the tests' own cache.
    made = [compile(program.function, options=CompileOptions(threads=n))(*program.arrays) for n in (1, 2, 3)]
    bits = [[np.asarray(result).tobytes() for result in found] for found in made]
    if bits[0] != bits[1] or bits[0] != bits[2]:
        pytest.fail(told(program, "other bits on other numbers of threads"), pytrace=False)
    if why := wrong(program, made[0]):
        pytest.fail(told(program, why), pytrace=False)


@pytest.mark.parametrize("target", ["neon", "rv64", "rv64, kernels for vectors"])
def test_programs_are_right_on_other_cpus(number, target):
    program = network(number, work=EMULATED_WORK)
    if why := wrong(program, run(program.function, RUN[target], *program.arrays)):
        pytest.fail(told(program, why), pytrace=False)


def test_programs_reach_every_form_of_kernel():
    """The programs that run every time do: what they leave out, they do not test."""
    forms, operators = set(), set()
    target = target_for("avx512")
    for number in range(285, 326):  # those of the default seed
        function = network(number).function
        operators.update(value.op.name for value in function.values())  # passes replace some of them
        for graph_pass in GRAPH_PASSES:
            function = graph_pass(function)
        planned = contractions_of(function, target, value_names(function))[1].values()
        forms.update(re.sub(r"\d+(x\d+)+", "tile", str(found.plan)) for found in planned)
    assert forms >= {
        "gemm tile",
        "gemm tile packed",
        "channel_lanes tile",
        "winograd",
        "kn2row",
        "split_k",
        "inner_product",
    }
    assert operators >= {"attention", "attention_key_gradient", "conv2d_weight_gradient", "max_pool2d", "window_spread"}


def test_a_program_is_the_same_graph_in_either_width(number):
    narrow, wide = network(number), network(number, "f64")
    assert str(narrow.function).replace("f32", "f64") == str(wide.function)
    assert all(np.array_equal(a, b) for a, b in zip(narrow.arrays, wide.arrays, strict=True))


def test_one_wrong_element_is_found():
    """What the tests above rely on: an error of a few roundings is let through, a ten thousandth is not."""
    program = network(2)
    found = [np.array(result) for result in interpret(program.function, *program.arrays)]
    assert not wrong(program, found)
    place = max(range(len(found)), key=lambda n: found[n].size)
    greatest = np.unravel_index(np.argmax(np.abs(found[place])), found[place].shape)
    found[place][greatest] *= 1 + 1e-4
    assert re.search(rf"result {place}: 1 of \d+ elements are off by more than rounding allows", wrong(program, found))
