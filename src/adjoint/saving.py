"""`save` and `load`: state dictionaries in PyTorch's file format, without pickle; whole modules with pickle."""

import pickle
from pathlib import Path
from typing import Any, BinaryIO

from adjoint.errors import CheckpointError, TypeRuleError, kind_of
from adjoint.interop import TorchTensor, read_torch, write_torch
from adjoint.modules import Module
from adjoint.paths import FilePath
from adjoint.tensor.environment import check_device
from adjoint.tensor.making import from_array
from adjoint.tensor.tensor import Parameter, Tensor

__all__ = ["load", "save"]

#: What files begin with that contain a whole module; PyTorch's are archives, or begin otherwise.
_MAGIC = b"adjoint module\n"


def save(obj: object, f: FilePath | BinaryIO) -> None:
    """Write tensors, and dicts, lists and tuples of them, as ``torch.save`` does; PyTorch reads the file too.

    A whole module is written by pickle, and read with ``load(f, weights_only=False)`` only. Its state dictionary is
    safer, and does not depend on the code of its classes.

    Parameters
    ----------
    obj : object
        Tensors, arrays, numbers, strings, None, and dicts, lists, tuples and sets of them; or a module.
    f : str, os.PathLike or binary file
        Where to write.

    Raises
    ------
    TypeRuleError
        If an object cannot be written; nothing has been written.
    CheckpointError
        If the file cannot be written.
    """
    if not isinstance(obj, Module):
        write_torch(f, obj, _taken)
        return
    content = _MAGIC + pickle.dumps(obj)
    if isinstance(f, str) or hasattr(f, "__fspath__"):
        try:
            Path(f).write_bytes(content)
        except OSError as error:
            raise CheckpointError(f"save: the file must be writable, got {f}, {error.strerror}; use another") from error
    else:
        f.write(content)


def load(f: FilePath | BinaryIO, map_location: object = None, *, weights_only: bool = True) -> Any:
    """Read what `save` or ``torch.save`` has written.

    Parameters
    ----------
    f : str, os.PathLike or binary file
        The file.
    map_location : str, optional
        "cpu"; tensors of all devices are read into memory anyway.
    weights_only : bool, default True
        Whether a whole module is refused. Reading one executes what its file says, so read only files you trust.

    Returns
    -------
    object
        What was written, with tensors and parameters.

    Raises
    ------
    CheckpointError
        If the file is missing, damaged or contains something else, or a module although `weights_only` is True.
    """
    check_device(map_location)
    start = _beginning(f)
    if start != _MAGIC:
        try:
            return read_torch(f, _made)
        except CheckpointError as error:
            error.begin_with("load", "read_torch")
            raise
    if weights_only:
        raise CheckpointError(
            "load: the file must contain tensors only, got a whole module; pass weights_only=False if you trust it, or "
            "save its state_dict()"
        )
    content = f.read() if hasattr(f, "read") else Path(f).read_bytes()
    try:
        return pickle.loads(content[len(_MAGIC) :])
    except (pickle.UnpicklingError, EOFError) as error:
        raise CheckpointError(f"load: the file must contain a module, got {error}; save it again") from error


def _beginning(f: Any) -> bytes:
    """What a file begins with; an open one stays at its position."""
    if hasattr(f, "read"):
        if not hasattr(f, "seek"):
            raise TypeRuleError(f"load: an open file must have seek(), got {kind_of(f)}; read it into io.BytesIO")
        position = f.tell()
        start: bytes = f.read(len(_MAGIC))
        f.seek(position)
        return start
    path = Path(f)
    if not path.is_file():
        return b""  # read_torch says so
    with path.open("rb") as stream:
        return stream.read(len(_MAGIC))


def _taken(given: object) -> TorchTensor | None:
    if not isinstance(given, Tensor):
        return None
    return TorchTensor(given.elements().array, given.requires_grad, isinstance(given, Parameter))


def _made(found: TorchTensor) -> Tensor:
    if found.is_parameter:
        return Parameter(from_array(found.array), found.requires_grad)
    return from_array(found.array, requires_grad=found.requires_grad)
