"""State as JSON: what it contains beside plain data, such as tuples, and where its arrays are."""

from collections import Counter
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

import numpy as np

from adjoint.errors import CheckpointError, TypeRuleError, kind_of
from adjoint.tensor.making import from_array
from adjoint.tensor.tensor import Tensor

__all__ = ["pack", "unpack"]

#: Starts the keys of dicts that stand for something that JSON does not have.
_MARK = "$"

#: What are written as the pairs of their keys and values, or as their elements.
_PAIRS: dict[str, Callable[..., Any]] = {"$dict": dict, "$counter": Counter}
_ELEMENTS: dict[str, Callable[..., Any]] = {"$tuple": tuple, "$set": set}


def pack(what: str, value: Any, name: str, add: Callable[[str, Any], None]) -> Any:
    """State as data that JSON has.

    Parameters
    ----------
    what : str
        Whose state it is, for the message.
    value : object
        Numbers, strings, None, tensors, arrays, and lists, tuples, sets and dicts of them.
    name : str
        The beginning of the names of arrays in it.
    add : callable
        Takes the name and the tensor or array of each.

    Raises
    ------
    TypeRuleError
        If there is something else in it.
    """
    if value is None or (isinstance(value, bool | int | str) and not isinstance(value, np.generic)):
        return value
    if isinstance(value, float) and not isinstance(value, np.generic):
        return value if isfinite(value) else {"$float": repr(value)}
    if isinstance(value, Tensor | np.ndarray | np.generic):
        add(name, value)
        kind = "tensor" if isinstance(value, Tensor) else "array" if isinstance(value, np.ndarray) else "scalar"
        return {f"${kind}": name}

    def packed(key: object, each: Any) -> Any:
        return pack(what, each, f"{name}.{key}", add)

    if isinstance(value, Mapping):
        if type(value) is not Counter and all(isinstance(key, str) and not key.startswith(_MARK) for key in value):
            return {key: packed(key, each) for key, each in value.items()}
        kind = "counter" if isinstance(value, Counter) else "dict"
        return {f"${kind}": [[packed(f"key{i}", k), packed(i, v)] for i, (k, v) in enumerate(value.items())]}
    if isinstance(value, list):
        return [packed(i, each) for i, each in enumerate(value)]
    if isinstance(value, tuple | set | frozenset):
        elements = list(value) if isinstance(value, tuple) else sorted(value)
        kind = "tuple" if isinstance(value, tuple) else "set"
        return {f"${kind}": [packed(i, each) for i, each in enumerate(elements)]}
    raise TypeRuleError(
        f"checkpoints: {what} must consist of numbers, strings, arrays, and lists and dicts of them, got "
        f"{kind_of(value)}; convert it, or leave it out of state_dict()"
    )


def unpack(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """What `pack` has packed; every array is a copy.

    Raises
    ------
    CheckpointError
        If it is malformed, or an array is missing.
    """
    if isinstance(value, list):
        return [unpack(each, arrays) for each in value]
    if not isinstance(value, dict):
        return value
    mark = next(iter(value), "")
    if not mark.startswith(_MARK):
        return {key: unpack(each, arrays) for key, each in value.items()}
    content = value[mark]
    if mark == "$float" and content in ("nan", "inf", "-inf"):
        return float(content)
    if mark in _ELEMENTS and isinstance(content, list):
        return _ELEMENTS[mark](unpack(each, arrays) for each in content)
    if mark in _PAIRS and isinstance(content, list) and all(isinstance(e, list) and len(e) == 2 for e in content):
        return _PAIRS[mark]({unpack(k, arrays): unpack(v, arrays) for k, v in content})
    if mark in ("$tensor", "$array", "$scalar") and isinstance(content, str) and content in arrays:
        array = arrays[content]
        return from_array(array, copy=True) if mark == "$tensor" else array.copy() if mark == "$array" else array[()]
    raise CheckpointError(f"restore: the checkpoint's manifest is damaged at {mark[:20]!r}; use another checkpoint")
