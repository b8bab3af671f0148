"""Modules that contain others, or parameters, in a sequence or by name."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, islice
from typing import Any, Self

from adjoint.errors import IndexRangeError, NameLookupError, TypeRuleError, kind_of, plural
from adjoint.modules import Module
from adjoint.tensor.tensor import Parameter, Tensor

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


def _place(owner: Any, index: int, size: int) -> int:
    """A position that may count from the end; raises if there is nothing there."""
    place = index.__index__()
    if not -size <= place < size:
        raise IndexRangeError(
            f"{type(owner).__name__}: a position must be one of its {plural(size, 'element')}, got {place}; append "
            "elements first"
        )
    return place % size


class _Modules(Module):
    """What `Sequential` and `ModuleList` share: modules named by their positions."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __contains__(self, module: object) -> bool:
        return any(one is module for one in self._modules.values())

    def _name(self, index: int) -> str:
        return next(islice(self._modules, _place(self, index, len(self)), None))

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name(index), _checked(self, module))

    def __delitem__(self, index: int | slice) -> None:
        names = list(self._modules)
        for name in names[index] if isinstance(index, slice) else [self._name(index)]:
            delattr(self, name)
        self._number(list(self._modules.values()))

    def append(self, module: Module) -> Self:
        """Add a module at the end; returns the container."""
        self.add_module(str(len(self)), _checked(self, module))
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end; returns the container."""
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Add a module before the one at a position; returns the container."""
        modules = list(self._modules.values())
        modules.insert(index, _checked(self, module))
        self._number(modules)
        return self

    def pop(self, index: int) -> Any:
        """Remove a module and return it."""
        module = self._modules[self._name(index)]
        del self[index]
        return module

    def _number(self, modules: list[Any]) -> None:
        for name in list(self._modules):
            delattr(self, name)
        for n, module in enumerate(modules):
            self.add_module(str(n), module)


def _checked(owner: Module, module: Any) -> Any:
    if not isinstance(module, Module):
        raise TypeRuleError(
            f"{type(owner).__name__}: the elements must be modules, got {kind_of(module)}; make it an nn.Module"
        )
    return module


class Sequential(_Modules):
    """Modules that are called one after the other, each with the result of the one before.

    Parameters
    ----------
    *args : Module
        The modules, named by their positions, or a single mapping of names to modules.

    Raises
    ------
    TypeRuleError
        If an argument is not a module.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], Mapping):
            for name, module in args[0].items():
                self.add_module(name, _checked(self, module))
        else:
            self.extend(args)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(dict(list(self._modules.items())[index]))
        return self._modules[self._name(index)]

    def __add__(self, other: "Sequential") -> "Sequential":
        return Sequential(*self, *other)

    def forward(self, input: Any) -> Any:
        """The result of the last module."""
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(_Modules):
    """A list of modules.

    Parameters
    ----------
    modules : iterable of Module, optional
        The modules.

    Raises
    ------
    TypeRuleError
        If an element is not a module.
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(modules or ())

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[self._name(index)]

    def __add__(self, other: Iterable[Module]) -> "ModuleList":
        return ModuleList([*self, *other])

    def __iadd__(self, other: Iterable[Module]) -> Self:
        return self.extend(other)

    def __repr__(self) -> str:
        """Equal modules in a row are shown once."""
        texts = [repr(module).replace("\n", "\n  ") for module in self]
        names = list(self._modules)
        lines = []
        start = 0
        for text, group in groupby(texts):
            count = len(list(group))
            last = start + count - 1
            lines.append(
                f"  ({names[start]}): {text}" if count == 1 else f"  ({names[start]}-{names[last]}): {count} x {text}"
            )
            start += count
        return "\n".join((f"{type(self).__name__}(", *lines, ")")) if lines else f"{type(self).__name__}()"


class ModuleDict(Module):
    """Modules by name.

    Parameters
    ----------
    modules : mapping of str to Module, or iterable of pairs, optional
        The modules.

    Raises
    ------
    TypeRuleError
        If an element is not a module.
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        self.update(modules or {})

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add modules, or replace those of the same names."""
        for name, module in modules.items() if isinstance(modules, Mapping) else modules:
            self[name] = module

    def __getitem__(self, name: str) -> Any:
        if name not in self._modules:
            raise _no_such(self, name, self._modules)
        return self._modules[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self.add_module(name, _checked(self, module))

    def __delitem__(self, name: str) -> None:
        delattr(self, name)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, name: object) -> bool:
        return name in self._modules

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def values(self) -> Iterable[Any]:
        """The modules."""
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and modules."""
        return self._modules.items()

    def pop(self, name: str) -> Any:
        """Remove a module and return it."""
        module = self[name]
        del self[name]
        return module

    def clear(self) -> None:
        """Remove all modules."""
        for name in list(self._modules):
            del self[name]


def _no_such(owner: Module, name: object, names: Iterable[str]) -> NameLookupError:
    found = ", ".join(names) or "none"
    return NameLookupError(
        f"{type(owner).__name__}: the name must be one of its own, {found}, got {name!r}; add it first"
    )


def _as_parameter(owner: Module, given: Any) -> Parameter:
    if isinstance(given, Parameter):
        return given
    if isinstance(given, Tensor):
        return Parameter(given)
    raise TypeRuleError(
        f"{type(owner).__name__}: the elements must be parameters or tensors, got {kind_of(given)}; wrap it as "
        "nn.Parameter(...)"
    )


class ParameterList(Module):
    """A list of parameters; tensors become parameters.

    Parameters
    ----------
    values : iterable of Parameter or Tensor, optional
        The parameters.

    Raises
    ------
    TypeRuleError
        If an element is neither.
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self.extend(values or ())

    def append(self, value: Any) -> Self:
        """Add a parameter at the end; returns the container."""
        self.register_parameter(str(len(self)), _as_parameter(self, value))
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add parameters at the end; returns the container."""
        for value in values:
            self.append(value)
        return self

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parameters.values())

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._parameters.values())[index])
        return self._parameters[str(_place(self, index, len(self)))]

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(_place(self, index, len(self))), _as_parameter(self, value))

    def __repr__(self) -> str:
        return _listing(self, self._parameters)


class ParameterDict(Module):
    """Parameters by name; tensors become parameters.

    Parameters
    ----------
    parameters : mapping of str to Parameter or Tensor, or iterable of pairs, optional
        The parameters.

    Raises
    ------
    TypeRuleError
        If an element is neither.
    """

    def __init__(self, parameters: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None) -> None:
        super().__init__()
        self.update(parameters or {})

    def update(self, parameters: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        """Add parameters, or replace those of the same names."""
        for name, value in parameters.items() if isinstance(parameters, Mapping) else parameters:
            self[name] = value

    def __getitem__(self, name: str) -> Any:
        if name not in self._parameters:
            raise _no_such(self, name, self._parameters)
        return self._parameters[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.register_parameter(name, _as_parameter(self, value))

    def __delitem__(self, name: str) -> None:
        delattr(self, name)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __contains__(self, name: object) -> bool:
        return name in self._parameters

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._parameters.keys()

    def values(self) -> Iterable[Any]:
        """The parameters."""
        return self._parameters.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and parameters."""
        return self._parameters.items()

    def __repr__(self) -> str:
        return _listing(self, self._parameters)


def _listing(owner: Module, parameters: Mapping[str, Any]) -> str:
    lines = [
        f"    ({name}): Parameter containing: [{one.dtype} of size {_times(one)}]" for name, one in parameters.items()
    ]
    return "\n".join((f"{type(owner).__name__}(", *lines, ")")) if lines else f"{type(owner).__name__}()"


def _times(tensor: Tensor) -> str:
    """The sizes of a tensor in text, as in PyTorch."""
    return "x".join(map(str, tensor.shape))
