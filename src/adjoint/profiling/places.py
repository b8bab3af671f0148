"""Where a program keeps what: buffers of the arena with their lifetimes, and who reads what who wrote."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from adjoint.kernel.ir import Buffer, Kernel
from adjoint.kernel.program import Program

__all__ = ["Block", "Edge", "blocks_of", "edges_of", "live_bytes"]


@dataclass(frozen=True, slots=True)
class Block:
    """A buffer in the arena.

    Parameters
    ----------
    name : str
        Of the graph value in it.
    offset, nbytes : int
        Its place.
    first, last : int
        Positions of the first and the last kernel that use it.
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
    """A kernel reads what another one wrote.

    Parameters
    ----------
    source, target : int
        Positions of the kernels.
    buffers : tuple of str
        Names of what goes over.
    nbytes : int
        Bytes of that.
    """

    source: int
    target: int
    buffers: tuple[str, ...]
    nbytes: int

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self) | {"buffers": list(self.buffers)}


def blocks_of(program: Program) -> tuple[Block, ...]:
    """The arena's buffers, in the order of their first use."""
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
    """Bytes of the arena in use while each kernel runs."""
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
    """Who reads what who wrote within one step, in the order of the readers."""
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
