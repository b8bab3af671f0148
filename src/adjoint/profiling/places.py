"""Data flow of a program: the arena's buffers with their lifetimes, and the dependences between kernels."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from adjoint.kernel.ir import Buffer, Kernel
from adjoint.kernel.program import Program
from adjoint.lazy_dataclass import dataclass

__all__ = ["Block", "Edge", "blocks_of", "edges_of", "live_bytes"]


@dataclass(frozen=True, slots=True)
class Block:
    """A buffer in the arena.

    Parameters
    ----------
    name : str
        Name of the graph value in it.
    offset, nbytes : int
        Its location, in bytes.
    first, last : int
        Indices of the first and last kernel that use it.
    """

    name: str
    offset: int
    nbytes: int
    first: int
    last: int

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Edge:
    """A dependence: a kernel reads what another one wrote.

    Parameters
    ----------
    source, target : int
        Indices of the kernels.
    buffers : tuple of str
        Names of the buffers.
    nbytes : int
        Their size in bytes.
    """

    source: int
    target: int
    buffers: tuple[str, ...]
    nbytes: int

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self) | {"buffers": list(self.buffers)}


def blocks_of(program: Program) -> tuple[Block, ...]:
    """The arena's buffers, in order of first use."""
    lives: dict[Buffer, tuple[int, int]] = {}
    for position, kernel in enumerate(program.kernels):
        for buffer in (*kernel.writes, *kernel.reads):
            if buffer in program.offsets:
                first, _ = lives.get(buffer, (position, position))
                lives[buffer] = (first, position)
    return tuple(
        Block(buffer.name.removeprefix("%"), program.offsets[buffer], buffer.nbytes, first, last)
        for buffer, (first, last) in lives.items()
    )


def live_bytes(blocks: Sequence[Block], kernels: int) -> list[int]:
    """Number of arena bytes in use while each kernel runs."""
    change = [0] * (kernels + 1)
    for block in blocks:
        change[block.first] += block.nbytes
        change[block.last + 1] -= block.nbytes
    live, total = [], 0
    for step in change[:kernels]:
        total += step
        live.append(total)
    return live


def edges_of(kernels: Sequence[Kernel]) -> tuple[Edge, ...]:
    """The dependences between the kernels of a step, in the order of the readers."""
    writer: dict[Buffer, int] = {}
    found: list[Edge] = []
    for position, kernel in enumerate(kernels):
        sources: dict[int, list[Buffer]] = {}
        for buffer in kernel.reads:
            if buffer in writer:
                sources.setdefault(writer[buffer], []).append(buffer)
        for source, buffers in sorted(sources.items()):
            names = tuple(buffer.name.removeprefix("%") for buffer in buffers)
            found.append(Edge(source, position, names, sum(buffer.nbytes for buffer in buffers)))
        writer.update(dict.fromkeys(kernel.writes, position))
    return tuple(found)
