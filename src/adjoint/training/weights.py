"""Parameters and states from a file of weights, by name."""

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from adjoint.errors import InvalidValueError, NameLookupError, TypeRuleError
from adjoint.ir import TensorType, is_float
from adjoint.paths import FilePath
from adjoint.training.checkpoint import GROUPS, PREFIX, is_checkpoint
from adjoint.training.tensors import read_file

__all__ = ["read_weights"]

#: Maximum number of names that a message lists.
_LISTED = 6


def read_weights(
    path: FilePath,
    kind: str,
    types: Mapping[str, TensorType],
    others: Collection[str],
    transpose: Iterable[str] = (),
) -> dict[str, np.ndarray]:
    """Arrays of exactly these names and types from a safetensors file, with floats converted to their dtypes.

    Parameters
    ----------
    path : str or os.PathLike
        A file of `Trainer.save`, or any other safetensors file.
    kind : {"parameter", "state"}
        What to read.
    types : mapping of str to TensorType
        Names and types.
    others : collection of str
        Further names that may be in the file: a state dict of PyTorch has both parameters and states.
    transpose : iterable of str
        Names of matrices that the file has transposed.

    Raises
    ------
    CheckpointError
        If the file cannot be read.
    NameLookupError
        If names are missing or unknown; the message also lists arrays of wrong types.
    TypeRuleError
        If only shapes or dtypes are wrong.
    InvalidValueError
        If a value is not finite after conversion to the dtype of the model.
    """
    what = f"load_{'params' if kind == 'parameter' else 'states'}"
    turned = _matrices(what, types, transpose)
    arrays, metadata = read_file(path, what)
    if is_checkpoint(metadata):
        prefix = GROUPS[kind]
        apart = {n: a for n, a in arrays.items() if n.startswith(prefix) and (prefix or not n.startswith(PREFIX))}
        arrays, others = {name.removeprefix(prefix): array for name, array in apart.items()}, ()
    arrays = {name: array.T if name in turned and array.ndim == 2 else array for name, array in arrays.items()}
    _refuse_differences(what, path, kind, types, arrays, others)
    return {name: _converted(what, path, name, arrays[name], type_) for name, type_ in types.items()}


def _matrices(what: str, types: Mapping[str, TensorType], transpose: Iterable[str]) -> set[str]:
    """The names to transpose; raises for one that is not that of a matrix."""
    names = {transpose} if isinstance(transpose, str) else set(transpose)
    known = [name for name, type_ in types.items() if type_.rank == 2]
    for name in sorted(names):
        if name not in known:
            raise NameLookupError(
                f"{what}: transpose must name matrices of the model, got {name!r}; they are {_listed(known)}"
            )
    return names


def _refuse_differences(
    what: str,
    path: FilePath,
    kind: str,
    types: Mapping[str, TensorType],
    arrays: Mapping[str, np.ndarray],
    others: Collection[str],
) -> None:
    """Raise one error that names all differences."""
    missing = [name for name in types if name not in arrays]
    unknown = [name for name in arrays if name not in types and name not in others]
    wrong = {n: (arrays[n], t) for n, t in types.items() if n in arrays and not _fits(arrays[n], t)}
    turned = [n for n, (a, t) in wrong.items() if t.rank == a.ndim == 2 and _fits(a.T, t)]
    shapes = [f"{n}: {TensorType(a.shape, a.dtype)} instead of {t}" for n, (a, t) in wrong.items()]
    parts = [
        f"{word} {_listed(names)}"
        for word, names in (("missing", missing), ("unknown", unknown), ("mismatched", shapes))
        if names
    ]
    if not parts:
        return
    fixes = []
    if turned:
        names = ", ".join(map(repr, turned))
        fixes.append(f"pass transpose=({names},) for weights stored as [out, in], as in PyTorch")
    if missing or unknown or len(turned) < len(wrong):
        fixes.append(f"rename or reshape the arrays of adjoint.training.read_arrays(path) and pass them to {what}")
    error = NameLookupError if missing or unknown else TypeRuleError
    raise error(
        f"{what}: {path} must hold every {kind} under its name and of its shape, got {'; '.join(parts)}; "
        f"{', and '.join(fixes)}"
    )


def _fits(array: np.ndarray, type_: TensorType) -> bool:
    same = array.dtype == type_.dtype or (is_float(array.dtype) and is_float(type_.dtype))
    return same and array.shape == type_.shape


def _converted(what: str, path: FilePath, name: str, array: np.ndarray, type_: TensorType) -> np.ndarray:
    if array.dtype == type_.dtype:
        return array
    with np.errstate(over="ignore"):
        converted = array.astype(type_.dtype)
    if not np.array_equal(np.isfinite(array), np.isfinite(converted)):
        raise InvalidValueError(
            f"{what}: values must be in the range of {type_.dtype}, got larger ones of {array.dtype} in {name!r} of "
            f"{path}; scale them, or build the model in a wider dtype"
        )
    return converted


def _listed(names: Collection[str]) -> str:
    """The names, or the first of many and their number."""
    shown = list(names)[:_LISTED]
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return (", ".join(shown) or "none") + more
