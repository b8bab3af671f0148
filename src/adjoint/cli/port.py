"""``adjoint port``: what scripts of other frameworks need changed, and the names of theirs that are covered."""

import json
import stat
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

import click

from adjoint.compat.covered import FRAMEWORKS, Covered, covered_names
from adjoint.compat.porting import Port, port_file
from adjoint.paths import write_user_file

__all__ = ["command", "page"]

#: Exit status if a name is not covered.
_UNCOVERED = 1

_INTRODUCTION = """\
# Names of other frameworks

Programs of the frameworks below run with only their import lines changed, for instance to `import adjoint.compat.torch
as torch`. These are the names that are covered, module by module, with what is behind each; names of the same object
are the same object, so they are as fast. Other names raise an error that says what to use instead.

    adjoint port script.py            # print what a script needs changed
    adjoint port script.py --write    # change its import lines

This page is written by `adjoint port --names --markdown > docs/compat.md`.
"""

#: How the frameworks spell themselves.
_TITLES = {
    "mindspore": "MindSpore",
    "oneflow": "OneFlow",
    "tensorflow": "TensorFlow",
    "torch": "PyTorch",
    "tvm": "TVM",
}


@click.command("port")
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--write", is_flag=True, help="Change the import lines of the files.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects as JSON.")
@click.option("--names", is_flag=True, help="Print the names that are covered.")
@click.option("--markdown", is_flag=True, help="With --names: print the page docs/compat.md.")
def command(files: tuple[Path, ...], write: bool, as_json: bool, names: bool, markdown: bool) -> int:
    """Print what scripts and notebooks of PyTorch, OneFlow, MindSpore, TVM or TensorFlow need changed.

    The exit status is 1 if they use names that are not covered. Nothing is executed.
    """
    if names == bool(files):
        raise click.UsageError("pass files, or --names to list what is covered, not both or neither")
    if markdown and (not names or as_json):
        raise click.UsageError("--markdown prints the page of names; pass it with --names, and without --json")
    if write and names:
        raise click.UsageError("--write changes files, got --names; pass files")
    if names:
        _print_names(as_json, markdown)
        return 0
    ported = [(path, *port_file(path)) for path in files]
    if write:
        for path, port, content in ported:
            if port.after != port.before:
                place = path.resolve()  # of the file itself if the path is a link
                mode = stat.S_IMODE(place.stat().st_mode)
                write_user_file(place, content, "port")
                place.chmod(mode)
    if as_json:
        click.echo(json.dumps([_fields(path, port) for path, port, _ in ported], indent=2))
    else:
        for path, port, _ in ported:
            _print_port(path, port, write)
    return _UNCOVERED if any(port.uncovered for _, port, _ in ported) else 0


def page(names: Sequence[Covered]) -> str:
    """The page on covered names, in Markdown.

    Parameters
    ----------
    names : sequence of Covered
        The names, those of a framework next to each other.
    """
    parts = [_INTRODUCTION]
    for framework, of_framework in groupby(names, lambda one: one.name.split(".")[0]):
        parts.append(f"## {_TITLES.get(framework, framework)}\n")
        by_module = sorted(of_framework, key=lambda one: (one.name.rpartition(".")[0], one.name))
        for module, group in groupby(by_module, lambda one: one.name.rpartition(".")[0]):
            rows = [f"| `{one.name.rpartition('.')[2]}` | `{one.native}` |\n" for one in group]
            parts.append(f"### `{module}`\n\n| name | adjoint |\n| --- | --- |\n{''.join(rows)}")
    return "\n".join(parts)


def _print_names(as_json: bool, markdown: bool) -> None:
    names = [one for framework in sorted(FRAMEWORKS) for one in covered_names(framework)]
    if markdown:
        click.echo(page(names), nl=False)
    elif as_json:
        click.echo(json.dumps([{"name": one.name, "adjoint": one.native} for one in names], indent=2))
    else:
        width = max(len(one.name) for one in names)
        click.echo("".join(f"{one.name:<{width}}  {one.native}\n" for one in names), nl=False)


def _print_port(path: Path, port: Port, written: bool) -> None:
    if port.before == port.after:
        click.echo(f"{path}: no import lines to change")
    elif written:
        click.echo(f"{path}: import lines changed")
    else:
        click.echo(port.diff(str(path)), nl=False)
    for one in port.uncovered:
        click.echo(f"{path}:{one.line}: {one.advice}")


def _fields(path: Path, port: Port) -> dict[str, object]:
    return {
        "file": str(path),
        "diff": port.diff(str(path)),
        "uncovered": [asdict(one) for one in port.uncovered],
    }
