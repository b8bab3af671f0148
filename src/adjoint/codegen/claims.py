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

    def definitions(self) -> list[str]:
        """What the code of a step refers to: a function that claims the next chunk of a kernel's units.

        Its arguments are the kernel's counters, the thread's number and how many there are, the kernel's units, and the
        address of the number of shares in which the thread has found nothing left. It returns the first unit and the
        one after the last; both are 0 if there are none left.
        """
        if not self.offsets:
            return []
        text = f"""
declare i64 @llvm.umin.i64(i64, i64)
define internal {{i64, i64}} @claim(ptr %counters, i64 %thread, i64 %threads, i64 %units, ptr %turns) #1 {{
  %fewer = icmp ult i64 %threads, {_VICTIMS}
  %victims = select i1 %fewer, i64 %threads, i64 {_VICTIMS}
  %before = load i64, ptr %turns
  br label %share
share:
  %turn = phi i64 [ %before, %0 ], [ %next, %spent ]
  %sum = add i64 %thread, %turn
  %who = urem i64 %sum, %threads
  %from = mul i64 %who, %units
  %low = udiv i64 %from, %threads
  %to = add i64 %from, %units
  %high = udiv i64 %to, %threads
  %size = sub i64 %high, %low
  %rounded = add i64 %size, {_CHUNKS - 1}
  %chunk = udiv i64 %rounded, {_CHUNKS}
  %step = trunc i64 %chunk to i32
  %at = mul i64 %who, {self.own_bytes}
  %counter = getelementptr i8, ptr %counters, i64 %at
  ; Look before claiming: threads that find nothing must not take the cache line from each other.
  %seen = load atomic i32, ptr %counter monotonic, align 4
  %seen.wide = zext i32 %seen to i64
  %left = icmp ult i64 %seen.wide, %size
  br i1 %left, label %take, label %spent
take:
  %old = atomicrmw add ptr %counter, i32 %step monotonic, align 4
  %old.wide = zext i32 %old to i64
  %got = icmp ult i64 %old.wide, %size
  br i1 %got, label %found, label %spent
found:
  store i64 %turn, ptr %turns
  %start = add i64 %low, %old.wide
  %far = add i64 %start, %chunk
  %stop = call i64 @llvm.umin.i64(i64 %far, i64 %high)
  %begun = insertvalue {{i64, i64}} zeroinitializer, i64 %start, 0
  %range = insertvalue {{i64, i64}} %begun, i64 %stop, 1
  ret {{i64, i64}} %range
spent:
  %next = add i64 %turn, 1
  %again = icmp ult i64 %next, %victims
  br i1 %again, label %share, label %none
none:
  ret {{i64, i64}} zeroinitializer
}}"""
        return [text]

    def variables(self) -> list[str]:
        """LLVM instructions at the start of a step."""
        return ["  %turns = alloca i64"] if self.offsets else []

    def clear(self, barrier: int) -> list[str]:
        """LLVM instructions before a barrier: nothing is claimed of the kernels up to the next one."""
        lines = []
        for k in self.intervals[barrier]:
            if k in self.offsets:
                lines.append(f"  %mine{k} = getelementptr i8, ptr %own, i64 {self.offsets[k]}")
                lines.append(f"  store atomic i32 0, ptr %mine{k} monotonic, align 4")
        return lines

    def run(self, k: int, units: int, function: str, args: str) -> list[str]:
        """LLVM instructions that run the kernel at position `k`, given its arguments, each followed by a comma.

        One call serves a single thread, which runs all units, and several, which return to it until none are left.
        """
        return [
            f"  %counters{k} = getelementptr i8, ptr %own.first, i64 {self.offsets[k]}",
            f"  br label %begin{k}",
            f"begin{k}:",
            f"  br i1 %many, label %shares{k}, label %run{k}",
            f"shares{k}:",
            "  store i64 0, ptr %turns",
            f"  br label %look{k}",
            f"look{k}:",
            f"  %range{k} = call {{i64, i64}} @claim(ptr %counters{k},"
            f" i64 %thread, i64 %threads, i64 {units}, ptr %turns)",
            f"  %start{k} = extractvalue {{i64, i64}} %range{k}, 0",
            f"  %stop{k} = extractvalue {{i64, i64}} %range{k}, 1",
            f"  %found{k} = icmp ult i64 %start{k}, %stop{k}",
            f"  br i1 %found{k}, label %run{k}, label %claimed{k}",
            f"run{k}:",
            f"  %low{k} = phi i64 [ 0, %begin{k} ], [ %start{k}, %look{k} ]",
            f"  %high{k} = phi i64 [ {units}, %begin{k} ], [ %stop{k}, %look{k} ]",
            f"  call void @{function}({args}i64 %low{k}, i64 %high{k})",
            f"  br i1 %many, label %look{k}, label %claimed{k}",
            f"claimed{k}:",
        ]
