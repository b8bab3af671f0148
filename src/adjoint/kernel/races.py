"""The race checker: between two barriers, threads may access the same memory only for reading.

This requires less than `adjoint.lower.schedule.order`, which inserts the barriers, and is independent of it: it
examines every pair of kernels without a barrier in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from adjoint.errors import VerifyError
from adjoint.kernel.ir import Buffer, Kernel
from adjoint.kernel.program import Program
from adjoint.kernel.regions import Place, Test, expanded, memory_of, places_of

__all__ = ["verify_barriers"]


def verify_barriers(program: Program) -> None:
    """Check that there is a barrier wherever one is needed.

    Two kernels with no barrier between them may run at the same time on different threads, unless both run on the first
    thread only. Then neither may write to memory that the other reads or writes. External buffers never overlap; arena
    buffers overlap if their locations do.

    Parameters
    ----------
    program : Program
        The program to check.

    Raises
    ------
    VerifyError
        For the first two kernels that violate the rule.
    """
    places = places_of(program.regions)
    seen: set[tuple[int, int]] = set()
    for together in _intervals(program):
        for number, later in enumerate(together):
            for earlier in together[:number]:
                one, other = program.kernels[earlier], program.kernels[later]
                if not (one.parallel or other.parallel) or (earlier, later) in seen:
                    continue
                seen.add((earlier, later))
                for mine, theirs in _clashes(one, other, program.offsets, places):
                    raise VerifyError(
                        f"{program.name}: kernels meet at a barrier between uses of the same memory of which one "
                        f"writes, but {one.name} ({mine}) and {other.name} ({theirs}) do not; "
                        f"add a barrier before kernel {later}"
                    )


def _intervals(program: Program) -> Iterator[list[int]]:
    """The kernels between two barriers, where loops run a few times; there is one before every test of a region."""
    together: list[int] = []
    for position in expanded(len(program.kernels), program.regions):
        if isinstance(position, Test) or position in program.barriers:
            yield together
            together = []
        if not isinstance(position, Test):
            together.append(position)
    yield together


def _clashes(
    one: Kernel, other: Kernel, offsets: Mapping[Buffer, int], places: Mapping[Buffer, Place]
) -> Iterator[tuple[Buffer, Buffer]]:
    pairs = [(a, b) for a in one.writes for b in (*other.reads, *other.writes)]
    pairs += [(a, b) for a in one.reads for b in other.writes]
    for a, b in pairs:
        if any(_same_memory(m, n, offsets) for m in memory_of(a, places) for n in memory_of(b, places)):
            yield a, b


def _same_memory(a: Buffer, b: Buffer, offsets: Mapping[Buffer, int]) -> bool:
    if a.space != "arena" or b.space != "arena":
        return a is b
    return max(offsets[a], offsets[b]) < min(offsets[a] + a.nbytes, offsets[b] + b.nbytes)
