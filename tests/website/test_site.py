"""What the site adds to the pages; `make docs` builds it and refuses links that lead nowhere."""

import pytest

pytest.importorskip("mkdocs", reason="the site is made with mkdocs: pip install 'adjoint[docs]'")
from website import hooks


def test_links_to_files_outside_of_docs_lead_to_their_pages():
    text = "[a](../src/adjoint/costs.py) [b](data.md#x) [c](../CONTRIBUTING.md)\n\n```text\n[d](../LICENSE)\n```\n[e](https://x.org)"
    assert hooks.rewritten(text, "training.md") == (
        "[a](source/src/adjoint/costs.py.md) [b](data.md#x) [c](CONTRIBUTING.md)\n\n"
        "```text\n[d](../LICENSE)\n```\n[e](https://x.org)"
    )
    assert hooks.rewritten("[a](docs/releasing.md)", "CONTRIBUTING.md") == "[a](releasing.md)"
    assert hooks.rewritten("[a](../notebooks/start.ipynb)", "start/index.md") == "[a](../notebooks/start.md)"


def test_empty_menus_are_filled():
    nav = ["a.md", {"More": [{"API": []}, {"b": "b.md"}]}]
    hooks.fill(nav, {"API": ["api.md"]})
    assert nav == ["a.md", {"More": [{"API": ["api.md"]}, {"b": "b.md"}]}]
