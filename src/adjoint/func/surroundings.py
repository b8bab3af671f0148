"""What a function reaches besides its arguments: the tensors it may use, and the objects it must not change.

Found from the cells of its closure, the globals that its code names, and what these contain: containers, modules,
optimizers and other objects with attributes, and functions of the user.
"""

import random
import sys
from argparse import Namespace
from collections.abc import Iterable
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from adjoint.errors import is_machinery
from adjoint.tensor.generator import default_generator
from adjoint.tensor.tensor import Tensor

__all__ = ["Surroundings", "random_states"]

#: Most items of a container that is examined; a larger one is a data set.
_MOST_ITEMS = 10_000

#: What is compared by identity before each call of a compiled function.
_PLAIN = (bool, int, float, str, bytes, type(None), np.dtype)

#: Packages of adjoint whose objects belong to the user's program; others keep books that may change.
_VISIBLE = (
    "adjoint.nn",
    "adjoint.modules",
    "adjoint.losses",
    "adjoint.optim.written",
    "adjoint.training",
    "adjoint.importers.torch_export.module",
)

#: Those of the others that refer to tensors of the user's program.
_INNER = ("adjoint.optim", "adjoint.func.derivatives", "adjoint.tensor.generator")

_MISSING = object()


class Surroundings:
    """The objects that a function reaches, as they were when this was made.

    Parameters
    ----------
    roots : iterable
        Functions and other objects.

    Attributes
    ----------
    tensors : dict of int to Tensor
        The tensors, by id.
    holders : dict of int to (dict or list, key)
        By id of a tensor: where it was found, if that is a dict or a list.
    moving : set of int
        Ids of tensors that are replaced by others in the course of training: hyperparameters of optimizers.
    guards : list of (dict, key, object)
        Plain values that the function may depend on, and where they are.
    cells : list of (str, cell, object)
        Variables of enclosing functions: name, cell, contents.
    optimizers : list
        Optimizers that are bound to parameters.
    """

    def __init__(self, roots: Iterable[Any]) -> None:
        self.tensors: dict[int, Tensor] = {}
        self.holders: dict[int, tuple[Any, Any]] = {}
        self.moving: set[int] = set()
        self.guards: list[tuple[dict[Any, Any], Any, Any]] = []
        self.optimizers: list[Any] = []
        self._contents: list[tuple[str, str, Any, Any]] = []
        self._generators: list[tuple[str, Any, str]] = []
        self.cells: list[tuple[str, Any, Any]] = []
        self._globals: list[tuple[dict[str, Any], str, Any]] = []
        #: Ids of tensors that were found in objects of adjoint only.
        self._inner: set[int] = set()
        self._seen: dict[int, Any] = {}
        self._roots = tuple(roots)
        for root in self._roots:
            self._visit(root, "", None, None, False)

    def change(self) -> str | None:
        """What has been changed since, in words; None if nothing has."""
        for kind, name, container, before in self._contents:
            if not _same(container, before):
                return f"the {kind} {name}" if kind != "attributes" else _attribute(name, container, before)
        for name, cell, before in self.cells:
            if _content(cell) is not before:
                return f"the variable {name}"
        return next(
            (f"the global {name}" for space, name, value in self._globals if space.get(name) is not value), None
        )

    def fresh(self) -> "Surroundings":
        """What the same roots reach now."""
        return Surroundings(self._roots)

    def used_generator(self) -> str | None:
        """A NumPy generator that has been used since, by its name; None if there is none."""
        return next((name for name, one, before in self._generators if _generator_state(one) != before), None)

    def undo(self) -> None:
        """Give changed containers, attributes and variables their contents back."""
        for _, _, container, before in self._contents:
            if not _same(container, before):
                if isinstance(container, list):
                    container[:] = before
                else:
                    container.clear()
                    container.update(before)
        for _, cell, before in self.cells:
            if _content(cell) is not before and before is not _MISSING:
                cell.cell_contents = before
        for space, name, value in self._globals:
            space[name] = value

    def _visit(self, value: Any, name: str, container: Any, key: Any, quiet: bool) -> None:
        if isinstance(value, Tensor):
            self._visit_tensor(value, name, container, key, quiet)
            return
        if isinstance(value, _PLAIN):
            if not quiet and isinstance(container, dict):
                self.guards.append((container, key, value))
            return
        if id(value) in self._seen or isinstance(value, type | ModuleType | np.ndarray):
            return
        self._seen[id(value)] = value
        if isinstance(value, list | dict | set | tuple):
            self._visit_items(value, name, quiet)
        elif isinstance(value, FunctionType):
            self._visit_function(value, container, key, quiet)
        elif isinstance(value, MethodType | partial):
            parts = (value.__self__, value.__func__) if isinstance(value, MethodType) else (value.func, value.args)
            for part in parts:
                self._visit(part, name, None, None, quiet)
        elif isinstance(value, np.random.Generator | np.random.RandomState):
            self._generators.append((name, value, _generator_state(value)))
        else:
            self._visit_object(value, name, quiet)

    def _visit_tensor(self, tensor: Tensor, name: str, container: Any, key: Any, quiet: bool) -> None:
        known = id(tensor)
        if known in self.tensors:
            if known in self._inner and not quiet:
                self._inner.discard(known)
                if container is not None:  # where the user may put another tensor
                    self.holders[known] = (container, key)
                if name and not tensor._label:
                    tensor._label = _label(name)
        else:
            self.tensors[known] = tensor
            if container is not None:
                self.holders[known] = (container, key)
            if quiet:
                self._inner.add(known)
            if name and not tensor._label and not quiet:
                tensor._label = _label(name)
            if quiet and isinstance(container, list) and not tensor.shape and not tensor.requires_grad:
                self.moving.add(known)
            grad = tensor.__dict__.get("_grad")
            if grad is not None:
                self._visit_tensor(grad, f"{name}.grad" if name else "", tensor.__dict__, "_grad", True)
                self.moving.add(id(grad))

    def _visit_items(self, value: Any, name: str, quiet: bool) -> None:
        if len(value) > _MOST_ITEMS:
            return
        if not quiet and not isinstance(value, tuple):
            kind = next(one for one in (list, dict, set) if isinstance(value, one))
            self._contents.append((kind.__name__, name, value, kind(value)))
        if isinstance(value, dict):
            for key, item in list(value.items()):
                self._visit(item, f"{name}[{key!r}]", value, key, quiet)
        elif not isinstance(value, set):
            for n, item in enumerate(list(value)):
                self._visit(item, f"{name}[{n}]", value if isinstance(value, list) else None, n, quiet)

    def _visit_function(self, function: FunctionType, container: Any, key: Any, quiet: bool) -> None:
        own = not is_machinery(function.__code__.co_filename)
        if container is not None and own and isinstance(container, dict):
            self.guards.append((container, key, function))
        if not own and not (function.__module__ or "").startswith("adjoint."):
            return
        for cell_name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            content = _content(cell)
            if own and not quiet:
                self.cells.append((cell_name, cell, content))
            self._visit(content, cell_name, None, None, quiet or not own)
        for item in (function.__defaults__ or ()) if own else ():
            self._visit(item, function.__name__, None, None, quiet)
        if own:
            space = function.__globals__
            for global_name in sorted(_names(function.__code__)):
                if global_name in space:
                    self._visit_global(space, global_name, quiet)

    def _visit_global(self, space: dict[str, Any], name: str, quiet: bool) -> None:
        value = space[name]
        if isinstance(value, type | ModuleType) or (isinstance(value, FunctionType) and id(value) in self._seen):
            return
        if not quiet:
            self._globals.append((space, name, value))
        if not isinstance(value, (*_PLAIN, FunctionType, Tensor)):
            self.guards.append((space, name, value))  # another module or optimizer of this name is another program
        self._visit(value, name, space, name, quiet)

    def _visit_object(self, value: Any, name: str, quiet: bool) -> None:
        kind = type(value)
        home = kind.__module__ or ""
        if home == "adjoint.func.jit":
            self._visit(value.__wrapped__, name, None, None, quiet)
            return
        if home.startswith("adjoint.") and not home.startswith(_VISIBLE):
            if not home.startswith(_INNER):
                return
            quiet = True
        elif not home.startswith("adjoint.") and not _is_users(kind, value):
            return
        if hasattr(value, "param_groups") and getattr(value, "_bound", None) is not None:
            self.optimizers.append(value)
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            if not quiet:
                self._contents.append(("attributes", name, attributes, dict(attributes)))
            for key, item in list(attributes.items()):
                self._visit(item, f"{name}.{key}" if name else key, attributes, key, quiet)
        for slot in {s for one in kind.__mro__ for s in _slots(one)}:
            if hasattr(value, slot):
                self._visit(getattr(value, slot), f"{name}.{slot}", None, None, quiet)


def _is_users(kind: type, value: Any) -> bool:
    """Whether an object belongs to the user's program: not to a library, unless it is a module or an optimizer."""
    if hasattr(value, "named_parameters") or hasattr(value, "param_groups") or kind in (SimpleNamespace, Namespace):
        return True
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if file is None:  # written in an interactive session, or built in
        return kind.__module__ == "__main__"
    return "site-packages" not in file and not is_machinery(file)


def _label(name: str) -> str:
    """A name as a label of graph values: parts of letters, digits and underscores, separated by dots."""
    parts = ["".join(c for c in part if c.isalnum() or c == "_") for part in name.replace("[", ".").split(".")]
    return ".".join(part for part in parts if part and part.isascii())


def _slots(kind: type) -> tuple[str, ...]:
    found = kind.__dict__.get("__slots__", ())
    names = (found,) if isinstance(found, str) else tuple(found)
    return tuple(name for name in names if not name.startswith("__"))


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return _MISSING


def _names(code: CodeType) -> set[str]:
    """The names in a function's code and in the functions that it defines."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names(constant)
    return found


def _same(container: Any, before: Any) -> bool:
    if len(container) != len(before):
        return False
    if isinstance(container, dict):
        return all(key in container and container[key] is value for key, value in before.items())
    if isinstance(container, list):
        return all(a is b for a, b in zip(container, before, strict=True))
    return bool(container == before)


def _attribute(name: str, attributes: dict[str, Any], before: dict[str, Any]) -> str:
    """The first attribute of an object that has been changed, in words."""
    keys = {**before, **attributes}
    changed = next(key for key in keys if attributes.get(key, _MISSING) is not before.get(key, _MISSING))
    return f"the attribute {name}.{changed}" if name else f"the attribute {changed}"


def _generator_state(generator: Any) -> str:
    state = generator.bit_generator.state if isinstance(generator, np.random.Generator) else generator.get_state()
    return repr(state) if not isinstance(state, dict) else str({k: _plain(v) for k, v in state.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else value


def random_states() -> tuple[Any, ...]:
    """The states of Python's and of NumPy's global generators, and of what adjoint draws on the host."""
    numbers = np.random.get_state(legacy=False)
    return random.getstate(), str(_plain(numbers)), default_generator.host_draws
