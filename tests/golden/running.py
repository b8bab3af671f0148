"""Kernels of golden texts, executed by the interpreter: what they leave in external buffers, by name."""

import numpy as np

from adjoint.kernel.interpreter import run_kernel

#: Values that rewritings of arithmetic get wrong.
SPECIAL = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 3.0])


def drawn(name, size, dtype, trial):
    """Contents of a parameter, the same for programs before and after a pass: in the last trials, special ones."""
    if name == "rows":  # all that kernels for fewer rows are written for
        return np.full(size, 8, dtype)
    rng = np.random.default_rng([trial, *name.encode()])
    if name == "ids":  # indices, of which some are out of range
        return rng.integers(-2, 12, size).astype(dtype)
    return (rng.normal(size=size) if trial < 2 else rng.choice(SPECIAL, size)).astype(dtype)


def buffers_of(kernels, space):
    """The buffers in a space that kernels read and write."""
    return list(dict.fromkeys(b for k in kernels for b in (*k.reads, *k.writes) if b.space == space))


def parameters(kernels, trial):
    """What external buffers contain before the kernels run."""
    return {b: drawn(b.name, b.size, b.dtype, trial) for b in buffers_of(kernels, "external")}


def in_order(kernels, external, arena=None):
    """Run kernels one after the other; external buffers afterwards, by name.

    ``arena`` has the arrays of arena buffers; by default, each has one of its own. It is full of NaNs at first, and so
    is scratch memory before every kernel.
    """
    arena = {b: _unset(b) for b in buffers_of(kernels, "arena")} if arena is None else arena
    memory = {**{b: a.copy() for b, a in external.items()}, **arena}
    for kernel in kernels:
        used = {b: memory[b] for b in (*kernel.reads, *kernel.writes)}
        run_kernel(kernel, used | {b: _unset(b) for b in kernel.scratch})
    return _by_name(memory, external)


def by_dependences(kernels, external, updated):
    """Run kernels in any order that has what they read computed before; external buffers afterwards, by name.

    Reads of parameters that are updated in place see the old contents, whether the update has run or not.
    """
    memory = {**{b: a.copy() for b, a in external.items()}, **{b: _unset(b) for b in buffers_of(kernels, "arena")}}
    written, left = set(), list(kernels)
    makes = {b for k in kernels for b in k.writes} - updated
    while left:
        kernel = next(k for k in left if all(b in written for b in k.reads if b in makes and b not in k.writes))
        left.remove(kernel)
        used = {b: external[b].copy() if b in updated else memory[b] for b in (*kernel.reads, *kernel.writes)}
        run_kernel(kernel, used | {b: _unset(b) for b in kernel.scratch})
        memory.update({b: used[b] for b in kernel.writes})
        written.update(kernel.writes)
    return _by_name(memory, external)


def arena_of(program):
    """One block of memory full of NaNs, and the arrays of the arena buffers in it."""
    block = np.full(program.arena_bytes, 255, np.uint8)
    return {b: block[at : at + b.nbytes].view(b.dtype) for b, at in program.offsets.items()}


def _unset(buffer):
    return np.full(buffer.size * buffer.dtype.itemsize, 255, np.uint8).view(buffer.dtype)


def _by_name(memory, external):
    # The number of rows, which a pass may let kernels read, is never written.
    return {b.name: memory[b] for b in external if b.name != "rows"}
