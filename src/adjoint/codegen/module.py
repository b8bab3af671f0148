"""A program as LLVM modules: its kernels, the step function that calls them, the barrier, argument checks.

A large program is split into several modules, so that threads can compile them in parallel: modules of kernels, each
ended when its text is long enough, and finally one with the remaining kernels and the step function. The split depends
on the program only. Kernels are hidden symbols prefixed with the program's name, so linking the modules exports the
entry points only, and several programs can be linked together.

The barrier of a program whose threads wait for each other is a module of its own, the first. It is the same for all
programs of a target, so a process compiles it once: its dozen functions take longer than a small program.

Exported functions::

    i32  <symbol>(ptr slots, ptr arena, i64 thread, i64 threads, ptr sync)   one thread's part of one call
    i64  <symbol>.check(ptr slots)     0, or 1 + the index of the first check that fails

where ``<symbol>`` is `Program.symbol`. The arena has `Program.working_bytes` bytes: the part that threads share, then
the scratch memory of each thread, so that a step needs almost no stack. Each thread's part runs in the floating-point
mode set by `adjoint.nativelib.float_mode`.

With ``profile``, the step function has another pointer parameter, to an array in which each thread records the clock
(seconds and nanoseconds, two i64) at the start and end of its part of each kernel. Threads then also wait for each
other before the first kernel, and waiting is not attributed to any kernel.
"""

from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from adjoint.codegen.checks import check_text
from adjoint.codegen.claims import Claims
from adjoint.codegen.kernels import emit_kernel, parameters
from adjoint.codegen.native import SharedText
from adjoint.codegen.regions import RegionEmitter
from adjoint.codegen.schedule_fuzzing import SCHEDULE_FUZZING_TEXT
from adjoint.errors import CompileError
from adjoint.kernel.ir import Buffer, Kernel, Store, postorder, walk
from adjoint.kernel.program import Program, arena_size, kernel_symbol, scratch_offsets
from adjoint.kernel.structure import structures
from adjoint.kernel.target import Target
from adjoint.nativelib.barrier import barrier_text
from adjoint.nativelib.float_mode import enter_mode, float_mode_text, kernel_attributes
from adjoint.nativelib.waiting import waiting_text

__all__ = ["emit_modules"]

#: Number of characters at which the first module of kernels ends: about 0.04 seconds of compilation by LLVM.
_FIRST_MODULE = 80_000

#: Length of a module relative to all before it together, and the most characters of any. Short modules at first keep
#: several threads busy in a small program; each costs some milliseconds.
_GROWTH, _LONGEST_MODULE = 0.5, 400_000


def emit_modules(
    program: Program, target: Target, profile: bool = False, jitter: bool = False, flush_subnormals: bool = True
) -> Iterator[str]:
    """The LLVM texts of a program, to be compiled separately and linked together; the last has the entry points.

    They are generated lazily, so one can be compiled while the next is generated. Kernels that differ only in names are
    emitted once.

    Parameters
    ----------
    program : Program
        The program to emit.
    target : Target
        The target CPU.
    profile : bool, default False
        Whether the step function reads the clock around every kernel.
    jitter : bool, default False
        Whether to delay every thread by a random time before its part of each kernel, to test the barriers.
    flush_subnormals : bool, default True
        Whether arithmetic treats subnormal operands and results as zeros, if the CPU has a mode for it.

    Raises
    ------
    CompileError
        If the program needs float16 and the CPU cannot convert it.
    """
    if not target.converts_half and any(_uses_half(kernel) for kernel in program.kernels):
        raise CompileError(
            f"{program.name}: float16 needs a CPU that converts it (F16C on x86-64, Zfhmin on RISC-V), which "
            f"{target.cpu} does not; use float32 or bfloat16, or another target"
        )
    attributes = kernel_attributes(target.triple, flush_subnormals)
    waits = profile or program.waits
    if waits:
        yield _barrier_module(target)
    function_of: dict[Kernel, str] = {}
    written: dict[Hashable, str] = {}
    declarations: dict[str, str] = {}
    here: dict[str, str] = {}
    elsewhere: dict[str, str] = {}
    before, limit = 0, float(_FIRST_MODULE)
    for kernel, same in zip(program.kernels, structures(program.kernels), strict=True):
        if (length := sum(map(len, here.values()))) > limit:
            yield _module(target, attributes, [*declarations.values(), *here.values()])
            before += length
            limit = min(max(_FIRST_MODULE, _GROWTH * before), _LONGEST_MODULE)
            elsewhere.update((name, _declaration(text)) for name, text in here.items())
            declarations, here = {}, {}
        if same not in written:
            name = written[same] = kernel_symbol(program.name, kernel.name)
            here[name] = emit_kernel(kernel, name, target, declarations, flush_subnormals)
        function_of[kernel] = written[same]
    check = check_text(program, declarations)
    claims = Claims.of(program)
    yield _module(
        target,
        attributes,
        [
            *_literals(program),
            *declarations.values(),
            *elsewhere.values(),
            *here.values(),
            float_mode_text(target.triple),
            *(["declare hidden void @barrier(ptr, i64)"] if waits else []),
            *(["declare i32 @clock_gettime(i32, ptr)"] if profile else []),
            *claims.definitions(),
            *([SCHEDULE_FUZZING_TEXT] if jitter else []),
            _step(program, function_of, claims, enter_mode(target.triple, flush_subnormals), profile, jitter),
            check,
        ],
    )


def _module(target: Target, attributes: str, texts: Sequence[str]) -> str:
    return "\n".join(
        [
            f'target triple = "{target.triple}"',
            *texts,
            f'attributes #0 = {{ nounwind "prefer-vector-width"="512" {attributes} }}',
            "attributes #1 = { nounwind noinline }",
        ]
    )


def _declaration(definition: str) -> str:
    """The declaration of a function defined in another module."""
    head = definition.partition(" #0 {")[0]
    return head.replace("define", "declare", 1)


def _barrier_module(target: Target) -> SharedText:
    """The barrier, and the functions that it calls; weak, so that several programs can be linked together."""
    barrier = barrier_text(target.triple, "weak_odr hidden")
    return SharedText(f'target triple = "{target.triple}"\n{waiting_text(target.triple)}{barrier}')


def _uses_half(kernel: Kernel) -> bool:
    """Whether a kernel reads, writes or rounds to float16."""
    values = [v for s in walk(kernel.body) if isinstance(s, Store) for _, _, v in s.targets]
    dtypes = {b.dtype for b in (*kernel.reads, *kernel.writes)} | {e.dtype for e in postorder(values)}
    return np.dtype(np.float16) in dtypes


def _literals(program: Program) -> list[str]:
    out = []
    for number, data in enumerate(program.literals.values()):
        text = "".join(f"\\{byte:02X}" for byte in data)
        out.append(f'@literal{number} = private unnamed_addr constant [{len(data)} x i8] c"{text}", align 64')
    return out


def _step(
    program: Program, function_of: dict[Kernel, str], claims: Claims, mode: tuple[str, str], profile: bool, jitter: bool
) -> str:
    extra = ", ptr %clock" if profile else ""
    enter, leave = mode
    lines = [
        f"define i32 @{program.symbol}(ptr noalias %slots, ptr noalias %arena, i64 %thread,"
        f" i64 %threads, ptr %sync{extra}) #1 {{",
        f"  %mode = {enter}",
        "  %many = icmp ugt i64 %threads, 1",
        "  %first = icmp eq i64 %thread, 0",
        "  %following = add i64 %thread, 1",
        *claims.variables(),
        *(["  %lap = alloca [4 x i64]"] if profile and program.regions else []),
    ]
    addresses = _Addresses(program)
    pointers: dict[Buffer, str] = {buffer: f"@literal{number}" for number, buffer in enumerate(program.literals)}
    regional = dict.fromkeys(buffer for region in program.regions for buffer in region.held())
    for number, buffer in enumerate(b for b in regional if b in addresses):
        pointers[buffer] = f"%regional{number}"
        lines.extend(addresses.of(buffer, pointers[buffer]))
    if own := program.scratch_bytes:
        lines.append(f"  %own.first = getelementptr i8, ptr %arena, i64 {arena_size(program.arena_bytes, own, 0)}")
        lines.append(f"  %own.offset = mul i64 %thread, {own}")
        lines.append("  %own = getelementptr i8, ptr %own.first, i64 %own.offset")
    regions = RegionEmitter(program.regions, pointers)
    if profile:
        lines.extend(_meet("start"))
        # The time of a kernel in a loop or branch is added up from nothing.
        repeated = {p for region in program.regions for p in range(region.start, region.stop)}
        lines.extend(line for p in sorted(repeated) for n in (2 * p, 2 * p + 1) for line in _tick(n))
    for position, kernel in enumerate(program.kernels):
        lines.extend(regions.leave(position))
        lines.extend(regions.enter(position))
        if position in program.barriers:
            lines.extend(claims.clear(position))
            lines.extend(_meet(position))
        if jitter:
            lines.append(f"  call void @jitter(i64 %thread, i64 {position})")
        for number, (buffer, offset) in enumerate(scratch_offsets(kernel).items()):
            pointers[buffer] = f"%own{position}.{number}"
            lines.append(f"  {pointers[buffer]} = getelementptr i8, ptr %own, i64 {offset}")
        near = dict(pointers)
        for number, buffer in enumerate(b for b in parameters(kernel) if b not in pointers):
            near[buffer] = f"%argument{position}.{number}"
            lines.extend(addresses.of(buffer, near[buffer]))
        call = _call(position, kernel, claims, function_of[kernel], near)
        if profile:
            call = _timed(position, call) if regions.inside else [*_tick(2 * position), *call, *_tick(2 * position + 1)]
        lines.extend(call)
    lines.extend(regions.leave(len(program.kernels)))
    return "\n".join([*lines, f"  %left = {leave}", "  ret i32 0", "}"])


class _Addresses:
    """Instructions that compute the addresses of buffers in slots and in the arena.

    Each call of a kernel computes those of its arguments anew. If the function computed them all at its start, hundreds
    of values would be live throughout, and LLVM would spend its time on spilling them.
    """

    def __init__(self, program: Program) -> None:
        self._slots = {buffer: number for number, buffer in enumerate(program.slots)}
        self._offsets = program.offsets

    def __contains__(self, buffer: Buffer) -> bool:
        return buffer in self._slots or buffer in self._offsets

    def of(self, buffer: Buffer, name: str) -> list[str]:
        """LLVM instructions that give the address of a buffer a name."""
        if buffer in self._slots:
            at = f"  {name}.slot = getelementptr ptr, ptr %slots, i64 {self._slots[buffer]}"
            return [at, f"  {name} = load ptr, ptr {name}.slot"]
        return [f"  {name} = getelementptr i8, ptr %arena, i64 {self._offsets[buffer]}"]


def _timed(k: int, call: Sequence[str]) -> list[str]:
    """Run a kernel and add its time to the end of its entry, whose seconds and nanoseconds are added separately."""
    lines = [f"  %lap.start{k} = call i32 @clock_gettime(i32 1, ptr %lap)", *call]
    lines.append(f"  %lap.to{k} = getelementptr i8, ptr %lap, i64 16")
    lines.append(f"  %lap.end{k} = call i32 @clock_gettime(i32 1, ptr %lap.to{k})")
    for n, offset in enumerate((0, 8)):
        name = f"{k}.{n}"
        lines += [
            f"  %lap.at{name} = getelementptr i8, ptr %lap, i64 {offset}",
            f"  %lap.from{name} = load i64, ptr %lap.at{name}",
            f"  %lap.there{name} = getelementptr i8, ptr %lap, i64 {offset + 16}",
            f"  %lap.until{name} = load i64, ptr %lap.there{name}",
            f"  %lap.took{name} = sub i64 %lap.until{name}, %lap.from{name}",
            f"  %lap.entry{name} = getelementptr i8, ptr %clock, i64 {16 * (2 * k + 1) + offset}",
            f"  %lap.sum{name} = load i64, ptr %lap.entry{name}",
            f"  %lap.more{name} = add i64 %lap.sum{name}, %lap.took{name}",
            f"  store i64 %lap.more{name}, ptr %lap.entry{name}",
        ]
    return lines


def _meet(k: int | str) -> list[str]:
    """A barrier before kernel `k`."""
    return [
        f"  br i1 %many, label %meet{k}, label %go{k}",
        f"meet{k}:",
        "  call void @barrier(ptr %sync, i64 %threads)",
        f"  br label %go{k}",
        f"go{k}:",
    ]


def _call(k: int, kernel: Kernel, claims: Claims, function: str, pointers: dict[Buffer, str]) -> list[str]:
    """Call the function of kernel `k` for this thread's units: `adjoint.kernel.program.share_of`."""
    args = ", ".join(f"ptr {pointers[b]}" for b in parameters(kernel))
    args = f"{args}, " if args else ""
    units = kernel.unit.extent
    if k in claims.offsets:
        return claims.run(k, units, function, args)
    if kernel.parallel and kernel.until is not None:
        return [f"  call void @{function}({args}i64 %thread, i64 %threads)"]
    if kernel.parallel:
        return [
            f"  %from{k} = mul i64 %thread, {units}",
            f"  %low{k} = udiv i64 %from{k}, %threads",
            f"  %to{k} = mul i64 %following, {units}",
            f"  %high{k} = udiv i64 %to{k}, %threads",
            f"  call void @{function}({args}i64 %low{k}, i64 %high{k})",
        ]
    return [
        f"  br i1 %first, label %alone{k}, label %after{k}",
        f"alone{k}:",
        f"  call void @{function}({args}i64 0, i64 {units if kernel.until is None else 1})",
        f"  br label %after{k}",
        f"after{k}:",
    ]


def _tick(number: int) -> list[str]:
    """Record the monotonic clock (seconds and nanoseconds) as entry `number`."""
    return [
        f"  %tick{number} = getelementptr i8, ptr %clock, i64 {16 * number}",
        f"  %ticked{number} = call i32 @clock_gettime(i32 1, ptr %tick{number})",
    ]
