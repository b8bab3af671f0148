"""Write what `benchmarks/results.json` says into README and docs: python benchmarks/publish.py. See docs/benchmarks.md.

A page's text between the lines ``<!-- results: NAME -->`` and ``<!-- end -->`` is replaced, where NAME is one of
`benchmarks.blocks.BLOCKS`. The rest of the page stays as it is. The facts about programs, which are not measured, are
first computed again and entered in the file.
"""

import argparse
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

if not __package__:  # run as a file: what is imported is the package that the file lies in
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from rich.console import Console

from benchmarks import record
from benchmarks.blocks import BLOCKS
from benchmarks.harness import ROOT
from benchmarks.programs import facts

__all__ = ["BLOCK", "PageError", "main", "pages", "rendered"]

#: A generated block: its first line, its name, its text and its last line.
BLOCK = re.compile(r"^(<!-- results: ([\w/-]+) -->)\n(.*?)^(<!-- end -->)$", re.DOTALL | re.MULTILINE)

#: Lines that begin and end one; words inside a line are prose about blocks.
_OPENING = re.compile(r"^<!-- (?:results|stage):", re.MULTILINE)
_CLOSING = re.compile(r"^<!-- end -->", re.MULTILINE)

#: Columns of a page.
_WIDTH = 120


class PageError(Exception):
    """A page that cannot be rendered; the message says why."""


def pages(root: Path = ROOT) -> list[Path]:
    """README and all pages of docs."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def rendered(page: str, results: Mapping[str, Any]) -> str:
    """A page with its blocks as the results have them.

    Raises
    ------
    PageError
        Where a block is unknown or not closed, or the results lack what it shows.
    """
    found = [match[2] for match in BLOCK.finditer(page)]
    if unknown := [name for name in found if name not in BLOCKS]:
        raise PageError(f"blocks are {', '.join(BLOCKS)}, got {', '.join(unknown)}")
    if len(_OPENING.findall(page)) != len(_CLOSING.findall(page)):
        raise PageError("a block begins with the line <!-- results: NAME --> and ends with the line <!-- end -->")

    def block(match: re.Match[str]) -> str:
        try:
            return f"{match[1]}\n\n{_wrapped(BLOCKS[match[2]](results))}\n\n{match[4]}"
        except KeyError as error:
            raise PageError(f"the results have no {error} for the block {match[2]}") from error

    return BLOCK.sub(block, page)


def _wrapped(text: str) -> str:
    """The text with lines of prose broken at the width of the pages; tables and headings stay whole."""

    def lines(line: str) -> str:
        if line.startswith(("|", "#")) or len(line) <= _WIDTH:
            return line
        indent = "  " if line.startswith("- ") else ""
        return textwrap.fill(line, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)

    return "\n".join(map(lines, text.split("\n")))


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Compute facts and render pages; returns the exit status: 1 where `--check` finds a difference, 2 for an error."""
    options = argparse.ArgumentParser(description="Write the published results into README and docs.")
    options.add_argument("--results", type=Path, default=record.RESULTS, help="default: benchmarks/results.json")
    options.add_argument("--root", type=Path, default=ROOT, help="where README.md and docs/ are")
    options.add_argument("--check", action="store_true", help="write nothing; exit with 1 where something would change")
    args = options.parse_args(arguments)
    console = console or Console()
    results, programs = record.load(args.results), facts()
    changed = [] if results.get("programs") == programs else [args.results]
    if changed and not args.check:
        record.store(args.results, ("programs",), programs)
    for path in pages(args.root):
        page = path.read_text()
        try:
            made = rendered(page, {**results, "programs": programs})
        except PageError as error:
            console.print(f"{path}: {error}", style="bold red", markup=False, highlight=False, soft_wrap=True)
            return 2
        if made != page:
            changed.append(path)
            if not args.check:
                path.write_text(made)
    for path in changed:
        console.print(f"{'differs' if args.check else 'rewritten'}: {path}", highlight=False, soft_wrap=True)
    return 1 if changed and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
