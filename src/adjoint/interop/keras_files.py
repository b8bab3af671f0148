"""Read weights of Keras, ``.weights.h5`` files, without Keras; h5py is the extra ``keras``."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from adjoint.errors import CheckpointError
from adjoint.paths import FilePath, reading

__all__ = ["read_keras"]

#: The group of a layer's variables, which are numbered.
_VARIABLES = "vars"

#: What the variables of layers are, by their ranks: Keras's files have numbers only. The kernel of a layer is of any
#: rank above 1.
_ROLES = {
    (1,): ("gamma",),
    (1, 1): ("gamma", "beta"),
    (1, 1, 1, 1): ("gamma", "beta", "moving_mean", "moving_variance"),
    (2,): ("kernel",),
    (2, 1): ("kernel", "bias"),
    (2, 2, 1): ("kernel", "recurrent_kernel", "bias"),
}

#: The most levels of groups, so that a file cannot exhaust the stack.
_DEEPEST = 50


def read_keras(path: FilePath) -> dict[str, np.ndarray]:
    """Read what ``model.save_weights("NAME.weights.h5")`` has written in Keras 3.

    Parameters
    ----------
    path : str or os.PathLike
        The file.

    Returns
    -------
    dict of str to numpy.ndarray
        By the name of the layer and the role of the variable, ``layers/dense/kernel``; numbers in names are counted, so
        that ``dense_2`` comes before ``dense_10``. Variables whose role does not follow from their ranks keep their
        number.

    Raises
    ------
    CheckpointError
        If h5py is not installed, or the file is missing, damaged, has links to other files or compressed data.
    """
    try:
        import h5py  # noqa: PLC0415
    except ImportError as error:
        raise CheckpointError("read_keras needs h5py, which is not installed; pip install 'adjoint[keras]'") from error
    with reading(path, "read_keras"), open(path, "rb") as stream:
        try:
            with h5py.File(stream, "r") as file:
                return {name: _content(path, each) for name, each in _named(path, file)}
        except CheckpointError:
            raise
        except AttributeError as error:
            raise _refusal(path, "has a layout that is not Keras's") from error
        except (KeyError, ValueError, RuntimeError, TypeError) as error:
            raise _refusal(path, f"is damaged ({error})") from error
        except OSError as error:
            raise _refusal(path, "is truncated or not an HDF5 file") from error


def _refusal(path: FilePath, problem: str) -> CheckpointError:
    return CheckpointError(f"read_keras reads files of model.save_weights, and {path} {problem}; save it again")


def _named(path: FilePath, group: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The variables of a group and of the groups in it."""
    if depth > _DEEPEST:
        raise _refusal(path, "has too many levels of groups")
    for name, child in _children(path, group, prefix):
        if name != _VARIABLES:
            if isinstance(child, Mapping):
                yield from _named(path, child, f"{prefix}{name}/", depth + 1)
            continue
        variables = [each for _, each in _children(path, child, f"{prefix}{name}/")]
        ranks = tuple(min(len(each.shape), 2) for each in variables)
        roles = _ROLES.get(ranks, tuple(f"{_VARIABLES}/{i}" for i in range(len(variables))))
        yield from ((prefix + role, each) for role, each in zip(roles, variables, strict=True))


def _children(path: FilePath, group: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """What is in a group, in the order of the numbers in names."""
    for name in sorted(group, key=_counted):
        if type(group.get(name, getlink=True)).__name__ != "HardLink":  # type: ignore[call-overload]
            raise _refusal(path, f"has a link at {prefix + name!r}, which could lead to another file")
        yield name, group[name]


def _content(path: FilePath, dataset: Any) -> np.ndarray:
    """The elements of a variable, which must be in the file as they are."""
    plain = dataset.compression is None and not dataset.external and not dataset.is_virtual
    if not plain or dataset.id.get_storage_size() != dataset.nbytes or dataset.dtype.kind not in "fiub":
        raise _refusal(path, f"has compressed, external or other data in {dataset.name!r}")
    array: np.ndarray = np.asarray(dataset[()])
    return array


def _counted(name: str) -> list[tuple[int, str]]:
    """A key to sort names by, in which numbers are in the order of their values."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]+)", name)]
