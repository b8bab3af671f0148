"""Optimizers whose step is Python code on tensors, written as for PyTorch: groups and state as plain dicts."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adjoint.errors import TypeRuleError, kind_of
from adjoint.ir import is_float
from adjoint.optim.bound import Bound, parameters_in
from adjoint.tensor.making import from_array
from adjoint.tensor.tensor import Tensor

__all__ = ["Written"]


class Written(Bound):
    """The parameters of an optimizer that defines `step`.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer.
    params : iterable
        Tensors, pairs of a name and a tensor, or dicts of groups.
    defaults : dict
        The settings of groups that have none of their own.
    """

    def __init__(self, optimizer: Any, params: Any, defaults: dict[str, Any]) -> None:
        name = type(optimizer).__name__
        found = parameters_in(name, params)
        if found is None:
            raise TypeRuleError(f"{name} takes parameters first, got {kind_of(params)}; pass model.parameters()")
        self._optimizer = optimizer
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        self._updates = []
        self._state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        for group in found if isinstance(found[0], Mapping) else [{"params": found}]:
            self.add(group)

    def _append(self, options: dict[str, Any], names: Sequence[str]) -> None:  # noqa: ARG002
        self.param_groups.append(options)

    def step(self, closure: Callable[[], Any] | None) -> Any:  # noqa: ARG002
        """Raise, because this is called only if the optimizer's own `step` calls that of its base class."""
        raise TypeRuleError(
            f"{type(self._optimizer).__name__}: an optimizer whose __init__ takes params has its update in step(), got "
            "a call of the base class's; change the parameters in place instead"
        )

    def step_unless(self, skip: Tensor) -> None:
        """Read the bool scalar `skip`, and step unless it is true."""
        if not bool(skip):
            self._optimizer.step()

    def state(self) -> dict[Any, dict[str, Any]]:
        """The state by parameter, a dict that makes an empty entry for a parameter that has none."""
        return self._state

    def state_dict(self) -> dict[str, Any]:
        """The state by the number of the parameter, and the groups with these numbers."""
        numbers = {id(p): i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}
        state = {numbers[id(p)]: dict(found) for p, found in self._state.items() if id(p) in numbers}
        groups = [{**group, "params": [numbers[id(p)] for p in group["params"]]} for group in self.param_groups]
        return {"state": dict(sorted(state.items())), "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Set the settings of the groups, and the state to copies."""
        groups = self._fitting_groups(state_dict)
        self._state.clear()
        for group, mine in zip(groups, self.param_groups, strict=True):
            for number, param in zip(group["params"], mine["params"], strict=True):
                entry = state_dict["state"].get(number)
                if entry is not None:
                    self._state[param] = {key: _copied(key, value, param) for key, value in entry.items()}
            mine.update({key: value for key, value in group.items() if key != "params"})


def _copied(key: str, value: Any, param: Tensor) -> Any:
    """A value of the state of a parameter: floats in the parameter's dtype, but for the number of steps, as PyTorch."""
    if isinstance(value, Tensor):
        array = value.detach().numpy()
    elif isinstance(value, np.ndarray):
        array = value
    elif hasattr(value, "detach"):  # a tensor of PyTorch
        array = np.asarray(value.detach())
    else:
        return value
    return from_array(array.astype(param.dtype if is_float(array.dtype) and key != "step" else array.dtype))
