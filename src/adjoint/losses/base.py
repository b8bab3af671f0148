"""The base class of losses, and the reductions."""

from collections.abc import Callable
from copy import copy
from dataclasses import fields
from functools import wraps
from typing import Any, ClassVar

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError, described, located, plural, require_call, user_line
from adjoint.ir import Function, TensorType, Value, is_float, is_integer, param
from adjoint.lazy_dataclass import dataclass
from adjoint.modules import Module
from adjoint.tensor.autocasting import in_f32, mode
from adjoint.tensor.record import record
from adjoint.tensor.structure import Operation
from adjoint.tensor.trace import Recorded

__all__ = ["REDUCTIONS", "ConfiguredLoss", "Loss", "PairLoss", "check_reduction", "matched", "reduced"]

#: Allowed values of `reduction`.
REDUCTIONS = ("mean", "sum", "none")


class Loss(Module):
    """A loss with its settings: a module, applied to tensors or to graph values, or converted to a Function.

    A subclass builds a graph in `__call__`, names its arguments, and may define `target_types`. It may be a dataclass
    of its settings or have an ``__init__`` of its own. The first `num_backbone_results` arguments are results of the
    model; the others (targets, weights) are inputs from the batch.

    Attributes
    ----------
    name : str
        Name of the Function that `function` returns.
    arg_names : tuple of str
        Names of the arguments, optional ones last.
    num_optional : int
        Number of optional arguments.
    num_backbone_results : int
        Number of arguments that the model returns.
    """

    name: ClassVar[str] = "loss"
    arg_names: ClassVar[tuple[str, ...]] = ("predictions", "targets")
    num_optional: ClassVar[int] = 0
    num_backbone_results: ClassVar[int] = 1
    #: What makes the arguments of `__call__` of those of a call with tensors, where some may be something else.
    prepare: ClassVar[Callable[..., tuple[Any, ...]] | None] = None

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        own = cls.__dict__.get("__call__")
        if own is not None:
            cls.forward = _recording(own)  # type: ignore[method-assign]
            cls.__call__ = _calling(own, cls.forward)  # type: ignore[method-assign]

    def __call__(self, *args: Any) -> Any:  # noqa: ARG002
        """The loss as a graph value, given its arguments."""
        raise TypeRuleError(
            f"{type(self).__name__}: a loss must define __call__(self, {', '.join(self.arg_names)}), which returns a "
            "graph value; add it"
        )

    def target_types(self, *outputs: TensorType) -> tuple[TensorType, ...]:  # noqa: ARG002
        """Types of the targets for a model with these outputs, which `SetupTrainer` uses without ``loss_args``.

        Raises
        ------
        TypeRuleError
            If they do not follow from the outputs, as for a loss that does not define this method.
        """
        raise TypeRuleError(
            f"{self.name}: the types of the targets cannot be inferred for this loss; pass loss_args, the types of "
            f"({', '.join(self.arg_names)}), or define target_types(self, *outputs)"
        )

    def check_outputs(self, *outputs: Value) -> None:  # noqa: ARG002
        """Warn if the outputs of a model are probably not what this loss takes; default: no warning.

        Parameters
        ----------
        *outputs : Value
            The outputs, with the graph that computes them. `SetupTrainer` passes them when their types are checked.
        """
        return

    def function(self, *arg_types: TensorType) -> Function:
        """The loss as a separate function.

        Parameters
        ----------
        *arg_types : TensorType
            Types of the arguments, in the order of `arg_names`.

        Returns
        -------
        Function
            Named `name`, with one parameter per argument and one result.

        Raises
        ------
        TypeRuleError
            If the number or the types of the arguments do not match, or `__call__` does not return a graph value.
        """
        self.check_count(len(arg_types))
        for given in arg_types:
            if not isinstance(given, TensorType):
                raise TypeRuleError(
                    f"{self.name}: arguments must be given as TensorType(shape, dtype), got {type(given).__name__}"
                )
        names = self.arg_names[: len(arg_types)]
        params = tuple(param(n, t.shape, t.dtype) for n, t in zip(names, arg_types, strict=True))
        return Function(self.name, params, (self._value(*params),))

    def _value(self, *args: Value) -> Value:
        """The loss of these arguments; raises unless `__call__` takes them and returns one graph value."""
        own = type(self)
        if own.__call__ is not Loss.__call__:
            require_call(f"{own.__name__}.__call__", self, args, f"the arguments of arg_names, {self.arg_names}")
        found: object = self(*args)
        if not isinstance(found, Value):
            raise TypeRuleError(
                f"{self.name}: a loss must return a graph value, got {described(found)}; return the result of "
                "operators such as ops.mean"
            )
        return found

    def check_count(self, given: int) -> None:
        """Raise if the loss does not take this number of arguments."""
        most = len(self.arg_names)
        if not most - self.num_optional <= given <= most:
            optional = self.arg_names[most - self.num_optional :]
            tail = f", {' and '.join(optional)} optional" if optional else ""
            raise TypeRuleError(
                f"{self.name} takes ({', '.join(self.arg_names)}){tail}, got {plural(given, 'argument')}"
            )


#: Most settings of the losses of a class that are remembered as operations.
_MOST_SETTINGS = 256


def _recording(own: Callable[..., Any]) -> Callable[..., Any]:
    """The method `forward` of a loss whose `__call__` builds graphs: on tensors, it is recorded as one operation.

    Losses of one class with equal attributes are the same operation, so that programs are found again.
    """
    entries: dict[Any, Operation] = {}

    def entry_of(loss: Loss) -> Operation:
        def built(*args: Value) -> Any:
            with located(user_line() or ""):  # rather than lines of the loss
                return own(settled, *args)

        settled = copy(loss)  # attributes of the loss may change
        built.__name__ = type(loss).__name__
        if len(entries) >= _MOST_SETTINGS:
            entries.clear()
        return entries.setdefault((type(loss), *loss.__dict__.items()), Operation(built, numbers=False))

    def forward(self: Loss, *args: Any) -> Any:
        for arg in args:
            if isinstance(arg, Recorded):
                try:
                    entry = entries.get((type(self), *self.__dict__.items()))
                except TypeError:
                    raise TypeRuleError(
                        f"{self.name}: the attributes of a loss must be hashable when it is called with tensors, got "
                        f"{', '.join(self.__dict__)}; store tuples"
                    ) from None
                given = args if self.prepare is None else self.prepare(*args)
                own_args = given if mode.dtype is None else in_f32(given)
                return record(entry_of(self) if entry is None else entry, own_args)
        return own(self, *args)

    return forward


def _calling(own: Callable[..., Any], forward: Callable[..., Any]) -> Callable[..., Any]:
    """The method `__call__` of a loss: `forward` of the same class, with the hooks if there are any."""

    @wraps(own)
    def called(self: Loss, *args: Any) -> Any:
        hooks = self._hooks
        if hooks is None or type(self).forward is not forward:  # a call by super() has been hooked already
            return forward(self, *args)
        return hooks.call(self, args, {})

    return called


def check_reduction(name: str, reduction: str) -> None:
    """Raise if the reduction is unknown."""
    if reduction not in REDUCTIONS:
        raise InvalidValueError(f"{name}: reduction must be one of {', '.join(REDUCTIONS)}, got {reduction!r}")


def check_predictions(name: str, predictions: Value) -> None:
    """Raise if the predictions are not a float tensor."""
    if not isinstance(predictions, Value) or not isinstance(predictions.type, TensorType):
        raise TypeRuleError(f"{name}: predictions must be a graph value of tensor type, got {predictions!r}")
    if not is_float(predictions.dtype):
        raise TypeRuleError(f"{name}: predictions must have a float dtype, got {predictions.type}; cast them to f32")


def matched(name: str, predictions: Value, targets: Value) -> Value:
    """The targets in the dtype of the predictions; raises unless both have the same shape."""
    check_predictions(name, predictions)
    if targets.shape != predictions.shape:
        raise TypeRuleError(
            f"{name}: predictions and targets must have the same shape, got {predictions.type} and {targets.type}; "
            "reshape one of them"
        )
    if is_integer(targets.dtype):
        targets = ops.cast(targets, predictions.dtype)
    if targets.dtype != predictions.dtype:
        raise TypeRuleError(
            f"{name}: predictions and targets must have the same dtype, got {predictions.type} and {targets.type}; "
            "cast one"
        )
    return targets


def reduced(losses: Value, reduction: str) -> Value:
    """Reduce the losses of the elements by mean or sum, or not at all. The mean of none is NaN, as in PyTorch."""
    if reduction == "none":
        return losses
    total = ops.sum(losses)
    return total if reduction == "sum" else ops.divide(total, ops.count(losses, dtype=losses.dtype))


@dataclass(frozen=True)
class PairLoss(Loss):
    """The base class of losses of predictions and targets of the same type."""

    reduction: str = "mean"

    def __post_init__(self) -> None:
        check_reduction(self.name, self.reduction)

    def target_types(self, *outputs: TensorType) -> tuple[TensorType, ...]:
        """The type of the predictions."""
        return outputs[:1]


class ConfiguredLoss(Loss):
    """The base class of losses that are a function and its settings: their fields are its parameters after the tensors.

    Attributes
    ----------
    build : callable
        The function, a static method. It takes the arguments of `arg_names`, and the fields by name.
    """

    build: ClassVar[Callable[..., Value]]

    def __post_init__(self) -> None:
        check_reduction(self.name, getattr(self, "reduction", "mean"))

    def __call__(self, *args: Any) -> Any:
        """The function, with the settings."""
        self.check_count(len(args))
        settings = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return type(self).build(*args, **settings)
