"""A warning for parameters that no gradient reaches, and what stops it."""

from collections.abc import Mapping, Sequence

from adjoint.errors import listed, located, warn
from adjoint.ir import Function, Value, is_float, param, toposort
from adjoint.ops.base import Operator
from adjoint.ops.convert import StopGradient
from adjoint.ops.create import Full

__all__ = ["warn_untrained"]


def warn_untrained(with_loss: Function, gradients: Mapping[str, Value]) -> None:
    """Warn of parameters whose gradient is always 0, once for each operator that stops gradients.

    Parameters
    ----------
    with_loss : Function
        The model and its loss, the first result, without calls.
    gradients : mapping of str to Value
        The gradients of the parameters, by their names, as `adjoint.transforms.gradient` derives them.
    """
    lost = [name for name, value in gradients.items() if isinstance(value.op, Full) and value.op.value == 0]
    if not lost:
        return
    values = toposort(with_loss.results[:1])
    stopped: dict[Value | None, list[Value]] = {}
    for name in lost:
        p = with_loss.param(name)
        stopped.setdefault(_stopper(values, p), []).append(p)
    for value, params in stopped.items():
        names = listed([p.label for p in params])
        rule = f"SetupTrainer: a parameter is trained by its gradient, which does not reach {names}"
        if value is None:
            each = "it" if len(params) == 1 else "them"
            warn(f"{rule}, because the loss does not depend on {each}; use or remove {each}", params[0].line)
        else:
            given = f"{value.op.name}({', '.join(str(v.type) for v in value.inputs)}) -> {value.type}"
            fix = "remove it" if isinstance(value.op, StopGradient) else "use an operator with a gradient"
            warn(f"{rule}, because {given} stops it; {fix}, or make {names} an input or a state", value.line)


def _stopper(values: Sequence[Value], p: Value) -> Value | None:
    """The last value before the loss that stops the gradient of a parameter; None if the loss does not depend on it.

    The last, because composites such as softmax stop the gradient of some of their values, which lead no further than
    the others.
    """
    found, carried = None, {p}
    for value in values:
        if any(v in carried for v in value.inputs):
            if _passes(value, carried):
                carried.add(value)
            else:
                found = value
    return found


def _passes(value: Value, carried: set[Value]) -> bool:
    """Whether an operator hands a gradient on to one of the operands that are `carried`."""
    op = value.op
    if not is_float(value.dtype) or not isinstance(op, Operator):
        return False
    with located(value.line):
        found = op.vjp(param("ct", value.shape, value.dtype), value, *value.inputs)
    return any(ct is not None and v in carried for v, ct in zip(value.inputs, found, strict=True))
