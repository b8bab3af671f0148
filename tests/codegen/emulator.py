"""Code for other CPUs, run here: object files are linked in memory and called in an emulator, Unicorn.

Every array has pages of its own and ends where they end, within 63 bytes, with nothing after them: code that reads or
writes beyond one stops there.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from unicorn import UC_ARCH_ARM64, UC_ARCH_RISCV, UC_MODE_ARM, UC_MODE_RISCV64, Uc
from unicorn.arm64_const import (
    UC_ARM64_REG_CPACR_EL1,
    UC_ARM64_REG_SP,
    UC_ARM64_REG_X0,
    UC_ARM64_REG_X30,
    UC_CPU_ARM64_A72,
    UC_CPU_ARM64_MAX,
)
from unicorn.riscv_const import UC_RISCV_REG_A0, UC_RISCV_REG_MSTATUS, UC_RISCV_REG_RA, UC_RISCV_REG_SP

from adjoint.codegen.module import emit_modules
from adjoint.codegen.native import compile_native
from adjoint.ir import Function
from adjoint.kernel.target import Target
from adjoint.pipeline import finish_program, lower_function

__all__ = ["Emulator", "link", "run"]

PAGE = 4096
CODE, STACK, DATA = 0x1000_0000, 0x4000_0000, 0x8000_0000
STACK_BYTES = 16 * 1024 * 1024
#: Where calls return to, and a place without memory: where functions are that no object defines.
BACK, NOWHERE = CODE - PAGE, CODE - 2 * PAGE

#: ELF: a section that is loaded, one without contents, and the two kinds of tables that are read.
LOADED, EMPTY, SYMBOLS, RELOCATIONS = 2, 8, 2, 4


@dataclass(frozen=True)
class Section:
    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


@dataclass
class Object:
    """A relocatable object file, and where its sections are placed."""

    data: bytes
    sections: list[Section] = field(init=False)
    symbols: list[tuple[str, int, int]] = field(init=False)
    addresses: dict[int, int] = field(default_factory=dict)

    def __post_init__(self):
        assert self.data[:6] == b"\x7fELF\x02\x01", "not a little-endian ELF of 64 bits"
        (at,) = struct.unpack_from("<Q", self.data, 40)
        size, count, names = struct.unpack_from("<HHH", self.data, 58)
        self.sections = [Section(*struct.unpack_from("<IIQQQQIIQQ", self.data, at + i * size)) for i in range(count)]
        self._names = self.sections[names]
        (table,) = (s for s in self.sections if s.type == SYMBOLS)
        self.symbols = []
        for name, _, _, section, value, _ in self._entries(table, "<IBBHQQ"):
            self.symbols.append((self._text(self.sections[table.link], name), section, value))

    def loaded(self) -> Iterator[tuple[int, Section, bytes]]:
        """Sections that are part of the code; how to unwind its stack is not."""
        for number, section in enumerate(self.sections):
            if section.flags & LOADED and self._text(self._names, section.name) != ".eh_frame":
                there = self.data[section.offset : section.offset + section.size]
                yield number, section, bytes(section.size) if section.type == EMPTY else there

    def relocations(self) -> Iterator[tuple[int, int, int, int]]:
        """Of loaded sections: (address, kind, symbol, addend)."""
        for table in self.sections:
            if table.type == RELOCATIONS and table.info in self.addresses:
                for offset, info, addend in self._entries(table, "<QQq"):
                    yield self.addresses[table.info] + offset, info & 0xFFFFFFFF, info >> 32, addend

    def _entries(self, table: Section, form: str) -> Iterator[tuple[int, ...]]:
        yield from struct.iter_unpack(form, self.data[table.offset : table.offset + table.size])

    def _text(self, table: Section, at: int) -> str:
        start = table.offset + at
        return self.data[start : self.data.index(b"\0", start)].decode()


def link(codes: Sequence[bytes], architecture: str) -> tuple[bytearray, dict[str, int]]:
    """Object files as one image for the address `CODE`, and where its functions are."""
    objects = [Object(code) for code in codes]
    image = bytearray()
    for made in objects:
        for number, section, contents in made.loaded():
            image += bytes(-len(image) % max(section.align, 1))
            made.addresses[number] = CODE + len(image)
            image += contents
    known = {
        name: made.addresses[section] + value
        for made in objects
        for name, section, value in made.symbols
        if name and section in made.addresses
    }
    for made in objects:
        places = [
            made.addresses[section] + value if section in made.addresses else known.get(name, NOWHERE)
            for name, section, value in made.symbols
        ]
        found = [(at, kind, places[symbol] + addend) for at, kind, symbol, addend in made.relocations()]
        {"aarch64": _relocate_aarch64, "riscv64": _relocate_riscv}[architecture](image, found)
    return image, known


def _patch(image: bytearray, at: int, bits: int) -> None:
    """Set bits of the instruction at an address."""
    (word,) = struct.unpack_from("<I", image, at - CODE)
    struct.pack_into("<I", image, at - CODE, word | bits & 0xFFFFFFFF)


#: How far an AArch64 address's lowest twelve bits are shifted in an access of so many bytes, and in an addition.
_LOW_BITS = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}


def _relocate_aarch64(image: bytearray, found: Sequence[tuple[int, int, int]]) -> None:
    """ "ELF for the Arm 64-bit Architecture", tables of static relocations."""
    for at, kind, to in found:
        if kind in (282, 283):  # R_AARCH64_JUMP26, R_AARCH64_CALL26
            _patch(image, at, (to - at) // 4 & 0x3FFFFFF)
        elif kind == 275:  # R_AARCH64_ADR_PREL_PG_HI21
            pages = to // PAGE - at // PAGE
            _patch(image, at, (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5)
        else:  # R_AARCH64_ADD_ABS_LO12_NC, R_AARCH64_LDST8_ABS_LO12_NC and wider
            _patch(image, at, (to % PAGE >> _LOW_BITS[kind]) << 10)


def _relocate_riscv(image: bytearray, found: Sequence[tuple[int, int, int]]) -> None:
    """ "RISC-V ABIs Specification", table of relocation types."""
    distances = {at: to - at for at, kind, to in found if kind == 23}
    for at, kind, to in found:
        if kind == 19:  # R_RISCV_CALL_PLT, on two instructions
            _patch(image, at, to - at + 0x800 & ~0xFFF)
            _patch(image, at + 4, (to - at & 0xFFF) << 20)
        elif kind == 23:  # R_RISCV_PCREL_HI20
            _patch(image, at, to - at + 0x800 & ~0xFFF)
        else:
            assert kind == 24, f"relocation {kind}"  # R_RISCV_PCREL_LO12_I, whose symbol is the other half's address
            _patch(image, at, (distances[to] & 0xFFF) << 20)


@dataclass(frozen=True)
class Registers:
    argument: int
    stack: int
    back: int


REGISTERS = {
    "aarch64": Registers(UC_ARM64_REG_X0, UC_ARM64_REG_SP, UC_ARM64_REG_X30),
    "riscv64": Registers(UC_RISCV_REG_A0, UC_RISCV_REG_SP, UC_RISCV_REG_RA),
}


class Emulator:
    """Code of a target in an emulated CPU with memory of its own."""

    def __init__(self, target: Target, objects: Sequence[bytes]) -> None:
        image, self.functions = link(objects, target.architecture)
        self._registers = REGISTERS[target.architecture]
        if target.architecture == "aarch64":
            self._cpu = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
            # The oldest that there is, except for code that needs a newer one.
            self._cpu.ctl_set_cpu_model(UC_CPU_ARM64_MAX if target.cpu == "cortex-a76" else UC_CPU_ARM64_A72)
            self._cpu.reg_write(UC_ARM64_REG_CPACR_EL1, 3 << 20)  # let floating point through
        else:
            self._cpu = Uc(UC_ARCH_RISCV, UC_MODE_RISCV64)
            self._cpu.reg_write(UC_RISCV_REG_MSTATUS, 1 << 13)  # the same
        self._cpu.mem_map(BACK, PAGE)
        self._cpu.mem_map(CODE, -(-len(image) // PAGE) * PAGE)
        self._cpu.mem_write(CODE, bytes(image))
        self._cpu.mem_map(STACK, STACK_BYTES)
        self._next = DATA

    def place(self, array: np.ndarray) -> int:
        """Copy an array into the CPU's memory, at an address that 64 divides."""
        whole = -(-array.nbytes // 64) * 64
        pages = -(-max(whole, 1) // PAGE) * PAGE
        self._cpu.mem_map(self._next, pages)
        at = self._next + pages - whole
        self._cpu.mem_write(at, array.tobytes())
        self._next += pages + PAGE
        return at

    def read(self, at: int, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        """Copy an array out of the CPU's memory."""
        empty = np.empty(shape, dtype)
        return np.frombuffer(bytes(self._cpu.mem_read(at, empty.nbytes)), dtype).reshape(shape)

    def call(self, name: str, *arguments: int) -> int:
        """Call a function with integers and addresses."""
        for number, value in enumerate(arguments):
            self._cpu.reg_write(self._registers.argument + number, value)
        self._cpu.reg_write(self._registers.stack, STACK + STACK_BYTES)
        self._cpu.reg_write(self._registers.back, BACK)
        self._cpu.emu_start(self.functions[name], BACK)
        return self._cpu.reg_read(self._registers.argument)


def run(function: Function, target: Target, *arrays: np.ndarray, shares: int = 1) -> tuple[np.ndarray, ...]:
    """The results of a function, compiled for a target and run in an emulated CPU.

    Where there are several `shares`, they are those of as many threads, one after the other.
    """
    program = finish_program(lower_function(function, target))
    emulator = Emulator(target, compile_native(emit_modules(program, target), target, threads=1))
    # What nobody has written yet is NaN.
    places = [emulator.place(np.full(buffer.nbytes, 0xFF, np.uint8)) for buffer in program.slots]
    for argument, array in zip(program.arguments, arrays, strict=True):
        assert (array.shape, array.dtype) == (argument.shape, argument.dtype)
        places[argument.slot] = emulator.place(array)
    table = emulator.place(np.array(places, np.uint64))
    arena = emulator.place(np.full(program.working_bytes(shares), 0xFF, np.uint8))
    assert emulator.call(program.check_symbol, table) == 0
    assert shares == 1 or not program.barriers, "threads that wait for each other cannot run one after the other"
    for thread in range(shares):
        assert emulator.call(program.symbol, table, arena, thread, shares, 0) == 0
    return tuple(emulator.read(places[r.slot], r.shape, r.dtype) for r in program.results)
