"""The API reference has every public name, once."""

import inspect
from importlib import import_module

import pytest

import adjoint
from adjoint import optim
from website import api

PACKAGES = [package for packages in api.PACKAGES.values() for package in packages]


@pytest.mark.parametrize("package", ["adjoint.optim", "adjoint.func", "adjoint.training.metrics"])
def test_a_page_has_every_name_that_the_package_exports(package):
    page = api.package_page(package)
    for name in api.public_names(package):
        assert f"`{name}`" in page
    assert set(api.public_names(package)) <= set(import_module(package).__all__)


def test_a_name_is_described_in_one_place():
    # `adjoint` and `adjoint.func` export the same function, which the more specific package describes.
    assert "### grad {" in api.package_page("adjoint.func")
    assert "| [`grad`](adjoint.func.md#adjoint.func.grad) |" in api.package_page("adjoint")


def test_signatures_are_without_types():
    def function(a: int, *, b: object = len) -> tuple[int, object]:
        return a, b

    assert api.signature("SGD", optim.SGD).splitlines()[1].startswith("SGD(")
    assert api.signature("f", function) == "``` { .python .signature }\nf(a, *, b=len)\n```"


def test_all_packages_have_a_page_that_the_index_links():
    index = api.index()
    assert all(f"]({package}.md)" in index for package in PACKAGES)
    assert list(api.pages().values()) == PACKAGES


def test_every_package_among_the_public_names_has_a_page():
    modules = {f"adjoint.{name}" for name in adjoint.__all__ if inspect.ismodule(getattr(adjoint, name))}
    # A function of the same name is on the first page, and `adjoint.utils` has no names but `data`.
    assert modules - set(PACKAGES) <= {"adjoint.tensor", "adjoint.utils"}
