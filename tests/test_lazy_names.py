"""Packages whose names are loaded on first access."""

import ast
import pkgutil
import sys
import types
from pathlib import Path

import pytest

import adjoint
from adjoint import data, optim
from adjoint.lazy_names import lazy_names

PACKAGES = [adjoint, data, optim]


def for_type_checkers(package):
    """Names that a package imports under ``if TYPE_CHECKING``, except for those of ``import *``."""
    statements = ast.parse(Path(package.__file__).read_text()).body
    (checked,) = (s for s in statements if isinstance(s, ast.If) and ast.unparse(s.test) == "TYPE_CHECKING")
    return {alias.asname or alias.name for node in checked.body for alias in node.names} - {"*"}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_names_for_type_checkers_are_loaded(package):
    assert set(package.__all__) <= set(dir(package))
    for name in {*package.__all__, *for_type_checkers(package)}:
        assert getattr(package, name) is not None, name


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_no_lazy_name_is_that_of_a_submodule(package):
    # Importing the submodule would set the attribute, which then is the module or the name, depending on the order.
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    clashes = {n for n in package.__all__ if n in modules and not isinstance(getattr(package, n), types.ModuleType)}
    assert clashes == set()


def test_names_are_kept_and_unknown_ones_refused(monkeypatch):
    package = types.ModuleType("surroundings")
    package.__all__ = ["sqrt"]
    monkeypatch.setitem(sys.modules, "surroundings", package)
    package.__getattr__, package.__dir__ = lazy_names("surroundings", {"math": ("sqrt",)})
    assert "sqrt" in dir(package)
    assert "sqrt" not in vars(package)
    assert package.sqrt(4) == 2
    assert "sqrt" in vars(package)
    with pytest.raises(AttributeError, match="surroundings has no sqr; did you mean sqrt"):
        package.sqr  # noqa: B018


def test_submodules_are_names_of_the_package():
    assert adjoint.data is data


def test_an_unknown_dataset_says_what_was_meant():
    with pytest.raises(AttributeError, match=r"adjoint\.data has no Datset; did you mean Dataset\?"):
        data.Datset  # noqa: B018
