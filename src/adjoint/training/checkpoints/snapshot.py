"""A snapshot of training: arrays by name and a manifest, and the file that holds it.

The file is in the safetensors format. The manifest, a text in JSON, the version of the format and a digest of
everything are in its metadata.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.errors import CheckpointError
from adjoint.lazy_dataclass import dataclass
from adjoint.paths import FilePath, reading
from adjoint.training.tensors import digest_of, read_file, write_file
from adjoint.version import __version__

__all__ = ["PREFIX", "Snapshot", "read_manifest", "read_snapshot", "write_snapshot"]

#: Starts the names of all arrays that are not parameters or buffers of the network.
PREFIX = "adjoint:"

#: Version of the format that is written, and the only one that is read.
_FORMAT = "1"

#: Keys of the metadata.
_FORMAT_KEY, _VERSION_KEY, _MANIFEST_KEY, _DIGEST_KEY = (
    f"adjoint.{name}" for name in ("snapshot", "version", "manifest", "sha256")
)

#: What a manifest has, with the types.
_MANIFEST: dict[str, type | tuple[type, ...]] = {
    "sequence": int,
    "time": (int, float),
    "cursor": dict,
    "config": dict,
    "info": dict,
    "network": dict,
    "modules": dict,
    "optimizers": list,
    "schedulers": list,
    "scaler": (dict, type(None)),
    "random": dict,
    "callbacks": dict,
}

#: The longest header that is read, as in the library that reads safetensors files, and the bytes of its size.
_LONGEST_HEADER, _SIZE_BYTES = 100_000_000, 8


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """A consistent copy of the whole state of training.

    Attributes
    ----------
    arrays : dict of str to numpy.ndarray
        Parameters and buffers by their names in the network's ``state_dict``; the names of others begin with
        ``adjoint:``.
    manifest : dict
        Everything else, which can be written as JSON.
    """

    arrays: dict[str, np.ndarray]
    manifest: dict[str, Any]

    def network_state(self) -> dict[str, np.ndarray]:
        """What the network's ``load_state_dict`` takes: its parameters and buffers by name."""
        found = {name: array for name, array in self.arrays.items() if not name.startswith(PREFIX)}
        aliases: dict[str, str] = self.manifest["network"]["aliases"]
        return found | {name: self.arrays[first] for name, first in aliases.items()}


def write_snapshot(path: FilePath, snapshot: Snapshot) -> None:
    """Write a snapshot to a file, replacing it as a whole once the new content is on the disk.

    Parameters
    ----------
    path : str or os.PathLike
        The file, in a directory that exists.
    snapshot : Snapshot
        What to write.

    Raises
    ------
    CheckpointError
        If the file cannot be written; an old one is unchanged.
    """
    metadata = {
        _FORMAT_KEY: _FORMAT,
        _VERSION_KEY: __version__,
        _MANIFEST_KEY: json.dumps(snapshot.manifest, allow_nan=False),
    }
    metadata[_DIGEST_KEY] = digest_of(snapshot.arrays, metadata)
    write_file(path, snapshot.arrays, metadata, "write_snapshot")


def read_snapshot(path: FilePath) -> Snapshot:
    """Read a snapshot, and check that it is whole.

    Parameters
    ----------
    path : str or os.PathLike
        A file of `write_snapshot`.

    Raises
    ------
    CheckpointError
        If it is missing, truncated, damaged, of a newer version of adjoint, or something else.
    """
    arrays, metadata = read_file(path, "read_snapshot")
    manifest = _manifest_in(path, metadata)
    digest = metadata.pop(_DIGEST_KEY, None)
    if digest_of(arrays, metadata) != digest:
        raise CheckpointError(f"read_snapshot: {path} is damaged, as its digest shows; use an older checkpoint")
    return Snapshot(arrays, manifest)


def read_manifest(path: FilePath) -> dict[str, Any]:
    """The manifest of a file of `write_snapshot`, without reading or checking its arrays.

    Raises
    ------
    CheckpointError
        As for `read_snapshot`.
    """
    with reading(path, "read_manifest"), Path(path).open("rb") as file:
        size = int.from_bytes(file.read(_SIZE_BYTES), "little")
        text = file.read(size) if size <= _LONGEST_HEADER else b""
    try:
        metadata = json.loads(text)["__metadata__"]
        if not all(isinstance(value, str) for value in metadata.values()):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(
            f"read_manifest: {path} is truncated or no checkpoint of a run; use an older checkpoint"
        ) from error
    return _manifest_in(path, metadata)


def _manifest_in(path: FilePath, metadata: Mapping[str, str]) -> dict[str, Any]:
    if _FORMAT_KEY not in metadata:
        raise CheckpointError(
            f"read_snapshot reads checkpoints of runs, and {path} holds arrays only; read it with read_arrays and use "
            "load_state_dict"
        )
    if metadata[_FORMAT_KEY] != _FORMAT:
        raise CheckpointError(
            f"read_snapshot: {path} has format {metadata[_FORMAT_KEY][:20]}, and adjoint {__version__} reads format "
            f"{_FORMAT}; install adjoint {metadata.get(_VERSION_KEY, 'of its version')[:20]} or newer"
        )
    try:
        manifest = json.loads(metadata[_MANIFEST_KEY])
    except (ValueError, KeyError, RecursionError) as error:
        raise CheckpointError(
            f"read_snapshot: {path} has a manifest that is not JSON; use an older checkpoint"
        ) from error
    for key, kind in _MANIFEST.items():
        found = manifest.get(key, Ellipsis) if isinstance(manifest, dict) else Ellipsis
        if not isinstance(found, kind):
            raise CheckpointError(
                f"read_snapshot: {path} has a manifest without a valid {key!r}; use an older checkpoint"
            )
    whole: dict[str, Any] = manifest
    return whole
