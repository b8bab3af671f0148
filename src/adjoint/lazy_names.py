"""Packages whose names are loaded from their own modules on first access (PEP 562), so that importing them is fast.

A package lists its names for type checkers and, by module, for the interpreter:

    if TYPE_CHECKING:
        from adjoint.data.digits import mnist
    else:
        __getattr__, __dir__ = lazy_names(__name__, {"adjoint.data.digits": ("mnist",)})

    __all__ = ["mnist"]
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from adjoint.collector import creating_definitions
from adjoint.missing import missing_name

__all__ = ["lazy_names"]


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    homes : mapping of str to sequence of str
        Names by the module that defines them; submodules of the package are names of the package itself.

    Raises
    ------
    AttributeError
        When they are called, for a name that the package does not have.
    """
    home_of = {name: home for home, names in homes.items() for name in names}
    namespace = vars(sys.modules[package])

    def load(name: str) -> Any:
        """Load a name from its module and keep it."""
        home = home_of.get(name)
        if home is None:
            raise missing_name(package, name, namespace["__all__"])
        with creating_definitions():
            found = import_module(f"{package}.{name}") if home == package else getattr(import_module(home), name)
        namespace[name] = found
        return found

    def names() -> list[str]:
        """All public names, loaded or not."""
        return sorted({*namespace, *namespace["__all__"]})

    return load, names
