"""Bundles: groups whose kernels are built together, and which of them repeat, as the layers of a network do.

A bundle is a contraction with the sums that may start in its kernels, an attention operator with its companions, or a
single group. Its kernels depend on the graph from what it stores back to what is in memory, on the layouts of these
buffers, and on the names of its values. So those of equal bundles, whose descriptions say all of this but the names,
differ in buffers and names only: the kernels of one are built, and those of the others are renamed copies.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from adjoint.ir import Value
from adjoint.kernel.ir import Buffer
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.context import Context
from adjoint.lower.fusion.groups import Fusion, Group
from adjoint.lower.reductions.two_stage import FusableReduction
from adjoint.ops.control import is_control
from adjoint.ops.slicing import Pad

__all__ = ["Bundle", "Description", "bundles_of", "describe"]


@dataclass(frozen=True, slots=True)
class Bundle:
    """Groups whose kernels are built together.

    Parameters
    ----------
    first : Group
        The contraction, the attention operator, or the only group.
    companions : tuple of Group
        Attention operators in the kernel of the first.
    reductions : tuple of FusableReduction
        Sums that may start in the kernels of the first.
    """

    first: Group
    companions: tuple[Group, ...] = ()
    reductions: tuple[FusableReduction, ...] = ()

    @property
    def groups(self) -> tuple[Group, ...]:
        """Those that have kernels of their own: all but the companions."""
        return (self.first, *(reduction.group for reduction in self.reductions))

    @property
    def stored(self) -> tuple[Group, ...]:
        """The first group and its companions, as far as something reads them."""
        return tuple(group for group in (self.first, *self.companions) if group.outputs)

    @property
    def repeats(self) -> bool:
        """Whether another bundle may be equal to it: loops and branches hold functions of their own."""
        return self.first.root is None or not is_control(self.first.root)


def bundles_of(fusion: Fusion, fusable: Mapping[Group, Sequence[FusableReduction]]) -> Iterator[Bundle]:
    """The bundles of all groups, given the sums that may start in the kernels of a group."""
    later = {reduction.group for found in fusable.values() for reduction in found}
    for group in fusion.groups:
        if group not in later and group.leader is None:
            yield Bundle(group, tuple(group.companions), tuple(fusable.get(group, ())))


@dataclass(frozen=True, slots=True)
class Description:
    """What the kernels of a bundle depend on.

    Parameters
    ----------
    key : hashable
        Equal for equal bundles.
    buffers : tuple of Buffer
        What they read and write; equal bundles have corresponding buffers at the same places.
    values : tuple of Value
        The values that they compute and read, likewise.
    groups : tuple of Group
        Its groups with companions, likewise.
    """

    key: Hashable
    buffers: tuple[Buffer, ...]
    values: tuple[Value, ...]
    groups: tuple[Group, ...]

    def names(self, other: "Description", context: Context) -> "Names":
        """The names of another bundle in place of those of this one."""
        values = {context.names[v]: context.names[w] for v, w in zip(self.values, other.values, strict=True)}
        groups = zip(self.groups, other.groups, strict=True)
        return Names(values, {context.name_of(own): context.name_of(like) for own, like in groups})


@dataclass(frozen=True, slots=True)
class Names:
    """Names of another bundle by those of one.

    Parameters
    ----------
    values : mapping
        Printed names of values.
    groups : mapping
        Names of groups, with which those of their kernels and buffers begin.
    """

    values: Mapping[str, str]
    groups: Mapping[str, str]

    def of(self, name: str) -> str:
        """The name in place of a kernel's or a buffer's."""
        found = [old for old in self.groups if name == old or name.startswith(f"{old}_")]
        if not found:
            return name
        old = max(found, key=len)
        return self.groups[old] + name[len(old) :]


def describe(context: Context, bundle: Bundle) -> Description:
    """Describe a bundle."""
    walk = _Walk(context)
    every = (bundle.first, *bundle.companions, *(reduction.group for reduction in bundle.reductions))
    groups = tuple([walk.group(group) for group in every])
    sums = tuple([(reduction.axes, reduction.centred) for reduction in bundle.reductions])
    return Description((groups, sums), tuple(walk.buffers), tuple(walk.values), every)


class _Walk:
    """Numbers the buffers and the values of a bundle as it meets them."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.buffers: dict[Buffer, int] = {}
        self.values: list[Value] = []

    def group(self, group: Group) -> Hashable:
        """What the kernels of a group depend on."""
        numbers: dict[Value, int] = {}
        found: list[Hashable] = []
        for value in (*group.members, *group.outputs):
            for each in _before(value, numbers, lambda v: self._is_read(group, v)):
                read = self._is_read(group, each)
                entry = self._read(group, each) if read else (each.op.key(), *[numbers[v] for v in each.inputs])
                found.append((each.type, entry))
                numbers[each] = len(numbers)
                self.values.append(each)
        members, outputs = ([numbers[v] for v in several] for several in (group.members, group.outputs))
        stored = [self._buffer(group, self.context.buffers[v]) for v in group.outputs]
        root = numbers[group.root] if group.root is not None else None
        return tuple(found), root, group.shape, (*members,), (*outputs,), (*stored,)

    def _is_read(self, group: Group, value: Value) -> bool:
        return value in self.context.buffers and value not in group.own

    def _read(self, group: Group, value: Value) -> Hashable:
        """A value in memory; and where that is padded with zeros, what it is made of."""
        buffer = self.context.buffers[value]
        owner = self.context.owners[buffer]
        padded: Hashable = ()
        if isinstance(owner.op, Pad):
            source = owner.inputs[0]
            inside = self._buffer(group, self.context.buffers[source]) if source in self.context.buffers else None
            padded = owner.op.key(), source.type, inside, self.context.users.get(owner) == 1
        return self._buffer(group, buffer), owner.shape, padded

    def _buffer(self, group: Group, buffer: Buffer) -> Hashable:
        number = self.buffers.setdefault(buffer, len(self.buffers))
        return number, buffer.dtype, buffer.size, buffer.space, self.context.is_far(group, buffer)


def _before(value: Value, known: Mapping[Value, int], ends: Callable[[Value], bool]) -> Iterator[Value]:
    """A value and all that it is computed from and that is not known yet, operands first; those that `end` have none.

    The caller adds each to `known` before the next.
    """
    stack = [value]
    while stack:
        top = stack[-1]
        missing = [] if ends(top) else [v for v in top.inputs if v not in known]
        if missing:
            stack += reversed(missing)
            continue
        stack.pop()
        if top not in known:
            yield top
