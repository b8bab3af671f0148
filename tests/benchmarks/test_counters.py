"""Counters of instructions, held to code whose instructions are counted by hand."""

import ctypes
import mmap
import platform
import re
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from adjoint.codegen.native import NativeCode
from adjoint.codegen.targets import host_target
from benchmarks import count_worker
from benchmarks.counters.base import Count, NoCounterError
from benchmarks.counters.blocks import BlockCounter, assemble, blocks_of, instrument
from benchmarks.counters.perf import SOFTWARE_PAGE_FAULTS, PerfCounter
from benchmarks.counters.valgrind import ValgrindCounter
from benchmarks.counters.valgrind import command as under_valgrind

on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="counts x86-64")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")

#: Adds n and n - 1 and ... 1, by way of a leaf that keeps what it was given under the stack pointer, and keeps a
#: comparison across a label.
ASSEMBLY = """\
\t.text
\t.globl\tstep
\t.type\tstep,@function
step:                                   # @step
\t.cfi_startproc
# %bb.0:
\txorl\t%edx, %edx
.LBB0_1:                                # =>This Inner Loop Header
\tcallq\tleaf
\tdecq\t%rdi
.LBB0_2:
\tjne\t.LBB0_1
# %bb.3:
\tmovq\t%rdx, %rax
\tretq
.Lfunc_end0:
\t.size\tstep, .Lfunc_end0-step
\t.cfi_endproc
\t.p2align\t4
leaf:
\tmovq\t%rdi, -8(%rsp)
.LBB1_1:
\taddq\t-8(%rsp), %rdx
\tretq
\t.section\t.rodata,"a",@progbits
data:
\t.quad\t7
\t.section\t".note.GNU-stack","",@progbits
"""


def loaded(code):
    """The function ``step`` of object code, and what keeps it."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    jit = llvm.create_lljit_compiler()
    library = llvm.JITLibraryBuilder().add_object_img(code).export_symbol("step").link(jit, "counted")
    return ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64)(library["step"]), (jit, library)


def machine():
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = host_target()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, reloc="pic", codemodel="small"
    )


def test_blocks_end_at_labels_and_jumps_and_hold_code_alone():
    found = [(block.function, block.instructions) for block in blocks_of(ASSEMBLY)]
    assert found == [("step", 1), ("step", 2), ("step", 1), ("step", 2), ("leaf", 1), ("leaf", 2)]
    lines = ASSEMBLY.splitlines()
    assert all(lines[block.line - 1].startswith((".LBB", "step", "leaf", "\tj")) for block in blocks_of(ASSEMBLY))


@on_x86
def test_every_block_counts_and_the_code_does_what_it_did():
    blocks = blocks_of(ASSEMBLY)
    words = (ctypes.c_uint64 * len(blocks))()
    step, _kept = loaded(assemble(instrument(ASSEMBLY, blocks, ctypes.addressof(words)), machine()))
    assert step(10) == 55  # of the comparison and of what lies under the stack nothing was lost
    assert list(words) == [1, 10, 10, 1, 10, 10]
    assert step(3) == 6
    assert list(words) == [2, 13, 13, 2, 13, 13]


@on_x86
def test_modules_that_hold_what_is_wanted_are_counted_under_its_name():
    class Native:
        """Stands for `NativeCode`: its assembly is given."""

        def __init__(self, text):
            self._text, self._machine = text, machine()

        def assembly(self):
            return self._text

        def object(self):
            return assemble(self._text, self._machine)

    counter = BlockCounter(Native, re.compile("(?:my_)?(step)"))
    with pytest.raises(NoCounterError, match="nothing that was compiled is counted"):
        counter.count(lambda: None)
    step, _kept = loaded(Native(ASSEMBLY).object())
    other = ASSEMBLY.replace("step", "other").replace("leaf", "twig")
    assert b"\x48\x8d\x49\x01" not in Native(other).object()  # leaq 1(%rcx), %rcx
    # 1 before, (2 + 1) in every turn, 2 after; 3 in the leaf.
    assert counter.count(lambda: step(10)) == Count(63, {"step": 33, "leaf": 30})
    assert counter.count(lambda: (step(1), step(2))) == Count(24, {"step": 15, "leaf": 9})


@on_x86
def test_names_of_kernels_lose_their_prefix():
    names = (
        "step",
        "step_check",
        "adjoint.step",
        "kernel_w0_new",
        "step_kernel_w0_new",
        "adjoint.step.kernel.w0_new",
        "barrier",
        "work",
    )
    matches = [count_worker.STEP.fullmatch(name) for name in names]
    assert [m and m[1] for m in matches] == ["step", "step_check", "step", "w0_new", "w0_new", "w0_new", None, None]


@on_x86
def test_code_generated_by_adjoint_comes_back_from_assembly_as_it_was():
    text = """
define i64 @step(i64 %n) {
  br label %loop
loop:
  %i = phi i64 [ 0, %0 ], [ %next, %loop ]
  %sum = phi double [ 0.5, %0 ], [ %more, %loop ]
  %next = add i64 %i, 1
  %x = uitofp i64 %next to double
  %more = fadd double %sum, %x
  %go = icmp ult i64 %next, %n
  br i1 %go, label %loop, label %done
done:
  %r = fptoui double %more to i64
  ret i64 %r
}"""
    code = NativeCode(text, host_target())
    step, _kept = loaded(assemble(code.assembly(), code._machine))
    assert step(10) == 55


def test_steps_less_steps_leaves_what_steps_have():
    once, twice = Count(1030, {"a": 30, "b": 1000}), Count(1060, {"a": 50, "b": 1000, "c": 10})
    assert once.per_step(twice, 10) == (3.0, {"a": 2.0, "b": 0.0, "c": 1.0})


@on_linux
def test_the_kernel_counts_what_a_thread_did():
    try:
        counter = PerfCounter(SOFTWARE_PAGE_FAULTS)
    except NoCounterError as error:
        pytest.skip(f"the kernel counts nothing for us here: {error}")
    pages = 200

    def touch():
        with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
            memory.madvise(mmap.MADV_NOHUGEPAGE)
            for page in range(pages):
                memory[page * mmap.PAGESIZE] = 1

    assert pages <= counter.count(touch).instructions < 1.5 * pages
    assert counter.count(lambda: None).instructions < 10


@on_linux
def test_a_counter_that_is_not_there_is_refused_with_what_to_do():
    with pytest.raises(NoCounterError, match=r"perf_event_paranoid is .*take --counter blocks"):
        PerfCounter((0, 999))


def test_what_was_not_started_under_valgrind_is_refused():
    with pytest.raises(NoCounterError, match="does not run under valgrind"):
        ValgrindCounter()


COUNTED = """
import ctypes, sys
from benchmarks.counters.valgrind import ValgrindCounter
counter = ValgrindCounter()
code = bytes.fromhex("89f9 ffc9 75fc c3")  # movl %edi, %ecx; decl %ecx; jne; ret
import mmap
memory = mmap.mmap(-1, 4096, prot=7)
memory.write(code)
run = ctypes.CFUNCTYPE(None, ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
run(1)
print([counter.count(lambda: run(n)).instructions for n in (1, 2000, 1_002_000)])
"""


@on_x86
def test_callgrind_counts_every_turn_of_a_loop(tmp_path):
    try:
        command, extra = under_valgrind([sys.executable, "-c", COUNTED], tmp_path)
    except NoCounterError as error:
        pytest.skip(str(error))
    root = Path(__file__).parent.parent.parent
    done = subprocess.run(command, env={"PATH": "/usr/bin", "PYTHONHASHSEED": "0", **extra}, cwd=root, check=True,
                          capture_output=True, text=True)  # fmt: skip
    *_, second, third = map(int, done.stdout.strip(" []\n").split(","))
    # Two instructions a turn; what Python does around the call differs by some thousands at most.
    assert third - second == pytest.approx(2_000_000, abs=3000)
