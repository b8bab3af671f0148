"""State dictionaries: the parameters and buffers of a module by name, as in PyTorch."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError, kind_of, listed
from adjoint.tensor.assign import assign
from adjoint.tensor.tensor import Tensor

__all__ = ["IncompatibleKeys", "initialize_lazy", "load_state", "state_of", "stored"]


class IncompatibleKeys(NamedTuple):
    """The names in which a module and a state dictionary differ."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


def stored(module: Any) -> Iterator[tuple[str, Tensor, Any, str]]:
    """For each name of a state dictionary: the name, the tensor, the module that has it, and the name there."""
    for prefix, part in module.named_modules(remove_duplicate=False):
        dot = f"{prefix}." if prefix else ""
        for name, parameter in part._parameters.items():
            if parameter is not None:
                yield dot + name, parameter, part, name
        for name, buffer in part._buffers.items():
            if buffer is not None and name not in part._transient:
                yield dot + name, buffer, part, name


def state_of(module: Any, prefix: str, keep_vars: bool) -> "OrderedDict[str, Tensor]":
    """The state dictionary of a module, in the order of PyTorch."""
    return OrderedDict((prefix + name, one if keep_vars else one.detach()) for name, one, _, _ in stored(module))


def load_state(module: Any, given: Mapping[str, Any], strict: bool, replace: bool) -> IncompatibleKeys:
    """Copy the entries of a state dictionary into a module; see `Module.load_state_dict`."""
    if not isinstance(given, Mapping):
        raise TypeRuleError(
            f"load_state_dict: a state dictionary must map names to tensors, got {kind_of(given)}; pass the result of "
            "state_dict()"
        )
    initialize_lazy(module, given)
    own = {name: (tensor, part, at) for name, tensor, part, at in stored(module)}
    keys = IncompatibleKeys([n for n in own if n not in given], [n for n in given if n not in own])
    arrays = {name: _array(name, given[name]) for name in own if name in given}
    wrong = [
        f"{name} of shape {list(array.shape)} for {list(own[name][0].shape)}"
        for name, array in arrays.items()
        if array.shape != tuple(own[name][0].shape)
    ]
    if wrong or (strict and (keys.missing_keys or keys.unexpected_keys)):
        parts = []
        if strict and keys.missing_keys:
            parts.append(f"no {listed(keys.missing_keys)}")
        if strict and keys.unexpected_keys:
            parts.append(f"the unexpected {listed(keys.unexpected_keys)}")
        if wrong:
            parts.append(listed(wrong))
        fix = "change the model or the dictionary" if wrong else "pass strict=False to load what agrees"
        raise InvalidValueError(
            f"load_state_dict: the names and shapes must be those of {type(module).__name__}, got "
            f"{' and '.join(parts)}; {fix}"
        )
    for name, array in arrays.items():
        tensor, part, at = own[name]
        if replace and isinstance(given[name], type(tensor)):
            part._put(at, given[name], "_parameters" if at in part._parameters else "_buffers")
        else:
            assign(tensor, np.asarray(array, tensor.dtype))
    return keys


def initialize_lazy(module: Any, given: Mapping[str, Any]) -> None:
    """Give layers that do not know the size of their input yet the shapes of the entries of a state dictionary."""
    for prefix, part in module.named_modules():
        if hasattr(part, "initialize_from"):
            dot = f"{prefix}." if prefix else ""
            part.initialize_from(
                {name.removeprefix(dot): tuple(one.shape) for name, one in given.items() if name.startswith(dot)}
            )


def _array(name: str, given: Any) -> np.ndarray:
    if isinstance(given, Tensor):
        return given.elements().array
    if isinstance(given, np.ndarray | np.generic | float | int):
        return np.asarray(given)
    if hasattr(given, "detach"):  # PyTorch's tensors
        given = given.detach()
    if not hasattr(given, "__array__"):
        raise TypeRuleError(
            f"load_state_dict: the entries must be tensors or arrays, got {kind_of(given)} for {name!r}; convert it "
            "to a NumPy array"
        )
    return np.asarray(given)
