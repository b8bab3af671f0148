"""`WeightAveraging`: moving averages of the weights, for evaluation and for the trained network."""

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.modules import Module
from adjoint.training.callbacks.base import Callback, Run

__all__ = ["WeightAveraging"]


class WeightAveraging(Callback):
    """Keeps exponential moving averages of the parameters, which replace them while the network is evaluated.

    ::

        a = a + (1 - decay) * (p - a)        # after every step; a = p before the first one

    When training ends, the network has the averages; training itself, and checkpoints, have the parameters, and the
    averages beside them. Buffers, such as the statistics of batch normalization, are not averaged. A network that is
    evaluated with averages should not be used with ``EarlyStopping(restore_best_weights=True)``, which keeps
    parameters.

    With ``every=1``, native code returns to Python after every step. With another interval, the averages are updated
    less often, with the decay of so many steps. Polyak and Juditsky (1992), "Acceleration of stochastic approximation
    by averaging"; `adjoint.optim.average` computes averages in the compiled step.

    Parameters
    ----------
    decay : float, default 0.999
        From 0 up to, not including 1.
    every : int, default 10
        The number of steps between updates.

    Raises
    ------
    InvalidValueError
        If a setting is out of range.
    """

    def __init__(self, decay: float = 0.999, every: int = 10) -> None:
        if not 0 <= decay < 1:
            raise InvalidValueError(f"WeightAveraging: decay must be at least 0 and below 1, got {decay!r}")
        if type(every) is not int or every < 1:
            raise InvalidValueError(f"WeightAveraging: every must be an int above 0, got {every!r}")
        self.decay = decay
        self.every: int = every
        self._averages: dict[str, np.ndarray] = {}
        #: The parameters while the averages are in their place.
        self._kept: dict[str, np.ndarray] = {}

    def on_train_begin(self, run: Run) -> None:
        """Begin with the parameters, unless averages come from a checkpoint."""
        self._kept = {}
        if not run.resumed or not self._averages:
            self._averages = {name: array.copy() for name, array in _parameters(run.network).items()}

    def on_train_step_end(self, run: Run) -> None:
        """Move the averages towards the parameters."""
        share = 1.0 - self.decay**self.every
        for name, array in _parameters(run.network).items():
            average = self._averages[name]
            average += (array - average) * array.dtype.type(share)

    def on_eval_begin(self, run: Run) -> None:
        """Put the averages in the place of the parameters."""
        if self._averages:
            self._kept = {name: array.copy() for name, array in _parameters(run.network).items()}
            _set(run.network, self._averages)

    def on_eval_end(self, run: Run) -> None:
        """Put the parameters back."""
        _set(run.network, self._kept)
        self._kept = {}

    def on_exception(self, run: Run, error: BaseException) -> None:
        """Put the parameters back."""
        self.on_eval_end(run)

    def on_train_end(self, run: Run) -> None:
        """Leave the averages in the network."""
        _set(run.network, self._averages)

    def state_arrays(self) -> dict[str, np.ndarray]:
        """The averages."""
        return {name: array.copy() for name, array in self._averages.items()}

    def load_state_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Continue from what `state_arrays` returned."""
        self._averages = {name: np.array(array) for name, array in arrays.items()}


def _parameters(network: Module) -> dict[str, np.ndarray]:
    """The parameters of a network that are floats, as arrays that share their memory."""
    arrays = {name: tensor.numpy(force=True) for name, tensor in network.named_parameters()}
    return {name: array for name, array in arrays.items() if np.issubdtype(array.dtype, np.floating)}


def _set(network: Module, values: dict[str, np.ndarray]) -> None:
    for name, array in _parameters(network).items():
        if name in values:
            np.copyto(array, values[name])
