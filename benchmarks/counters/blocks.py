"""Instructions counted by the step itself: every basic block of its assembly also counts how often it is entered.

LLVM prints the step as assembly, `instrument` puts a few instructions at the start of each basic block that add one to
the block's place in memory, and LLVM assembles it again. How often a block was entered, times the instructions that it
had before, is what the step executes: exact, the same in every run, for each kernel, with the instructions of this
machine, and without the machine's counters. What the assembler adds to align loops is not counted.
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

#: A label of code: a function or a place that is jumped to. What begins otherwise marks places of data and unwinding.
_LABEL = re.compile(r"(\.LBB[\w.$]*|[A-Za-z_][\w.$]*):")

#: Instructions that end a block.
_ENDS = re.compile(r"(j\w+|ret\w*)\b")

#: Adds one to a place in memory and leaves flags, registers and the red zone under the stack as they were.
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
    """A run of instructions that is entered at its first and left at its last.

    Parameters
    ----------
    line : int
        Line of the assembly in which it begins.
    function : str
        What it belongs to.
    instructions : int
        How many it has.
    """

    line: int
    function: str
    instructions: int


def blocks_of(assembly: str) -> list[Block]:
    """The basic blocks of x86-64 assembly as LLVM prints it, in the order of the text.

    A call ends no block: it comes back to where it was.
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
    """The assembly in which block number n also adds one to the 64-bit word n from `address`."""
    ticks = {block.line: _TICK.replace("ADDRESS", str(address + 8 * n)) for n, block in enumerate(blocks)}
    lines = []
    for number, line in enumerate(assembly.splitlines()):
        if number in ticks:
            lines.append(ticks[number])
        lines.append(line)
    return "\n".join(lines) + "\n"


def assemble(assembly: str, machine: Any) -> bytes:
    """Object code of assembly, by an LLVM target machine."""
    import llvmlite.binding as llvm  # noqa: PLC0415 - of the commit's environment, and only where code is counted

    llvm.initialize_native_asmparser()
    escaped = (line.replace("\\", "\\5C").replace('"', "\\22") for line in assembly.splitlines())
    module = llvm.parse_assembly("\n".join(f'module asm "{line}"' for line in escaped))
    module.triple = machine.triple
    made: bytes = machine.emit_object(module)
    return made


class BlockCounter:
    """Counts what is compiled after it was made, in the modules that hold a function of a kind.

    Parameters
    ----------
    native : type
        adjoint's class ``NativeCode``, whose `object` makes object code of a module: it is replaced, for the life of
        this process, by one that instruments the module.
    wanted : re.Pattern
        Names of functions whose modules are counted, and the group 1 in them under which they are told.
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
        """Run it, and return what the counted modules executed."""
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
