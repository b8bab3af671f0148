"""Plain functions as losses."""

import inspect
from collections.abc import Callable

from adjoint.errors import TypeRuleError, plural
from adjoint.ir import TensorType, Value
from adjoint.losses.base import Loss

__all__ = ["as_loss"]

_FIX = "pass a Loss such as CrossEntropyLoss(), or a function of graph values (predictions, targets)"


def as_loss(given: object, outputs: int) -> Loss:
    """A loss from a Loss or a plain function.

    Parameters
    ----------
    given : Loss or callable
        A Loss is returned unchanged. A function takes the outputs of the model, then the targets, and returns the loss;
        the names of its parameters are those of the arguments, and parameters with a default are optional.
    outputs : int
        Number of outputs of the model, for a function.

    Raises
    ------
    TypeRuleError
        If it is neither, is a class instead of an instance, or takes arguments that have no names or too few of them.
    """
    if isinstance(given, Loss):
        return given
    if isinstance(given, type):
        if issubclass(given, Loss):
            raise TypeRuleError(
                f"a loss must be an instance, got the class {given.__name__}; call it, {given.__name__}()"
            )
        raise TypeRuleError(f"a loss must be a Loss or a function, got the class {given.__name__}; {_FIX}")
    if not callable(given):
        raise TypeRuleError(f"a loss must be a Loss or a function, got {given!r}; {_FIX}")
    return _loss_of(given, outputs)


def _loss_of(function: Callable[..., Value], outputs: int) -> Loss:
    name = getattr(function, "__name__", type(function).__name__)
    name = name if name.isidentifier() else "loss"  # a lambda
    parameters = inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    optional = sum(p.default is not p.empty for p in named)
    other = [p.name for p in parameters if p not in named and p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    if other:
        raise TypeRuleError(
            f"{name}: a function that is a loss must take only arguments with names, in order, got "
            f"{inspect.signature(function)}; name them as in (predictions, targets)"
        )
    if len(named) - optional < outputs:
        raise TypeRuleError(
            f"{name}: a function that is a loss takes the {plural(outputs, 'output')} of the model, then the targets, "
            f"got the signature {inspect.signature(function)}; take all outputs, used or not"
        )

    def target_types(self: Loss, *given: TensorType) -> tuple[TensorType, ...]:  # noqa: ARG001
        if len(named) - optional == outputs:
            return ()
        raise TypeRuleError(
            f"{name}: the types of the targets cannot be inferred for a function; pass loss_args, the types of "
            f"({', '.join(self.arg_names)})"
        )

    attributes = {
        "__doc__": function.__doc__,
        "__call__": lambda _self, *args: function(*args),
        "target_types": target_types,
        "name": name,
        "arg_names": tuple(p.name for p in named),
        "num_optional": optional,
        "num_backbone_results": outputs,
    }
    made: Loss = type(name, (Loss,), attributes)()
    return made
