"""Steps need next to nothing of the stack: what a thread has to itself lies in the arena."""

import re
import subprocess
import sys
import textwrap
from itertools import pairwise

import pytest

from adjoint import Function, ops, param
from adjoint.codegen.module import emit_modules
from adjoint.codegen.native import NativeCode
from adjoint.codegen.targets import target_for
from adjoint.compiler import CompileOptions, compile, host
from adjoint.kernel.program import arena_size, scratch_offsets
from adjoint.pipeline import finish_program, lower_function
from tests.hardware import missing
from tests.runtime.networks import NETWORKS, module_of, program_of
from tests.test_same_bits import FUSED

#: Bytes: what LLVM spills, and the masks of cores of a thread that sleeps. 256 KB leave room for Python's own frames.
MOST = 8192


#: Levels of x86-64: those at which other tests run the same steps, so that their code mostly is in the cache.
LEVELS = [*FUSED, *(["avx512"] if missing("avx512") else [])]

#: ``subq $N, %rsp`` in machine code, with a number of 32 bits (less than 16 MB: others are no frames) or of 8.
SUBTRACTIONS = re.compile(rb"\x48(?:\x81\xec(...\x00)|\x83\xec(.))", re.DOTALL)


def frames(objects):
    """The sizes of the stack frames in object files for x86-64."""
    found = [long or short for code in objects for long, short in SUBTRACTIONS.findall(code)]
    return sorted(int.from_bytes(number, "little") for number in found)


needs_x86 = pytest.mark.skipif(host().architecture != "x86_64", reason="frames are read from code for x86-64")


@needs_x86
@pytest.mark.parametrize(
    ("name", "level"),
    [
        *((name, level) for name in NETWORKS if name != "resnet8" for level in LEVELS),
        ("gpt", "sse2"),
    ],
)
def test_frames_are_small(name, level):
    made = compile(module_of(name)["step"], level, CompileOptions(threads=1))
    assert max(frames(made["step"].objects), default=0) <= MOST


@needs_x86
def test_frames_in_objects_are_those_of_the_assembly():
    """What the test above relies on."""
    target = target_for("avx2")
    codes = [NativeCode(text, target) for text in emit_modules(finish_program(program_of("lenet", target)), target)]
    said = [int(size) for code in codes for size in re.findall(r"subq\t\$(\d+), %rsp", code.assembly())]
    assert frames(code.object() for code in codes) == sorted(said)
    assert max(said) > 127  # with a number of 32 bits


def test_steps_run_in_threads_with_a_stack_of_256_kb():
    """With the frames that are measured above, of which those of the largest step are no longer."""
    code = """
        import threading
        threading.stack_size(256 * 1024)
        from adjoint import Trainer
        from adjoint.compiler import CompileOptions
        from tests.runtime.networks import module_of, trained
        for threads in (1, 2):
            trainer = Trainer(module_of("gpt"), options=CompileOptions(threads=threads), seed=1)
            trainer.init_parameters()
            trainer.compile()
            # Whoever steps first starts the workers, with small stacks too.
            other = threading.Thread(target=lambda: trained(trainer, 2))
            other.start()
            other.join()
        print("done")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stdout.split() == ["done"], done.stderr


def test_scratch_buffers_of_threads_lie_apart_and_behind_the_arena():
    program = program_of("gpt", target_for("host"))
    assert program.scratch_bytes > 0
    for kernel in program.kernels:
        places = sorted((start, start + b.nbytes) for b, start in scratch_offsets(kernel).items())
        assert all(end <= start for (_, end), (start, _) in pairwise(places))
        assert all(end <= program.scratch_bytes for _, end in places)
        assert all(start % 64 == 0 for start, _ in places)
    start = arena_size(program.arena_bytes, program.scratch_bytes, 0)
    assert program.arena_bytes <= start == program.working_bytes(3) - 3 * program.scratch_bytes


def test_a_program_without_scratch_needs_the_arena_alone():
    x = param("x", (8,))
    program = lower_function(Function("f", (x,), (ops.add(x, x),)), target_for("host"))
    assert program.scratch_bytes == 0
    assert program.working_bytes(7) == program.arena_bytes
