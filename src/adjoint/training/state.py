"""What a trainer keeps between steps: parameters, states, the optimizer's state, hyperparameters."""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from adjoint.errors import InvalidValueError, MissingAttributeError, TypeRuleError
from adjoint.paths import FilePath
from adjoint.runtime.bound import Bound, rows_present
from adjoint.training.arrays import Hyper, Residents
from adjoint.training.initialize import Initializer, initial_params, initial_states
from adjoint.training.layout import StepLayout
from adjoint.training.tensors import write_arrays
from adjoint.training.weights import read_weights

__all__ = ["Arrays", "TrainerState"]

_T = TypeVar("_T")

#: Parameters, states or optimizer states to load: in order, or by name.
Arrays = Sequence[np.ndarray] | Mapping[str, np.ndarray]


#: The public attributes of a trainer.
_ATTRIBUTES = frozenset(("module", "options", "seed", "hyper"))


class TrainerState:
    """The base class of `Trainer`: its arrays, and their initialization, loading and export.

    Parameters
    ----------
    layout : StepLayout
        The inputs of the step.
    seed : int
        Seed of `init_parameters`.

    Attributes
    ----------
    hyper : Hyper
        Hyperparameters by name: ``trainer.hyper["lr"] = 0.05`` takes effect in the next step.
    """

    def __init__(self, layout: StepLayout, seed: int) -> None:
        self.seed = seed
        self._params = Residents("parameter", layout.params, "load_params")
        self._states = Residents("state", layout.states, "load_states")
        self._optimizer = Residents("optimizer state", layout.optimizer, "load_optimizer_state")
        self._starts = layout.starts
        self._initial_optimizer = layout.initial_optimizer
        self._init_states()
        self._fill_optimizer_state(only_others_than=0.0)
        self.hyper = Hyper(layout.hyper, layout.initial_hyper)
        self._partial = layout.partial
        self._rows = {name: rows_present(self._partial) for name in (self._partial.rows,) if name}
        # The compiled step, which reads and writes the arrays, and the lock under which it is compiled.
        self._bound: Bound | None = None
        self._compiling = threading.RLock()

    def init_parameters(self, kind: Initializer = "xavier_uniform") -> None:
        """Initialize all parameters and the model's states, leaving the optimizer's state unchanged.

        Values are determined by the module's attribute ``init`` (see `SetupTrainer`) and the trainer's seed.

        Parameters
        ----------
        kind : {"xavier_uniform", "kaiming_normal", "zeros"}, callable or mapping
            Initializer for parameters of rank 2 or more that are not listed in ``init``. Other parameters and states
            that are not listed are set to zero. A function ``(name, shape, rng) -> array`` initializes all parameters
            that are not listed; `rng` is a `numpy.random.Generator` that depends on the seed and the parameter only. A
            mapping contains for some parameters, listed or not, a kind (or a tuple of it and its numbers, as in
            ``init``), an array or such a function; the others are initialized as by default.

        Raises
        ------
        InvalidValueError, NameLookupError, TypeRuleError
            If the kind or a name is unknown, or an array has a wrong shape or values that are not finite real numbers;
            nothing has been changed.
        """
        params = initial_params(self._params.types, self._starts, self.seed, kind)
        self._in_turn(self._params.load, params)
        self._in_turn(self._init_states)

    def load_params(self, params: Arrays | FilePath, *, transpose: Sequence[str] = ()) -> None:
        """Copy all parameters in: a list in their order, a dict by their names, or a safetensors file by their names.

        Parameters
        ----------
        params : sequence or mapping of numpy.ndarray, str or os.PathLike
            Arrays of exactly the parameters' shapes and dtypes. In a file, floats of other dtypes are converted, and
            arrays with the names of states are ignored.
        transpose : sequence of str, default ()
            Matrices that the file has transposed, such as the weights of PyTorch's ``Linear``, which are [out, in]
            instead of [in, out]. Square ones are not noticed if they are not listed.

        Raises
        ------
        NameLookupError, InvalidValueError, TypeRuleError
            If names, number, shapes or dtypes are wrong; nothing has been loaded.
        CheckpointError
            If the file cannot be read; nothing has been loaded.
        """
        if isinstance(params, str | os.PathLike):
            params = read_weights(params, "parameter", self._params.types, self._states.types, transpose)
        elif transpose:
            raise TypeRuleError("load_params: transpose is for a file, got arrays; transpose them with .T")
        self._in_turn(self._params.load, params)

    def save_params(self, path: FilePath) -> None:
        """Write the parameters by name to a safetensors file, as `Trainer.save` writes its file.

        Raises
        ------
        CheckpointError
            If the file cannot be written; an older one is unchanged.
        InvalidValueError
            If the parameters have no values yet.
        """
        self._require_params("save_params")
        write_arrays(path, self._in_turn(self._params.export))

    def export_params(self) -> dict[str, np.ndarray]:
        """Copies of the parameters by name."""
        return self._in_turn(self._params.export)

    def load_states(self, states: Arrays | FilePath) -> None:
        """Copy the model's states in, as `load_params` does parameters."""
        if isinstance(states, str | os.PathLike):
            states = read_weights(states, "state", self._states.types, self._params.types)
        self._in_turn(self._states.load, states)

    def export_states(self) -> dict[str, np.ndarray]:
        """Copies of the model's states by name."""
        return self._in_turn(self._states.export)

    def load_optimizer_state(self, state: Arrays) -> None:
        """Copy the optimizer's state in, as `load_params` does parameters."""
        self._in_turn(self._optimizer.load, state)

    def export_optimizer_state(self) -> dict[str, np.ndarray]:
        """Copies of the optimizer's state by name."""
        return self._in_turn(self._optimizer.export)

    def reset_optimizer_state(self) -> None:
        """Reset the optimizer's state to its initial values."""
        self._in_turn(self._fill_optimizer_state)

    def _check_attribute(self, name: str) -> None:
        """Raise for an assignment that would have no effect."""
        if name == "hyper" and "hyper" in self.__dict__:
            raise InvalidValueError(
                "Trainer: hyper cannot be replaced, got an assignment to it; set its items, as in "
                "trainer.hyper['lr'] = 0.1"
            )
        if name.startswith("_") or name in _ATTRIBUTES or hasattr(type(self), name):
            return
        if "hyper" in self.__dict__ and name in self.hyper:
            raise MissingAttributeError(
                f"Trainer: {name} is a hyperparameter, got an assignment to the attribute {name}; set "
                f"trainer.hyper[{name!r}]"
            )
        raise MissingAttributeError(
            f"Trainer: there is no attribute {name} to assign to, got an assignment; pass settings to Trainer(...), "
            "or use a subclass for attributes of your own"
        )

    def _fill_optimizer_state(self, only_others_than: float | None = None) -> None:
        # Fresh arrays are zeros already, in pages that take no memory until the first step writes them.
        for name, array in self._optimizer.arrays.items():
            if self._initial_optimizer[name] != only_others_than:
                array.fill(self._initial_optimizer[name])

    def _init_states(self) -> None:
        self._states.load(initial_states(self._params.types, self._states.types, self._starts, self.seed))

    def _resident(self) -> dict[str, np.ndarray]:
        """All arrays that persist between steps, by name."""
        return self._params.arrays | self._states.arrays | self._optimizer.arrays | self.hyper.arrays | self._rows

    def _require_params(self, action: str) -> None:
        """Raise if the parameters have no values yet."""
        if not self._params.loaded:
            raise InvalidValueError(
                f"{action}: the parameters have no values yet; call trainer.init_parameters() or "
                "trainer.load_params(...) first"
            )

    def _in_turn(self, function: Callable[..., _T], *args: Any) -> _T:
        """Call a function between two steps of any Python thread."""
        bound = self._bound
        if bound is None:
            with self._compiling:  # another thread may be compiling the step, and then run it
                bound = self._bound
                if bound is None:
                    return function(*args)
        result: _T = bound.exclusively(function, *args)
        return result
