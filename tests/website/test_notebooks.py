"""Notebooks run, and print what they store."""

import json

import pytest

from website import notebooks


@pytest.mark.parametrize("path", sorted(notebooks.FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_code_prints_what_the_notebook_stores(path, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    cells = json.loads(path.read_text("utf-8"))["cells"]
    for cell, printed, value in notebooks.run(cells):
        assert printed + value == notebooks.stored(cell)


def test_a_notebook_is_a_page():
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "Words."]},
        {"cell_type": "code", "source": ["print(1)\n", "2"], "outputs": []},
    ]
    ((cell, printed, value),) = notebooks.run(cells)
    assert (printed, value) == ("1\n", "2")
    cell["outputs"] = notebooks.outputs(1, printed, value)
    page = notebooks.markdown(json.dumps({"cells": cells}))
    assert page == "# Title\nWords.\n\n```python\nprint(1)\n2\n```\n\n```text\n1\n2\n```\n"
