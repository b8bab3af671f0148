"""Collation: from a list of items to one batch."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adjoint.errors import DataError, InvalidValueError, TypeRuleError, kind_of, listed
from adjoint.ir import DTYPES, TensorType
from adjoint.tensor.making import from_array
from adjoint.tensor.storage import Storage, StorageCache
from adjoint.tensor.structure import spec_of
from adjoint.tensor.tensor import Tensor

__all__ = ["default_collate", "default_convert", "host_elements", "tensor_of"]

#: Memory of earlier batches: the one in use, and those that a prefetching thread is ahead.
_batches = StorageCache(types=8, pieces=6)


def default_collate(batch: Sequence[Any]) -> Any:
    """One batch from a list of items of the same kind.

    Tensors, NumPy arrays and NumPy numbers are stacked along a new first axis. Python numbers become a tensor: bools of
    bool, ints of i64, and floats, or both, of f64. Strings and bytes stay as they are. Items that are dicts, tuples or
    lists are collated by key or position; tuples become a list, and named tuples and dicts stay what they are.

    Parameters
    ----------
    batch : sequence
        The items, at least one.

    Raises
    ------
    TypeRuleError
        If items are of another kind, of different kinds, or tensors that require gradients.
    DataError
        If their shapes, dtypes, keys or lengths differ.
    """
    if not batch:
        raise DataError("default_collate takes at least one item, got an empty list; leave the batch out")
    first = batch[0]
    if isinstance(first, str | bytes):
        return batch
    for kind, collate in _KINDS:
        if isinstance(first, kind):
            if any(not issubclass(other, kind) for other in set(map(type, batch))):
                other = next(item for item in batch if not isinstance(item, kind))
                raise TypeRuleError(
                    f"default_collate takes items of one kind, got {kind_of(first)} and {kind_of(other)}; convert them"
                )
            return collate(batch)
    raise TypeRuleError(
        f"default_collate takes tensors, arrays, numbers, strings, dicts, tuples and lists, got {kind_of(first)}; "
        "convert it in the dataset, or pass collate_fn"
    )


def default_convert(data: Any) -> Any:
    """An item with its NumPy arrays and numbers, also inside dicts, tuples and lists, as tensors."""
    if isinstance(data, np.ndarray | np.generic):
        array = np.asarray(data)
        return from_array(array) if array.dtype in DTYPES.values() else data
    if isinstance(data, Mapping):
        return _like(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple):
        items = [default_convert(item) for item in data]
        return type(data)(*items) if hasattr(data, "_fields") else items
    if isinstance(data, list):
        return [default_convert(item) for item in data]
    return data


def host_elements(tensor: Tensor, name: str) -> np.ndarray:
    """The elements of a tensor, after running what is pending; `name` is the function, for the error.

    Raises
    ------
    TypeRuleError
        If it requires a gradient, which would be lost.
    """
    if tensor.requires_grad:
        raise TypeRuleError(
            f"{name} takes tensors without gradients, got one that requires a gradient; pass tensor.detach()"
        )
    return tensor.elements().array


def tensor_of(storage: Storage) -> Tensor:
    """A new tensor with the elements of a storage."""
    made = Tensor.__new__(Tensor)
    made._storage = storage
    made._spec = spec_of(TensorType(storage.array.shape, storage.array.dtype))
    return made


def _tensors(batch: Sequence[Any]) -> Tensor:
    return _arrays([host_elements(item, "default_collate") for item in batch])


def _arrays(batch: Sequence[Any]) -> Tensor:
    arrays = [np.asarray(item) for item in batch]
    first = arrays[0]
    if first.dtype not in DTYPES.values():
        raise TypeRuleError(
            f"default_collate takes arrays of {', '.join(DTYPES)}, got {first.dtype}; convert them in the dataset"
        )
    storage = _batches.storage((len(arrays), *first.shape), first.dtype)
    for place, array in enumerate(arrays):
        if array.shape != first.shape or array.dtype != first.dtype:
            raise DataError(
                "default_collate takes arrays of one shape and dtype, got "
                f"{first.dtype}{list(first.shape)} at 0 and {array.dtype}{list(array.shape)} at {place}; pad or "
                "convert them in the dataset, or pass collate_fn"
            )
        storage.array[place] = array
    return tensor_of(storage)


def _numbers(batch: Sequence[Any]) -> Tensor:
    kinds = {type(item) for item in batch}
    dtype = "bool" if kinds == {bool} else "f64" if any(issubclass(kind, float) for kind in kinds) else "i64"
    try:
        return from_array(np.array(batch, DTYPES[dtype]))
    except OverflowError:
        largest = max(batch, key=abs)
        raise InvalidValueError(
            f"default_collate: ints must fit into 64 bits, got {largest}; make it a float in the dataset"
        ) from None


def _mappings(batch: Sequence[Any]) -> Any:
    first = batch[0]
    for item in batch:
        if item.keys() != first.keys():
            raise DataError(
                f"default_collate takes dicts with the same keys, got {listed(list(first))} and {listed(list(item))}; "
                "give all items the same ones"
            )
    return _like(first, {key: default_collate([item[key] for item in batch]) for key in first})


def _sequences(batch: Sequence[Any]) -> Any:
    first = batch[0]
    lengths = {len(item) for item in batch}
    if len(lengths) > 1:
        raise DataError(
            f"default_collate takes tuples or lists of the same length, got lengths {listed(sorted(lengths))}; pad "
            "them in the dataset, or pass collate_fn"
        )
    columns = [default_collate(column) for column in zip(*batch, strict=True)]
    return type(first)(*columns) if hasattr(first, "_fields") else columns


def _like(mapping: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """The items in a mapping of the same type; in a dict if that cannot be made."""
    if type(mapping) is dict:
        return items
    try:
        made: Any = copy.copy(mapping)
        made.update(items)
    except (AttributeError, TypeError):
        return items
    return made


#: How items are collated by their kind. Bools are ints.
_KINDS: tuple[tuple[Any, Callable[[Sequence[Any]], Any]], ...] = (
    (Tensor, _tensors),
    (np.ndarray, _arrays),
    (np.generic, _arrays),
    (int | float, _numbers),
    (Mapping, _mappings),
    (Sequence, _sequences),
)
