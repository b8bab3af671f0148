"""What a script that was written for another framework needs changed: its import lines, and names that are not covered.

Names are found in the syntax tree: those that are imported, and attributes of imported modules. The script is not
executed, so methods of the objects that it makes are not seen.
"""

import ast
import difflib
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from adjoint.compat.covered import FRAMEWORKS
from adjoint.errors import AdjointError, InvalidValueError
from adjoint.lazy_dataclass import dataclass

__all__ = ["Port", "Uncovered", "port", "port_file"]

_PACKAGE = "adjoint.compat."

#: Packages that scripts import beside a framework, with what to use instead.
_BESIDE = {
    "torchvision": "use adjoint.data for datasets and transforms, and adjoint.nn.networks for networks",
    "torchaudio": "read the sound files with another package, and pass arrays",
    "torchtext": "use adjoint.data.text",
    "flowvision": "use adjoint.data for datasets and transforms, and adjoint.nn.networks for networks",
    "tensorflow_datasets": "use adjoint.data",
    "keras": "import keras from tensorflow, and run adjoint port again",
}

#: The first statement of a ``from`` import: what is before its module, and the module.
_FROM = re.compile(rb"(from\s+(?:\\\s+)?)([\w.]+)")

_MAGIC = re.compile(rb"\s*[%!?]")


@dataclass(frozen=True, slots=True)
class Uncovered:
    """A name that a script uses and that is not covered.

    Attributes
    ----------
    name : str
        As the framework spells it: ``torch.fft.rfft``.
    line : int
        The line, from 1; of the code of all cells in a notebook.
    advice : str
        What to use instead, as a sentence.
    """

    name: str
    line: int
    advice: str


@dataclass(frozen=True, slots=True)
class Port:
    """What a script needs changed.

    Attributes
    ----------
    before, after : str
        The code, and the code with other import lines.
    uncovered : tuple of Uncovered
        Names to change by hand, in the order of their lines.
    """

    before: str
    after: str
    uncovered: tuple[Uncovered, ...]

    def diff(self, path: str = "script.py") -> str:
        """The changed lines, as ``diff -u`` prints them.

        Parameters
        ----------
        path : str, default "script.py"
            The name of the file in the heading.
        """
        before, after = self.before.splitlines(True), self.after.splitlines(True)
        lines = difflib.unified_diff(before, after, path, path, n=0)
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def port(code: str | bytes, name: str = "script") -> Port:
    """What a script needs changed so that it runs with `adjoint.compat`.

    Parameters
    ----------
    code : str or bytes
        Python, in UTF-8; lines that begin with ``%`` or ``!``, as in notebooks, are skipped.
    name : str, default "script"
        What errors call it.

    Raises
    ------
    InvalidValueError
        If it cannot be parsed.
    """
    source = code.encode() if isinstance(code, str) else code
    lines = source.splitlines(keepends=True)
    tree = _parsed(b"".join(map(_without_magic, lines)), name)
    bound: dict[str, str] = {}
    used: list[tuple[int, str]] = []
    edits: list[tuple[int, int, int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if _is_theirs(alias.name):
                    top = alias.name.split(".")[0]
                    bound[alias.asname or top] = alias.name if alias.asname else top
                    used.append((node.lineno, alias.name))
                    if top in FRAMEWORKS:
                        edits.append((alias.lineno, alias.col_offset, alias.end_col_offset or 0, _as_ours(alias)))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level and _is_theirs(node.module):
            bound |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            used += [(alias.lineno, f"{node.module}.{alias.name}".removesuffix(".*")) for alias in node.names]
            if node.module.split(".")[0] in FRAMEWORKS:
                edits.append(_module_edit(node, lines))
    used += _chains(tree, bound)
    missing = {Uncovered(found[0], line, found[1]) for line, name in used if (found := _uncovered(name)) is not None}
    by_line = sorted(missing, key=lambda one: (one.line, one.name))
    return Port(source.decode(), _edited(lines, edits).decode(), tuple(by_line))


def port_file(path: Path) -> tuple[Port, bytes]:
    """What a script or notebook needs changed, and the whole new contents of the file.

    Parameters
    ----------
    path : Path
        A file of Python, or a notebook, ``.ipynb``.

    Raises
    ------
    InvalidValueError
        If it cannot be read or parsed.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidValueError(f"port: {path} must be readable, got {error.strerror}; pass another file") from error
    mark = b"\xef\xbb\xbf" if content.startswith(b"\xef\xbb\xbf") else b""
    try:
        content[len(mark) :].decode()
    except UnicodeDecodeError as error:
        raise InvalidValueError(
            f"port: {path} must be text in UTF-8, got byte {content[error.start]:#04x} at {error.start}; convert it"
        ) from error
    if path.suffix != ".ipynb":
        ported = port(content[len(mark) :], str(path))
        return ported, mark + ported.after.encode()
    return _ported_notebook(content[len(mark) :], path)


def _ported_notebook(content: bytes, path: Path) -> tuple[Port, bytes]:
    try:
        notebook = json.loads(content)
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        sources = ["".join(cell["source"]).splitlines() for cell in cells]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidValueError(
            f"port: {path} must be a notebook with cells, got {type(error).__name__} at reading it; save it again"
        ) from error
    ported = port("".join(f"{line}\n" for lines in sources for line in lines), str(path))
    after = iter(ported.after.splitlines(keepends=True))
    for cell, lines in zip(cells, sources, strict=True):
        new = [next(after) for _ in lines]
        cell["source"] = [*new[:-1], new[-1].removesuffix("\n")] if new else []
    return ported, (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode()


def _parsed(source: bytes, name: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError as error:
        place = f" in line {error.lineno}" if error.lineno else ""
        raise InvalidValueError(f"port: {name} must be Python 3, got {error.msg}{place}; correct it first") from error
    except (ValueError, RecursionError, MemoryError) as error:
        reason = "null bytes" if isinstance(error, ValueError) else "expressions that are nested too deeply"
        raise InvalidValueError(f"port: {name} must be Python 3, got {reason}; correct it first") from error


def _without_magic(line: bytes) -> bytes:
    """A line that Python can parse; commands of notebooks become empty statements."""
    if not _MAGIC.match(line):
        return line
    indent = line[: len(line) - len(line.lstrip())]
    return indent + b"pass\n"


def _is_theirs(module: str) -> bool:
    top = module.split(".")[0]
    return top in FRAMEWORKS or top in _BESIDE


def _as_ours(alias: ast.alias) -> str:
    """What ``import`` names instead: ``torch.nn as nn`` with our package; ``torch.nn`` binds ``torch``."""
    top = alias.name.split(".")[0]
    return f"{_PACKAGE}{alias.name} as {alias.asname}" if alias.asname else f"{_PACKAGE}{top} as {top}"


def _module_edit(node: ast.ImportFrom, lines: list[bytes]) -> tuple[int, int, int, str]:
    """(line, first column, end column, text) of the module of a ``from`` import."""
    found = _FROM.match(b"".join(lines[node.lineno - 1 : node.end_lineno]), node.col_offset)
    if found is None or b"\n" in found[1]:
        raise InvalidValueError(
            f"port: the module must be in the line of `from`, got a line break in line {node.lineno}; join the lines"
        )
    return node.lineno, found.start(2), found.end(2), f"{_PACKAGE}{node.module}"


def _edited(lines: list[bytes], edits: list[tuple[int, int, int, str]]) -> bytes:
    new = list(lines)
    for line, start, end, text in sorted(edits, reverse=True):  # from the end, so that columns stay right
        new[line - 1] = new[line - 1][:start] + text.encode() + new[line - 1][end:]
    return b"".join(new)


def _chains(tree: ast.Module, bound: dict[str, str]) -> Iterator[tuple[int, str]]:
    """(line, dotted name) for each attribute of an imported name, the longest only."""
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or id(node) in inner:
            continue
        parts: list[str] = []
        root: ast.expr = node
        while isinstance(root, ast.Attribute):
            parts.append(root.attr)
            root = root.value
        if isinstance(root, ast.Name) and root.id in bound:
            yield node.lineno, ".".join([bound[root.id], *reversed(parts)])


def _uncovered(name: str) -> tuple[str, str] | None:
    """The part of a name that is not covered, and what to use instead; None if it is covered."""
    top, *rest = name.split(".")
    if top in _BESIDE:
        return top, f"{top} is not covered; {_BESIDE[top]}"
    found: Any = import_module(_PACKAGE + top)
    for n, part in enumerate(rest):
        if not isinstance(found, ModuleType):
            return None  # an attribute of an object
        try:
            found = _attribute(found, part)
        except AdjointError as error:
            return ".".join([top, *rest[: n + 1]]), error.message
    return None


def _attribute(module: ModuleType, name: str) -> Any:
    try:
        return getattr(module, name)
    except AdjointError:
        try:
            return import_module(f"{module.__name__}.{name}")
        except ModuleNotFoundError:
            pass
        raise
    except AttributeError as error:
        raise InvalidValueError(f"{module.__name__.removeprefix(_PACKAGE)}.{name} is not covered") from error
