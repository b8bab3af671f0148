"""The file of a trainer: everything that its next steps depend on, in one safetensors file.

Parameters have their own names, so that any reader of safetensors finds a model's weights. Other arrays have the
prefixes of `GROUPS` or are those of the unfinished epoch, whose names begin with `EPOCH`. The metadata has the version
of the format, the text of the module, and the numbers in JSON.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from adjoint.errors import AdjointError, CheckpointError, InvalidValueError, VerifyError
from adjoint.ir import DTYPES, IRModule
from adjoint.lazy_dataclass import dataclass
from adjoint.ops import parse
from adjoint.paths import FilePath
from adjoint.training.layout import StepLayout
from adjoint.training.progress import Position
from adjoint.training.tensors import read_file, write_file
from adjoint.version import __version__

__all__ = ["EPOCH", "GROUPS", "PREFIX", "Checkpoint", "check_same", "difference", "is_checkpoint", "read_checkpoint"]

#: Starts the names of all arrays that are not parameters; no parameter may have such a name.
PREFIX = "adjoint:"

#: Prefix of the names of each group of arrays.
GROUPS = {
    "parameter": "",
    "state": f"{PREFIX}state:",
    "optimizer state": f"{PREFIX}optimizer:",
    "hyperparameter": f"{PREFIX}hyper:",
}

#: Prefix of the arrays of an unfinished epoch: ``losses``, and ``order`` if it is shuffled.
EPOCH = f"{PREFIX}epoch:"

#: Version of the format that this version of adjoint writes, and the newest that it reads.
_FORMAT = 1

#: Keys of the metadata.
_FORMAT_KEY, _MODULE_KEY, _NUMBERS_KEY, _VERSION_KEY = (
    f"adjoint.{name}" for name in ("format", "module", "trainer", "version")
)


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """The content of a trainer's file.

    Parameters
    ----------
    module : IRModule
        The training module.
    seed : int
        The trainer's seed.
    groups : mapping of str to mapping of str to numpy.ndarray
        Arrays by name, for each name of `GROUPS`.
    begun : int
        Number of epochs begun.
    position : Position or None
        Where the unfinished epoch is.
    """

    module: IRModule
    seed: int
    groups: Mapping[str, Mapping[str, np.ndarray]]
    begun: int
    position: Position | None

    def write(self, path: FilePath) -> None:
        """Write the file.

        Raises
        ------
        CheckpointError
            If it cannot be written, or a parameter has a name that the format reserves; an old file is unchanged.
        """
        taken = [name for name in self.groups["parameter"] if name.startswith(PREFIX)]
        if taken:
            raise CheckpointError(
                f"save: names that begin with {PREFIX!r} are those of the file's other arrays, got the parameter "
                f"{taken[0]!r}; rename it"
            )
        arrays = {f"{GROUPS[group]}{name}": a for group, named in self.groups.items() for name, a in named.items()}
        numbers: dict[str, Any] = {"seed": self.seed, "begun": self.begun, "epoch": None}
        position = self.position
        if position is not None:
            rows = None if position.order is None else len(position.order)
            numbers["epoch"] = {"rows": rows, "shuffle": position.shuffle, "drop_last": position.drop_last}
            arrays[f"{EPOCH}losses"] = position.losses
            if position.order is not None and position.shuffle:
                arrays[f"{EPOCH}order"] = position.order
        metadata = {
            _FORMAT_KEY: str(_FORMAT),
            _VERSION_KEY: __version__,
            _MODULE_KEY: str(self.module),
            _NUMBERS_KEY: json.dumps(numbers),
        }
        write_file(path, arrays, metadata, "save")


def is_checkpoint(metadata: Mapping[str, str]) -> bool:
    """Whether a safetensors file with this metadata was written by `Trainer.save`."""
    return _FORMAT_KEY in metadata


def read_checkpoint(path: FilePath) -> Checkpoint:
    """Read a trainer's file and check that it is complete.

    Raises
    ------
    CheckpointError
        If it is missing, truncated, not a trainer's, from a newer version of adjoint, or lacks something.
    """
    arrays, metadata = read_file(path, "Trainer.load")
    if not is_checkpoint(metadata):
        raise CheckpointError(
            f"Trainer.load reads files of Trainer.save, and {path} holds arrays only; make a Trainer of the module and "
            "use its load_params(path)"
        )
    version = metadata[_FORMAT_KEY]
    if version != str(_FORMAT):
        raise CheckpointError(
            f"Trainer.load: {path} has format {version}, and adjoint {__version__} reads format {_FORMAT}; install "
            f"adjoint {metadata.get(_VERSION_KEY, 'of its version')} or newer"
        )
    try:
        module = parse(metadata[_MODULE_KEY])
        numbers = json.loads(metadata[_NUMBERS_KEY])
        return Checkpoint(
            module, numbers["seed"], _groups(module, arrays), numbers["begun"], _position(numbers, arrays)
        )
    except (KeyError, TypeError, ValueError, AdjointError) as error:
        missing = isinstance(error, KeyError) and not isinstance(error, AdjointError)
        cause = error.message if isinstance(error, AdjointError) else f"no {error}" if missing else str(error)
        raise CheckpointError(f"Trainer.load: {path} is damaged ({cause}); load another file") from error


def _groups(module: IRModule, arrays: Mapping[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    """The arrays of each group; raises if one is missing or has another type than in the module."""
    layout = StepLayout(module)
    found: dict[str, dict[str, np.ndarray]] = {}
    for (group, prefix), types in zip(
        GROUPS.items(), (layout.params, layout.states, layout.optimizer, layout.hyper), strict=True
    ):
        found[group] = {name: arrays[f"{prefix}{name}"] for name in types}
        for name, type_ in types.items():
            array = found[group][name]
            if (array.shape, array.dtype) != (type_.shape, type_.dtype):
                raise VerifyError(f"{group} {name!r} is {type_} in the module, got {array.dtype}{list(array.shape)}")
    return found


def _position(numbers: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Position | None:
    epoch = numbers["epoch"]
    if epoch is None:
        return None
    order = None
    if epoch["rows"] is not None:
        order = arrays[f"{EPOCH}order"] if epoch["shuffle"] else np.arange(epoch["rows"], dtype=DTYPES["i64"])
        if not np.array_equal(np.sort(order), np.arange(epoch["rows"])):
            raise VerifyError(f"the order of the epoch must have each of {epoch['rows']} rows once")
    return Position(order, epoch["shuffle"], epoch["drop_last"], arrays[f"{EPOCH}losses"])


def check_same(path: FilePath, saved: IRModule, given: IRModule) -> None:
    """Check that a module is the one that was saved.

    Raises
    ------
    InvalidValueError
        With the first difference.
    """
    if saved != given:
        raise InvalidValueError(
            f"Trainer.load: {path} was saved for another module, in which {difference(saved, given)}; pass the same "
            "module or none, or take only the weights, with Trainer(module).load_params(path)"
        )


def difference(saved: IRModule, given: IRModule) -> str:
    """The first difference of two training modules that differ, in words."""
    one, other = StepLayout(saved), StepLayout(given)
    for kind in ("params", "states", "optimizer", "hyper", "batch"):
        word = {"params": "parameter", "states": "state", "optimizer": "optimizer state", "hyper": "hyperparameter"}
        mine, others = getattr(one, kind), getattr(other, kind)
        for name in [*mine, *(n for n in others if n not in mine)]:
            if mine.get(name) != others.get(name):
                here, there = (str(types[name]) if name in types else "missing" for types in (mine, others))
                return f"{word.get(kind, 'input')} {name!r} is {here}, but {there} in the one given"
    for name in sorted({*saved.attrs, *given.attrs}):
        if saved.attrs.get(name) != given.attrs.get(name):
            return f"the attribute {name} is {saved.attrs.get(name)!r}, but {given.attrs.get(name)!r} in the one given"
    meanings = {"backbone": "the model", "backbone_loss": "the loss", "optimizer": "the optimizer"}
    for function in saved:
        if function.name not in given:
            return f"there is a function @{function.name}, which is missing in the one given"
        if function != given[function.name]:
            return f"{meanings.get(function.name, 'a function')}, @{function.name}, differs from the one given"
    return "the functions have another order than in the one given"
