"""The code in README and docs runs, prints what it says that it prints, and its commands work."""

import linecache
import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from adjoint.cli import main
from tests.golden.walkthrough import sections, stages, vector_instructions

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def shown(page):
    return page.relative_to(ROOT).as_posix()


def blocks(page):
    """(language, text, line) of each block."""
    text = page.read_text()
    return [(m[1], m[2], text[: m.start()].count("\n") + 1) for m in BLOCK.finditer(text)]


def python_blocks(page):
    """(code, what it must print or None, line) of each Python block."""
    for (language, code, line), after in pairwise([*blocks(page), ("", "", 0)]):
        if language == "python":
            yield code, after[1] if after[0] == "text" else None, line


def commands():
    for page in PAGES:
        for language, text, _ in blocks(page):
            if language == "console":
                for line in text.splitlines():
                    assert line.startswith("$ adjoint "), f"{page}: {line}"
                    yield pytest.param(shlex.split(line)[2:], id=line[2:])


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_code_runs_and_prints_what_the_page_says(page, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # for the files that it writes
    names = {"__name__": "page"}  # blocks of a page follow each other
    text = page.read_text()
    linecache.cache[page.name] = (len(text), None, text.splitlines(keepends=True), page.name)
    for code, expected, line in python_blocks(page):
        exec(compile("\n" * line + code, page.name, "exec"), names)
        printed = capsys.readouterr().out
        assert expected is None or printed == expected


@pytest.mark.parametrize("words", list(commands()))
def test_commands_work(words, capsys):
    assert main(words) == 0
    assert capsys.readouterr().out.strip()


def anchors(page):
    """What links can lead to in a page: its headings, as GitHub and the site spell them."""
    headings = HEADING.findall(BLOCK.sub("", page.read_text()))
    return {
        re.sub(r"[^\w -]", "", re.sub(r"\]\([^)]*\)", "", heading)).lower().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=shown)
def test_links_lead_somewhere(page):
    for target, anchor in LINK.findall(BLOCK.sub("", page.read_text())):
        file = page.parent / target if target else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), f"{target}#{anchor}"


def test_there_is_code_to_run():
    assert sum(len(list(python_blocks(page))) for page in PAGES) >= 6
    assert len(list(commands())) >= 8


@pytest.mark.parametrize("name", sections())
def test_printed_stages_are_those_of_today(name):
    shown, found = sections()[name], stages()[name]
    if name == "assembly":  # versions of LLVM allocate registers and order instructions differently
        assert vector_instructions(shown) == vector_instructions(found)
        assert vector_instructions(shown)["vfmaddps"] >= 4
    else:
        assert shown == found


def test_every_stage_is_in_the_page():
    assert list(sections()) == list(stages())
