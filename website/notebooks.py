"""Notebooks: their code run again, and their pages on the site.

python -m website.notebooks     run all notebooks in docs/ and store what they print
"""

import ast
import contextlib
import io
import json
import posixpath
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "docs" / "notebooks"


def page_of(path: str) -> str:
    """The page of the site that shows a notebook."""
    return posixpath.splitext(path)[0] + ".md"


def markdown(text: str) -> str:
    """A notebook as a page: its Markdown, its code, and what each cell printed."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        if cell["cell_type"] == "code" and (output := stored(cell)):
            parts.append(f"```text\n{output.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def stored(cell: dict[str, Any]) -> str:
    """The text that a cell printed, and the value of its last line, as the notebook stores them."""
    return "".join("".join(output.get("text") or output["data"]["text/plain"]) for output in cell["outputs"])


def run(cells: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Run cells of code one after the other; each with what it prints, and the text of the value of its last line."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells:
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, "cell", "exec"), names)
            value = None if last is None else eval(compile(last, "cell", "eval"), names)
        yield cell, printed.getvalue(), "" if value is None else repr(value)


def outputs(number: int, printed: str, value: str) -> list[dict[str, Any]]:
    """The outputs of a cell, as a notebook stores them."""
    found: list[dict[str, Any]] = []
    if printed:
        found.append({"name": "stdout", "output_type": "stream", "text": printed.splitlines(keepends=True)})
    if value:
        data = {"text/plain": value.splitlines(keepends=True)}
        found.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return found


def main() -> None:
    """Store what the notebooks print."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        notebook = json.loads(path.read_text("utf-8"))
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            for number, (cell, printed, value) in enumerate(run(notebook["cells"]), 1):
                cell |= {"execution_count": number, "outputs": outputs(number, printed, value)}
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
