"""The table of metrics in the docs is that of the classes."""

from pathlib import Path

from adjoint.training.metrics.table import table

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_the_page_lists_all_metrics():
    made = table().strip()
    assert f"\n\n{made}\n" in PAGE.read_text(), "put what `python -m adjoint.training.metrics.table` prints there"
    assert "| `Accuracy` | `accuracy`, `acc` | The part of rows whose prediction is right | `eval_type=" in table()
