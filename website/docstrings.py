"""Docstrings in the style of NumPy as Markdown."""

import inspect
import re
from typing import Any

#: The sections whose lines are names, each with a description below it.
LISTS = {"Parameters", "Other Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns"}
HEADING = re.compile(r"^(?=\S)(.+)\n-{3,}$", re.MULTILINE)
CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
#: What has a meaning in Markdown but none in a docstring.
SPECIAL = re.compile(r"([*_<>|\[\]\\#])")


def summary(value: Any) -> str:
    """The first sentence, for a table."""
    first = (inspect.getdoc(value) or "").split("\n\n", 1)[0].removesuffix("::").rstrip(":")
    return inline(" ".join(first.split())).replace("|", "\\|").replace("\\\\|", "\\|")


def rendered(text: str) -> str:
    """A docstring as Markdown: paragraphs, then each section under its name."""
    parts = HEADING.split(text)
    lines = [prose(parts[0])]
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        lines += [f"**{title}**", items(body.strip("\n")) if title in LISTS else prose(body)]
    return "\n\n".join(line for line in lines if line.strip())


def items(body: str) -> str:
    """Names with their types, and what is said about each, as a list."""
    found: list[str] = []
    for line in body.split("\n"):
        if line and not line[0].isspace():
            name, colon, kind = line.partition(" : ")
            found.append(f"- `{name}`" + (f" : {inline(kind)}" if colon else ""))
            found.append("")
        elif found:
            found.append(line)
    text = "\n".join(found)
    # The descriptions are indented by four in the docstring, which continues an item in Markdown.
    return prose(text, within_items=True)


def prose(text: str, within_items: bool = False) -> str:
    """Paragraphs, lists and literal blocks, which are indented after a line that ends in two colons."""
    lines: list[str] = []
    literal: int | None = None  # the indentation of the line that began a literal block
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip())
        if literal is not None and line.strip() and indent <= literal:
            literal = None
        if literal is not None or (within_items and line.startswith("- `")):
            lines.append(line)
            continue
        if line.rstrip().endswith("::"):
            literal = indent
            line = line.rstrip().removesuffix(":")
        lines.append(inline(line))
    return escape_paragraphs("\n".join(lines)).strip("\n")


def escape_paragraphs(text: str) -> str:
    """Lists need an empty line before them."""
    return re.sub(r"^(?!\s*[-*] )(\s*\S.*)\n(\s*- )", r"\1\n\n\2", text, flags=re.MULTILINE)


def inline(text: str) -> str:
    """A line with what is not code escaped."""
    parts, position = [], 0
    for code in CODE.finditer(text):
        parts += [escaped(text[position : code.start()]), f"`{code[2]}`"]
        position = code.end()
    return "".join([*parts, escaped(text[position:])])


def escaped(text: str) -> str:
    """Text without a meaning for Markdown."""
    return SPECIAL.sub(r"\\\1", text)
