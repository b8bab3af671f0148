"""``adjoint port``: what it prints, what it writes, and the page in the documentation."""

import json
import os
from pathlib import Path

import pytest

from adjoint.cli import main
from tests.cli.helpers import refusal

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "s.py"
    path.write_text("import torch  # here\n\nx = torch.ones(2)\n")
    return path


def test_it_prints_the_changed_lines(script, capsys):
    assert main(["port", str(script)]) == 0
    assert capsys.readouterr().out == (
        f"--- {script}\n+++ {script}\n@@ -1 +1 @@\n"
        "-import torch  # here\n+import adjoint.compat.torch as torch  # here\n"
    )


def test_the_status_says_whether_everything_is_covered(script, capsys):
    script.write_text("x = 1\n\nimport torch\ntorch.fft\n")
    assert main(["port", str(script)]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"{script}:4: torch.fft is not covered, because ")


def test_write_changes_files_and_keeps_their_modes(script, capsys):
    script.chmod(0o755)
    link = script.parent / "link.py"
    link.symlink_to(script)
    assert main(["port", "--write", str(link)]) == 0
    assert capsys.readouterr().out == f"{link}: import lines changed\n"
    assert link.is_symlink()
    assert script.read_text() == "import adjoint.compat.torch as torch  # here\n\nx = torch.ones(2)\n"
    assert script.stat().st_mode & 0o777 == 0o755
    assert main(["port", "--write", str(script)]) == 0
    assert capsys.readouterr().out == f"{script}: no import lines to change\n"


def test_nothing_is_written_if_one_file_is_refused(script, capsys):
    bad = script.parent / "bad.py"
    bad.write_text("(")
    before = script.read_bytes()
    assert refusal(capsys, "port", "--write", str(script), str(bad)).startswith(f"port: {bad} must be Python 3, got ")
    assert script.read_bytes() == before
    assert sorted(os.listdir(script.parent)) == ["bad.py", "s.py"]


def test_json_has_the_difference_and_the_names(script, capsys):
    script.write_text("import torch\ntorch.fft\n")
    assert main(["port", "--json", str(script)]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert found["file"] == str(script)
    assert "+import adjoint.compat.torch as torch" in found["diff"]
    assert [(one["name"], one["line"]) for one in found["uncovered"]] == [("torch.fft", 2)]


def test_names_are_listed(capsys):
    assert main(["port", "--names"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["torch.nn.Linear", "adjoint.nn.linear.Linear"] in rows
    assert main(["port", "--names", "--json"]) == 0
    assert {"name": "torch.float32", "adjoint": "dtype float32"} in json.loads(capsys.readouterr().out)


def test_the_page_is_up_to_date(capsys):
    assert main(["port", "--names", "--markdown"]) == 0
    assert capsys.readouterr().out == (DOCS / "compat.md").read_text(), (
        "run `adjoint port --names --markdown > docs/compat.md`"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "pass files, or --names to list what is covered, not both or neither"),
        (["--names", "x.py"], "pass files, or --names to list what is covered, not both or neither"),
        (["--markdown", "x.py"], "--markdown prints the page of names; pass it with --names, and without --json"),
        (["--names", "--write"], "--write changes files, got --names; pass files"),
    ],
)
def test_options_that_do_not_fit_are_refused(words, message, capsys):
    assert refusal(capsys, "port", *words) == message
