"""`Trainer`: the step of a module under TVM's names."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adjoint import training
from adjoint.compat.tvm.relax.module import IRModule
from adjoint.compat.tvm.relax.vm import VirtualMachine, arrays_of
from adjoint.compat.tvm.runtime import Tensor
from adjoint.compat.uncovered import uncovered
from adjoint.errors import InvalidValueError, TypeRuleError, kind_of

__all__ = ["Trainer"]
__getattr__ = uncovered(__name__, {}, "adjoint.Trainer")

_Arrays = Sequence[Any] | Mapping[str, Any]


class Trainer:
    """Trains a module, by `adjoint.Trainer`.

    Parameters
    ----------
    train_mod : IRModule
        What `SetupTrainer` made.
    vm : VirtualMachine
        What runs it; the whole step is one compiled function of its own.
    device : Device, optional
        The CPU.
    zero_init_param_state : bool, default True
        Whether parameters and states are zeros at first.

    Attributes
    ----------
    native : adjoint.Trainer
        The trainer in adjoint, with its `run_epoch`, `save` and `profile`.
    """

    def __init__(
        self, train_mod: IRModule, vm: VirtualMachine, device: Any = None, zero_init_param_state: bool = True
    ) -> None:
        del device
        for what, given, kind in (("train_mod", train_mod, IRModule), ("vm", vm, VirtualMachine)):
            if not isinstance(given, kind):
                raise TypeRuleError(
                    f"Trainer: {what} must be a {kind.__name__}, got {kind_of(given)}; see SetupTrainer"
                )
        self.vm = vm
        self.native = training.Trainer(train_mod.native)
        self._param_num, self._state_num = (int(train_mod.attrs[key]) for key in ("param_num", "state_num"))
        backbone = train_mod["backbone"].native
        inputs = len(backbone.params) - self._param_num - self._state_num
        types = {p.label: p.type for p in backbone.params[inputs:]}
        targets = train_mod["step"].native.params[inputs : inputs + int(train_mod.attrs["target_num"])]
        self._targets = [np.dtype(p.dtype) for p in targets]
        self._types = dict(list(types.items())[: self._param_num]), dict(list(types.items())[self._param_num :])
        if zero_init_param_state:
            self.zero_init_params()
            self.zero_init_states()

    def xaiver_uniform_init_params(self) -> None:
        """Draw the parameters (Glorot and Bengio, 2010); the name is spelled as in TVM."""
        states = self.native.export_states() if self._state_num else {}
        self.native.init_parameters("xavier_uniform")
        if states:
            self.native.load_states(states)

    def zero_init_params(self) -> None:
        """Set all parameters to zero."""
        self.native.load_params({name: np.zeros(t.shape, t.dtype) for name, t in self._types[0].items()})

    def zero_init_states(self) -> None:
        """Set all states to zero."""
        if self._types[1]:
            self.native.load_states({name: np.zeros(t.shape, t.dtype) for name, t in self._types[1].items()})

    def load_params(self, params: _Arrays) -> None:
        """Set parameters: all, as a list in their order, or some, by their names."""
        self.native.load_params(self._completed(params, self._types[0], self.native.export_params))

    def load_states(self, states: _Arrays) -> None:
        """Set states: all, as a list in their order, or some, by their names."""
        self.native.load_states(self._completed(states, self._types[1], self.native.export_states))

    def _completed(self, given: _Arrays, types: Mapping[str, Any], present: Any) -> Any:
        arrays = given if isinstance(given, Mapping) else dict(zip(types, given, strict=len(given) != len(types)))
        if unknown := [name for name in arrays if name not in types]:
            raise InvalidValueError(f"there is no {', '.join(unknown)} among {', '.join(types)}; correct the name")
        converted = {name: np.asarray(_array(x), types[name].dtype) for name, x in arrays.items()}
        return converted if len(converted) == len(types) else {**present(), **converted}

    def export_params(self) -> dict[str, Tensor]:
        """The parameters by name."""
        return {name: Tensor(x) for name, x in self.native.export_params().items()}

    def export_states(self) -> dict[str, Tensor]:
        """The states by name."""
        return {name: Tensor(x) for name, x in self.native.export_states().items()}

    def predict(self, *input_instances: Any) -> Any:
        """What the model returns for inputs, computed as in inference."""
        found = self.native.predict(*map(_array, input_instances))
        return tuple(map(Tensor, found)) if isinstance(found, tuple) else Tensor(found)

    def update(self, input_instances: Any, targets: Any) -> Tensor:
        """One step: the loss before it. Targets are converted to their dtype, as one-hot rows of float to int64."""
        return Tensor(np.float32(self.native.update(*_several(input_instances), *self._converted(targets))))

    def profile_adjoint(self, input_instances: Any, targets: Any) -> Any:
        """Measure the step kernel by kernel; printed, the result is a table."""
        if not self.vm.may_profile:
            raise InvalidValueError("profile_adjoint: the VirtualMachine must be made with profile=True, got False")
        return self.native.profile(*_several(input_instances), *self._converted(targets))

    def _converted(self, targets: Any) -> list[Any]:
        given = _several(targets)
        if len(given) != len(self._targets):
            return given  # the step says what it takes
        return [
            x.astype(dtype) if isinstance(x, np.ndarray) and x.dtype != dtype else x
            for x, dtype in zip(given, self._targets, strict=True)
        ]


def _array(given: Any) -> Any:
    return given.numpy() if isinstance(given, Tensor) else given


def _several(given: Any) -> list[Any]:
    """One array, or a list of them."""
    return arrays_of(given) if isinstance(given, list | tuple) else [_array(given)]
