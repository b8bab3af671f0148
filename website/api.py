"""The API reference: a page per public package, made from its docstrings."""

import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from website import docstrings

INDEX = "api/index.md"
#: A function or class that is the default of a parameter, as Python prints it.
OBJECT = re.compile(r"<(?:function|class|built-in function) '?([\w.]+)'?[^>]*>")

#: The public packages by topic, in the order of the menu.
PACKAGES: dict[str, tuple[str, ...]] = {
    "Objects and functions": (
        "adjoint",
        "adjoint.amp",
        "adjoint.autograd",
        "adjoint.distributions",
        "adjoint.func",
        "adjoint.linalg",
        "adjoint.saving",
    ),
    "Networks": (
        "adjoint.nn",
        "adjoint.nn.functional",
        "adjoint.nn.init",
        "adjoint.nn.networks",
        "adjoint.nn.utils",
    ),
    "Losses and optimizers": ("adjoint.losses", "adjoint.optim", "adjoint.optim.lr_scheduler"),
    "Graphs": (
        "adjoint.ir",
        "adjoint.ops",
        "adjoint.transforms",
        "adjoint.compiler",
        "adjoint.models",
        "adjoint.training",
    ),
    "Model": (
        "adjoint.training.model",
        "adjoint.training.metrics",
        "adjoint.training.callbacks",
        "adjoint.training.checkpoints",
        "adjoint.training.report",
    ),
    "Data": (
        "adjoint.data",
        "adjoint.data.samplers",
        "adjoint.data.sources",
        "adjoint.data.text",
        "adjoint.data.transforms",
        "adjoint.data.vision",
        "adjoint.utils.data",
    ),
    "Tools": ("adjoint.errors", "adjoint.interop", "adjoint.profiling", "adjoint.testing"),
}


def pages() -> dict[str, str]:
    """The pages in the order of the menu, each with its title."""
    return {f"api/{package}.md": package for packages in PACKAGES.values() for package in packages}


def texts() -> dict[str, str]:
    """All pages with their Markdown."""
    return {INDEX: index(), **{path: package_page(package) for path, package in pages().items()}}


def index() -> str:
    """The page that lists the packages."""
    lines = [
        "# API",
        "",
        "All public packages. A name is documented where it is defined, and imported from there or",
        "",
    ]
    lines[2] = "The public packages, and what is in each. Pages are made from docstrings."
    for topic, packages in PACKAGES.items():
        lines += [f"## {topic}", "", "| package | contents |", "| --- | --- |"]
        for package in packages:
            summary = docstrings.summary(import_module(package))
            lines.append(f"| [`{package}`]({package}.md) | {summary} |")
        lines.append("")
    return "\n".join(lines)


def public_names(package: str) -> list[str]:
    """The names that a package exports and that have no page of their own, in the order of the alphabet."""
    module = import_module(package)
    names = module.__all__ if hasattr(module, "__all__") else [name for name in dir(module) if name[0] != "_"]
    return sorted(
        (name for name in set(names) if not name.startswith("__") and not inspect.ismodule(getattr(module, name))),
        key=lambda name: (name.lower(), name),
    )


def package_page(package: str) -> str:
    """The page of a package: what it is, a list of what it exports, and each of these."""
    module = import_module(package)
    described, shared, plain = [], [], []
    for name in public_names(package):
        value = getattr(module, name)
        home = first_homes().get(identity(value), (package, name)) if callable(value) else (package, name)
        if not callable(value) or not inspect.getdoc(value):
            plain.append((name, value))
        elif home != (package, name):
            shared.append((name, value, home))
        else:
            described.append((name, value))
    lines = [f"# {package}", "", docstrings.rendered(inspect.getdoc(module) or ""), ""]
    if described:
        lines += ["| name | |", "| --- | --- |"]
        lines += [
            f"| [`{name}`](#{anchor(package, name)}) | {docstrings.summary(value)} |" for name, value in described
        ]
        lines.append("")
    if shared:
        lines += ["Also here, and described where they belong:", "", "| name | |", "| --- | --- |"]
        for name, value, (elsewhere, other) in shared:
            target = f"{elsewhere}.md" if elsewhere != package else ""
            lines.append(f"| [`{name}`]({target}#{anchor(elsewhere, other)}) | {docstrings.summary(value)} |")
        lines.append("")
    if plain:
        lines += ["Constants and types: " + ", ".join(f"`{name}`" for name, _ in plain) + ".", ""]
    for name, value in described:
        lines += entry(package, name, value)
    return "\n".join(lines)


def anchor(package: str, name: str) -> str:
    """The anchor of a name."""
    return f"{package}.{name}"


def identity(value: Any) -> int:
    """What two names of one object have in common."""
    return id(inspect.unwrap(value)) if callable(value) else id(value)


@cache
def first_homes() -> dict[int, tuple[str, str]]:
    """The package and name that describe each object: the most specific package that exports it."""
    homes: dict[int, tuple[str, str]] = {}
    for packages in PACKAGES.values():
        for package in packages:
            for name in public_names(package):
                value = getattr(import_module(package), name)
                if callable(value):
                    key, here = identity(value), (package, name)
                    homes[key] = max(homes.get(key, here), here, key=lambda at: closeness(value, at))
    return homes


def closeness(value: Any, at: tuple[str, str]) -> tuple[bool, int]:
    """How well a name suits as the one that describes an object."""
    package, name = at
    defined = getattr(value, "__module__", None) or ""
    return name == getattr(value, "__name__", name), len(package) if f"{defined}.".startswith(f"{package}.") else 0


def entry(package: str, name: str, value: Any) -> list[str]:
    """What a page says about a function or class."""
    lines = [f"### {name} {{ #{anchor(package, name)} .api }}", "", signature(name, value), ""]
    lines += [docstrings.rendered(inspect.getdoc(value) or ""), ""]
    for method, function in methods(value) if inspect.isclass(value) else ():
        lines += [f"#### {docstrings.escaped(f'{name}.{method}')} {{ #{anchor(package, name)}.{method} .api }}", ""]
        if not isinstance(function, property):
            lines += [signature(method, function), ""]
        lines += [docstrings.rendered(inspect.getdoc(function) or ""), ""]
    return lines


def methods(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that a class defines itself, with docstrings of their own."""
    for name, member in vars(kind).items():
        function = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if name.startswith("_") or not (inspect.isfunction(function) or isinstance(function, property)):
            continue
        if function.__doc__:
            yield name, function


def signature(name: str, value: Any) -> str:
    """The signature of a function or class as a block of code, a parameter per line where it is long."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    parameters = [p.replace(annotation=p.empty) for p in found.parameters.values() if p.name not in ("self", "cls")]
    bare = found.replace(parameters=parameters, return_annotation=found.empty)
    text = f"{name}{bare}"
    if len(text) > 90:
        text = f"{name}(\n{one_per_line(bare)})"
    text = OBJECT.sub(r"\1", text)
    return f"``` {{ .python .signature }}\n{text}\n```"


def one_per_line(found: inspect.Signature) -> str:
    """The parameters of a signature, each on a line."""
    lines, keyword_only = [], False
    for p in found.parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            keyword_only = True
        elif p.kind is p.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            lines.append("    *,")
        lines.append(f"    {p},")
    return "\n".join(lines) + "\n"
