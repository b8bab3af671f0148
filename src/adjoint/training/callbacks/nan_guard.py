"""`NaNGuard`: ends training at the first loss that is not finite, and says where it came from."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, NotFiniteError, located
from adjoint.lazy_dataclass import dataclass
from adjoint.modules import Module
from adjoint.tensor.checking import debug_nan
from adjoint.tensor.generator import get_rng_state, set_rng_state
from adjoint.tensor.tensor import Tensor
from adjoint.training.callbacks.base import Callback, Run
from adjoint.training.callbacks.weights import copied, put_back

__all__ = ["NaNGuard", "explain_nan"]

#: The number of steps that are examined: a step can leave NaN in the weights while its own loss is still finite.
_EXAMINED = 2

#: The least number of seconds between two copies of the state.
_COPY_SECONDS = 10.0


def explain_nan(function: Callable[..., Any], batches: Iterable[Any]) -> NotFiniteError | None:
    """Find out which operation of a training step made the first NaN or infinity, and which line wrote it.

    The steps are done, which changes the network and the optimizer; of the last two, every value is examined before the
    step is done, which takes several times as long and far more memory.

    Parameters
    ----------
    function : callable
        The training step of a single batch: a function of tensors, or the same compiled by `jit`. It returns the loss.
    batches : iterable of tuple, list or dict
        The batches up to the step whose loss is not finite, as arguments of the function; a dict has keyword arguments.

    Returns
    -------
    NotFiniteError or None
        What `adjoint.debug_nan` raises, or an error that names the place in the batch; None if all that is computed is
        finite.
    """
    waiting: deque[Any] = deque()
    for batch in batches:
        waiting.append(batch)
        if len(waiting) > _EXAMINED:
            _done(function, waiting.popleft())
    for batch in waiting:
        error = _not_finite(batch)
        if error is not None:
            return error
        try:
            with debug_nan(infinity=True):
                _done(function, batch)
        except NotFiniteError as found:
            return found
    return None


def _done(function: Callable[..., Any], batch: Any) -> None:
    """Do a step, and wait for its loss."""
    positional, keywords = ((), batch) if isinstance(batch, dict) else (batch, {})
    loss = function(*positional, **keywords)
    if isinstance(loss, Tensor):
        loss.numpy(force=True)


def _not_finite(batch: Any) -> NotFiniteError | None:
    """An error that names the first number of a batch that is not finite; None if there is none."""
    named = batch.items() if isinstance(batch, dict) else enumerate(batch)
    for name, given in named:
        array = given.numpy(force=True) if isinstance(given, Tensor) else np.asarray(given)
        if array.dtype.kind != "f" or (finite := np.isfinite(array)).all():
            continue
        place = tuple(int(i) for i in np.argwhere(~finite)[0])
        return NotFiniteError(
            f"explain_nan: batches must be finite, got {array[place]} in element {name} of the batch at "
            f"{place}; clean the data"
        )
    return None


@dataclass(frozen=True, slots=True)
class _Copy:
    """The state of training after some steps."""

    epoch: int
    step: int
    step_in_epoch: int
    weights: dict[str, np.ndarray]
    states: dict[str, Any]
    random: Any


class NaNGuard(Callback):
    """Ends training with an error at the first loss that is not finite.

    With `explain`, it repeats the last steps on the state before, and the error names the operation that made the first
    NaN or infinity, and the line that wrote it. For that, it keeps two copies of the state of network and optimizer in
    memory, at least ten seconds apart, and the dataset must have ``epoch(number, start)``, as those of `adjoint.data`
    have. The network and the optimizer are left as they were in the copy.

    Parameters
    ----------
    explain : bool, default True
        Whether to look for the operation.
    every : int, optional
        The number of steps between looks at the losses.
    seconds : float, default 1.0
        The seconds between them, where `every` is not given.

    Raises
    ------
    NotFiniteError
        While training.
    InvalidValueError
        If a setting is out of range.
    """

    def __init__(self, explain: bool = True, every: int | None = None, seconds: float = 1.0) -> None:
        if every is not None and (type(every) is not int or every < 1):
            raise InvalidValueError(f"NaNGuard: every must be an int above 0, got {every!r}")
        if not seconds > 0:
            raise InvalidValueError(f"NaNGuard: seconds must be above 0, got {seconds!r}")
        self.explain = explain
        self.every = every
        self.seconds = seconds if every is None else None
        self._seen = 0
        self._copies: deque[_Copy] = deque(maxlen=2)
        self._copied = -math.inf

    def on_train_begin(self, run: Run) -> None:
        """Copy the state."""
        self._copies.clear()
        self._copied = -math.inf
        self._copy(run)

    def on_train_epoch_begin(self, run: Run) -> None:
        """Begin to look at the losses of this epoch."""
        self._seen = run.step_in_epoch

    def on_train_step_end(self, run: Run) -> None:
        """Look at the losses since the last time."""
        self._look(run)
        self._copy(run)

    def on_eval_begin(self, run: Run) -> None:
        """Look at the last losses, before metrics refuse what they led to."""
        self._look(run)

    def on_train_epoch_end(self, run: Run) -> None:
        """Look at the last losses."""
        self._look(run)

    def on_train_end(self, run: Run) -> None:
        """Free the copies."""
        self._copies.clear()

    def _copy(self, run: Run) -> None:
        now = time.monotonic()
        if not self.explain or run.network is None or now - self._copied < _COPY_SECONDS:
            return
        self._copied = now
        states = {name: _arrays_copied(part.state_dict()) for name, part in _stateful(run).items()}
        weights = copied(_module(run))
        self._copies.append(_Copy(run.epoch, run.step, run.step_in_epoch, weights, states, get_rng_state()))

    def _look(self, run: Run) -> None:
        losses = run.losses
        wrong = np.flatnonzero(~np.isfinite(losses[self._seen :]))
        if len(wrong) == 0:
            self._seen = len(losses)
            return
        place = self._seen + int(wrong[0])
        begin = f"NaNGuard: the loss must be finite, got {losses[place]:g} in step {place + 1} of epoch {run.epoch}"
        found, failure = self._explained(run, place) if self.explain else (None, "")
        if found is None:
            raise NotFiniteError(f"{begin}{failure}; lower the learning rate or clip gradients")
        with located(found.where or ""):
            raise NotFiniteError(f"{begin}: {found.message.partition(', got ')[2]}") from found

    def _explained(self, run: Run, place: int) -> tuple[NotFiniteError | None, str]:
        """The error that names the operation, or why there is none."""
        step = run.step - run.step_in_epoch + place  # steps before the one whose loss is not finite
        before = [copy for copy in self._copies if copy.step <= step]
        earlier = [copy for copy in before if copy.step < step]
        explain, epoch = getattr(run.model, "explain_nan", None), getattr(run.dataset, "epoch", None)
        if not before or explain is None or epoch is None:
            return None, ""
        copy = (earlier or before)[-1]
        try:
            _put_back(run, copy)
            found: NotFiniteError | None = explain(islice(_batches(epoch, copy, run.epoch), step - copy.step + 1))
            _put_back(run, copy)
        except Exception as error:  # whatever goes wrong here must not hide what happened
            return None, f", and repeating the steps before it failed ({type(error).__name__}: {error})"
        return found, "" if found is not None else ", which was finite when the steps before it were repeated"


def _batches(epoch: Callable[[int, int], Iterable[Any]], copy: _Copy, last: int) -> Iterator[Any]:
    """The batches from a copy on to the end of the last epoch, which is counted from 1."""
    for number in range(copy.epoch, last + 1):
        yield from epoch(number - 1, copy.step_in_epoch if number == copy.epoch else 0)


def _module(run: Run) -> Module:
    """What has the parameters and buffers of training: the step, which can have sums of gradients, or the network."""
    module: Module = getattr(run.model, "train_step", run.network)
    return module


def _stateful(run: Run) -> dict[str, Any]:
    """What else has a state: the optimizer and the loss scale."""
    parts = {"optimizer": run.optimizer, "scaler": getattr(_module(run), "scaler", None)}
    return {name: part for name, part in parts.items() if part is not None}


def _put_back(run: Run, copy: _Copy) -> None:
    put_back(_module(run), copy.weights)
    for name, part in _stateful(run).items():
        part.load_state_dict(_arrays_copied(copy.states[name]))
    set_rng_state(copy.random)


def _arrays_copied(state: Any) -> Any:
    """A state dictionary whose tensors are copies."""
    if isinstance(state, Tensor):
        return state.detach().clone()
    if isinstance(state, dict):
        return {key: _arrays_copied(value) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return type(state)(_arrays_copied(value) for value in state)
    return state
