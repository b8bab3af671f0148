"""`restore`: continue training from a snapshot, after a check that it fits."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.errors import AdjointError, CheckpointError, listed, plural, warn
from adjoint.modules import Module
from adjoint.modules.state import initialize_lazy, stored
from adjoint.optim.exact_state import check_exact_state, load_exact_state, same_kind
from adjoint.tensor.assign import assign
from adjoint.tensor.generator import Generator, default_generator
from adjoint.tensor.tensor import Tensor
from adjoint.training.checkpoints.capture import as_sequence, callback_keys, transient
from adjoint.training.checkpoints.packing import unpack
from adjoint.training.checkpoints.snapshot import PREFIX, Snapshot

if TYPE_CHECKING:  # the callback that saves checkpoints imports this module
    from adjoint.training.callbacks.base import Callback

__all__ = ["restore"]


def restore(
    snapshot: Snapshot,
    network: Module,
    optimizer: Any = None,
    callbacks: "Sequence[Callback]" = (),
    scaler: Any = None,
    strict: bool = True,
    *,
    schedulers: Any = (),
    modules: Mapping[str, Module] | None = None,
) -> dict[str, Any]:
    """Continue from a snapshot: the next steps have the bits that they would have had without an interruption.

    Everything is checked first. If something does not fit, nothing is changed.

    Parameters
    ----------
    snapshot : Snapshot
        What `capture` or `read_snapshot` returned.
    network, optimizer, callbacks, scaler, schedulers, modules
        As for `capture`, made in the same way as then. Callbacks may be others; each gets the state that one of its
        class had.
    strict : bool, default True
        Whether it is an error if something differs. Otherwise what fits is loaded, and a warning says what does not.

    Returns
    -------
    dict
        The cursor of the run.

    Raises
    ------
    CheckpointError
        With the first difference.
    """
    try:
        plan = _Plan(snapshot, strict)
        plan.module("", network, snapshot.manifest["network"]["aliases"])
        for key, module in (modules or {}).items():
            plan.module(f"{PREFIX}module:{key}:", module, snapshot.manifest["modules"].get(key, {}))
        plan.optimizers(as_sequence(optimizer))
        plan.schedulers(as_sequence(schedulers))
        plan.scaler(scaler)
        plan.callbacks(callbacks)
        random = plan.unpacked(snapshot.manifest["random"]["default"])
        Generator().set_state(random)  # raises if it is no state
        cursor = plan.unpacked(snapshot.manifest["cursor"])
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        if isinstance(error, AdjointError):
            raise
        raise CheckpointError(
            f"restore: the checkpoint's manifest is damaged ({type(error).__name__}: {error}); use another checkpoint"
        ) from error
    plan.apply()
    default_generator.set_state(random)
    if plan.differences:
        warn(f"restore: what fits has been loaded, and the checkpoint has {listed(plan.differences)}")
    found: dict[str, Any] = cursor
    return found


class _Plan:
    """What is going to be loaded where, made completely before anything is changed."""

    def __init__(self, snapshot: Snapshot, strict: bool) -> None:
        self._arrays, self._manifest, self._strict = snapshot.arrays, snapshot.manifest, strict
        self._tensors: dict[int, tuple[Tensor, np.ndarray]] = {}
        #: Whose state is loaded, how, and with what.
        self._actions: list[tuple[Any, Any, tuple[Any, ...]]] = []
        self.differences: list[str] = []

    def unpacked(self, value: Any) -> Any:
        return unpack(value, self._arrays)

    def apply(self) -> None:
        for tensor, array in self._tensors.values():
            assign(tensor, array)
        for owner, action, arguments in self._actions:
            try:
                action(*arguments)
            except AdjointError:
                raise
            except Exception as error:  # of the code of a callback, or a scheduler
                raise CheckpointError(
                    f"restore: the state of {type(owner).__name__} must be what its state_dict() returned, and loading "
                    f"it failed ({type(error).__name__}: {error}); use another checkpoint, or correct load_state_dict"
                ) from error

    def _differs(self, difference: str) -> None:
        if self._strict:
            raise CheckpointError(
                f"restore: the checkpoint must be one of the same run, and it has {difference}; build everything as it "
                "was saved, or pass strict=False to load what fits"
            )
        self.differences.append(difference)

    def module(self, prefix: str, module: Module, aliases: Mapping[str, str]) -> None:
        saved = {name: self._arrays[first] for name, first in aliases.items() if first in self._arrays}
        saved |= {name: array for name, array in self._arrays.items() if prefix or not name.startswith(PREFIX)}
        saved = {name.removeprefix(prefix): array for name, array in saved.items() if name.startswith(prefix)}
        initialize_lazy(module, saved)
        own: dict[str, Tensor] = {name: tensor for name, tensor, _, _ in stored(module)}
        for name, tensor in own.items():
            array = saved.get(name)
            if array is None:
                self._differs(f"no {name!r}, which is {_type(tensor)} in {type(module).__name__}")
            elif array.shape != tuple(tensor.shape) or (self._strict and array.dtype != tensor.dtype):
                self._differs(f"{name!r} as {array.dtype}{list(array.shape)} instead of {_type(tensor)}")
            else:
                self._tensors[id(tensor)] = tensor, np.asarray(array, tensor.dtype)
        for name in saved:
            if name not in own:
                self._differs(f"{name!r}, which {type(module).__name__} does not have")
        if prefix == "":
            firsts: dict[int, str] = {}
            tied = {n: firsts[id(t)] for n, t in own.items() if firsts.setdefault(id(t), n) != n}
            for name in sorted({*tied, *aliases}):
                if tied.get(name) != aliases.get(name):
                    known = aliases.get(name)
                    self._differs(
                        f"{name!r} as " + (f"the same tensor as {known!r}" if known else "a tensor of its own")
                    )
        for name, tensor in transient(module):
            kept = self._arrays.get(f"{PREFIX}transient:{prefix}{name}")
            if kept is not None:
                self._tensors[id(tensor)] = tensor, kept

    def optimizers(self, given: Sequence[Any]) -> None:
        for optimizer, packed in self._pairs(given, self._manifest["optimizers"], "optimizer"):
            state = self.unpacked(packed)
            try:
                check_exact_state(optimizer, state)
            except (AdjointError, KeyError, TypeError) as error:
                if self._strict:
                    raise
                self.differences.append(f"another state of the optimizer ({getattr(error, 'message', error)})")
            else:
                self._actions.append((optimizer, load_exact_state, (optimizer, state)))

    def schedulers(self, given: Sequence[Any]) -> None:
        for scheduler, packed in self._pairs(given, self._manifest["schedulers"], "learning-rate scheduler"):
            state, own = self.unpacked(packed["state"]), scheduler.state_dict()
            name = type(scheduler).__name__
            if packed["class"] != name or not _fits(own, state):
                self._differs(f"the state of the scheduler {packed['class']} instead of {name}")
            else:
                self._actions.append((scheduler, scheduler.load_state_dict, (state,)))

    def scaler(self, given: Any) -> None:
        saved = [] if self._manifest["scaler"] is None else [self._manifest["scaler"]]
        for scaler, packed in self._pairs([] if given is None else [given], saved, "loss scale"):
            state = self.unpacked(packed)
            if not _fits(scaler.state_dict(), state):
                self._differs("the state of another loss scale")
            else:
                self._actions.append((scaler, scaler.load_state_dict, (state,)))

    def callbacks(self, given: "Sequence[Callback]") -> None:
        states = self._manifest["callbacks"]
        keys = dict(callback_keys(given))
        for key, callback in keys.items():
            prefix = f"{PREFIX}callback-array:{key}:"
            arrays = {n.removeprefix(prefix): a.copy() for n, a in self._arrays.items() if n.startswith(prefix)}
            if key in states:
                self._actions.append((callback, callback.load_state_dict, (self.unpacked(states[key]),)))
            if arrays:
                self._actions.append((callback, callback.load_state_arrays, (arrays,)))
        for key, packed in states.items():
            if packed and key not in keys:
                warn(
                    f"restore: the checkpoint has the state of a callback {key.partition(':')[0]}, which this run does "
                    "not have; pass the same callbacks to continue in the same way"
                )

    def _pairs(self, given: Sequence[Any], saved: Sequence[Any], what: str) -> Iterator[tuple[Any, Any]]:
        if len(given) != len(saved):
            self._differs(f"the state of {plural(len(saved), what)}, while {len(given)} were given")
        yield from zip(given, saved, strict=False)


def _fits(own: Mapping[str, Any], saved: Mapping[str, Any]) -> bool:
    """Whether a saved state has the names and the kinds of values of one that there is."""
    return own.keys() == saved.keys() and all(same_kind(value, saved[key]) for key, value in own.items())


def _type(tensor: Tensor) -> str:
    return f"{np.dtype(tensor.dtype)}{list(tensor.shape)}"
