"""Read and write files of ``torch.save``, without PyTorch and without executing what a file contains."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from adjoint.errors import TypeRuleError, kind_of
from adjoint.interop.torch_objects import TorchTensor
from adjoint.interop.torch_reader import read_object
from adjoint.interop.torch_writer import archive_of
from adjoint.paths import FilePath, reading, write_user_file

__all__ = ["read_torch", "write_torch"]


def _array(tensor: TorchTensor) -> object:
    return tensor.array


def _nothing(_value: object) -> None:
    return None


def read_torch(file: FilePath | BinaryIO, make: Callable[[TorchTensor], object] = _array) -> object:
    """Read what ``torch.save`` has written: a tensor, or dicts, lists and tuples of tensors, numbers and strings.

    The file's pickle is interpreted as data: nothing is imported, and only the objects that are listed here are made.
    Files of PyTorch before 1.6 are read too.

    Parameters
    ----------
    file : str, os.PathLike or binary file
        The file; of an open one, all that follows its position.
    make : callable, optional
        Makes an object from each `TorchTensor`; default: its array. Tensors of the same storage, shape and strides,
        such as tied weights, are one object. Others of the same storage are arrays that share memory.

    Returns
    -------
    object
        Dicts, `OrderedDict`, `Counter`, lists, tuples, sets, numbers, strings, bytes, None, and NumPy's arrays and
        scalars are themselves; a ``torch.Size`` is a tuple, a dtype is that of NumPy or `ml_dtypes`, and a device a
        string. The attribute ``_metadata`` of a state dict is kept. Tensors of all devices are read into memory, in
        their dtype. An array that repeats elements, as after ``expand``, is read-only.

    Raises
    ------
    CheckpointError
        If the file is missing, truncated or damaged, or contains anything else, such as a whole module.
    """
    if isinstance(file, str) or hasattr(file, "__fspath__"):
        with reading(file, "read_torch"), Path(file).open("rb") as stream:
            return read_object(f"read_torch: {file}", stream, make)
    if not hasattr(file, "read"):
        raise TypeRuleError(f"read_torch reads a path or a binary file, got {kind_of(file)}; pass one of them")
    content = file.read()
    if not isinstance(content, bytes):
        raise TypeRuleError("read_torch reads a path or a binary file, got a text file; open it in mode 'rb'")
    return read_object(f"read_torch: {getattr(file, 'name', 'the file')}", io.BytesIO(content), make)


def write_torch(
    file: FilePath | BinaryIO, value: object, take: Callable[[object], TorchTensor | None] = _nothing
) -> None:
    """Write arrays, and dicts, lists and tuples of them, to a file that ``torch.load(file, weights_only=True)`` reads.

    Arrays become tensors of their dtype. An array that occurs several times, or another one in the same memory, such as
    its transpose, is one storage in the file, so tied weights stay tied. Scalars of NumPy become Python's numbers.

    Parameters
    ----------
    file : str, os.PathLike or binary file
        The file, which is replaced as a whole once the new content is on the disk, or an open file to write to.
    value : object
        Arrays, `TorchTensor`, numbers, strings, bytes, dtypes, None, and dicts, `OrderedDict`, `Counter`, lists, tuples
        and sets of them.
    take : callable, optional
        Returns for an object that is a tensor its `TorchTensor`, for every other one None.

    Raises
    ------
    TypeRuleError
        If an object or a dtype cannot be written; nothing has been written.
    CheckpointError
        If the file cannot be written; an old one is unchanged.
    """
    if isinstance(file, str) or hasattr(file, "__fspath__"):
        write_user_file(file, archive_of("write_torch", value, take), "write_torch")
    elif hasattr(file, "write"):
        file.write(archive_of("write_torch", value, take))
    else:
        raise TypeRuleError(f"write_torch writes to a path or a binary file, got {kind_of(file)}; pass one of them")
