"""Strided vectors in memory: the offsets of the lanes, and the contiguous runs among them."""

from collections.abc import Sequence

from adjoint.kernel.index import Index, Quotient, Remainder, Var, uses

__all__ = ["contiguous_run", "lane_offsets", "without_lane"]


def lane_offsets(index: Index, var: Var, width: int) -> list[int]:
    """The offset that each lane adds to an index; empty if it depends on anything else."""

    def value(of: Index, lane: int) -> int | None:
        total = of.constant
        for atom, c in of.terms:
            if atom is var:
                total += c * lane
                continue
            inner = value(atom.of, lane) if isinstance(atom, Quotient | Remainder) else None
            if inner is None:
                return None
            total += c * (inner // atom.by if isinstance(atom, Quotient) else inner % atom.by)  # type: ignore[union-attr]
        return total

    lane_part = Index(0, index.terms - without_lane(index, var).terms)
    found = [value(lane_part, lane) for lane in range(width)]
    return [] if any(v is None for v in found) else [v for v in found if v is not None]


def without_lane(index: Index, var: Var) -> Index:
    """The part of an index that is the same for all lanes."""
    return Index(index.constant, frozenset(t for t in index.terms if not uses(t[0], var)))


def contiguous_run(offsets: Sequence[int]) -> int:
    """The largest power of two such that the offsets consist of contiguous runs of that length."""
    size = len(offsets)
    while size > 1 and any(offsets[i] != offsets[i - i % size] + i % size for i in range(len(offsets))):
        size //= 2
    return size
