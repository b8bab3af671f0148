"""ATen operators, by name: functions of adjoint that take their arguments.

Most are adjoint's functions of the same words, listed in ``same_words.txt``. `adapters`, `layers` and `core_aten` have
those whose arguments differ. An operator that changes its first argument in place, such as ``relu_``, is the one
without the underscore, followed by a copy.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any

from adjoint.importers.torch_export.adapters import ADAPTERS
from adjoint.importers.torch_export.core_aten import CORE
from adjoint.importers.torch_export.layers import LAYERS
from adjoint.names import TENSOR_NAMES
from adjoint.tensor.tensor import Tensor

__all__ = ["IGNORED", "operator_of", "same_words"]

#: Operators that only check what is true, or what a compiled program does not depend on.
IGNORED = frozenset(
    {
        "_assert_async.msg",
        "_assert_scalar.default",
        "_assert_tensor_metadata.default",
        "sym_constrain_range.default",
        "sym_constrain_range_for_size.default",
    }
)


@cache
def same_words() -> dict[str, str]:
    """The paths in `adjoint` of functions that take the arguments of an ATen operator, by its name and overload."""
    found: dict[str, str] = {}
    for line in files("adjoint.importers.torch_export").joinpath("same_words.txt").read_text().splitlines():
        if not line.startswith("#"):
            name, overloads, path = (part.strip() for part in line.split("|"))
            found |= {f"{name}.{overload}": path for overload in overloads.split()}
    return found


@cache
def operator_of(name: str) -> Callable[..., Any] | None:
    """The function that computes an operator.

    Parameters
    ----------
    name : str
        Its name and overload, such as ``"add.Tensor"``.

    Returns
    -------
    callable or None
        None if there is none.
    """
    for table in (LAYERS, ADAPTERS, CORE):
        if name in table:
            return table[name]
    path = same_words().get(name)
    if path is not None:
        made: Callable[..., Any] = _function(path)
        return made
    base, _, overload = name.partition(".")
    if base.endswith("_") and not base.startswith("__"):
        pure = operator_of(f"{base[:-1]}.{overload}")
        return None if pure is None else _in_place(pure)
    return None


def _function(path: str) -> Any:
    """The function of a path in `adjoint`, from the module that defines it."""
    place, _, name = path.rpartition(".")
    if place == "Tensor":
        return getattr(Tensor, name)
    if place:
        return getattr(import_module(f"adjoint.{place}"), name)
    return getattr(import_module(next(home for home, names in TENSOR_NAMES.items() if name in names)), name)


def _in_place(pure: Callable[..., Any]) -> Callable[..., Any]:
    def changed(target: Any, *args: Any, **keywords: Any) -> Any:
        return target.copy_(pure(target, *args, **keywords))

    return changed
