"""``adjoint ops``: the operators that a model can use."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from adjoint.cli.options import closest
from adjoint.ops.aten import AtenOperator, aten_operators
from adjoint.ops.listing import Listed, listed_operators

__all__ = ["aten_page", "command", "page"]

_INTRODUCTION = """\
# Operators

The functions of `adjoint.ops`, family by family. `adjoint ops` prints this list and `adjoint ops --json` has it for
programs; `help(ops.conv2d)` explains the arguments of a function. The column *Python* has the operators and methods of
a value that call the function ([Writing models](writing-models.md) says how scalars and dtypes are treated).

A *composite* is built from other operators, so graph text contains those. What has no gradient passes none on: it may
be used in a model, and the parameters that it depends on get no gradient through it.

[PyTorch's core operators](aten.md) says what computes each operator of the core ATen set.

This page is written by `adjoint ops --markdown > docs/operators.md`.
"""

_ATEN_INTRODUCTION = """\
# PyTorch's core operators

Programs of PyTorch can be decomposed into the operators of its *core ATen set*. These are the {count} operators of
version 2.13 and what computes each of them here: functions and methods of `adjoint`, of which {covered} operators have
one. `adjoint ops --aten` prints this list and `adjoint ops --aten --json` has it for programs.

This page is written by `adjoint ops --aten --markdown > docs/aten.md`.
"""

_INTERNAL = """\
## Operators without a function

Composites, gradients and passes create these; graph text and profiles show them.
"""


@click.command("ops")
@click.argument("families", metavar="[FAMILY]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects as JSON.")
@click.option("--markdown", is_flag=True, help="Print the page docs/operators.md, or docs/aten.md with --aten.")
@click.option("--aten", is_flag=True, help="Print PyTorch's core ATen operators, and what computes each here.")
def command(families: tuple[str, ...], as_json: bool, markdown: bool, aten: bool) -> None:
    """Print the operators: how they are called, and whether they have a gradient."""
    if as_json and markdown:
        raise click.UsageError("--json and --markdown exclude each other, got both; omit one")
    if markdown and families:
        raise click.UsageError(f"--markdown prints the whole page, got {', '.join(families)} as well; omit it")
    if aten and families:
        raise click.UsageError(f"--aten prints the whole set, got {', '.join(families)} as well; omit it")
    if aten:
        _print_aten(as_json, markdown)
        return
    listed = _of_families(families)
    if as_json:
        click.echo(json.dumps([_fields(each) for each in listed], indent=2))
    elif markdown:
        click.echo(page(listed), nl=False)
    else:
        _print_table(listed)


def page(listed: Sequence[Listed]) -> str:
    """The page on operators, in Markdown.

    Parameters
    ----------
    listed : sequence of Listed
        The operators and composites, those of a family next to each other.
    """
    parts = [_INTRODUCTION]
    for family, group in groupby((each for each in listed if each.signature), lambda each: each.family):
        rows = [
            (
                f"`{each.signature}`" + _kind(each),
                _markdown(each.summary),
                ", ".join(f"`{python}`" for python in each.python),
                _gradient(each),
            )
            for each in group
        ]
        parts.append(f"## {family.capitalize()}\n\n" + _rows(("function", "result", "Python", "gradient"), rows))
    internal = [(f"`{each.name}`", _markdown(each.summary), _gradient(each)) for each in listed if not each.signature]
    return "\n".join([*parts, _INTERNAL, _rows(("operator", "result", "gradient"), internal)])


def aten_page(listed: Sequence[AtenOperator]) -> str:
    """The page on PyTorch's core operators, in Markdown.

    Parameters
    ----------
    listed : sequence of AtenOperator
        The operators.
    """
    introduction = _ATEN_INTRODUCTION.format(count=len(listed), covered=sum(each.covered for each in listed))
    rows = [
        (
            f"`{each.name}`",
            ", ".join(f"`{overload}`" for overload in each.overloads),
            ", ".join(f"`{function}`" for function in each.functions) or "none",
            each.remark,
        )
        for each in listed
    ]
    return f"{introduction}\n{_rows(('operator', 'overloads', 'computed by', 'remark'), rows)}"


def _print_aten(as_json: bool, markdown: bool) -> None:
    listed = aten_operators()
    if as_json:
        click.echo(json.dumps([asdict(each) | {"covered": each.covered} for each in listed], indent=2))
        return
    if markdown:
        click.echo(aten_page(listed), nl=False)
        return
    table = Table()
    for column in ("operator", "overloads", "computed by", "remark"):
        table.add_column(column)
    for each in listed:
        computed = ", ".join(each.functions) or "none"
        table.add_row(*map(escape, (each.name, ", ".join(each.overloads), computed, each.remark)))
    Console().print(table)
    click.echo(f"{sum(each.covered for each in listed)} of {len(listed)} operators are computed.")


def _of_families(families: tuple[str, ...]) -> list[Listed]:
    listed = listed_operators()
    known = list(dict.fromkeys(each.family for each in listed))
    for family in families:
        if family not in known:
            raise click.UsageError(f"no family {family!r}; {closest(family, known)}")
    return [each for each in listed if not families or each.family in families]


def _fields(each: Listed) -> dict[str, object]:
    return {
        "name": each.name,
        "family": each.family,
        "signature": each.signature,
        "summary": each.summary,
        "python": list(each.python),
        "gradient": each.gradient,
        "reason": each.reason or None,
        "composite": each.composite,
    }


def _print_table(listed: Sequence[Listed]) -> None:
    table = Table()
    for column in ("family", "function", "result", "Python", "gradient"):
        table.add_column(column)
    for family, group in groupby(listed, lambda each: each.family):
        for n, each in enumerate(group):
            table.add_row(
                "" if n else family,
                escape((each.signature or each.name) + _kind(each)),
                escape(_plain(each.summary)),
                escape(", ".join(each.python)),
                escape(_gradient(each)),
            )
        table.add_section()
    Console().print(table)


def _kind(each: Listed) -> str:
    if each.composite:
        return " (composite)"
    return "" if each.signature else " (no function)"


def _gradient(each: Listed) -> str:
    return "yes" if each.gradient else f"no: {each.reason}"


def _rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _markdown(text: str) -> str:
    """Docstring text, in which code has double backticks and names have single ones."""
    return text.replace("``", "`")


def _plain(text: str) -> str:
    return re.sub("`+", "", text)
