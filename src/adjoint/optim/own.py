"""What a user's own optimizer or transform returns and reads, checked: one sentence for each way to get it wrong."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from adjoint.errors import NameLookupError, TypeRuleError, described, located, require_call
from adjoint.ir import TensorType, Value, toposort
from adjoint.optim.direction import Quotient

__all__ = [
    "Readable",
    "check_hyper_read",
    "checked_direction",
    "checked_measure",
    "checked_prepare",
    "checked_update",
]

#: What `prepare` returns, and `update` of an optimizer and of a transform.
_PREPARED = "(scalars, new shared state)"
_UPDATED = {"Optimizer": "(new parameter, new slots)", "Transform": "(new direction, new slots)"}


class Readable(dict[str, Value]):
    """Values by name, whose unknown names are refused with a sentence.

    Parameters
    ----------
    values : mapping of str to Value
        The values.
    reader : str
        Who reads them, for the message.
    what : str
        What they are.
    fix : str
        How to add one.
    """

    def __init__(self, values: Mapping[str, Value], reader: str, what: str, fix: str) -> None:
        super().__init__(values)
        self._reader, self._what, self._fix = reader, what, fix

    def __missing__(self, name: str) -> Value:
        raise NameLookupError(
            f"{self._reader} reads the {self._what} {name!r}, which does not exist, got "
            f"{', '.join(self) or 'none'}; {self._fix}"
        )


@contextmanager
def _super_explained(owner: str) -> Iterator[None]:
    """Explain the error of ``super()`` in a dataclass with slots, which Python replaces by another class."""
    try:
        yield
    except TypeError as error:
        if not str(error).startswith("super(type, obj)"):
            raise
        raise TypeRuleError(
            f"{owner}: super() without arguments cannot be used in a dataclass with slots=True; write "
            f"super({owner}, self), or omit slots=True"
        ) from error


def _called(
    owner: str, method: str, function: Callable[..., object], *args: object, base: str, pair: str
) -> tuple[Any, Any]:
    """The pair that a method returns."""
    require_call(f"{owner}.{method}", function, args, f"as in {base}.{method}")
    with _super_explained(owner):
        found = function(*args)
    if not isinstance(found, tuple) or len(found) != 2:
        raise TypeRuleError(f"{owner}.{method} must return {pair}, got {described(found)}; return both")
    if not isinstance(found[1], Mapping):
        raise TypeRuleError(
            f"{owner}.{method} must return {pair} with a dict as the second, got {described(found[1])}; "
            "return {} if there is nothing"
        )
    return found


def _require_value(who: str, found: object, expected: TensorType | None) -> None:
    if not isinstance(found, Value):
        raise TypeRuleError(
            f"{who} must be a graph value, got {described(found)}; compute it with operators such as ops.multiply"
        )
    if expected is not None and found.type != expected:
        fix = "cast it" if found.shape == expected.shape else "keep the shape"
        raise TypeRuleError(f"{who} must be {expected}, got {found.type}; {fix}")


def _require_names(
    who: str, what: str, found: Mapping[str, object], expected: Mapping[str, object], where: str
) -> None:
    """Raise unless exactly the declared names are there."""
    missing = [name for name in expected if name not in found]
    unknown = [str(name) for name in found if name not in expected]
    if missing:
        raise TypeRuleError(
            f"{who} must return a new value for every {what} of {where}, got none for {', '.join(missing)}; add it"
        )
    if unknown:
        raise TypeRuleError(
            f"{who} returns the {what} {', '.join(unknown)}, which {where} does not declare; declare it there"
        )


def checked_prepare(
    owner: str,
    prepare: Callable[..., object],
    hyper: Mapping[str, Value],
    shared: Mapping[str, Value],
    base: str = "Optimizer",
) -> tuple[dict[str, Value], dict[str, Value]]:
    """Scalars and new shared state from the `prepare` of an optimizer or a transform, whichever `base` is."""
    who = f"{owner}.prepare"
    readable = Readable(hyper, who, "hyperparameter", "return it from hyper(params)")
    known = Readable(shared, who, "shared state", "return it from shared()")
    scalars, new = _called(owner, "prepare", prepare, readable, known, base=base, pair=_PREPARED)
    for name, value in scalars.items() if isinstance(scalars, Mapping) else [("scalars", scalars)]:
        _require_value(f"{who}: the scalar {name!r}", value, None)
    _require_names(who, "shared state", new, shared, "shared()")
    for name, value in new.items():
        _require_value(f"{who}: the shared state {name!r}", value, shared[name].type)
    return dict(scalars), dict(new)


def checked_update(
    owner: str,
    update: Callable[..., object],
    param: Value,
    grad: Value,
    slots: Mapping[str, Value],
    scalars: Mapping[str, Value],
) -> tuple[Value, dict[str, Value]]:
    """A new parameter and its new slots from an optimizer's `update`."""
    who = f"{owner}.update"
    readable = Readable(slots, who, "slot", "add it to slot_names")
    known = Readable(scalars, who, "scalar", "make it a numeric attribute of the optimizer, or return it from prepare")
    new, updated = _called(
        owner, "update", update, param, grad, readable, known, base="Optimizer", pair=_UPDATED["Optimizer"]
    )
    _require_value(f"{who}: the new value of {param.label}", new, param.type)
    _require_slots(who, param, updated, slots)
    return new, dict(updated)


def checked_direction(
    owner: str,
    update: Callable[..., object],
    param: Value,
    direction: Value,
    slots: Mapping[str, Value],
    scalars: Mapping[str, Value],
) -> tuple[Value | Quotient, dict[str, Value]]:
    """A new direction and the new slots of one parameter from a transform's `update`."""
    who = f"{owner}.update"
    readable = Readable(slots, who, "slot", "add it to slot_names")
    fix = "make it a numeric attribute of the transform, or return it from prepare or measure"
    known = Readable(scalars, who, "scalar", fix)
    new, updated = _called(
        owner, "update", update, param, direction, readable, known, base="Transform", pair=_UPDATED["Transform"]
    )
    for value in (new.numerator, new.denominator) if isinstance(new, Quotient) else (new,):
        _require_value(f"{who}: the new direction of {param.label}", value, param.type)
    _require_slots(who, param, updated, slots)
    return new, dict(updated)


def _require_slots(who: str, param: Value, updated: Mapping[str, object], slots: Mapping[str, Value]) -> None:
    _require_names(who, "slot", updated, slots, "slot_names")
    for name, value in updated.items():
        _require_value(f"{who}: the slot {name!r} of {param.label}", value, slots[name].type)


def checked_measure(
    owner: str, measure: Callable[..., object], directions: Mapping[str, Value], scalars: Mapping[str, Value]
) -> dict[str, Value]:
    """The scalars from a transform's `measure`."""
    who = f"{owner}.measure"
    known = Readable(scalars, who, "scalar", "make it a numeric attribute of the transform, or return it from prepare")
    require_call(who, measure, (directions, known), "as in Transform.measure")
    found = measure(directions, known)
    if not isinstance(found, Mapping):
        raise TypeRuleError(
            f"{who} must return a dict of scalars, got {described(found)}; return {{}} if there is nothing"
        )
    for name, value in found.items():
        _require_value(f"{who}: the scalar {name!r}", value, None)
    return dict(found)


def check_hyper_read(
    owner: str, update: Callable[..., object], hyper: Mapping[str, Value], results: Iterable[Value], *, prepares: bool
) -> None:
    """Raise if results do not depend on a hyperparameter, which would then be an input of the step without effect.

    Parameters
    ----------
    owner : str
        Name of the optimizer.
    update : callable
        Its `update`, whose line the error gets.
    hyper : mapping of str to Value
        The hyperparameters.
    results : iterable of Value
        The new parameters and the new state.
    prepares : bool
        Whether the optimizer has a `prepare` of its own.

    Raises
    ------
    TypeRuleError
        If a hyperparameter is not read.
    """
    read = set(toposort(results))
    unread = next((name for name, value in hyper.items() if value not in read), None)
    if unread is None:
        return
    code = getattr(update, "__code__", None)
    does_not_read = f"neither {owner}.prepare nor {owner}.update reads" if prepares else f"{owner}.update does not read"
    with located(f"{code.co_filename}:{code.co_firstlineno}" if code else ""):
        raise TypeRuleError(
            f"{does_not_read} the hyperparameter {unread}, so changing it would have no effect; use "
            f"{'hyper' if prepares else 'scalars'}[{unread!r}] instead of self.{unread}, or omit it from hyper(params)"
        )
