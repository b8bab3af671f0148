"""The template environment of HTML pages."""

from typing import TYPE_CHECKING

from adjoint.pages import figures

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["page_environment"]


def page_environment(package: str) -> "Environment":
    """The environment of the templates of a package and those of all pages.

    It escapes automatically, knows the functions of `figures` as filters, and raises for undefined variables.

    Parameters
    ----------
    package : str
        The name of a package with a folder ``templates``.
    """
    # Imported here because it is slow to load, and only pages need it.
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined  # noqa: PLC0415

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("adjoint.pages")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {name: getattr(figures, name) for name in figures.__all__}
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}
    return environment
