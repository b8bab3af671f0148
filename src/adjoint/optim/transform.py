"""`Transform`: one part of an optimizer, which turns a direction into another.

The model is Optax's gradient transformation, a pair of functions ``(init, update)``. A chain passes the gradients of
all parameters through its transforms in order, and subtracts what comes out from the parameters.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import ClassVar

from adjoint.errors import InvalidValueError, TypeRuleError, kind_of
from adjoint.ir import TensorType, Value
from adjoint.lazy_dataclass import dataclass
from adjoint.optim.base import Settings, StateSpec, Values
from adjoint.optim.direction import Direction, Scale

__all__ = ["Transform", "Which", "masked", "require_selected", "selector"]

#: Which parameters: a pattern of their names, several patterns, or a function of the name and the type.
Which = str | tuple[str, ...] | Callable[[str, TensorType], bool]


class Transform(Settings):
    """Base class of the parts of an optimizer. A subclass defines `update`, `measure` and `update`, or `rescale`.

    Its numeric attributes are its hyperparameters, and `slot_names`, `hyper`, `shared` and `prepare` mean what they
    mean for an `Optimizer`.
    """

    _article: ClassVar[str] = "a transform"

    def update(
        self,
        param: Value,  # noqa: ARG002
        direction: Value,
        slots: Values,  # noqa: ARG002
        scalars: Values,  # noqa: ARG002
    ) -> tuple[Direction, dict[str, Value]]:
        """The elementwise change of one parameter's direction: ``(new direction, new slots)``; default: none.

        Parameters
        ----------
        param, direction : Value
            The parameter, and what is to be subtracted from it so far, first its gradient; of the same type.
        slots : mapping of str to Value
            The parameter's state by slot, of the same type.
        scalars : mapping of str to Value
            The scalars from `prepare` and `measure`, in the parameter's dtype.
        """
        return direction, {}

    def measure(self, directions: Values, scalars: Values) -> dict[str, Value]:  # noqa: ARG002
        """Scalars that depend on the directions of all parameters, such as their norm; default: none.

        Parameters
        ----------
        directions : mapping of str to Value
            The directions by the parameters' names.
        scalars : mapping of str to Value
            The scalars from `prepare`.
        """
        return {}

    def rescale(self, scale: Scale, scalars: Values) -> Scale:  # noqa: ARG002
        """What the direction is multiplied by after `update`, given what it is so far; default: the same.

        Parameters
        ----------
        scale : Scale
            The scalars that the direction has yet to be multiplied by; 1 if this transform has an `update`.
        scalars : mapping of str to Value
            The scalars from `prepare`.
        """
        return scale

    def applies_to(self, name: str, type_: TensorType) -> bool:  # noqa: ARG002
        """Whether this parameter's direction is changed; default: yes."""
        return True

    def elementwise(self) -> bool:
        """Whether there is no `measure`."""
        return type(self).measure is Transform.measure

    def reads_directions(self) -> bool:
        """Whether there is an `update` or `measure`; otherwise there are scalars only."""
        return type(self).update is not Transform.update or not self.elementwise()


def selector(owner: str, which: object) -> Callable[[str, TensorType], bool]:
    """The function that says whether a parameter is meant.

    Parameters
    ----------
    owner : str
        Who was given `which`, for the message.
    which : str, tuple of str or callable
        Patterns of names as in `fnmatch`, such as ``"*.bias"``, or the function.

    Raises
    ------
    TypeRuleError
        If it is neither.
    """
    if callable(which):
        return which
    patterns = (which,) if isinstance(which, str) else which
    if not isinstance(patterns, tuple | list) or not all(isinstance(each, str) for each in patterns):
        raise TypeRuleError(
            f"{owner}: which parameters must be a pattern of names, several, or a function of name and type, got "
            f"{kind_of(which)}; write for example '*.weight' or lambda name, type: len(type.shape) > 1"
        )
    names = tuple(patterns)
    return lambda name, _type: any(fnmatchcase(name, pattern) for pattern in names)


@dataclass(frozen=True)
class masked(Transform):  # noqa: N801
    """A transform of some parameters' directions only; those of the others pass unchanged.

    Parameters
    ----------
    transform : Transform
        The transform, for example ``decoupled_weight_decay(0.1)``. What it measures, it measures over the parameters
        that it applies to.
    which : str, sequence of str or callable
        Patterns of the names of the parameters that it applies to, such as ``"*.weight"``, or a function of a
        parameter's name and `TensorType`.

    Raises
    ------
    TypeRuleError
        If the transform or `which` is something else.
    """

    transform: Transform
    which: Which

    def __post_init__(self) -> None:
        given: object = self.transform
        if not isinstance(given, Transform):
            raise TypeRuleError(
                f"masked takes a transform such as add_decayed_weights(0.1), got {kind_of(given)}; use freeze for an "
                "optimizer"
            )
        selector("masked", self.which)
        if isinstance(self.which, list):
            object.__setattr__(self, "which", tuple(self.which))

    def slots(self) -> tuple[str, ...]:
        """Those of the transform."""
        return self.transform.slots()

    def init(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """That of the transform for the parameters that it applies to."""
        chosen = {name: type_ for name, type_ in params.items() if self.applies_to(name, type_)}
        return self.transform.init(chosen) if chosen else self.transform.shared()

    def check_names(self, params: Mapping[str, TensorType]) -> None:
        """Raise if the transform applies to none of the parameters."""
        chosen = selector("masked", self.which)
        require_selected("masked", self.which, params, [name for name, type_ in params.items() if chosen(name, type_)])
        self.transform.check_names(params)

    def hyper(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """Those of the transform."""
        return self.transform.hyper(params)

    def shared(self) -> tuple[StateSpec, ...]:
        """That of the transform."""
        return self.transform.shared()

    def prepare(self, hyper: Values, shared: Values) -> tuple[dict[str, Value], dict[str, Value]]:
        """As the transform does."""
        return self.transform.prepare(hyper, shared)

    def update(
        self, param: Value, direction: Value, slots: Values, scalars: Values
    ) -> tuple[Direction, dict[str, Value]]:
        """As the transform does."""
        return self.transform.update(param, direction, slots, scalars)

    def measure(self, directions: Values, scalars: Values) -> dict[str, Value]:
        """As the transform does."""
        return self.transform.measure(directions, scalars)

    def rescale(self, scale: Scale, scalars: Values) -> Scale:
        """As the transform does."""
        return self.transform.rescale(scale, scalars)

    def applies_to(self, name: str, type_: TensorType) -> bool:
        """Whether the parameter is one of `which`."""
        return selector("masked", self.which)(name, type_) and self.transform.applies_to(name, type_)

    def elementwise(self) -> bool:
        """Whether the transform is."""
        return self.transform.elementwise()

    def reads_directions(self) -> bool:
        """As the transform does."""
        return self.transform.reads_directions()


def require_selected(owner: str, which: object, params: Iterable[str], found: Sequence[str]) -> None:
    """Raise if `which` selects none of the parameters."""
    if not found:
        raise InvalidValueError(
            f"{owner}: {which!r} selects none of the parameters {', '.join(params)}; correct the pattern"
        )
