"""What all kernel builders share: the context, the store that ends a group, and the cost of a finished kernel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from adjoint.ir import Value
from adjoint.kernel.index import Index, Var, flatten, unflatten
from adjoint.kernel.ir import Buffer, Kernel, Stmt, Store
from adjoint.kernel.target import Target
from adjoint.lower.analysis.access import flops_of
from adjoint.lower.analysis.inlining import Inliner
from adjoint.lower.fusion.groups import Group

__all__ = ["Context", "finish_kernel", "group_inliner", "store_flops", "store_outputs"]

#: Estimated nanoseconds of a kernel above which sharing it among threads outweighs the barrier.
_WORTH_SHARING = 1500.0


@dataclass
class Context:
    """What every kernel builder needs.

    Attributes
    ----------
    target : Target
        The CPU.
    buffers : dict
        The buffer of every value in memory.
    literals : dict
        Literal arrays of the program.
    names : dict
        Printed name of every value.
    schedules : mapping
        Schedules of contractions by signature, where they were measured (`adjoint.lower.contractions.schedules`).
    contractions : dict
        The contractions that kernels were built for, by signature.
    fusable_reductions : mapping
        Sums whose first stage could run in the kernel of a group, by that group (`adjoint.lower.reductions.two_stage`).
    two_stage : dict
        Those whose first stage does, by their own group.
    """

    target: Target
    buffers: dict[Value, Buffer]
    literals: dict[tuple[bytes, np.dtype], Buffer] = field(default_factory=dict)
    names: dict[Value, str] = field(default_factory=dict)
    schedules: Mapping[str, str] = field(default_factory=dict)
    contractions: dict[str, tuple[Group, Any]] = field(default_factory=dict)
    fusable_reductions: Mapping[Group, list[Any]] = field(default_factory=dict)
    two_stage: dict[Group, Any] = field(default_factory=dict)

    def name_of(self, group: Group) -> str:
        """A kernel's name: that of its last value with a label of its own, else its operator and number."""
        for value in reversed(group.outputs):
            if value.label and self.names[value].removeprefix("%") == value.label:
                return value.label
        last = group.outputs[-1]
        name = self.names[last].removeprefix("%")
        return f"{(group.root or last).op.name}_{name}" if name.isdigit() else name


def group_inliner(context: Context, group: Group) -> Inliner:
    """An inliner that computes the group's own values and loads all others."""
    return Inliner(context.buffers, context.literals, group.own)


def store_outputs(context: Context, group: Group, inliner: Inliner, index: Sequence[Index]) -> Store:
    """The store of all outputs of a group at one point of its iteration space."""
    here: Index | None = None
    targets = []
    for value in group.outputs:
        at = tuple(index)
        if value.shape != group.shape:
            here = flatten(index, group.shape) if here is None else here
            at = unflatten(here, value.shape)
        buffer = context.buffers[value]
        expr = inliner.stored(inliner.element(value, at), buffer.dtype)
        targets.append((buffer, flatten(at, value.shape), expr))
    return Store(tuple(targets))


def finish_kernel(
    context: Context, name: str, values: Sequence[Value], unit: Var, body: Sequence[Stmt], flops: float
) -> Kernel:
    """A kernel with its estimated costs."""
    bare = Kernel(name, unit, tuple(body))
    moved = sum(b.nbytes for b in dict.fromkeys(bare.reads)) + sum(b.nbytes for b in bare.writes)
    nanoseconds = flops / 40 + moved / 20
    parallel = unit.extent > 1 and nanoseconds > _WORTH_SHARING
    names = tuple(context.names[v] for v in values)
    return Kernel(name, unit, tuple(body), names, round(flops), moved, parallel)


def store_flops(store: Store, points: int) -> float:
    """Floating-point operations of a store executed at that many points."""
    return flops_of([v for _, _, v in store.targets]) * points
