"""What all kernel builders share: the context, the store that ends a group, and the cost of a finished kernel."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from adjoint import costs
from adjoint.ir import Value
from adjoint.ir.literals import quoted_name
from adjoint.kernel.index import Index, Var, flatten, unflatten
from adjoint.kernel.ir import Buffer, Expr, Kernel, Stmt, Store
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.access import flops_of
from adjoint.lower.analysis.inlining import Inliner
from adjoint.lower.fusion.groups import Group

__all__ = [
    "Context",
    "Literals",
    "finish_kernel",
    "group_inliner",
    "owners_of",
    "store_flops",
    "store_outputs",
    "store_result",
]


#: Literal arrays by their bytes and dtype.
Literals = Mapping[tuple[bytes, np.dtype], Buffer]


@dataclass(frozen=True, slots=True)
class Context:
    """What every kernel builder needs. No builder changes it.

    Parameters
    ----------
    target : Target
        The CPU.
    buffers : mapping
        The buffer of every value in memory.
    literals : mapping
        Literal arrays of the program.
    names : mapping
        Printed name of every value.
    first_stages : mapping
        Reductions whose first stage runs in the kernel of a contraction, by the group of that contraction
        (`adjoint.lower.reductions.two_stage`).
    owners : mapping
        The value of every buffer.
    users : mapping
        Number of values that read each value.
    far : mapping
        Buffers that no kernel has used recently when those of a group start (`adjoint.lower.analysis.reuse_distance`).
    """

    target: Target
    buffers: Mapping[Value, Buffer]
    literals: Literals
    names: Mapping[Value, str]
    first_stages: Mapping[Group, tuple[Any, ...]] = field(default_factory=dict)
    owners: Mapping[Buffer, Value] = field(default_factory=dict)
    users: Mapping[Value, int] = field(default_factory=dict)
    far: Mapping[Group, frozenset[Buffer]] = field(default_factory=dict)

    def is_far(self, group: Group, buffer: Buffer) -> bool:
        """Whether the kernels of a group find a buffer beyond the second-level cache, and worth prefetching."""
        if buffer.nbytes >= costs.l2_bytes(self.target):
            return True
        return buffer.nbytes >= costs.prefetched_bytes(self.target) and buffer in self.far.get(group, ())

    def name_of(self, group: Group) -> str:
        """A kernel's name: that of its last output with a label of its own, else its operator and number.

        The operator is that of its root, if it has one, and the number that of the same value.
        """
        for value in reversed(group.outputs):
            if value.label and self.names[value] == f"%{quoted_name(value.label)}":
                return value.label
        value = group.outputs[-1] if group.root is None else group.root
        name = self.names[value].removeprefix("%")
        return f"{value.op.name}_{name}" if name.isdigit() else name


def owners_of(buffers: Mapping[Value, Buffer]) -> dict[Buffer, Value]:
    """The value of every buffer; of one that is updated in place, the first: the parameter."""
    return {buffer: value for value, buffer in reversed(list(buffers.items()))}


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


def store_result(context: Context, group: Group, index: Sequence[Index], result: Expr) -> Store:
    """The store of all outputs of a group at one point, where its root has that value."""
    assert group.root is not None
    inliner = group_inliner(context, group)
    inliner.bind(group.root, result)
    return store_outputs(context, group, inliner, index)


def finish_kernel(
    context: Context, name: str, values: Sequence[Value], unit: Var, body: Sequence[Stmt], flops: float
) -> Kernel:
    """A kernel with its estimated costs."""
    bare = Kernel(name, unit, tuple(body))
    moved = sum(b.nbytes for b in dict.fromkeys(bare.reads)) + sum(b.nbytes for b in bare.writes)
    parallel = unit.extent > 1 and costs.is_shared(flops, moved, context.target)
    names = tuple(context.names[v] for v in values)
    return Kernel(name, unit, tuple(body), names, round(flops), moved, parallel)


def store_flops(store: Store, points: int) -> float:
    """Floating-point operations of a store executed at that many points."""
    return flops_of([v for _, _, v in store.targets]) * points
