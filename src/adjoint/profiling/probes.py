"""Kernels that measure the limits of the machine: multiply-adds, a product's innermost loop, streams through memory."""

import ctypes
import threading
import time
from collections.abc import Sequence

import numpy as np

from adjoint.codegen.module import emit_modules
from adjoint.codegen.native import compile_native
from adjoint.kernel.index import Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Expr, For, Kernel, Load, Stmt, Store
from adjoint.kernel.program import Program, entry_symbol
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.runtime.bound import aligned
from adjoint.runtime.library import Library

__all__ = ["Probe", "best_nanoseconds", "multiply_adds", "reads", "tile", "triad"]

_F32 = np.dtype(np.float32)

#: Number of multiply-adds per chain and call: well above a call's overhead, well below a scheduler's time slice.
_ROUNDS = 10_000

#: Minimum number of bytes that a stream probe moves per call, repeating if the arrays are smaller.
_STREAMED = 8 << 20

#: Vectors per iteration of the triad's loop.
_UNROLLED = 4

#: Vectors in a row of the tile, the usual width of a product's.
_TILE_VECTORS = 2

#: Sums of the reading probe: enough to hide an addition's latency of four cycles with two loads per cycle.
_SUMS = 8


@dataclass(frozen=True, slots=True)
class Probe:
    """Native code that performs a known amount of work on its own arrays.

    Parameters
    ----------
    amount : float
        Work per call: floating-point operations, or bytes moved.
    sizes : tuple of int
        Number of elements (f32) of each array.
    library : Library
        Contains the function ``probe``.
    """

    amount: float
    sizes: tuple[int, ...]
    library: Library

    def best(self, seconds: float, threads: int = 1) -> float:
        """The maximum work per second, with all threads running at once, each on its own arrays.

        Parameters
        ----------
        seconds : float
            Time to measure; there are at least three calls.
        threads : int, default 1
            Number of threads.
        """
        found = [0.0] * threads
        together = threading.Barrier(threads)

        def part(thread: int) -> None:
            arrays = [aligned((size,), _F32) for size in self.sizes]
            for array in arrays:
                array.fill(0.5)
            together.wait()
            found[thread] = self.amount / best_nanoseconds(self.library, arrays, seconds) * 1e9

        others = [threading.Thread(target=part, args=(t,)) for t in range(1, threads)]
        for other in others:
            other.start()
        part(0)
        for other in others:
            other.join()
        return sum(found)


def best_nanoseconds(library: Library, arrays: Sequence[np.ndarray], seconds: float) -> int:
    """The shortest call within the given time, but of at least three calls."""
    slots = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    call = ctypes.CFUNCTYPE(
        ctypes.c_int, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2, ctypes.c_void_p, use_errno=False
    )(library[entry_symbol("probe")])
    address = ctypes.addressof(slots)
    best, calls = 1 << 62, 0
    until = time.perf_counter_ns() + round(seconds * 1e9)
    while calls < 3 or time.perf_counter_ns() < until:
        start = time.perf_counter_ns()
        call(address, None, 0, 1, None)
        best = min(best, time.perf_counter_ns() - start)
        calls += 1
    return max(best, 1)


def multiply_adds(target: Target) -> Probe:
    """A probe of multiply-adds in registers, with enough independent chains to hide their latency."""
    lanes = target.lanes(_F32)
    chains = min(24, target.vector_registers - 4)
    given, made = (Buffer(name, _F32, size, "external") for name, size in (("given", lanes), ("made", chains * lanes)))
    sums, factor = (Buffer(name, _F32, size, "register") for name, size in (("sums", chains * lanes), ("x", lanes)))
    chain, lane = Var("c", chains), Var("l", lanes)
    at, x = as_index(chain) * lanes + as_index(lane), Load(factor, as_index(lane))
    again = Store(((sums, at, Apply("fma", (Load(sums, at), x, x), _F32)),))
    rounds = For(Var("n", _ROUNDS), (For(chain, (For(lane, (again,), "vector"),), "unroll"),))
    body = (
        _vector_by_vector(factor, given, lanes, spread=True),
        _vector_by_vector(sums, given, lanes, spread=True),
        rounds,
        _vector_by_vector(made, sums, lanes, spread=False),
    )
    return _probe((given, made), body, 2.0 * _ROUNDS * chains * lanes, target)


def tile(total: int, target: Target) -> Probe:
    """A probe of a product's innermost loop: a tile of sums in registers, and operands of `total` bytes.

    Each step loads two vectors and one element for each row of the tile, which fills the registers that a tile may use.
    """
    lanes = target.lanes(_F32)
    width = _TILE_VECTORS * lanes
    height = max(1, (target.tile_registers - _TILE_VECTORS) // _TILE_VECTORS)
    depth = max(1, total // (_F32.itemsize * (height + width)))
    left, right, made = (
        Buffer(name, _F32, size, "external")
        for name, size in (("left", depth * height), ("right", depth * width), ("made", height * width))
    )
    sums = Buffer("sums", _F32, height * width, "register")
    again, step = Var("r", max(1, _ROUNDS // depth)), Var("k", depth)
    row, part, lane = Var("i", height), Var("j", _TILE_VECTORS), Var("l", lanes)
    column = as_index(part) * lanes + as_index(lane)
    at = as_index(row) * width + column
    factors = Load(left, as_index(step) * height + as_index(row)), Load(right, as_index(step) * width + column)
    add = Store(((sums, at, Apply("fma", (*factors, Load(sums, at)), _F32)),))
    inner = For(row, (For(part, (For(lane, (add,), "vector"),), "unroll"),), "unroll")
    body = (
        _vector_by_vector(sums, right, lanes, spread=True),
        For(again, (For(step, (inner,)),)),
        _vector_by_vector(made, sums, lanes, spread=False),
    )
    return _probe((left, right, made), body, 2.0 * again.extent * depth * height * width, target)


def reads(total: int, target: Target) -> Probe:
    """A probe that only reads: it adds up an array of `total` bytes, in several sums."""
    lanes = target.lanes(_F32)
    turn = _SUMS * lanes
    turns = max(1, total // (_F32.itemsize * turn))
    given, made = (Buffer(name, _F32, size, "external") for name, size in (("given", turns * turn), ("made", turn)))
    sums = Buffer("sums", _F32, turn, "register")
    again, step = Var("r", max(1, _STREAMED // given.nbytes)), Var("v", turns)
    part, lane = Var("p", _SUMS), Var("l", lanes)
    at = as_index(part) * lanes + as_index(lane)
    value: Expr = Apply("add", (Load(sums, at), Load(given, as_index(step) * turn + at)), _F32)
    inner = For(part, (For(lane, (Store(((sums, at, value),)),), "vector"),), "unroll")
    body = (
        _vector_by_vector(sums, given, lanes, spread=True),
        For(again, (For(step, (inner,)),)),
        _vector_by_vector(made, sums, lanes, spread=False),
    )
    return _probe((given, made), body, float(given.nbytes * again.extent), target)


def triad(total: int, target: Target) -> Probe:
    """A probe that streams through three arrays, ``a = b + s * c``, with `total` bytes.

    As in STREAM, the bytes of ``a`` count once, although a cache may read them before they are written.
    """
    lanes = target.lanes(_F32)
    turn = _UNROLLED * lanes
    turns = max(1, total // (3 * _F32.itemsize * turn))
    size = turns * turn
    a, b, c = (Buffer(name, _F32, size, "external") for name in "abc")
    again, step, part, lane = Var("r", max(1, _STREAMED // (12 * size))), Var("v", turns), Var("p", 4), Var("l", lanes)
    at = as_index(step) * turn + as_index(part) * lanes + as_index(lane)
    value: Expr = Apply("fma", (Load(b, as_index(0)), Load(c, at), Load(b, at)), _F32)
    inner = For(part, (For(lane, (Store(((a, at, value),)),), "vector"),), "unroll")
    return _probe((a, b, c), (For(again, (For(step, (inner,)),)),), 12.0 * size * again.extent, target)


def _vector_by_vector(to: Buffer, source: Buffer, lanes: int, spread: bool) -> Stmt:
    """Copy a buffer, or with `spread` the first vector of one to every vector of another."""
    chain, lane = Var("c", to.size // lanes), Var("l", lanes)
    at = as_index(chain) * lanes + as_index(lane)
    value = Load(source, as_index(lane) if spread else at)
    return For(chain, (For(lane, (Store(((to, at, value),)),), "vector"),), "unroll")


def _probe(buffers: tuple[Buffer, ...], body: tuple[Stmt, ...], amount: float, target: Target) -> Probe:
    kernel = Kernel("work", Var("u", 1), body, parallel=False)
    program = Program("probe", (), (), buffers, (kernel,), frozenset(), {}, 0, 0, {})
    library = Library(compile_native(emit_modules(program, target), target), (entry_symbol("probe"),))
    return Probe(amount, tuple(buffer.size for buffer in buffers), library)
