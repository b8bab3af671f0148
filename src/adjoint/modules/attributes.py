"""The attributes of a module, some of which are parameters, buffers and modules."""

from types import MappingProxyType
from typing import Any

from adjoint.errors import InvalidValueError, MissingAttributeError, TypeRuleError, kind_of
from adjoint.tensor.tensor import Parameter, Tensor

__all__ = ["Attributes"]

#: The tables of names. An attribute is in one of them at most, and in the object's dictionary.
_TABLES = ("_parameters", "_modules", "_buffers")

#: What a module has before, or without, ``super().__init__()``.
_NONE: Any = MappingProxyType({})


class Attributes:
    """The part of `Module` that stores attributes.

    Parameters, buffers and modules are ordinary attributes of the object too, so that finding them costs nothing more.
    """

    _parameters: dict[str, Parameter | None] = _NONE
    _buffers: dict[str, Tensor | None] = _NONE
    _modules: dict[str, Any] = _NONE
    #: Names of the buffers that are not in the state dictionary.
    _transient: frozenset[str] = frozenset()

    def __init__(self) -> None:
        own = self.__dict__
        own["_parameters"], own["_buffers"], own["_modules"] = {}, {}, {}

    def __setattr__(self, name: str, value: Any) -> None:
        kind = _table_of(value)
        if kind is None:
            kind = next((k for k in _TABLES if name in getattr(self, k)), None)
            if kind is None:
                object.__setattr__(self, name, value)
                return
            if value is not None and not (kind == "_buffers" and isinstance(value, Tensor)):
                raise _misfit(type(self).__name__, kind, name, value)
        elif kind not in self.__dict__:
            raise self._too_early(name)
        self._put(name, value, kind)

    def _too_early(self, name: str) -> MissingAttributeError:
        return MissingAttributeError(
            f"{type(self).__name__}: super().__init__() must come before the first parameter, buffer or module, got "
            f"{name!r}; call it at the beginning of __init__"
        )

    def _put(self, name: str, value: Any, kind: str) -> None:
        """Store an attribute, and its name in one of the tables only."""
        for other in _TABLES:
            if other != kind and name in getattr(self, other):
                del getattr(self, other)[name]
        getattr(self, kind)[name] = value
        self.__dict__[name] = value

    def __delattr__(self, name: str) -> None:
        for kind in _TABLES:
            if name in getattr(self, kind):
                del getattr(self, kind)[name]
        object.__delattr__(self, name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under a name; None reserves the name.

        Raises
        ------
        InvalidValueError
            If the name contains a dot, is empty or is taken.
        TypeRuleError
            If it is not a Parameter.
        """
        self._check_name("register_parameter", "_parameters", name)
        if param is not None and not isinstance(param, Parameter):
            raise _misfit(type(self).__name__, "_parameters", name, param)
        self._put(name, param, "_parameters")

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is not trained but belongs to the state of the module, such as a running mean.

        Parameters
        ----------
        name : str
            Its name.
        tensor : Tensor or None
            The tensor; None reserves the name.
        persistent : bool, default True
            Whether it is in the state dictionary.

        Raises
        ------
        InvalidValueError
            If the name contains a dot, is empty or is taken.
        TypeRuleError
            If it is not a tensor.
        """
        self._check_name("register_buffer", "_buffers", name)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise _misfit(type(self).__name__, "_buffers", name, tensor)
        self._put(name, tensor, "_buffers")
        self.__dict__["_transient"] = self._transient - {name} if persistent else self._transient | {name}

    def register_module(self, name: str, module: "Attributes | None") -> None:
        """`add_module` under its other name."""
        self.add_module(name, module)

    def add_module(self, name: str, module: "Attributes | None") -> None:
        """Add a submodule under a name; None reserves the name.

        Raises
        ------
        InvalidValueError
            If the name contains a dot, is empty or is taken.
        TypeRuleError
            If it is not a Module.
        """
        self._check_name("add_module", "_modules", name)
        if module is not None and not isinstance(module, Attributes):
            raise _misfit(type(self).__name__, "_modules", name, module)
        self._put(name, module, "_modules")

    def _check_name(self, caller: str, kind: str, name: str) -> None:
        own = type(self).__name__
        if kind not in self.__dict__:
            raise self._too_early(name)
        if not isinstance(name, str) or not name or "." in name:
            raise InvalidValueError(f"{caller}: a name must be a string without dots, got {name!r}; rename it")
        if hasattr(self, name) and name not in getattr(self, kind):
            raise InvalidValueError(f"{caller}: the name must be free, got {name!r}, which {own} has; rename it")


def _table_of(value: Any) -> str | None:
    """The table that an assigned object belongs to by itself."""
    if isinstance(value, Parameter):
        return "_parameters"
    return "_modules" if isinstance(value, Attributes) else None


def _misfit(owner: str, kind: str, name: str, value: Any) -> TypeRuleError:
    what = {"_parameters": "parameter", "_modules": "module", "_buffers": "buffer"}[kind]
    wanted = {"_parameters": "Parameter", "_modules": "Module", "_buffers": "Tensor"}[kind]
    return TypeRuleError(
        f"{owner}: the {what} {name!r} must be a {wanted} or None, got {kind_of(value)}; "
        + ("wrap it as nn.Parameter(...)" if isinstance(value, Tensor) else f"delete the {what} first")
    )
