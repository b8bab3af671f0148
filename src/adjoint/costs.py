"""Planning numbers: every cost, limit and threshold that a plan depends on, as a function of the target.

Each number has a unit and a derivation, or it was found by timing: *Zen 5* means on two virtual cores of an AMD EPYC
(48 KiB L1, 1 MiB L2, AVX-512), 2026-11, where the contractions and steps of the benchmarks were fastest with it;
*Emerald Rapids* is an Intel Xeon (48 KiB L1, 2 MiB L2, AVX-512), *Zen 4* an AMD EPYC (32 KiB L1, 1 MiB L2, AVX-512 on
units of 256 bits). Other numbers bound the size of generated code.

Facts about a CPU are in `adjoint.kernel.target.Target`; graph passes, operators and lowering hold no numbers of their
own. What changes the order in which an element's products are added is planned for `order_target`, so that it follows
from shapes alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import ceil, log2

from adjoint.kernel.target import Target

# Addition order

#: The model CPU whose plan decides the order of additions for every CPU with fused multiply-adds: whether k is split,
#: and into how many parts, whether sums are spread over lanes, and over how many, whether Winograd's algorithm is used,
#: and over which rows and images a partial reduction runs. Its vectors are the widest of all targets, so that narrower
#: ones run its lanes in turns.
MODEL = Target("model", "model", "", 64, 32, cores=2)

#: The same with vectors of half the width, as those of AVX2 and the datapaths of Zen 4. A product runs as inner
#: products if that takes less time in the geometric mean of both.
NARROW_MODEL = replace(MODEL, vector_bytes=32, vector_registers=16)


def order_target(target: Target) -> Target:
    """The CPU that the order of additions is planned for: `MODEL`, or the target itself without fused multiply-adds.

    Without them, products are rounded before they are added, so that results differ anyway.
    """
    return MODEL if target.fuses_multiply_add or target is NARROW_MODEL else target


# Caches


def l1_bytes(target: Target) -> int:
    """Bytes of the first-level cache for data that stays there; the other third is for data that streams past."""
    return target.l1.nbytes * 2 // 3


def l1_lines_bytes(target: Target) -> int:
    """Bytes of the first-level cache for lines of which a tile reads some elements at a time."""
    return target.l1.nbytes // 2


def l2_bytes(target: Target) -> int:
    """Bytes of the second-level cache that plans make use of; a tensor of that size counts as far away.

    At most 1 MiB: with all 2 MiB of Emerald Rapids, no workload of the benchmarks was faster and three were 2 to 3 %
    slower. A shared cache counts in full, since threads that work on one tensor share its panels.
    """
    return min(target.l2.nbytes, 1 << 20)


def prefetched_bytes(target: Target) -> int:
    """Least bytes of a buffer that is prefetched if no kernel has used it recently."""
    return target.l1.nbytes


def l2_read_cycles(target: Target, nbytes: float) -> float:
    """Cycles to read from the second-level cache, faster without writes (50 bytes on Sapphire Rapids, 60 on Zen 5)."""
    return nbytes / (1.5 * target.l2_bytes_per_cycle)


def l3_block_bytes(target: Target) -> int:
    """Bytes of an operand that stays in the third-level cache, which other tensors and programs use too."""
    return target.caches[2].nbytes // 4 if len(target.caches) > 2 else far_bytes(target)


def far_bytes(target: Target) -> int:
    """Bytes of an operand that streams from memory in each step: eight second-level caches."""
    return 8 * l2_bytes(target)


def replayed_bytes(target: Target) -> int:
    """Bytes whose last use before a kernel decides what its caches hold when it starts: those of the largest cache.

    At most 64 MiB: larger ones are shared by cores, and by other machines on the same processor.
    """
    return min(max(target.caches[-1].nbytes, far_bytes(target)), 64 << 20)


#: Lines between what steps of k read from which hardware prefetchers do not follow: nearer, they fetch all (Cascade
#: Lake: tiles wait for rows 830 bytes apart, not for rows 350 or 500 bytes apart).
SKIPPED_LINES = 8
#: Streams in memory that the hardware prefetcher follows at a time (Zen 5).
HARDWARE_STREAMS = 20
#: Bytes of a page, which bounds hardware prefetching.
PAGE_BYTES = 4096
#: Bytes of a row stride from which every row is on a page of its own, if two rows share one at most.
PAGE_STRIDE = PAGE_BYTES // 2
#: Pages of an operand that the second-level translation buffer holds at least, and cycles of a step to look up a page
#: in it; beyond, to walk the page table (Zen 5). The smallest buffer has 1536 entries, for two threads (Cascade Lake:
#: tiles of 16 rows that lie on 1984 pages take 2.5 times as long as packed ones).
TLB_PAGES, PAGE_CYCLES, WALK_CYCLES = 1024, 4.0, 18.0
#: Pages that the first-level translation buffer holds: beyond, a load across two lines takes twice as long (Cascade
#: Lake: 0.7 and 1.5 cycles more than a load of one line).
NEAR_TLB_PAGES = 64
#: Factor on the time to read single lines of rows from beyond the second-level cache: prefetchers fetch pairs of lines
#: (Zen 4: tiles of four and seven rows take 1.2 to 1.3 times as long with one vector as with two or four).
SINGLE_LINES = 1.3
#: Fraction of the cycles of transfers between caches that multiply-adds do not hide (Zen 5); and of runs and of rows
#: that are apart, on cores that do not hide latencies (Cascade Lake).
EXPOSED_TRANSFERS, EXPOSED_RUNS, EXPOSED_ROWS = 0.2, 0.35, 1.0
#: Cycles to write the next panel of a row, if rows are pages apart and in the second-level cache (Zen 5: 6 to 34, of
#: which many products hide a part).
CONFLICTING_ROW_CYCLES = 15.0
#: Cycles to reach a row in memory that no prefetch announced (Zen 5).
FAR_ROW_CYCLES = 40.0
#: Software-prefetched runs of memory are joined if the gap between them is at most this fraction of a run.
PREFETCH_GAP = 1 / 6
#: Slots into which a block of k is cut: each prefetches its share of what the next block reads. With few, prefetches
#: come in bursts, for which a core has too few line-fill buffers (Zen 5).
PREFETCH_SLOTS = 16
#: Least rows of a result whose panels are prefetched; with fewer, the prefetches take as long as they save (Zen 5).
MIN_PREFETCHED_ROWS = 32
#: Steps of k for which rows of an operand stream past the sums of all columns (rank-k updates): no more streams
#: than hardware prefetchers follow. Most vectors of a tile, so that streams advance side by side; most rows of the
#: result.
#: Zen 4, seven products of 2 to 8 rows with operands of 10 to 36 MB: 8, 10 and 12 steps take 0.85, 0.85 and 0.88 of the
#: time of 16 (0.60 to 1.27 for 8). Three rows, 24 steps: 1.3 times that of 16; five vectors 1.14 times that of two.
UPDATE_STEPS, UPDATE_VECTORS, MAX_UPDATED_ROWS = 10, 2, 8
#: Steps of k in a block of operands in place, whose sums wait in the second-level cache meanwhile: few, so that rows of
#: both operands stay in the caches and their pages in the first-level TLB; enough to amortize filling the sums.
#: Cascade Lake: 16x4000 @ 4000x512 takes 757 and 802 us with 64 and 128 steps, (2048x64)T @ 2048x64 134 and 218.
BLOCK_STEPS = 64
#: Steps of k for which rows of an operand are prefetched that a tile reads once (Zen 4, 1469x773 floats in the
#: third-level cache: 0.90, 0.88 and 0.89 of the time with 4, 8 to 16 and 32 steps).
ROWS_AHEAD = 16
#: Cycles of a prefetch: up to 18 instructions, most of them for its address. Cascade Lake: (252x5)T @ 252x1320, with
#: three lines for each step of a tile, takes 29 cycles per step.
PREFETCH_CYCLES = 6.0
#: Lines that are prefetched at a time between multiply-adds of a tile, and at most so many where k has few steps.
PREFETCH_BURSTS = 2, 8
#: Least steps of k between prefetches of a tile: shorter loops take time themselves (Zen 5).
PREFETCH_STEPS = 8
#: Steps after a prefetch of a tile that prefetches an operand, as many as possible (Cascade Lake, a gradient of weights
#: of 5x5: 6.2 ms with 16 steps, 6.6 with 8, 6.9 with 4, 7.5 with 2, and 6.8 with one each).
PREFETCHED_STEPS = 16, 8, 4, 2
#: Prefetch distance of the weight transform of a Winograd convolution, in units.
WEIGHT_PREFETCH_DISTANCE = 8
#: Most bytes of scratch memory for one thread.
MAX_SCRATCH_BYTES = 2 << 20


def l3_row_cycles(target: Target) -> float:
    """Cycles to reach a row in the third-level cache that no prefetch announced, if several are on their way.

    15 on Zen 5; a third of the latency is 23 on Cascade Lake, where panels of distant rows took that long.
    """
    return max(15.0, target.l3_latency / 3)


#: Latency of memory as a multiple of that of the third-level cache (Cascade Lake: 110 ns, page walks included, and 25).
MEMORY_LATENCY = 3.0


def alias_stride(target: Target) -> int:
    """Bytes between addresses that map to the same set of the first-level cache."""
    return target.l1.nbytes // target.l1.ways


def aliased_rows(target: Target) -> int:
    """Rows in one set of the first-level cache from which they evict each other: its ways and a third (Zen 5)."""
    return target.l1.ways * 4 // 3


# Threads

#: Estimated nanoseconds of a kernel above which sharing it among threads outweighs a barrier (Zen 5, two threads).
SHARED_NANOSECONDS = 1500.0
#: Operations per nanosecond of an average kernel, for each 16 bytes of a vector: a fraction of what one core reaches.
OPERATIONS_PER_NANOSECOND = 10.0


def nanoseconds(flops: float, nbytes: float, target: Target = MODEL) -> float:
    """Estimated time of a kernel on one thread."""
    operations = OPERATIONS_PER_NANOSECOND * target.vector_bytes / 16
    return flops / operations + nbytes / target.memory_gbytes


def is_shared(flops: float, nbytes: float, target: Target = MODEL) -> bool:
    """Whether a kernel is worth a barrier, so that threads share its units."""
    return nanoseconds(flops, nbytes, target) > SHARED_NANOSECONDS


#: Estimated nanoseconds of a whole step above which several threads are worth starting and waiting for (Zen 4, two
#: threads: half a microsecond; products estimated at 2.3, 4.8, 6.9 and 15.6 us take 0.8, 2.1, 2.2 and 4.9 on one
#: thread, 1.2, 1.9, 2.0 and 3.3 on two).
LAUNCHED_NANOSECONDS = 5000.0


def is_launched(flops: float, nbytes: float, target: Target) -> bool:
    """Whether a step is long enough for several threads."""
    return nanoseconds(flops, nbytes, target) > LAUNCHED_NANOSECONDS


#: Estimated nanoseconds of a kernel from which threads claim its units in chunks. Shorter kernels gain nothing, because
#: a thread that is interrupted is away for longer than they take (docs/design/threads.md).
CLAIMED_NANOSECONDS = 200_000.0


def is_claimed(flops: float, nbytes: float) -> bool:
    """Whether a kernel is so long that threads claim its units, and may take over those of other threads."""
    return nanoseconds(flops, nbytes) >= CLAIMED_NANOSECONDS


#: Floating-point operations plus bytes of a program from which loops that leave out absent rows are worth their ends:
#: two or three instructions for each loop. A smaller program takes about two microseconds in all.
BOUNDED_WORK = 1 << 15


def leaves_out_rows(work: int) -> bool:
    """Whether a program of that many floating-point operations plus bytes leaves out absent rows."""
    return work >= BOUNDED_WORK


def units(target: Target) -> int:
    """Units of work that a kernel should offer: at least 16, and four for each core."""
    return max(16, 4 * target.cores)


def least_units(target: Target) -> int:
    """Units of work below which operands are packed several times rather than leave cores idle: two for each core."""
    return 2 * target.cores


def idle(target: Target, units: int) -> float:
    """How many times longer fewer units than cores take than if all cores were busy.

    Units that do not divide evenly among cores are left out of account: fewer threads may run than there are cores.
    """
    return max(1.0, target.cores / max(units, 1))


def imbalance(target: Target, units: int) -> float:
    """How many times an even share of so many equal units the busiest core does."""
    return ceil(units / target.cores) * target.cores / max(units, 1)


def largest_share(target: Target, work: Sequence[float]) -> float:
    """How many times an even share of all work the busiest core does, where each has consecutive units."""
    bounds = [core * len(work) // target.cores for core in range(target.cores + 1)]
    return max(sum(work[first:last]) for first, last in pairwise(bounds)) * target.cores / sum(work)


# Instructions

#: Fraction of the lanes at which vectors of half the width are used, if twice as many start. Smaller tiles load more
#: for each multiply-add, so they have to save something; how much was not varied.
HALF_LANES = 0.85


def useful_lanes(target: Target, extent: int, itemsize: int) -> int:
    """Lanes of vectors along an axis: half of them where that leaves fewer idle, and twice as many vectors start."""
    lanes = max(target.vector_bytes // itemsize, 1)
    whole, halves = (ceil(extent / n) * n for n in (lanes, max(lanes // 2, 1)))
    halved = halves <= HALF_LANES * whole and target.narrowed(target.vector_bytes // 2) is not target
    return lanes // 2 if halved else lanes


def multiply_add_cycles(target: Target, vectors: float) -> float:
    """Cycles for so many independent multiply-adds of whole vectors."""
    return vectors / target.fma_units


#: Cycles by which an element that is broadcast to one of the upper 16 registers delays multiply-adds, where one of
#: their units does that. (Zen 4: 26 multiply-adds of 256 bits take 13.0 cycles, with 13 broadcasts to lower registers
#: too, and with 13 to upper ones 15.6. Tiles of four to 14 rows and two or three vectors: 0.2 each.)
UPPER_BROADCAST_CYCLES = 0.2


def broadcast_cycles(target: Target, rows: int, vectors: int) -> float:
    """Cycles that the broadcasts of a tile of so many rows and vectors add to its multiply-adds.

    Only of vectors of 256 bits with the registers of AVX-512, on units of that width: wider ones take their unit for
    two cycles. An element that one vector is multiplied by is part of the multiply-add.
    """
    narrow = target.vector_registers == 32 and target.vector_bytes == 32 == target.datapath_bytes
    if target.architecture != "x86_64" or not narrow or vectors == 1:
        return 0.0
    # Sums are in registers first, broadcast elements in what is left.
    return UPPER_BROADCAST_CYCLES * rows if (rows + 1) * vectors >= target.vector_registers // 2 else 0.0


#: Loads that a multiply-add with an element in memory takes on cores that do not hide latencies, which split it in two
#: (Cascade Lake: tiles of 16 rows and one vector take 12.5 cycles per step from the first-level cache).
FOLDED_LOADS = 4 / 3


def load_cycles(target: Target, vectors: float, broadcasts: float = 0.0, folded: bool = False) -> float:
    """Cycles to load so many vectors and elements that are broadcast; 90 % of the peak rate is sustained (Zen 5).

    A vector that is wider than the units takes as many loads as it passes through; an element takes one (Zen 4: tiles
    of one vector of 512 bits run at 99 % of the peak, with as many broadcasts as multiply-adds).
    """
    each = FOLDED_LOADS if folded and not hides_latency(target) else 1.0
    loads = vectors + broadcasts * each * min(target.datapath_bytes / target.vector_bytes, 1.0)
    return loads / (0.9 * target.load_units)


def unaligned_loads(target: Target) -> float:
    """Loads that a vector takes which is not aligned: the part of it that a unit loads may reach into the next line.

    So a vector that is as wide as a line takes twice as many, and one and a half times where it is loaded in halves (a
    depthwise convolution of 72x72 with windows of seven, in place, runs at 96 % of the peak of a Zen 4).
    """
    return 1 + min(target.vector_bytes, target.datapath_bytes) / target.line_bytes


def stall_cycles(target: Target, instructions: float, nbytes: float) -> float:
    """Cycles per step of so many vector instructions to wait for lines of a buffer beyond L2, without prefetches.

    While a step waits, schedulers fill with the multiply-adds of the steps behind it, whose loads have started; what is
    left of the latency is shared by those steps. The estimate is for cores whose other thread is busy: on Cascade Lake
    it is 25 for tiles of 14x2 that read a transposed operand of 2 MB, which took 9 cycles longer per step than from
    panels while the other thread was idle.
    """
    ahead = max(target.scheduler_entries / instructions, 1.0)
    latency = target.l3_latency * (1 if nbytes <= l3_block_bytes(target) else MEMORY_LATENCY)
    return max(latency - target.scheduler_entries / target.fma_units, 0.0) / ahead


def hides_latency(target: Target) -> bool:
    """Whether schedulers hold as many instructions as the third-level cache takes cycles, or neither is known."""
    return target.scheduler_entries >= target.l3_latency


def exposed_transfers(target: Target, apart: bool = False) -> float:
    """Fraction of the cycles of transfers between caches that multiply-adds do not hide, of rows `apart` or of runs."""
    if hides_latency(target):
        return EXPOSED_TRANSFERS
    return EXPOSED_ROWS if apart else EXPOSED_RUNS


def written_cycles(target: Target, written: float, nbytes: int) -> float:
    """Cycles to write some bytes of a result of `nbytes`, whose lines are read and written back; none within L2."""
    if nbytes <= l2_bytes(target):
        return 0.0
    near = nbytes <= l3_block_bytes(target)
    return 2 * written / target.l3_bytes_per_cycle if near else written / far_bytes_per_cycle(target)


def written_row_cycles(target: Target) -> float:
    """Cycles to reach a row of a large result, panel by panel on other pages, that a tile with few products waits for.

    Cascade Lake: 789x6 @ (3696x6)T takes 1,362 us panel by panel, 575 by rows.
    """
    return 0.0 if hides_latency(target) else 50.0


#: Cycles for each line of an operand that is packed as a whole: threads read what others have packed in the caches of
#: other cores (Zen 4: 40x3528 @ (48x3528)T, which packs 10,584 lines, takes 130 us on one thread, and 87 on two; where
#: 7 cycles rather than none decided, 78 products took 1.01 of the time on one thread and 0.90 on two; where 14 rather
#: than 7 did, another 26 took 1.02 and 0.94; 10 lies in between).
REMOTE_LINE_CYCLES = 10.0
#: Cycles of a coherence miss: to take a line back from another core, whose prefetchers took it beyond what its thread
#: writes. They take so many tiles behind the last one (Zen 4, two threads: 332x2 @ (432x2)T takes 12.2 us panel by
#: panel, or 38 at times when lines travel slowly between the two cores, and 5.3 row by row; the first 16 tiles of a
#: panel are slow). Of threads side by side, each row takes as long as so many misses (12 ns there).
COHERENCE_MISS_CYCLES, TILES_AHEAD, MISSES_PER_ROW = 15.0, 16, 8


def exchange_cycles(target: Target, nbytes: float) -> float:
    """Cycles for a copy that all cores write parts of, and all of them read: a miss per line, for either.

    Half of what two cores lose, since it is not known how many there will be. (Zen 4, two threads: 330 KB of weights
    take 18 us longer so than if no core reads what another has written, 85 KB 4 us, 36 KB 3 us.)
    """
    return nbytes / target.line_bytes * COHERENCE_MISS_CYCLES if target.cores > 1 else 0.0


def split_row_cycles(target: Target, rows: int) -> float:
    """Cycles for so many rows of a result of which two cores write parts, likewise half of what these lose.

    (Zen 4, two threads: gradients of weights of 301 channels take 9 us longer so than if a core has whole rows.)
    """
    return rows * MISSES_PER_ROW * COHERENCE_MISS_CYCLES if target.cores > 1 and rows > 1 else 0.0


def chain_cycles(target: Target) -> float:
    """Least cycles of a step that adds to every sum once: a multiply-add's latency, and half a cycle of overhead."""
    return target.fma_latency + 0.5


#: Instructions that a core has in flight, so that it starts the next tile before it ends one (Intel since Skylake: 224;
#: AMD Zen 4: 320; Arm Cortex-A76: 128).
REORDER_WINDOW = 200


def copy_cycles(lanes: int) -> float:
    """Cycles per element of a packing copy: a load, a store and address arithmetic per vector (Zen 5)."""
    return 1.6 / lanes


def padded_copy_cycles(target: Target) -> float:
    """Cycles to copy a vector of a row between zeros; one that is wider than the units passes through several times."""
    return PADDED_COPY_CYCLES * max(target.vector_bytes / target.datapath_bytes, 1.0)


def transpose_cycles(lanes: int, stride: int = 1) -> float:
    """Cycles per element of an in-register transpose: log2(lanes) shuffles, a load and a store per vector (Zen 5).

    A row of every second element takes two loads and a shuffle.
    """
    return 0.8 * (log2(lanes) + 2 * stride) / lanes if lanes > 1 else 1.0


#: Cycles per element that a transpose into a panel takes longer than one of the whole operand (Zen 4 0.1, Zen 5 0.5).
PANEL_TRANSPOSE_CYCLES = 0.3
#: Cycles per element that is loaded by itself and inserted in a vector (Zen 5).
GATHER_CYCLES = 1.5
#: Cycles per element that is taken from a vector and stored by itself: near others, or to a line of its own (Zen 4: 1.0
#: to 1.3 for results of 6 KB to 2 MB; Zen 5: 4.0 to lines of their own; the second number lies between).
STORE_CYCLES, FAR_STORE_CYCLES = 1.0, 2.0

# Operands of 16 bits

#: Cycles to convert a vector to float32 where it is loaded: two instructions on the ports of multiply-adds.
CONVERT_CYCLES = 1.0
#: Cycles to convert an element that is broadcast: a shift of an integer, or a conversion in a vector register (Sapphire
#: Rapids).
CONVERT_ELEMENT_CYCLES = {"bfloat16": 1.0, "float16": 2.0}
#: Clock rate by which bandwidths of memory are converted to bytes per cycle.
GIGAHERTZ = 2.5


def far_bytes_per_cycle(target: Target) -> float:
    """Bytes per cycle from memory to a core, and of a copy beyond the second-level cache there and back."""
    return target.memory_gbytes / GIGAHERTZ


def copy_bytes_per_cycle(target: Target, nbytes: int) -> float:
    """Bytes per cycle at which a copy of so many bytes is written and read again, by the cache that it stays in."""
    if nbytes <= l2_block_bytes(target):
        return target.l2_bytes_per_cycle
    return target.l3_bytes_per_cycle if nbytes <= l3_block_bytes(target) else far_bytes_per_cycle(target)


def conversion_cycles(target: Target, elements: int, lanes: int, nbytes: int) -> float:
    """Cycles to convert so many elements to a copy of their own: a copy, and its way to a cache and back.

    `nbytes` are those of an element before and after.
    """
    near = elements * nbytes <= l2_bytes(target)
    rate = target.l2_bytes_per_cycle if near else far_bytes_per_cycle(target)
    return elements * (copy_cycles(lanes) + CONVERT_CYCLES / lanes + nbytes / rate)


# Partial sums


def spill_cycles(target: Target, nbytes: int) -> float:
    """Cycles to write a vector of partial sums and read it again, if so many bytes of them wait at a time (Zen 5)."""
    if nbytes <= target.l1.nbytes - l1_bytes(target):
        return 2.0
    near = nbytes <= l2_bytes(target)
    return 1.5 * target.vector_bytes / (target.l2_bytes_per_cycle if near else target.l3_bytes_per_cycle)


# GEMM

#: Most rows, vectors and stacked tiles of a register tile; beyond, nothing fits the registers of any target, except a
#: tile of few rows that has all columns.
MAX_ROWS, MAX_VECTORS, MAX_STACK = 16, 6, 4
#: Cycles to start and end a tile; and those of a step of k, for counters and pointers, that its multiply-adds do not
#: hide: they weigh more for small tiles (Zen 4).
TILE_CYCLES, TILE_STEP_CYCLES = 6, 0.25
#: Cycles that a loop around some unrolled products takes beyond them (Zen 5).
STEP_CYCLES = 3
#: Cycles for a vector of an inner product along long rows of every second element; and along others, if windows share
#: what they read (Zen 5).
STRIDED_INNER_CYCLES, SHARED_INNER_CYCLES = 1.7, 0.62
#: Cycles to copy a vector of a row of an image between zeros, if it is as wide as the units: a load, a store, and its
#: share of the zeros (not measured by itself).
PADDED_COPY_CYCLES = 2.0
#: Fraction that a remainder tile costs beyond its arithmetic: extra code, and loops of different lengths.
EDGE_COST = 0.02
#: Factor on the additions to a partial vector of strided lanes, which are masked.
MASKED_COST = 1.5
#: Cycles to store a vector of sums to scratch memory and read it again, where rows and columns are collapsed (Zen 5).
COLLAPSED_STORE_CYCLES = 3
#: Factor on the cycles of such tiles, whose sums take space in the first-level cache (Zen 5).
COLLAPSED_COST = 1.05
#: Pixels of a unit whose lanes run along channels, at most: their sums stay in the second-level cache.
CHANNEL_LANES_POINTS = 1024
#: Most vectors of channels in a tile.
CHANNEL_LANES_VECTORS = 4
#: Pixels below which a tile may have those of several images.
CHANNEL_LANES_FEW = 64
#: Cycles per vector of its result to write the sums, transpose them and read them for the epilogue (Zen 5).
CHANNEL_LANES_STORE_CYCLES = 12
#: The same of a depthwise convolution with lanes along channels, whose sums are in the first-level cache (Zen 5).
DEPTHWISE_LANES_STORE_CYCLES = 7
#: Cycles to start a kernel that packs an operand as a whole: those of a barrier between threads (Cascade Lake, two
#: threads of which each shares its core with another machine: with 3000, the step of the MLP takes 1.1 times as long).
PACKING_CYCLES = 8000.0
#: Tiles side by side in a panel that is packed from an operand in memory: wide panels touch fewer rows (Zen 5).
PANEL_TILES = 4
#: Extent of k from which the conflicts of rows that share a cache set cost more than packing (Zen 5).
MIN_PACKED_DEPTH = 192
#: Squares that a unit transposes, one after the other, where an operand is packed along k.
TRANSPOSED_SQUARES = 4
#: Steps of k that are copied at a time when a whole operand is packed whose rows lie side by side: as many streams as
#: hardware prefetchers follow.
PACKED_STEPS = 8
#: Rows or columns of a result, in tiles, from which packing a whole operand pays off.
MIN_PACKED_TILES = 4
#: Fraction of the cycles of shuffles in the loop at which an operand with every second element in its lanes is packed
#: instead: panels take memory traffic that is not counted (Zen 5: 1x1 windows that move by two take 0.65 of the time).
PACKED_SHUFFLES = 0.9
#: An operand is sparse if at most one in so many elements of a cache line is used; a sparse operand is packed from so
#: many uses of an element on.
SPARSE, MIN_SPARSE_USES = 4, 8
#: Transfers between caches for each packed byte, beside those of whoever computes with it: to read it, and to write a
#: chunk (Cascade Lake, which does not hide any of it: 585x760 packed as chunks takes 90 us longer than as panels).
PANEL_TRANSFERS, CHUNK_TRANSFERS = 1, 3
#: Most partial sums that wait in scratch memory between blocks of k: 1 MiB of the widest type.
MAX_SPILLED_SUMS = 128 << 10
#: Operations of an epilogue from which it is a loop over the sums of a tile, not unrolled (code size): GELU's is one.
#: With 8, those of optimizers would be loops, too, which compile no faster (Zen 4).
LOOPED_EPILOGUE = 20
#: Operations that wait for each other from which vectors are interleaved, and how many: an exponential has 15 such
#: operations in a chain, Adam's update 9. On Cascade Lake, GELU took 22 ns per vector one by one, 12
#: with two, 9 with four and 9 with eight; exponentials took 6.2, 5.9, 4.8 and 4.5 ns.
LONG_CHAIN, INTERLEAVED_VECTORS = 14, 4
#: Operations of such a chain for each load: with fewer, the kernel is bound by its loads.
CHAIN_PER_LOAD = 4
#: The innermost loop over the taps of a window is unrolled up to this many vector multiply-adds (code size).
MAX_UNROLLED = 128
#: Most vector multiply-adds of all taps of a window in two axes that are unrolled in a tile of a GEMM (code size).
MAX_UNROLLED_WINDOW = 256
#: The same in a tile of a depthwise convolution, whose rows share what they load if the code is in one piece.
MAX_UNROLLED_DEPTHWISE = 600
#: How many times the least estimated cycles a smaller tile of a depthwise convolution in place may take, whose code is
#: shorter (Zen 4: on images of 48x48, 4x3 is 1.1 times as fast as 8x3).
SMALLER_DEPTHWISE_TILES = 1.03
#: Most elements of a window of a transposed depthwise convolution whose phases one kernel computes (code size).
MAX_TRANSPOSED_TAPS = 150
#: Fraction of the vector registers that the sums of such a tile may fill: LLVM keeps weights in others, and spills
#: where too few are left (Zen 4: 4x4 windows on images of 24x24 take 126 us with 16 sums, and 204 us with 24).
TRANSPOSED_SUMS = 1 / 2
#: Fewest elements of a run that is worth a vector load.
MIN_RUN = 4
#: Tiles are compared with their traffic if they take at most this many times the cycles of the best without it.
SHORTLIST = 1.2
#: Columns of a result, in vectors, up to which lanes may run along its rows instead: every store is strided then.
MAX_SWAPPED_VECTORS = 2
#: Tile configurations to measure when tuning, of each form: those with the lowest estimated cost.
TILE_CANDIDATES = 2


def panel_bytes(target: Target) -> int:
    """Bytes of a packed panel, which stays in the second-level cache beside the rows that meet it."""
    return l2_bytes(target) // 8


#: Least tiles side by side in a packed chunk that blocks of rows walk: with fewer, rows are read again about as often
#: as panel by panel. Least vectors of such a tile: narrow ones load more than transfers from the second-level cache
#: leave room for (Cascade Lake: 784x1536 @ 1536x384 at 126, 121 and 108 GFLOP/s with four, three and two vectors, and
#: 113 panel by panel).
MIN_CHUNK_TILES, MIN_CHUNK_VECTORS = 3, 3


def l2_block_bytes(target: Target) -> int:
    """Bytes of an operand that stays in the second-level cache while blocks of the other one meet it."""
    return l2_bytes(target) // 2


# Split-K

#: Least fraction of lanes that must do useful work.
MIN_LANE_USE = 0.6
#: The same for panels that windows shift by single steps; below, inner products are faster (Zen 5).
MIN_WINDOW_LANE_USE = 0.8
#: Most vectors in a panel.
MAX_PANEL_VECTORS = 2
#: Fraction of the registers that a tile must at least fill.
MIN_TILE_FILL = 1 / 4
#: Most extent of a register tile along one axis (code size).
MAX_TILE_EXTENT = 32
#: Bytes of partial sums beyond which k is not split further: they are written, read and added.
MAX_PARTIAL_BYTES = 2 << 20
#: Most row groups in place of one, for the sake of even shares for all cores, and how much longer than that the largest
#: share may take (Zen 4: 5 units on two cores take 1.2 times as long as 10, but 21 no longer than 42, which read more).
MOST_ROW_GROUPS, EVEN_ENOUGH = 4, 1.06
#: Units per core from which any number of them counts as even shares (compile time).
EVEN_UNITS = 64
#: Row groups must reduce memory traffic to this fraction (Zen 5).
MAX_TRAFFIC = 0.6
#: Factor on the estimated cycles of the fastest tile up to which others count as equally fast.
EQUALLY_FAST = 1.01
#: Tiles of which reads are estimated (compile time): those whose arithmetic takes up to this factor of the least
#: cycles, and at most so many.
LIKELY_TILE, LIKELY_TILES = 1.5, 100
#: Fraction of products that are not with the zeros around an image below which only those are computed: loops of their
#: own for the rows at a border take as long as some products.
MAX_INSIDE = 0.95
#: The same where a branch leaves out a row of taps, or they are unrolled.
MAX_INSIDE_BRANCH = 0.985
#: Cycles per vector of partial sums to write, read and add them.
PARTIAL_SUM_CYCLES = 8.0
#: Most places in a panel from one step, or one tap, to the next (strides and dilations): others lie in between.
MAX_WINDOW_STEP = 4
#: Steps of a summed axis that are sampled to count the cache lines of a tile.
LINE_SAMPLE = 16
#: Cache lines of a range from which the distinct ones are counted by sorting, not in a map of all (compile time).
MAX_LINE_MAP = 1 << 20
#: Rows of a block in a split-K reduction: a vector of each stays in the first-level cache.
REDUCTION_ROWS = 256

# Kinds of plans

#: Where one kind takes at most so many times the cycles of another on the model CPU, or the inverse, both model CPUs
#: decide between them (not varied).
CLOSE = 2.0

# Inner products

#: Rows of an image that share what their windows read, and the most taps in a row of a window for which they do: their
#: sums stay in registers.
SHARED_ROWS, MAX_SHARED_TAPS = 6, 5

#: Share of the multiply-add units' time that a GEMM fills, by its estimate, from which it is preferred to inner
#: products over several axes, which have no estimate. Of some 40 random gradients of weights with inner products, a
#: GEMM reached it in one, and took 0.6 of the time; no other was faster as a GEMM (Zen 4).
EFFICIENT = 0.8
#: An inner product needs at least this fraction of a vector along k, and fewer columns than this fraction of a vector.
MIN_INNER_LANES = 1 / 2
#: Rows from which a strided operand is packed for a GEMM instead.
MAX_INNER_ROWS = 8
#: Most iterations of the axes that are looped over inside a unit.
MAX_INNER_ITERATIONS = 64
#: Most rows and columns of a tile.
MAX_INNER_TILE = 8
#: How many loads of a whole vector one of every second element takes, which shuffles join; and one of several short
#: rows of an image; and how much longer a load takes that crosses cache lines (Zen 4, fitted to some 170 gradients).
STRIDED_LOADS, JOINED_ROW_LOADS, CROSSING_LOADS = 5.0, 3.0, 0.5
#: Fraction of the cycles of transfers between caches that the multiply-adds of an inner product do not hide (Zen 5).
EXPOSED_INNER_TRANSFERS = 0.5
#: Factor on the time to read an operand that does not stay in a cache, several rows at once instead of one after the
#: other: hardware prefetchers follow one stream further ahead (matrices of 3061x2323 times a vector, Zen 4: 23 GB/s in
#: eight rows at once, 28 row by row).
SEVERAL_STREAMS = 1.2
#: An operand is copied so that k is contiguous if it has at most this fraction of the other one's elements, inverted.
SMALL_BESIDE = 4
#: Cycles to add the lanes of a vector as a tree and to store the sum (Zen 5).
REDUCE_LANES_CYCLES = 5.0
#: Splits of k, times matrices of a batch, of inner products in blocks of k. Units share rows or columns as well, so as
#: many as `units` are not needed, and fewer leave larger blocks (other numbers were not measured).
SWEPT_PARTS = 8
#: Most splits of the outermost summed axis (code size): their sums are added in one expression.
MAX_INNER_PARTS = 64

# GEMMs over pixels

#: Fewest input channels of a convolution that runs as a GEMM over pixels, and most rows of that GEMM: output channels
#: times taps of a window. Fewer do not pay for the transfers of the sums, and more fill register tiles anyway.
MIN_KN2ROW_DEPTH, MAX_KN2ROW_ROWS = 8, 512
#: Cycles to add a vector of the sums of a column of the window to a row of the result, with lanes left out at its ends
#: (Zen 4, where 66 of 67 random convolutions take 0.94 to 1.25 times the estimate).
SHIFTED_CYCLES = 3.0

# Winograd

#: Least products in a sum at one point for which the transforms pay off, with windows of three rows (Zen 5). Longer
#: windows need fewer: 1 to 144 channels of 71x71 with windows of seven take 0.84 of the time (Zen 4).
MIN_WINOGRAD_DEPTH = 16
#: Cycles to transform one vector of a tile of six rows, data or result (Zen 5, 16 lanes).
TRANSFORM_CYCLES, TRANSFORM_ROWS = 16.0, 6
#: How many times as long that takes where each vector is every second element of a row (Zen 4: 1.1 to 4).
STRIDED_TRANSFORM = 2
#: Fraction of the weights' bytes that a unit's rows may take beyond the second-level cache: reading large weights fewer
#: times then pays off.
WEIGHTS_PER_SCRATCH = 8


def weight_bytes_per_cycle(target: Target) -> float:
    """Bytes of transformed weights per cycle from the second-level cache, beside other reads (Zen 5: 24 of 32)."""
    return target.l2_bytes_per_cycle * 3 / 4


def winograd_scratch_bytes(target: Target) -> int:
    """Bytes of transformed rows in a unit: they stay in the second-level cache beside weights and sums."""
    return l2_bytes(target) * 3 // 8


def gradient_block_bytes(target: Target) -> int:
    """Bytes of the transformed rows and cotangents of a block of a weight's gradient."""
    return l2_bytes(target) // 4


def gradient_sums_bytes(target: Target) -> int:
    """Bytes of the sums of a unit of a weight's gradient."""
    return l2_bytes(target) * 5 // 16


# Attention

#: Scores of a head from which attention does not store them, as a multiple of the square of its width: recomputing
#: them takes time in proportion to the width, and what a head does once weighs less the more scores there are. If
#: causal, half of them are not even computed; otherwise for heads up to `NARROW_HEAD` and for wider ones
#: (Cascade Lake; docs/design/attention.md).
CAUSAL_SQUARES, NARROW_SQUARES, WIDE_SQUARES = 4, 9, 36
NARROW_HEAD = 32
#: Scores of a head from which causal attention does not store them, however wide it is (Zen 5).
CAUSAL_SCORES = 128 * 128
#: Bytes of all scores from which attention does not store them. Stored, they and three matrices of their size go to
#: memory and back; recomputed, they cost three more products (Zen 5; docs/design/attention.md).
STORED_SCORE_BYTES = 16 << 20
#: Elements of a query, key or value up to which scores need not be stored: each takes about 1 KiB of scratch memory.
MAX_HEAD = 512
#: Vectors of rows in a unit: they share each element of a step that is loaded.
ROW_VECTORS = 2
#: Steps in a block: few, so that little is computed of what a causal mask excludes and weights stay in the first-level
#: cache; enough to amortize filling the sums. It decides the order of additions.
STEP_BLOCK = 32
#: The same where every row counts all steps: enough that rescaling the sums of a row takes little time (Zen 4;
#: docs/design/attention.md).
WHOLE_STEP_BLOCK = 64
#: Operations of a weight besides its dot products: about those of an exponential.
WEIGHT_FLOPS = 20


def stores_scores(scores: int, nbytes: int, head: int, causal: bool) -> bool:
    """Whether attention stores its scores, or recomputes them in blocks.

    Parameters
    ----------
    scores : int
        Scores of a head.
    nbytes : int
        Bytes of the scores of all heads.
    head : int
        Elements of the longest query, key or value.
    causal : bool
        Whether each query sees the keys up to its own position only.
    """
    squares = CAUSAL_SQUARES if causal else NARROW_SQUARES if head <= NARROW_HEAD else WIDE_SQUARES
    many = scores >= max(squares * head**2, STEP_BLOCK**2) or (causal and scores >= CAUSAL_SCORES)
    return not (many or nbytes >= STORED_SCORE_BYTES) or head > MAX_HEAD


# Softmaxes over the columns of products

#: Bytes of a block of columns of a product, from which sums over rows and columns are computed while it is in the
#: second-level cache. It decides the order of additions.
COLUMN_BLOCK_BYTES = 1 << 20
#: Fewest columns of a block: sums over columns pass through the cache once for each block.
MIN_BLOCK_COLUMNS = 128
#: Columns of a block are a multiple of the lanes of `MODEL`.
BLOCK_LANES = 16
#: Bytes of a product from which blocks pay off: several second-level caches (Zen 5; docs/design/cross-entropy.md).
MIN_BLOCKED_BYTES = 8 << 20
#: Least rows of a product in blocks, as a multiple of its depth. With fewer, the logits are small beside the weights,
#: whose gradient is stored before it is used for the update (Zen 5; docs/design/cross-entropy.md).
MIN_BLOCKED_ROWS = 1
#: Most bytes of a product that is kept for the gradient: computed again, it takes a third more operations
#: (docs/design/cross-entropy.md).
MAX_KEPT_BYTES = 1 << 30


def column_block(rows: int, columns: int, depth: int, itemsize: int) -> int:
    """Columns of a block of a product of which only sums over rows and columns are needed; 0 for no blocks.

    If possible it divides the columns, so that all blocks are equal.

    Parameters
    ----------
    rows, columns, depth : int
        Of the product.
    itemsize : int
        Bytes of an element.
    """
    if rows * columns * itemsize < MIN_BLOCKED_BYTES or rows < depth * MIN_BLOCKED_ROWS:
        return 0
    planned = max(COLUMN_BLOCK_BYTES // (rows * itemsize), MIN_BLOCK_COLUMNS) // BLOCK_LANES * BLOCK_LANES
    near = (n for n in range(planned, 2 * planned, BLOCK_LANES) if columns % n == 0)
    return min(next(near, planned), columns // 2)


def keeps_product(nbytes: int) -> bool:
    """Whether a product of which the gradient needs blocks is kept, or computed again."""
    return nbytes <= MAX_KEPT_BYTES


# Reductions and elementwise kernels

#: Independent accumulators of each lane in a row reduction, to hide the latency of additions. They decide the order of
#: additions.
ROW_CHAINS = 4
#: Units that a reduction of many elements is cut into: two for each thread of a machine with 64 cores. The parts decide
#: the order of operations, so they are the same on every machine.
REDUCTION_UNITS = 128
#: Least elements of a part: 16 KiB of float32, which take about as long as the barrier before the second stage
#: (`SHARED_NANOSECONDS`).
MIN_PART_ELEMENTS = 4096
#: Elements of a unit up to which a reduction has one stage: 13 microseconds of float32 from memory on `MODEL`, of
#: which two threads would save five after the barrier and the second stage. With the units that two cores need
#: (`units`), only larger machines gain, and four times as many elements stay in one stage.
MAX_UNIT_ELEMENTS, MAX_SHARED_UNIT_ELEMENTS = 1 << 16, 1 << 18
#: Rows shorter than this fraction of a vector are reduced with results in the lanes instead.
MIN_ROW_LANES = 1 / 4
#: Vectors of neighboring results in a unit of a column reduction, and of a scatter.
COLUMN_VECTORS, SCATTER_VECTORS = 2, 4
#: Elements of the blocks of a row that are sorted by counting, before they are merged: counting takes a vector
#: operation per lane and element, a merge step about 14 cycles per element, whose loads and comparison form a chain.
SORT_BLOCK = 32
#: Vectors of a row of a small matrix that are accumulated together.
MATRIX_ROW_VECTORS = 4
#: Vectors of neighboring results in a unit of a prefix scan, and rows where its axis is the last one: as many chains of
#: operations that wait for each other, of four cycles each, keep two units of arithmetic busy.
SCAN_VECTORS, SCAN_ROWS = 4, 8
#: Vectors of the innermost axis in a unit of an elementwise kernel, and of a copy, where the axis is longer.
MAP_VECTORS, COPY_VECTORS = 32, 64
#: Most segments into which a loop is split (code size).
MAX_SEGMENTS = 8
#: Most operations per element of a sum that starts in the epilogue of its producer, and most tensors that it may read
#: besides the producer's results.
MAX_STAGE_FLOPS, MAX_STAGE_TENSORS = 8.0, 2


def reduction_parts(blocks: int, elements: int) -> int:
    """Parts into which each block of results of a reduction is cut: one where that is not worth a second stage.

    Parameters
    ----------
    blocks : int
        Units of work without parts, on `MODEL`.
    elements : int
        Elements that each of them reads.
    """
    most = MAX_UNIT_ELEMENTS if blocks < units(MODEL) else MAX_SHARED_UNIT_ELEMENTS
    return min(REDUCTION_UNITS // blocks, elements // MIN_PART_ELEMENTS) if elements > most else 1


# Fusion

#: Operations above which recomputing an element for another consumer costs more than storing and loading it.
CHEAP_FLOPS = 6.0
#: A value that reads the same element at least this often, as a broadcast does, counts as two readers.
BROADCAST_READERS = 8
#: Most values in an inlined expression, and most members of a group: they bound the size of kernels.
MAX_INLINED, MAX_MEMBERS = 32, 96
#: Bytes of a tensor that is worth loading once instead of twice.
MIN_SHARED_BYTES = 16 << 10
#: Most statements of a horizontally fused kernel (code size), and most large tensors (`HARDWARE_STREAMS`, with several
#: streams for each).
MAX_FUSED_STATEMENTS, MAX_FUSED_TENSORS = 64, 6
#: Fraction of the vector registers that the accumulators of horizontally fused kernels may fill.
ACCUMULATOR_SHARE = 1 / 2
#: Statements of a kernel from which producer-consumer fusion adds nothing to it (code size).
MAX_PRODUCER_STATEMENTS = 400
#: Number of kernels that one may move past to be fused with its producer.
MAX_PASSED_KERNELS = 2
#: Bytes of a short row: 4 KiB of an image added and then padded took 284 microseconds fused and 227 apart (Zen 5).
MAX_ROW_BYTES = 2 << 10
#: Most bytes that a unit passes on to a fused consumer: sums and extremes of its row.
MAX_LINK_BYTES = 64
#: How many times the size of a value its padded form may have to be kept instead.
MAX_PADDED_GROWTH = 2
#: Most elements of a permutation in a graph, which compares all pairs: 4 billion comparisons, less than a second.
MAX_PERMUTED = 2**16


def unit_part_bytes(target: Target) -> int:
    """Bytes of a unit's part of a tensor that is computed in the unit (`compute_at`): it stays in the L2 cache."""
    return l2_bytes(target) * 3 // 8


# Scheduling of kernels

#: Most instructions of a coalesced kernel (compile time), and most bytes that its members access (live memory).
MAX_COALESCED_INSTRUCTIONS, MAX_COALESCED_BYTES = 1500, 64 << 10
#: Most instructions of a kernel that is duplicated into coalesced kernels although others share its code.
MAX_DUPLICATED_INSTRUCTIONS = 16
#: Fewest rows of a block for which unroll-and-jam pays off.
MIN_JAMMED_ROWS = 4
#: Units per unit of `units` that unroll-and-jam must leave.
JAMMED_UNITS = 2
#: Bytes from which a buffer of the arena is padded at its end, and the padding in cache lines. Without it, large
#: buffers, which are multiples of 4 KiB, would all start in the same set of the first-level cache.
STAGGERED_BYTES, STAGGER_LINES = 64 << 10, 5


def jammed_bytes(target: Target) -> int:
    """Bytes of all rows of a block of unroll-and-jam: they stay in the first-level cache from step to step."""
    return l1_bytes(target) * 5 // 8


#: The greatest whole number by which images are enlarged by sums of neighbours rather than by a matrix: each residue is
#: a value of its own in the graph.
MOST_TIMES_ENLARGED = 4
#: The most elements of a window whose gradient is computed in phases: 7x7, beyond what networks overlap. One of 13x13
#: would be a graph of a thousand values.
MOST_TAPS_IN_PHASES = 49
