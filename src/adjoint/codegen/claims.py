"""Claimed units: threads that finish early take over units of a long kernel from threads that are behind.

The units of a kernel are shared out evenly, which is wrong if cores are not equally fast: efficiency cores, two threads
on one core, or another program. So a thread claims the units of its share in a few chunks, and then chunks of other
threads' shares (affinity scheduling: Markatos and LeBlanc, "Using processor affinity in loop scheduling on
shared-memory multiprocessors", 1994). Where all are equally fast, each thread ends up with its own share, whose data
are in its cache. Who computes a unit changes no result.

A thread's claims are i32 counters behind its scratch memory, one for each kernel that is claimed: units of its share
that have been claimed. It sets them to 0 before the barrier that precedes the kernel, after which others may look.
"""

from collections.abc import Mapping

from adjoint.kernel.program import Program
from adjoint.lazy_dataclass import dataclass

__all__ = ["Claims"]

#: Chunks of a share: a thread that is behind by more than one of them loses the last one.
_CHUNKS = 8

#: Most threads in whose shares one looks for chunks, its own included.
_VICTIMS = 8


@dataclass(frozen=True, slots=True)
class Claims:
    """The code that claims the units of a program's long kernels.

    Parameters
    ----------
    offsets : mapping
        By position of a kernel that is claimed, the offset of its counter in a thread's part of the arena.
    own_bytes : int
        Size of that part.
    intervals : mapping
        By position of a barrier, those of the kernels up to the next one.
    """

    offsets: Mapping[int, int]
    own_bytes: int
    intervals: Mapping[int, range]

    @classmethod
    def of(cls, program: Program) -> "Claims":
        """Those of a program."""
        return cls(program.claim_offsets, program.scratch_bytes, {i.start: i for i in program.intervals})

    def declarations(self) -> list[str]:
        """What the code refers to."""
        return ["declare i64 @llvm.umin.i64(i64, i64)"] if self.offsets else []

    def clear(self, barrier: int) -> list[str]:
        """LLVM instructions before a barrier: nothing is claimed of the kernels up to the next one."""
        lines = []
        for k in self.intervals[barrier]:
            if k in self.offsets:
                lines += self._counter(f"%mine{k}", "%thread", k)
                lines.append(f"  store atomic i32 0, ptr %mine{k} monotonic, align 4")
        return lines

    def _counter(self, name: str, thread: str, k: int) -> list[str]:
        """The address of a thread's counter for the kernel at position `k`."""
        return [
            f"  {name}.own = mul i64 {thread}, {self.own_bytes}",
            f"  {name}.at = add i64 {name}.own, {self.offsets[k]}",
            f"  {name} = getelementptr i8, ptr %own.first, i64 {name}.at",
        ]

    def run(self, k: int, units: int, function: str, args: str) -> list[str]:
        """LLVM instructions that run the kernel at position `k`, given its arguments, each followed by a comma."""
        return [
            f"  br i1 %many, label %shares{k}, label %whole{k}",
            f"whole{k}:",
            f"  call void @{function}({args}i64 0, i64 {units})",
            f"  br label %claimed{k}",
            f"shares{k}:",
            f"  %fewer{k} = icmp ult i64 %threads, {_VICTIMS}",
            f"  %victims{k} = select i1 %fewer{k}, i64 %threads, i64 {_VICTIMS}",
            f"  br label %share{k}",
            f"share{k}:",
            f"  %turn{k} = phi i64 [ 0, %shares{k} ], [ %turn.next{k}, %spent{k} ]",
            f"  %sum{k} = add i64 %thread, %turn{k}",
            f"  %who{k} = urem i64 %sum{k}, %threads",
            f"  %from{k} = mul i64 %who{k}, {units}",
            f"  %low{k} = udiv i64 %from{k}, %threads",
            f"  %to{k} = add i64 %from{k}, {units}",
            f"  %high{k} = udiv i64 %to{k}, %threads",
            f"  %size{k} = sub i64 %high{k}, %low{k}",
            f"  %rounded{k} = add i64 %size{k}, {_CHUNKS - 1}",
            f"  %chunk{k} = udiv i64 %rounded{k}, {_CHUNKS}",
            f"  %step{k} = trunc i64 %chunk{k} to i32",
            *self._counter(f"%cell{k}", f"%who{k}", k),
            f"  br label %look{k}",
            f"look{k}:",
            # Look before claiming: threads that find nothing must not take the cache line from each other.
            f"  %seen{k} = load atomic i32, ptr %cell{k} monotonic, align 4",
            f"  %seen.wide{k} = zext i32 %seen{k} to i64",
            f"  %left{k} = icmp ult i64 %seen.wide{k}, %size{k}",
            f"  br i1 %left{k}, label %claim{k}, label %spent{k}",
            f"claim{k}:",
            f"  %old{k} = atomicrmw add ptr %cell{k}, i32 %step{k} monotonic, align 4",
            f"  %old.wide{k} = zext i32 %old{k} to i64",
            f"  %got{k} = icmp ult i64 %old.wide{k}, %size{k}",
            f"  br i1 %got{k}, label %run{k}, label %spent{k}",
            f"run{k}:",
            f"  %start{k} = add i64 %low{k}, %old.wide{k}",
            f"  %far{k} = add i64 %start{k}, %chunk{k}",
            f"  %stop{k} = call i64 @llvm.umin.i64(i64 %far{k}, i64 %high{k})",
            f"  call void @{function}({args}i64 %start{k}, i64 %stop{k})",
            f"  br label %look{k}",
            f"spent{k}:",
            f"  %turn.next{k} = add i64 %turn{k}, 1",
            f"  %again{k} = icmp ult i64 %turn.next{k}, %victims{k}",
            f"  br i1 %again{k}, label %share{k}, label %claimed{k}",
            f"claimed{k}:",
        ]
