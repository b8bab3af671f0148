"""Grouping: which values are computed in which kernel, and which of them are stored.

Values are visited in topological order. A reduction or contraction starts a group (a future kernel). An elementwise
value joins the group that produced its newest operand, as part of its epilogue, where both are aligned element by
element. A value that cannot join stays *lazy*: its consumers inline it. It gets a kernel of its own only where inlining
would cost more: several consumers of something expensive, an operand of a contraction, a result of the function.

Groups have levels, one above the groups that they read. A value joins the highest group that it depends on, and only if
that one is alone at its level: so no cycle can arise, and no reachability query is needed.

Before::

    func @main(%x: f32[8,16], %w: f32[16,16], %b: f32[16]) -> f32[8] {
      %p: f32[8,16] = matmul(%x, %w) {transpose_a = False, transpose_b = False}
      %bias: f32[8,16] = broadcast_to(%b) {shape = (8, 16)}
      %a: f32[8,16] = add(%p, %bias)
      %y: f32[8,16] = relu(%a)
      %s: f32[8] = sum(%y) {axes = (1,), keepdims = False}
      return %s
    }

After::

    group at level 1: matmul %p, shape [8, 16]
      computes %p, %a, %y
      stores %y
    group at level 2: sum %s, shape [8]
      computes %s
      stores %s
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import field
from functools import cached_property

from adjoint import costs
from adjoint.ir import Function, Value, is_param
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.access import AccessPattern, access_pattern, access_patterns
from adjoint.ops.base import Operator
from adjoint.ops.control import is_control

__all__ = ["Fusion", "Group", "flat_source", "fuse", "print_groups"]

#: Kinds of access patterns that combine many elements, and start a group.
_ROOTS = frozenset(("reduce", "scatter", "prefix_scan", "attention", "rows", "control"))

#: Those of them whose operands are stored, because their elements are read many times.
_STORING = frozenset(("attention", "rows"))

#: Those of them that no elementwise value joins: they have no point at which an element is finished.
_CLOSED = frozenset(("scatter", "rows", "control"))


@dataclass(eq=False)
class Group:
    """A future kernel.

    Attributes
    ----------
    root : Value or None
        The reduction, contraction, scatter, prefix scan, attention or row algorithm that it computes, if any.
    shape : tuple of int
        Its iteration space: the root's shape, or that of its first value.
    level : int
        Greater than the level of every group that it reads.
    members : list of Value
        What it computes, root first, in topological order.
    outputs : list of Value
        The members that are stored.
    companions : list of Group
        Groups of the same level that are computed in the same kernel: attention operators over the same rows and steps.
    leader : Group or None
        The group of which this one is a companion.
    """

    root: Value | None
    shape: tuple[int, ...]
    level: int
    epilogue: bool = True
    members: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    merged_into: "Group | None" = None
    companions: "list[Group]" = field(default_factory=list)
    leader: "Group | None" = None

    @cached_property
    def own(self) -> frozenset[Value]:
        """The members as a set, once grouping is complete."""
        return frozenset(self.members)

    def current(self) -> "Group":
        """The group that this one was merged into, or itself."""
        group = self
        while group.merged_into is not None:
            group = group.merged_into
        return group


@dataclass(frozen=True, slots=True)
class Fusion:
    """The result: groups, the group of each value that has one, and the access patterns of values."""

    groups: list[Group]
    group_of: dict[Value, Group]
    patterns: dict[Value, AccessPattern]


def print_groups(fusion: Fusion, names: Mapping[Value, str]) -> str:
    """The text of groups, in the order in which their kernels are built: level, root, members and what is stored."""
    lines = []
    for group in sorted(fusion.groups, key=lambda g: g.level):
        root = f"{group.root.op.name} {names[group.root]}" if group.root is not None else "elementwise"
        lines.append(f"group at level {group.level}: {root}, shape {list(group.shape)}")
        lines.append(f"  computes {', '.join(names[v] for v in group.members)}")
        lines.append(f"  stores {', '.join(names[v] for v in group.outputs) or 'nothing'}")
    return "\n".join(lines)


#: For a value that is not in memory: the groups that it reads, and whether only at its own position.
_Producers = dict[Group, bool]


class _Fuser:
    def __init__(self, function: Function) -> None:
        self.order = function.values()
        self.patterns = access_patterns(self.order)
        self.results = set(function.results)
        self.users: dict[Value, list[Value]] = {v: [] for v in self.order}
        for value in self.order:
            for operand in dict.fromkeys(value.inputs):
                self.users[operand].append(value)
        #: Computed positions that are read from memory.
        self.computed_positions: set[Value] = set()
        #: Of the stored values, those that are stored only because their readers would compute them again.
        self.costly: set[Value] = set()
        self.stored = self._must_store()
        self.group_of: dict[Value, Group] = {}
        self.producers: dict[Value, _Producers] = {}
        self.lazy_size: dict[Value, int] = {}
        self.groups: list[Group] = []
        #: Groups that others read, whose levels are settled.
        self.consumed: set[Group] = set()
        #: The newest attention group over some rows and steps.
        self.attentions: dict[Hashable, Group] = {}

    def _must_store(self) -> set[Value]:
        """Values that have to be stored, whichever kernel computes them, and those that are worth it."""
        stored = {v for v in self.order if v in self.results}
        costly: set[Value] = set()
        cost: dict[Value, float] = {}
        for value in self.order:
            pattern = self.patterns[value]
            if pattern.kind == "control":
                # Loops and branches read their operands from memory, whole and in their order.
                needed = {flat_source(v, stored, self.patterns) for v in value.inputs}
                stored |= needed
                costly -= needed
            if pattern.kind in ("control", "item"):
                cost[value] = 0.0
                continue
            needed = set()
            if pattern.kind == "param" or pattern.kind in _ROOTS:
                cost[value] = 0.0
            else:
                cost[value] = pattern.flops + sum(0.0 if v in stored else cost[v] for v in value.inputs)
            if pattern.product or pattern.kind in _STORING:
                needed.update(map(self._affine_base, value.inputs))
            if pattern.kind == "scatter":
                needed.update(self._base(v) for v in value.inputs if cost[v] > costs.CHEAP_FLOPS)
            for operand in self._positions(value):
                if cost[operand] > costs.CHEAP_FLOPS:
                    needed.add(self._base(operand))
                    self.computed_positions.add(operand)
            stored |= needed
            costly -= needed  # there is another reason to store them
            worth = 0.0 if value.type.size == 1 else costs.CHEAP_FLOPS  # a scalar is computed once for all elements
            if pattern.kind != "view" and cost[value] > worth and self._readers(value) > 1:
                costly.update({value} - stored)
                stored.add(value)
        self.costly = costly
        return {v for v in stored if self.patterns[v].kind != "param"}

    def _positions(self, value: Value) -> list[Value]:
        """The operands that hold indices: an expression for one would be part of every address that it leads to."""
        if not isinstance(value.op, Operator):
            return []
        sizes = value.op.index_sizes(*(operand.type for operand in value.inputs))
        return [operand for operand, size in zip(value.inputs, sizes, strict=True) if size is not None]

    def _base(self, value: Value) -> Value:
        """The value that a chain of views refers to."""
        while self.patterns[value].kind == "view":
            value = value.inputs[0]
        return value

    def _affine_base(self, value: Value) -> Value:
        """The value that a chain of views without lookups refers to, so that its elements are at affine positions."""
        while self.patterns[value].kind == "view" and not self._positions(value):
            value = value.inputs[0]
        return value

    def _readers(self, value: Value) -> int:
        """Roughly how often an element is read: consumers, and those that read it for many of their elements."""
        return sum(2 if self._repeats(user, value) >= costs.BROADCAST_READERS else 1 for user in self.users[value])

    def _repeats(self, user: Value, value: Value) -> int:
        """Roughly how many elements of a user without a reduction read the same element of a value."""
        pattern = self.patterns[user]
        if pattern.kind == "view":
            return int(user.type.size) // max(int(value.type.size), 1)
        if pattern.kind != "pointwise":
            return 1
        return min(n for n, operand in zip(pattern.repeats, user.inputs, strict=True) if operand is value)

    def run(self) -> Fusion:
        for value in self.order:
            pattern = self.patterns[value]
            if pattern.kind == "param":
                self.producers[value] = {}
                self.lazy_size[value] = 0
                continue
            producers = self._producers_of(value, pattern)
            if pattern.kind in _ROOTS:
                self._start(value, producers, value, epilogue=pattern.kind not in _CLOSED)
            elif pattern.kind == "item":
                self._add(self.group_of[value.inputs[0]], value)
            elif not self._join(value, producers):
                size = 1 + sum(self.lazy_size[v] for v in dict.fromkeys(value.inputs))
                if (value in self.stored and not self._cheap_after_all(value)) or size > costs.MAX_INLINED:
                    self._start(value, producers, None)
                else:
                    self.producers[value] = producers
                    self.lazy_size[value] = size
        self._find_outputs()
        return Fusion([g for g in self.groups if g.merged_into is None], self.group_of, self.patterns)

    def _cheap_after_all(self, value: Value) -> bool:
        """Whether a costly value is cheap, now that its operands are in memory: few operations on one large tensor."""
        if value not in self.costly:
            return False
        lazy, read, todo = {value}, set(), [value]
        while todo:
            for operand in todo.pop().inputs:
                if operand in self.group_of or self.patterns[operand].kind == "param":
                    read.add(operand)
                elif operand not in lazy:
                    lazy.add(operand)
                    todo.append(operand)
        flops = sum(self.patterns[v].flops for v in lazy)
        return flops <= costs.CHEAP_FLOPS and sum(v.type.size >= value.type.size for v in read) <= 1

    def _producers_of(self, value: Value, pattern: AccessPattern) -> _Producers:
        producers: _Producers = {}
        positions = [v for v in self._positions(value) if v in self.computed_positions]
        for operand, flat in zip(value.inputs, pattern.flat, strict=True):
            apart = operand in positions  # in another kernel, which stores them
            for group, aligned in self.producers[operand].items():
                now = group.current()
                producers[now] = producers.get(now, True) and aligned and flat and not apart
        return producers

    def _start(self, value: Value, producers: _Producers, root: Value | None, epilogue: bool = True) -> None:
        level = 1 + max((g.level for g in producers), default=0)
        group = Group(root, () if is_control(value) else value.shape, level, epilogue)
        self.groups.append(group)
        self.consumed.update(producers)
        self._add(group, value)
        self._share_kernel(group, producers, self.patterns[value])

    def _share_kernel(self, group: Group, producers: _Producers, pattern: AccessPattern) -> None:
        """Let an attention operator share the kernel of another one over the same rows and steps, if levels permit.

        Rows and steps may be exchanged if both add up weights.
        """
        keys = [key for key in (pattern.attention_key, pattern.exchanged_key) if key]
        known = dict.fromkeys(self.attentions[key] for key in keys if key in self.attentions)
        leader = next((g for g in known if self._may_share_kernel(g, group, producers)), None)
        self.attentions |= dict.fromkeys(keys, group if leader is None else leader)
        if leader is None:
            return
        leader.companions.append(group)
        group.leader = leader
        level = max(leader.level, group.level)
        for member in (leader, *leader.companions):
            member.level = level

    def _may_share_kernel(self, leader: Group, group: Group, producers: _Producers) -> bool:
        """Whether a group may run in the kernel of `leader` and its companions: they may start as late as it does."""
        together = [leader, *leader.companions]
        settled = group.level > leader.level and any(g in self.consumed for g in together)
        return not settled and not any(g in producers for g in together)

    def _add(self, group: Group, value: Value) -> None:
        group.members.append(value)
        self.group_of[value] = group
        self.producers[value] = {group: True}
        self.lazy_size[value] = 0

    def _join(self, value: Value, producers: _Producers) -> bool:
        """Append an elementwise value to the group of its newest operand, if both are aligned."""
        if not producers or (self.patterns[value].kind == "view" and value not in self.stored):
            return False
        top = max(g.level for g in producers)
        newest = [g for g in producers if g.level == top]
        size = value.type.size
        for group in newest:
            fits = producers[group] and group.epilogue and _size(group.shape) == size
            if not fits or len(group.members) >= costs.MAX_MEMBERS:
                return False
        rooted = [g for g in newest if g.root is not None]
        if len(rooted) > 1:
            return False
        into = rooted[0] if rooted else newest[0]
        for group in newest:
            if group is not into:
                self._merge(group, into)
        self.consumed.update(g for g in producers if g.current() is not into)
        self._add(into, value)
        return True

    def _merge(self, group: Group, into: Group) -> None:
        """Merge two independent groups of the same level and size."""
        into.members.extend(group.members)
        for member in group.members:
            self.group_of[member] = into
            self.producers[member] = {into: True}
        group.merged_into = into

    def _find_outputs(self) -> None:
        """Store a member where anything outside its group reads it."""
        places: dict[Value, set[Group]] = {}
        for value in reversed(self.order):
            group = self.group_of.get(value)
            outside: set[Group] = set()
            for user in self.users[value]:
                outside |= places[user]
            if group is None:
                places[value] = outside
                continue
            places[value] = {group}
            if value in self.results or outside - {group}:
                group.outputs.append(value)
        for group in self.groups:
            group.outputs.reverse()
            kept: list[Value] = []
            for value in group.outputs:
                if value in self.stored or not self._cheap_to_recompute(value, group, kept):
                    kept.append(value)
            group.outputs[:] = kept

    def _cheap_to_recompute(self, value: Value, group: Group, kept: Sequence[Value]) -> bool:
        """Whether readers had better compute a member than load it: from stored members and at most one other tensor.

        The kernel of its own group then need not load that tensor.
        """
        flops, others, seen, todo = 0.0, set[Value](), set[Value](), [value]
        from_members = False
        while todo:
            computed = todo.pop()
            if computed in seen:
                continue
            seen.add(computed)
            flops += self.patterns[computed].flops
            if self.patterns[computed].kind not in ("pointwise", "view") or flops > costs.CHEAP_FLOPS:
                return False
            for operand in computed.inputs:
                place = self.group_of.get(operand)
                if operand in kept:
                    from_members = True
                elif place is group or (place is None and not is_param(operand)):
                    todo.append(operand)
                elif operand.type.size >= value.type.size:
                    others.add(operand)
        return from_members and len(others) <= 1


def flat_source(
    value: Value, stored: Collection[Value], patterns: Mapping[Value, AccessPattern] | None = None
) -> Value:
    """The value in memory that has the elements of a value in the same order: behind reshapes, or the value itself.

    A conversion that fusion treats like a view, such as of f16 to f32, changes what is in memory.
    """
    source = value
    while source not in stored and not is_param(source) and not is_control(source):
        pattern = patterns[source] if patterns is not None else access_pattern(source)
        if pattern.kind != "view" or not pattern.flat[0]:
            break
        before = source.inputs[0]
        if before.type.size != source.type.size or before.dtype != source.dtype:
            break
        source = before
    return source


def _size(shape: Sequence[int]) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size


def fuse(function: Function) -> Fusion:
    """Group the values of a function into kernels.

    Parameters
    ----------
    function : Function
        A graph without calls, whose results are distinct values and not parameters.

    Returns
    -------
    Fusion
        Groups in topological order of their first values.
    """
    return _Fuser(function).run()
