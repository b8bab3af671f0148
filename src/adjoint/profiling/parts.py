"""Which part of a training step a kernel belongs to: forward, backward, update.

A step made by `SetupTrainer` holds the graph of ``backbone_loss``, the rest of ``backbone_loss_adjoint`` around it,
and the optimizer's update around that. The passes that run before lowering look at a value and what it is made of,
never at who reads it, except `adjoint.transforms.keep_padded`: its borders are looked through here. So they turn each
of those three functions into the same values, and a value of the step is found in the others by its structure: its
operator, its attributes and, all the way down, what it is made of.
"""

from collections.abc import Hashable, Iterable, Mapping

from adjoint.ir import Function, IRModule, Value, is_param, toposort
from adjoint.ops.shape import Pad, Slice
from adjoint.pipeline import GRAPH_PASSES

__all__ = [
    "BACKWARD",
    "BACKWARD_UPDATE",
    "FORWARD",
    "PARTS",
    "STEP",
    "UPDATE",
    "after_passes",
    "part_of",
    "value_parts",
]

FORWARD, BACKWARD, UPDATE = "forward", "backward", "update"
BACKWARD_UPDATE, FORWARD_UPDATE = "backward+update", "forward+update"

#: The part of a kernel where a module does not say what is forward and what is not.
STEP = "step"

#: Every part that a kernel may have, in the order in which they are told.
PARTS = (FORWARD, BACKWARD, BACKWARD_UPDATE, FORWARD_UPDATE, UPDATE, STEP)


def after_passes(function: Function) -> Function:
    """The function as lowering takes it."""
    for graph_pass in GRAPH_PASSES:
        function = graph_pass(function)
    return function


def value_parts(module: IRModule, step: Function) -> dict[Value, str]:
    """The part of each value of a step: the first that needs it.

    Parameters
    ----------
    module : IRModule
        Where it comes from. Without ``backbone_loss`` and ``backbone_loss_adjoint``, all is part of the `STEP`.
    step : Function
        Its function ``step``, `after_passes`.

    Returns
    -------
    dict
        `FORWARD`, `BACKWARD` or `UPDATE` (or `STEP`) for each value, parameters included.
    """
    values = step.values()
    names = ("backbone_loss", "backbone_loss_adjoint")
    if not all(name in module for name in names):
        return dict.fromkeys(values, STEP)
    numbers: dict[Hashable, int] = {}
    mine = _structures(values, numbers)
    parts = dict.fromkeys(values, UPDATE)
    # Backward first: what the forward pass needs as well is then given to it.
    for name, part in zip(reversed(names), (BACKWARD, FORWARD), strict=True):
        theirs = set(_structures(after_passes(module[name]).values(), numbers).values())
        found = [value for value in values if mine[value] in theirs and not is_param(value)]
        parts.update(dict.fromkeys(toposort(found), part))
    return parts


def _structures(values: Iterable[Value], numbers: dict[Hashable, int]) -> dict[Value, int]:
    """A number for each value (inputs come before users), the same for the same structure; `numbers` keeps them.

    What is read inside a border is what has the border: which of them a reader reads depends on all readers.
    """
    found: dict[Value, int] = {}
    for value in values:
        bare = _without_border(value)
        if bare is not None:
            found[value] = found[bare]
            continue
        inputs = tuple(found[operand] for operand in value.inputs)
        key = (value.op.key(), inputs, value.label if is_param(value) else "")
        found[value] = numbers.setdefault(key, len(numbers))
    return found


def _without_border(value: Value) -> Value | None:
    """What was padded, where the value is a part of a padded value without its border."""
    border = value.inputs[0].op if isinstance(value.op, Slice) else None
    if not isinstance(value.op, Slice) or not isinstance(border, Pad) or any(border.interior):
        return None
    bare = value.inputs[0].inputs[0]
    whole = value.op.start == border.low and bare.shape == value.shape and set(value.op.step) <= {1}
    return bare if whole else None


def part_of(values: Iterable[Value], parts: Mapping[Value, str]) -> str:
    """The part of a kernel that computes some values: the first that needs it.

    The forward product that also stores the mask for its gradient is forward. Where a kernel computes any of the
    update, it counts for that too: ``backward+update``.
    """
    found = {parts[value] for value in values}
    first = next((part for part in (FORWARD, BACKWARD, UPDATE) if part in found), STEP)
    if UPDATE not in found or first == UPDATE:
        return first
    return BACKWARD_UPDATE if first == BACKWARD else FORWARD_UPDATE
