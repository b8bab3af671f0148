"""The state in which a step leaves the caches before one of its kernels.

A cache holds what was used last. So what lies in which level when a kernel starts follows from the kernels before it,
from those of the step before, too: the last use of every buffer, in order, as far back as the caches reach. A
`StepMemory` holds these buffers where the step has them, in one arena, and `StepMemory.restore` uses them again in that
order, so that the CPU's own replacement decides what stays where.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from adjoint import costs
from adjoint.kernel.ir import Buffer, Kernel
from adjoint.kernel.program import ALIGNMENT, Program, arena_size
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.context import Context
from adjoint.lower.expand import expand_math
from adjoint.lower.interleave import interleave
from adjoint.runtime.bound import aligned

__all__ = ["StepMemory", "Use", "candidate_programs", "uses_before"]


@dataclass(frozen=True, slots=True)
class Use:
    """The last use of a buffer.

    Parameters
    ----------
    buffer : Buffer
        The buffer, outside of any thread's own memory.
    nbytes : int
        The bytes at its end that are used.
    written : bool
        Whether they are written.
    """

    buffer: Buffer
    nbytes: int
    written: bool


def uses_before(program: Program, value: str, target: Target) -> tuple[Use, ...]:
    """What the step uses before the kernels of a value start, the latest use of each buffer, the earliest first.

    Scratch memory of kernels counts as one buffer, because all of them use the same.

    Parameters
    ----------
    program : Program
        The step, which is repeated.
    value : str
        The printed name of the value; what its own kernels use is left out, except in the step before.
    target : Target
        The CPU, whose caches say how far back uses matter.
    """
    place = _place(program, value)
    before = [kernel for kernel in program.kernels[:place] if value not in kernel.values]
    scratch = Buffer("scratch", np.dtype(np.uint8), program.scratch_bytes, "scratch")
    rest = costs.replayed_bytes(target)
    found: dict[Buffer, Use] = {}
    for kernel in (*reversed(before), *reversed(program.kernels[place:])):
        private = sum(b.nbytes for b in kernel.scratch)
        sizes = {scratch: private} if private else {}
        # A kernel that looks up rows of a table reads no more of it than it reads in all.
        sizes |= {b: min(b.nbytes, kernel.bytes) for b in reversed(dict.fromkeys((*kernel.reads, *kernel.writes)))}
        for buffer, nbytes in sizes.items():
            if buffer not in found and buffer.space != "literal":
                found[buffer] = Use(buffer, min(nbytes, rest), buffer in kernel.writes or buffer is scratch)
                rest -= found[buffer].nbytes
                if rest <= 0:
                    return tuple(reversed(found.values()))
    return tuple(reversed(found.values()))


def _place(program: Program, value: str) -> int:
    """The position of the last kernel that computes a value: those before it only prepare operands."""
    return max((n for n, kernel in enumerate(program.kernels) if value in kernel.values), default=0)


def candidate_programs(
    step: Program | None, value: str, context: Context, schedules: Sequence[Sequence[Kernel]]
) -> list[Program]:
    """A program of the kernels of each schedule, all with the same arena.

    Buffers of the step are where the step has them, and others, such as packed operands, where the step has nothing
    that is in use at the time.
    """
    made = [_alone(step, value, context, kernels) for kernels in schedules]
    arena = max(program.arena_bytes for program in made)
    return [replace(program, arena_bytes=arena) for program in made]


def _alone(step: Program | None, value: str, context: Context, kernels: Sequence[Kernel]) -> Program:
    kernels = [interleave(expand_math(replace(kernel, parallel=False))) for kernel in kernels]
    used = dict.fromkeys(b for kernel in kernels for b in (*kernel.writes, *kernel.reads))
    known = {(b.name, b.size): offset for b, offset in step.offsets.items()} if step is not None else {}
    offsets = {b: known[b.name, b.size] for b in used if b.space == "arena" and (b.name, b.size) in known}
    taken = _in_use(step, value) if step is not None else []
    taken += [(offset, offset + b.nbytes) for b, offset in offsets.items()]
    for buffer in used:
        if buffer.space == "arena" and buffer not in offsets:
            offsets[buffer] = _first_fit(buffer.nbytes, taken)
            taken.append((offsets[buffer], offsets[buffer] + buffer.nbytes))
    end = max([step.arena_bytes if step is not None else 0, *(offset + b.nbytes for b, offset in offsets.items())])
    slots = tuple(b for b in used if b.space == "external")
    literals = {buffer: data for (data, _), buffer in context.literals.items() if buffer in used}
    return Program("candidate", (), (), slots, tuple(kernels), frozenset(), offsets, end, end, literals, ())


def _in_use(step: Program, value: str) -> list[tuple[int, int]]:
    """Where the arena of a step holds what is used both before and after the kernels of a value."""
    place = _place(step, value)

    def used(kernels: Iterable[Kernel]) -> set[Buffer]:
        return {b for kernel in kernels if value not in kernel.values for b in (*kernel.reads, *kernel.writes)}

    live = used(step.kernels[:place]) & used(step.kernels[place:])
    return [(step.offsets[b], step.offsets[b] + b.nbytes) for b in live if b in step.offsets]


def _first_fit(nbytes: int, taken: Sequence[tuple[int, int]]) -> int:
    """The lowest offset at which so many bytes are free."""
    start = 0
    for low, high in sorted(taken):
        if low >= start + nbytes:
            break
        start = max(start, -(-high // ALIGNMENT) * ALIGNMENT)
    return start


class StepMemory:
    """The buffers of a step that matter to the schedules of one contraction, filled with ordinary numbers.

    Parameters
    ----------
    step : Program or None
        The step; None for a contraction by itself.
    uses : sequence of Use
        What the step uses before the contraction.
    candidates : sequence of Program
        The programs of the schedules.
    """

    def __init__(self, step: Program | None, uses: Sequence[Use], candidates: Sequence[Program]) -> None:
        programs = (*candidates, step) if step is not None else candidates
        scratch = max(program.scratch_bytes for program in programs)
        self.arena = aligned((arena_size(candidates[0].arena_bytes, scratch, 1),), np.dtype(np.uint8))
        self._external: dict[str, np.ndarray] = {}
        self._arena_bytes = candidates[0].arena_bytes
        offsets = step.offsets if step is not None else {}
        self._uses = []
        for use in uses:
            words = self._filled(use.buffer, offsets)
            words = words[: use.nbytes] if use.buffer.space == "scratch" else words[-use.nbytes :]
            # Whole words, which NumPy reads in vectors; a few bytes less make no difference.
            words = words[: len(words) // 8 * 8]
            self._uses.append((words.view(np.uint64), use.written))
        # Operands come last, because buffers of which one is dead share their place in the arena.
        for program in candidates:
            for buffer in (*program.slots, *program.offsets):
                self._filled(buffer, program.offsets)

    def slots(self, candidate: Program) -> list[int]:
        """The addresses of a candidate's external buffers."""
        return [self._external[buffer.name].ctypes.data for buffer in candidate.slots]

    def restore(self) -> None:
        """Bring the caches into the state before the contraction."""
        for words, written in self._uses:
            if written:
                np.bitwise_or(words, 0, out=words)
            elif words.size:
                words.max()

    def _filled(self, buffer: Buffer, offsets: Mapping[Buffer, int]) -> np.ndarray:
        """The bytes of a buffer, of numbers that are neither zeros nor subnormal, and of integers that are 0."""
        if buffer.space == "arena":
            found = self.arena[offsets[buffer] : offsets[buffer] + buffer.nbytes]
        elif buffer.space == "scratch":
            found = self.arena[arena_size(self._arena_bytes, 1, 0) :]
        elif buffer.name in self._external:
            return self._external[buffer.name]
        else:
            found = self._external[buffer.name] = aligned((buffer.nbytes,), np.dtype(np.uint8))
        kind = buffer.dtype
        found.view(kind).fill(0.5 if kind.kind == "f" or kind.name == "bfloat16" else 0)
        return found
