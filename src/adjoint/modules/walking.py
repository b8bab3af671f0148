"""The parts of a module: its parameters, buffers and submodules, by name."""

from collections.abc import Callable, Iterator
from typing import Any, Self

from adjoint.errors import MissingAttributeError
from adjoint.tensor.tensor import Parameter, Tensor

__all__ = ["Walking"]


class Walking:
    """The part of `Module` that finds parameters, buffers and submodules.

    Names are PyTorch's: the attributes that lead to a part, joined by dots. Iterators name a part that is reached in
    several ways once, by its first name, unless they are called with ``remove_duplicate=False``.
    """

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]

    def named_modules(
        self, memo: set[int] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """The module itself, named ``""``, and all modules in it, each before its own submodules.

        Parameters
        ----------
        memo : set of int, optional
            The ``id`` of modules to leave out; those found are added.
        prefix : str, default ""
            The name of this module.
        remove_duplicate : bool, default True
            Whether a module that is reached in several ways is named once.
        """
        seen: set[int] = set() if memo is None else memo
        stack: list[tuple[str, Any]] = [(prefix, self)]
        while stack:
            name, module = stack.pop()
            if remove_duplicate:
                if id(module) in seen:
                    continue
                seen.add(id(module))
            yield name, module
            dot = f"{name}." if name else ""
            inner = [(dot + at, one) for at, one in module._modules.items() if one is not None]
            stack.extend(reversed(inner))

    def modules(self, remove_duplicate: bool = True) -> Iterator[Any]:
        """The module itself and all modules in it, each once."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """The modules that are attributes of this one, with their names, each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self) -> Iterator[Any]:
        """The modules that are attributes of this one, each once."""
        for _, module in self.named_children():
            yield module

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their names; tied ones once, by their first name.

        Parameters
        ----------
        prefix : str, default ""
            The name of this module.
        recurse : bool, default True
            Whether parameters of submodules are included.
        remove_duplicate : bool, default True
            Whether tied parameters are named once.
        """
        for name, parameter in self._named("_parameters", prefix, recurse, remove_duplicate):
            label = parameter._label
            if not label or name.endswith(f".{label}"):
                parameter._label = name  # its name in printed graphs
            yield name, parameter

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, tied ones once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their names; arguments as in `named_parameters`."""
        for name, buffer in self._named("_buffers", prefix, recurse, remove_duplicate):
            if not buffer._label:
                buffer._label = name
            yield name, buffer

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def _named(self, kind: str, prefix: str, recurse: bool, once: bool) -> Iterator[tuple[str, Any]]:
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=once) if recurse else [(prefix, self)]
        for name, module in modules:
            dot = f"{name}." if name else ""
            for at, one in getattr(module, kind).items():
                if one is None or (once and id(one) in seen):
                    continue
                seen.add(id(one))
                yield dot + at, one

    def get_submodule(self, target: str) -> Any:
        """The submodule of a dotted name; this module for ``""``.

        Raises
        ------
        MissingAttributeError
            If there is none.
        """
        module: Any = self
        for name in target.split(".") if target else ():
            found = module._modules.get(name)
            if found is None:
                raise MissingAttributeError(
                    f"get_submodule: {type(module).__name__} has no submodule {name!r}, got {target!r}; "
                    "named_modules() lists the names"
                )
            module = found
        return module

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of a dotted name.

        Raises
        ------
        MissingAttributeError
            If there is none.
        """
        found: Parameter = self._found("get_parameter", "_parameters", target)
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer of a dotted name.

        Raises
        ------
        MissingAttributeError
            If there is none.
        """
        found: Tensor = self._found("get_buffer", "_buffers", target)
        return found

    def _found(self, caller: str, kind: str, target: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        found = getattr(module, kind).get(name)
        if found is None:
            what = kind.removeprefix("_").removesuffix("s")
            raise MissingAttributeError(
                f"{caller}: {type(module).__name__} has no {what} {name!r}, got {target!r}; named_{what}s() lists the "
                "names"
            )
        return found

    def apply(self, fn: Callable[[Any], None]) -> Self:
        """Call a function with every submodule, and with this module last; returns the module."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self
