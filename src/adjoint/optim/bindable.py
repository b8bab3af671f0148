"""One class for both doors: an optimizer is bound to parameters, as in PyTorch, or not yet, as in a graph's step.

``SGD(model.parameters(), lr=0.1)`` and ``SGD(lr=0.1).bind(model.parameters())`` are the same. The first argument is
what decides, so a class of optimizers needs to know nothing of it.
"""

import inspect
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, ClassVar, Self

from adjoint.errors import InvalidValueError, MissingAttributeError, TypeRuleError
from adjoint.optim.bound import Bound, parameters_in
from adjoint.optim.written import Written

__all__ = ["Bindable", "Binding"]

#: What PyTorch's optimizers take to choose between implementations of the same update.
IMPLEMENTATION_OPTIONS = ("foreach", "fused", "capturable", "differentiable")


class Binding(type):
    """The class of optimizer classes: binds what is called with parameters."""

    def __call__(cls, *args: Any, **options: Any) -> Any:
        """The optimizer, bound to its first argument if that is parameters."""
        takes_params = next(iter(cls.__signature__.parameters), "") == "params"
        if takes_params and cls.step is not Bindable.step:  # type: ignore[attr-defined]
            return super().__call__(*args, **options)  # its __init__ binds it
        given = args[:1] or ((options["params"],) if "params" in options else ())
        found = parameters_in(cls.__name__, given[0]) if given else None
        if found is None:
            return super().__call__(*args, **options)
        if takes_params:
            raise TypeRuleError(
                f"{cls.__name__}: an optimizer whose __init__ takes params defines step(), got one without; define it, "
                "or remove params there and define update(), the update of one parameter"
            )
        options.pop("params", None)
        chosen = {name: options.pop(name) for name in IMPLEMENTATION_OPTIONS if name in options}
        made = super().__call__(*args[1:], **options)
        object.__setattr__(made, "_bound", Bound(made, found, chosen))
        return made

    @property
    def __signature__(cls) -> inspect.Signature:
        """The arguments of the class without parameters, for ``help`` and the like."""
        if cls.__init__ is Bindable.__init__:  # type: ignore[misc]
            return inspect.Signature()
        own = list(inspect.signature(cls.__init__).parameters.values())[1:]  # type: ignore[misc]
        return inspect.Signature(own)


class Bindable(metaclass=Binding):
    """What an optimizer that is bound to parameters can do."""

    #: PyTorch's options of this optimizer that choose between implementations of the same update, and their defaults.
    #: They have no effect, and are in `param_groups` so that `state_dict` has what PyTorch expects.
    implementation_options: ClassVar[dict[str, Any]] = {}

    _bound: Bound | None = None

    def __init__(self, params: Any = None, defaults: Mapping[str, Any] | None = None) -> None:
        """What an optimizer that is written as for PyTorch calls, with its parameters and the settings of its groups.

        It defines `step`, which changes the parameters in place within `no_grad`, and may keep what it likes in
        ``self.state[parameter]``, a dict. What it records is compiled with the rest of the program.

        Parameters
        ----------
        params : iterable
            As for `bind`. Without, as in the ``__init__`` of an optimizer that defines `update`, nothing happens.
        defaults : mapping, optional
            The settings of groups that have none of their own.
        """
        if params is not None or defaults is not None:
            object.__setattr__(self, "_bound", Written(self, params, dict(defaults or {})))

    def bind(self, params: Any) -> Self:
        """The optimizer, bound to parameters.

        Parameters
        ----------
        params : iterable
            Tensors, pairs of a name and a tensor, or dicts: groups with their own settings, ``{"params": tensors, "lr":
            0.1}``.

        Raises
        ------
        InvalidValueError
            If there are none, one is no leaf or occurs twice, or a group has no ``params``.
        """
        name = type(self).__name__
        found = parameters_in(name, params)
        if found is None:
            raise InvalidValueError(
                f"{name}.bind takes parameters, got {params!r}; pass model.parameters() or a list of tensors"
            )
        made: Any = copy(self)
        object.__setattr__(made, "_bound", Bound(made, found, {}))
        bound: Self = made
        return bound

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of parameters with their settings: dicts that can be changed between steps.

        Setting ``group["lr"]`` takes effect in the next step, without recompilation.
        """
        return self._require_bound("param_groups").param_groups

    @property
    def defaults(self) -> dict[str, Any]:
        """The settings of groups that have none of their own."""
        return self._require_bound("defaults").defaults

    @property
    def state(self) -> dict[Any, dict[str, Any]]:
        """The state of each parameter that has been updated: tensors by name."""
        return self._require_bound("state").state()

    @property
    def current_lr(self) -> float | None:
        """The learning rate of the first group at the next update: ``lr`` times the schedules within the step.

        None for an optimizer without a learning rate.
        """
        return self._require_bound("current_lr").rate()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Record the update of all parameters that have a gradient.

        Parameters
        ----------
        closure : callable, optional
            A function that computes the loss and its gradients; it is called first, and its result is returned.
        """
        bound = self._bound
        if bound is None:
            bound = self._require_bound("step()")
        return bound.step(closure)

    def step_unless(self, skip: Any) -> None:
        """Record the update of all parameters that have a gradient, which changes nothing if `skip` is true.

        Parameters
        ----------
        skip : Tensor
            A bool scalar. It need not have a value yet: the step that it is computed in decides.
        """
        self._require_bound("step_unless()").step_unless(skip)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters.

        Parameters
        ----------
        set_to_none : bool, default True
            Whether ``grad`` becomes None; otherwise, where there is one, a tensor of zeros.
        """
        bound = self._bound
        if bound is None:
            bound = self._require_bound("zero_grad()")
        bound.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """The state and the settings in PyTorch's layout, ``{"state": {0: {...}}, "param_groups": [...]}``."""
        return self._require_bound("state_dict()").state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned, here or in PyTorch.

        Parameters
        ----------
        state_dict : dict
            The state by the number of the parameter, of tensors or arrays, and the groups.

        Raises
        ------
        InvalidValueError
            If the groups have other numbers of parameters, or an array has another shape.
        """
        self._require_bound("load_state_dict()").load_state_dict(state_dict)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, ``{"params": tensors}``, with settings of their own or those of the optimizer.

        Raises
        ------
        InvalidValueError
            If one of them is no leaf or is in a group already.
        """
        self._require_bound("add_param_group()").add(param_group)

    def _require_bound(self, what: str) -> Bound:
        if self._bound is None:
            name = type(self).__name__
            raise MissingAttributeError(
                f"{name}: {what} needs parameters, got an optimizer that is not bound to any; write "
                f"{name}(model.parameters(), ...), or optimizer.bind(model.parameters())"
            )
        return self._bound
