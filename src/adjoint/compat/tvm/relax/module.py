"""Modules: functions by name, and attributes."""

from collections.abc import Iterator, Mapping
from typing import Any

from adjoint.compat.tvm.printing import module_text
from adjoint.compat.tvm.relax.function import Function
from adjoint.compat.uncovered import uncovered
from adjoint.errors import NameLookupError, TypeRuleError, kind_of
from adjoint.ir import IRModule as Graphs
from adjoint.lazy_dataclass import dataclass

__all__ = ["GlobalVar", "IRModule"]
__getattr__ = uncovered(__name__, {}, "adjoint.ir")


@dataclass(frozen=True, slots=True)
class GlobalVar:
    """The name of a function."""

    name_hint: str

    def __str__(self) -> str:
        return f'I.GlobalVar("{self.name_hint}")'


class IRModule:
    """A module.

    Parameters
    ----------
    functions : mapping of str or GlobalVar to Function, optional
        The functions.
    attrs : mapping, optional
        Attributes, such as ``param_num``.

    Attributes
    ----------
    attrs : dict
        The attributes.
    """

    def __init__(self, functions: Mapping[Any, Function] | None = None, attrs: Mapping[str, Any] | None = None) -> None:
        self._functions: dict[str, Function] = {}
        self.attrs: dict[str, Any] = dict(attrs or {})
        for name, function in (functions or {}).items():
            self[name] = function

    @property
    def functions(self) -> dict[GlobalVar, Function]:
        """The functions by their names."""
        return {GlobalVar(name): function for name, function in self._functions.items()}

    @property
    def native(self) -> Graphs:
        """The module of adjoint."""
        attrs = {k: v for k, v in self.attrs.items() if isinstance(v, bool | int | float | str | tuple)}
        return Graphs(tuple(function.native for function in self._functions.values()), attrs)

    def get_global_var(self, name_hint: str) -> GlobalVar:
        """The name of a function that is there."""
        self[name_hint]
        return GlobalVar(name_hint)

    def get_global_vars(self) -> list[GlobalVar]:
        """The names of all functions."""
        return list(self.functions)

    def update_func(self, var: GlobalVar | str, func: Function) -> None:
        """Add or replace a function."""
        self[var] = func

    def with_attr(self, attr_key: str, attr_value: Any) -> "IRModule":
        """The module with an attribute."""
        return self.with_attrs({attr_key: attr_value})

    def with_attrs(self, attr_map: Mapping[str, Any]) -> "IRModule":
        """The module with attributes."""
        return IRModule(self._functions, {**self.attrs, **attr_map})

    def show(self) -> None:
        """Print the module, in adjoint's form and in TVMScript."""
        print(f"{self.native}\n{self.script()}")

    def script(self) -> str:
        """The text of the module in TVMScript."""
        functions = {name: (function.native, function.outputs) for name, function in self._functions.items()}
        return module_text(functions, dict(self.native.attrs))

    def __getitem__(self, name: Any) -> Function:
        key = name_of(name)
        if key not in self._functions:
            raise NameLookupError(f"the module has no function {key!r}; known functions: {', '.join(self._functions)}")
        return self._functions[key]

    def __setitem__(self, name: Any, function: Function) -> None:
        if not isinstance(function, Function):
            raise TypeRuleError(f"a module has functions, got {kind_of(function)}; use R.function or a BlockBuilder")
        key = name_of(name)
        self._functions[key] = function if function.name == key else function.renamed(key)

    def __contains__(self, name: Any) -> bool:
        return name_of(name) in self._functions

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __str__(self) -> str:
        return str(self.native)


def name_of(name: Any) -> str:
    """The name of a function as a str."""
    return name.name_hint if isinstance(name, GlobalVar) else str(name)
