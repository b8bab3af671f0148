"""Which buffers are far away when a kernel starts: since their last use, others have filled the second-level cache.

The reuse distance of a buffer is the number of bytes that a step accesses from one use of it to the next, its own
included (Mattson et al., "Evaluation techniques for storage hierarchies", 1970). A cache that replaces what was used
least recently keeps the buffer if it is larger. Steps follow each other, so the distance of what the first kernels read
reaches back into the step before: parameters and the optimizer's state are far away if the whole step accesses more
than the cache holds, however small they are themselves. Of what a kernel accesses, the smaller buffers are taken to be
used last, because loops come back to them more often.
"""

from collections.abc import Mapping, Sequence

from adjoint import costs
from adjoint.ir import Value
from adjoint.kernel.ir import Buffer
from adjoint.kernel.target import Target
from adjoint.lower.fusion.groups import Group

__all__ = ["far_buffers"]


def far_buffers(
    groups: Sequence[Group], buffers: Mapping[Value, Buffer], target: Target
) -> dict[Group, frozenset[Buffer]]:
    """For each group the buffers that it accesses and whose reuse distance exceeds the second-level cache.

    Parameters
    ----------
    groups : sequence of Group
        The groups of a function.
    buffers : mapping
        The buffer of every value in memory.
    target : Target
        The CPU.
    """
    order = sorted(groups, key=lambda g: g.level)
    accessed = {group: _accessed(group, buffers) for group in order}
    size = costs.l2_bytes(target)
    # From the least to the most recently used, as a step leaves them.
    recent: dict[Buffer, None] = {}
    for group in order:
        _use(recent, accessed[group])
    far = {}
    for group in order:
        far[group] = frozenset(accessed[group]) - _near(recent, size)
        _use(recent, accessed[group])
    return far


def _accessed(group: Group, buffers: Mapping[Value, Buffer]) -> list[Buffer]:
    """What the kernels of a group read and write, the largest first.

    Values that are not in memory are computed from what is.
    """
    found = {buffers[v]: None for v in group.outputs}
    stack = [operand for v in group.members for operand in v.inputs]
    seen = set(group.own)
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        if value in buffers:
            found[buffers[value]] = None
        else:
            stack += value.inputs
    return sorted(found, key=lambda b: -b.nbytes)


def _use(recent: dict[Buffer, None], buffers: Sequence[Buffer]) -> None:
    for buffer in buffers:
        recent.pop(buffer, None)
        recent[buffer] = None


def _near(recent: dict[Buffer, None], size: int) -> frozenset[Buffer]:
    """The most recently used buffers, of so many bytes together."""
    near = []
    for buffer in reversed(recent):
        size -= buffer.nbytes
        if size < 0:
            break
        near.append(buffer)
    return frozenset(near)
