"""`capture`: a copy of the whole state of training in memory."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.errors import CheckpointError, TypeRuleError, kind_of
from adjoint.modules import Module
from adjoint.modules.state import stored
from adjoint.optim.exact_state import exact_state
from adjoint.tensor.generator import default_generator
from adjoint.tensor.tensor import Tensor
from adjoint.training.checkpoints.packing import pack
from adjoint.training.checkpoints.snapshot import PREFIX, Snapshot

if TYPE_CHECKING:  # the callback that saves checkpoints imports this module
    from adjoint.training.callbacks.base import Callback

__all__ = ["as_sequence", "callback_keys", "capture", "transient"]


class _Copies:
    """Copies of arrays by name, in the memory of a snapshot that is not needed any more where they fit."""

    def __init__(self, old: Mapping[str, np.ndarray]) -> None:
        self._old = old
        self.arrays: dict[str, np.ndarray] = {}

    def add(self, name: str, given: Any) -> None:
        """Copy a tensor or an array."""
        array = given.elements().array if isinstance(given, Tensor) else np.asarray(given)
        old = self._old.get(name)
        if old is not None and old.flags.writeable and (old.shape, old.dtype) == (array.shape, array.dtype):
            np.copyto(old, array)
            self.arrays[name] = old
        else:
            self.arrays[name] = array.copy()


def capture(
    network: Module,
    optimizer: Any = None,
    run_cursor: Mapping[str, Any] | None = None,
    callbacks: "Sequence[Callback]" = (),
    config: Mapping[str, Any] | None = None,
    scaler: Any = None,
    *,
    schedulers: Any = (),
    modules: Mapping[str, Module] | None = None,
    info: Mapping[str, Any] | None = None,
    sequence: int = 0,
    reuse: Snapshot | None = None,
) -> Snapshot:
    """Copy everything that the next steps depend on.

    These are parameters and buffers, the state and the settings of optimizers, learning-rate schedulers, the loss
    scale, the default random generator, and callbacks. Gradients are not part of it: capture between `zero_grad` and
    `backward`.

    Parameters
    ----------
    network : Module
        The network. Tensors that it has under several names are copied once.
    optimizer : Optimizer or sequence of Optimizer, optional
        Bound to parameters.
    run_cursor : mapping, optional
        Where the run is, plain data.
    callbacks : sequence of Callback, default ()
        Whose ``state_dict`` and ``state_arrays`` are copied.
    config : mapping, optional
        The configuration, plain data.
    scaler : GradScaler, optional
        The loss scale.
    schedulers : LRScheduler or sequence of LRScheduler, default ()
        Schedules that are stepped by the program.
    modules : mapping of str to Module, optional
        Other modules with a state, by a name: averages of the network, a training step. What they share with the
        network is not copied again.
    info : mapping, optional
        Anything else to be found in the manifest, plain data.
    sequence : int, default 0
        The number of the checkpoint in its directory.
    reuse : Snapshot, optional
        A snapshot that is not needed any more, whose memory is used again.

    Returns
    -------
    Snapshot

    Raises
    ------
    TypeRuleError
        If a state or the configuration has something that cannot be written.
    CheckpointError
        If a parameter has a name that begins with ``adjoint:``.
    """
    copies = _Copies({} if reuse is None else reuse.arrays)

    def packed(what: str, value: Any, name: str) -> Any:
        return pack(what, value, f"{PREFIX}{name}", copies.add)

    seen: dict[int, str] = {}
    manifest: dict[str, Any] = {
        "sequence": sequence,
        "time": time.time(),
        "cursor": _plain("run_cursor", run_cursor),
        "config": _plain("config", config),
        "info": _plain("info", info),
        "network": {"class": type(network).__name__, "aliases": _copied("", network, copies, seen)},
        "modules": {
            key: _copied(f"{PREFIX}module:{key}:", module, copies, seen) for key, module in (modules or {}).items()
        },
        "optimizers": [
            packed("the state of the optimizer", exact_state(each), f"optimizer:{i}")
            for i, each in enumerate(as_sequence(optimizer))
        ],
        "schedulers": [
            {
                "class": type(each).__name__,
                "state": packed(f"the state of {type(each).__name__}", each.state_dict(), f"scheduler:{i}"),
            }
            for i, each in enumerate(as_sequence(schedulers))
        ],
        "scaler": None if scaler is None else packed("the loss scale", scaler.state_dict(), "scaler"),
        "random": {"default": packed("the random generator", default_generator.get_state(), "random:default")},
        "callbacks": {},
    }
    for key, callback in callback_keys(callbacks):
        manifest["callbacks"][key] = packed(
            f"the state of {type(callback).__name__}", callback.state_dict(), f"callback:{key}"
        )
        for name, array in callback.state_arrays().items():
            copies.add(f"{PREFIX}callback-array:{key}:{name}", array)
    return Snapshot(copies.arrays, manifest)


def as_sequence(given: Any) -> list[Any]:
    """Several objects, one, or None, as a list."""
    return [] if given is None else list(given) if isinstance(given, list | tuple) else [given]


def callback_keys(callbacks: "Sequence[Callback]") -> "list[tuple[str, Callback]]":
    """The key of each callback: the name of its class, and how many of this class come before it."""
    counts: dict[str, int] = {}
    found = []
    for callback in callbacks:
        name = type(callback).__name__
        found.append((f"{name}:{counts.get(name, 0)}", callback))
        counts[name] = counts.get(name, 0) + 1
    return found


def transient(module: Module) -> list[tuple[str, Tensor]]:
    """The buffers of a module that its ``state_dict`` leaves out, by name."""
    persistent = {name for name, _, _, _ in stored(module)}
    return [(name, buffer) for name, buffer in module.named_buffers() if name not in persistent]


def _copied(prefix: str, module: Module, copies: _Copies, seen: dict[int, str]) -> dict[str, str]:
    """Copy what a module has that has not been copied, and return the names of what has been, with the first ones."""
    aliases = {}
    for name, tensor, _, _ in stored(module):
        if name.startswith(PREFIX):
            raise CheckpointError(
                f"capture: names that begin with {PREFIX!r} are those of the file's other arrays, got the parameter "
                f"{name!r}; rename it"
            )
        full = prefix + name
        if id(tensor) in seen:
            aliases[full] = seen[id(tensor)]
        else:
            seen[id(tensor)] = full
            copies.add(full, tensor)
    for name, tensor in transient(module):
        full = f"{PREFIX}transient:{prefix}{name}"
        if id(tensor) not in seen:
            seen[id(tensor)] = full
            copies.add(full, tensor)
    return aliases


def _plain(what: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """A copy of plain data; raises if it is something else."""
    try:
        found: dict[str, Any] = json.loads(json.dumps(dict(given or {}), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        got = kind_of(given) if not isinstance(given, Mapping) else str(error)
        raise TypeRuleError(f"capture: {what} must be data that JSON has, got {got}; convert it") from error
    return found
