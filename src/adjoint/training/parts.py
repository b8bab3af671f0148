"""The part of a training step that a kernel belongs to: forward, backward, update.

A step created by `SetupTrainer` contains the graph of ``backbone_loss``, which is extended to
``backbone_loss_adjoint``, and this by the optimizer's update. The passes before lowering depend on a value and its
operands, never on its users, except `adjoint.transforms.keep_padded`, whose borders are ignored here. So they transform
each of those three functions into the same values, and a value of the step is found in the others by its structure: its
operator, its attributes and, recursively, its operands. What `adjoint.transforms.rematerialize` computes again belongs
to the backward pass, which reads it.
"""

from collections.abc import Hashable, Iterable, Mapping

from adjoint.ir import Function, IRModule, Value, is_param, toposort, value_names
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.calls import TupleGet
from adjoint.ops.control import Scan, is_control
from adjoint.ops.convert import After
from adjoint.ops.shape import Pad, Slice
from adjoint.pipeline import after_graph_passes
from adjoint.runtime.report import KernelInfo

__all__ = [
    "BACKWARD",
    "BACKWARD_UPDATE",
    "FORWARD",
    "PARTS",
    "STEP",
    "UPDATE",
    "NamedValues",
    "kernel_parts",
    "part_of",
    "value_parts",
]

FORWARD, BACKWARD, UPDATE = "forward", "backward", "update"
BACKWARD_UPDATE, FORWARD_UPDATE = "backward+update", "forward+update"

#: The part of all kernels if the module does not tell forward and backward apart.
STEP = "step"

#: All possible parts of a kernel, in display order.
PARTS = (FORWARD, BACKWARD, BACKWARD_UPDATE, FORWARD_UPDATE, UPDATE, STEP)


def value_parts(module: IRModule, step: Function) -> dict[Value, str]:
    """The part of each value of a step: the first that needs it.

    Parameters
    ----------
    module : IRModule
        The step's module. Without ``backbone_loss`` and ``backbone_loss_adjoint``, the part is always `STEP`.
    step : Function
        Its function ``step`` as `adjoint.pipeline.lowered_graph` returns it.

    Returns
    -------
    dict
        `FORWARD`, `BACKWARD` or `UPDATE` (or `STEP`) for each value, including parameters.
    """
    values = step.values()
    names = ("backbone_loss", "backbone_loss_adjoint")
    if not all(name in module for name in names):
        return dict.fromkeys(values, STEP)
    numbers: dict[Hashable, int] = {}
    mine = _structures(values, numbers)
    again = _behind_after(values)
    parts = dict.fromkeys(values, UPDATE)
    # Backward first, so that values which the forward pass needs too are then assigned to it.
    for name, part in zip(reversed(names), (BACKWARD, FORWARD), strict=True):
        theirs = set(_structures(after_graph_passes(module[name]).values(), numbers).values())
        found = [value for value in values if mine[value] in theirs and not is_param(value)]
        if part == FORWARD:
            found = [value for value in found if value not in again]
        parts.update(dict.fromkeys(toposort(found), part))
    return parts


def kernel_parts(module: IRModule, step: Function, kernels: Iterable[KernelInfo]) -> tuple[str, ...]:
    """The part of each kernel of a step.

    Parameters
    ----------
    module, step
        As for `value_parts`.
    kernels : iterable of KernelInfo
        Kernels whose values are those of `step`.
    """
    parts = value_parts(module, step)
    named = NamedValues.of(step)
    return tuple(part_of(named.computed_by(kernel), parts) for kernel in kernels)


@dataclass(frozen=True, slots=True)
class NamedValues:
    """The values of a step by the names that kernels have for them.

    Kernels of a loop or branch compute values of the function that it holds, under names like ``%scan_4.3``; they
    belong to the loop or branch.
    """

    values: Mapping[str, Value]

    @classmethod
    def of(cls, step: Function) -> "NamedValues":
        """Those of a step after the graph passes."""
        names = value_names(step)
        loops = {f"%{v.op.name}_{name.removeprefix('%')}": v for v, name in names.items() if is_control(v)}
        return cls({**loops, **{name: value for value, name in names.items()}})

    def computed_by(self, kernel: KernelInfo) -> tuple[Value, ...]:
        """The values that a kernel computes."""
        found: dict[Value, None] = {}
        for name in kernel.values:
            while name not in self.values and "." in name:
                name = name.rpartition(".")[0]
            if name in self.values:
                found[self.values[name]] = None
        return tuple(found)


def _structures(values: Iterable[Value], numbers: dict[Hashable, int]) -> dict[Value, int]:
    """A number for each value, equal for equal structures; operands come first. `numbers` stores the assignment.

    A value and its part inside a padded border are equal, because which of them an operator reads depends on all users.
    So are a value and the same value computed again.
    """
    found: dict[Value, int] = {}
    for value in values:
        bare = value.inputs[0] if isinstance(value.op, After) else _without_border(value)
        if bare is not None:
            found[value] = found[bare]
            continue
        inputs = tuple(found[operand] for operand in value.inputs)
        key = (_operator(value), inputs, value.label if is_param(value) else "")
        found[value] = numbers.setdefault(key, len(numbers))
    return found


def _operator(value: Value) -> Hashable:
    """What identifies an operator; of a loop, whose gradient gives it more outputs, not what it holds."""
    op = value.op
    if isinstance(op, Scan):
        return Scan, op.length, op.consts, op.carries, op.reverse
    if isinstance(op, TupleGet):
        return TupleGet
    return op.key()


def _behind_after(values: Iterable[Value]) -> set[Value]:
    """The values that depend on an ``after``, which precedes what is computed again."""
    found: set[Value] = set()
    for value in values:
        if isinstance(value.op, After) or any(operand in found for operand in value.inputs):
            found.add(value)
    return found


def _without_border(value: Value) -> Value | None:
    """The value that was padded, if the given one is exactly its part of the padded value."""
    border = value.inputs[0].op if isinstance(value.op, Slice) else None
    if not isinstance(value.op, Slice) or not isinstance(border, Pad) or any(border.interior):
        return None
    bare = value.inputs[0].inputs[0]
    whole = value.op.start == border.low and bare.shape == value.shape and set(value.op.step) <= {1}
    return bare if whole else None


def part_of(values: Iterable[Value], parts: Mapping[Value, str]) -> str:
    """The part of a kernel that computes these values: the first that needs it.

    For example, a forward product that also stores the mask for its gradient is forward. If a kernel also computes part
    of the update, that is included: ``backward+update``.
    """
    found = {parts[value] for value in values}
    first = next((part for part in (FORWARD, BACKWARD, UPDATE) if part in found), STEP)
    if UPDATE not in found or first == UPDATE:
        return first
    return BACKWARD_UPDATE if first == BACKWARD else FORWARD_UPDATE
