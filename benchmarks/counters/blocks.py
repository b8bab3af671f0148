"""Count instructions by instrumentation: every basic block of a step's assembly counts its executions.

LLVM prints the step as assembly, `instrument` adds instructions at the start of each basic block that increment a
counter in memory, and LLVM assembles the result. The number of executions of a block times its original number of
instructions gives the count. It is exact, reproducible, available per kernel, valid for the instruction set of this
machine, and needs no hardware counters. Padding that the assembler inserts to align loops is not counted.
"""

import ctypes
import platform
import re
from collections import Counter as Tally
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.counters.base import Count, NoCounterError

__all__ = ["Block", "BlockCounter", "assemble", "blocks_of", "instrument"]

#: A label of code: a function or a jump target. Labels that start otherwise belong to data and unwind information.
_LABEL = re.compile(r"(\.LBB[\w.$]*|[A-Za-z_][\w.$]*):")

#: Instructions that end a block.
_ENDS = re.compile(r"(j\w+|ret\w*)\b")

#: Increments a word in memory, preserving flags, registers and the red zone below the stack pointer.
_TICK = """\
\tleaq\t-128(%rsp), %rsp
\tpushq\t%rax
\tpushq\t%rcx
\tmovabsq\t$ADDRESS, %rax
\tmovq\t(%rax), %rcx
\tleaq\t1(%rcx), %rcx
\tmovq\t%rcx, (%rax)
\tpopq\t%rcx
\tpopq\t%rax
\tleaq\t128(%rsp), %rsp"""


@dataclass(frozen=True, slots=True)
class Block:
    """A basic block: a sequence of instructions entered at the first and left at the last.

    Parameters
    ----------
    line : int
        Line of the assembly where it starts.
    function : str
        The function that contains it.
    instructions : int
        Number of instructions.
    """

    line: int
    function: str
    instructions: int


def blocks_of(assembly: str) -> list[Block]:
    """The basic blocks of x86-64 assembly printed by LLVM, in textual order.

    Calls do not end a block, because they return.
    """
    found: list[Block] = []
    function, start, count, code = "", 0, 0, True

    def close(line: int) -> None:
        nonlocal start, count
        if count:
            found.append(Block(start, function, count))
        start, count = line, 0

    for number, line in enumerate(assembly.splitlines()):
        text = line.partition("#")[0].strip()
        label = _LABEL.fullmatch(text)
        if text.startswith((".section", ".text", ".data", ".bss")):
            code = text.startswith((".text", ".section\t.text"))
        elif label is not None and code:
            close(number + 1)
            if not label[1].startswith(".L"):
                function = label[1]
        elif text and code and label is None and not text.startswith(".") and not text.endswith(":"):
            count += 1
            if _ENDS.match(text):
                close(number + 1)
    close(0)
    return found


def instrument(assembly: str, blocks: Sequence[Block], address: int) -> str:
    """The assembly, with block n incrementing the n-th 64-bit word from `address`."""
    ticks = {block.line: _TICK.replace("ADDRESS", str(address + 8 * n)) for n, block in enumerate(blocks)}
    lines = []
    for number, line in enumerate(assembly.splitlines()):
        if number in ticks:
            lines.append(ticks[number])
        lines.append(line)
    return "\n".join(lines) + "\n"


def assemble(assembly: str, machine: Any) -> bytes:
    """Assemble to object code with an LLVM target machine."""
    import llvmlite.binding as llvm  # noqa: PLC0415 - from the commit's environment, and only if needed

    llvm.initialize_native_asmparser()
    escaped = (line.replace("\\", "\\5C").replace('"', "\\22") for line in assembly.splitlines())
    module = llvm.parse_assembly("\n".join(f'module asm "{line}"' for line in escaped))
    module.triple = machine.triple
    made: bytes = machine.emit_object(module)
    return made


class BlockCounter:
    """Counts code compiled after its creation, in modules that contain a function of a given kind.

    Parameters
    ----------
    native : type
        adjoint's class ``NativeCode``, whose property `object` generates the object code of a module. It is replaced,
        for the lifetime of this process, by one that instruments the module.
    wanted : re.Pattern
        Names of functions whose modules are instrumented; group 1 of the match is the name in the result.
    """

    def __init__(self, native: Any, wanted: "re.Pattern[str]") -> None:
        if platform.machine() not in ("x86_64", "AMD64"):
            raise NoCounterError(f"--counter blocks knows x86-64, this machine is {platform.machine()}; take perf")
        self._wanted = wanted
        self._blocks: list[tuple[Sequence[Block], Any]] = []
        plain: Callable[[Any], bytes] = native.object

        def counted(code: Any) -> bytes:
            assembly = code.assembly()
            blocks = blocks_of(assembly)
            if not any(wanted.fullmatch(block.function) for block in blocks):
                return plain(code)
            words = (ctypes.c_uint64 * len(blocks))()
            self._blocks.append((blocks, words))
            return assemble(instrument(assembly, blocks, ctypes.addressof(words)), code._machine)

        native.object = counted

    def count(self, run: Callable[[], object]) -> Count:
        """Call the function and return the instructions executed in instrumented modules."""
        if not self._blocks:
            raise NoCounterError("nothing that was compiled is counted; this commit compiles in another way, take perf")
        before = self._read()
        run()
        after = self._read()
        return Count((after - before).total(), after - before)

    def _read(self) -> "Tally[str]":
        tally: Tally[str] = Tally()
        for blocks, words in self._blocks:
            for block, entered in zip(blocks, words, strict=True):
                match = self._wanted.fullmatch(block.function)
                tally[match[1] if match else block.function] += entered * block.instructions
        return tally
