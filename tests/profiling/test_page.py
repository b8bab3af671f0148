"""The page: whole, self-contained, escaped, and complete."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from adjoint.profiling.page import page_text

VOID = {"meta", "link", "br", "img", "hr", "input"}


class Reader(HTMLParser):
    """Collects elements, and refuses what does not nest."""

    def __init__(self, text):
        super().__init__()
        self.stack, self.elements, self.words = [], [], {}
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs), f"an attribute of {tag} is there twice"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.stack
        assert self.stack.pop()[0] == tag

    def handle_data(self, data):
        if self.stack:
            tag, attrs = self.stack[-1]
            self.words.setdefault(attrs.get("id", tag), []).append(data)


@pytest.fixture(scope="module")
def text(profile):
    return page_text(profile)


@pytest.fixture(scope="module")
def page(text):
    return Reader(text)


def test_the_page_needs_nothing_else(text, page):
    assert "http://" not in text
    assert "https://" not in text
    assert "@import" not in text
    assert set(re.findall(r"url\(.", text)) <= {"url(#"}
    for tag, attrs in page.elements:
        assert tag not in ("link", "img", "iframe", "object")
        assert not {"src", "href", "srcset"} & attrs.keys()


def test_drawings_are_well_formed(text):
    drawings = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(drawings) == 3
    for drawing in drawings:
        for element in ElementTree.fromstring(drawing).iter():
            for name in ("x", "y", "cx", "cy", "x1", "x2", "y1", "y2"):
                assert 0 <= float(element.get(name, 0)) < 1e5
            for name in ("width", "height", "r"):
                assert float(element.get(name, 1)) > 0


def test_every_kernel_is_in_the_table_the_strip_the_graph_and_the_roofline(profile, page):
    count = len(profile.rows)
    for tag, class_ in (("tr", None), ("i", "p-"), ("g", "node")):
        found = [
            a["data-k"] for t, a in page.elements
            if t == tag and "data-k" in a and (class_ is None or class_ in a.get("class", ""))
        ]  # fmt: skip
        assert sorted(map(int, found)) == list(range(count))
    dots = {int(a["data-k"]) for t, a in page.elements if t == "circle"}
    assert dots == {k for k, row in enumerate(profile.rows) if row.gflops > 0}
    cells = page.words["td"]
    assert all(row.kernel.name in cells for row in profile.rows)


def test_every_buffer_and_every_edge_is_drawn(profile, page):
    blocks = [a for t, a in page.elements if t == "rect" and a["class"].startswith("block")]
    assert len(blocks) == len(profile.blocks)
    lines = [(int(a["data-from"]), int(a["data-to"])) for t, a in page.elements if "data-from" in a]
    assert lines == [(e.source, e.target) for e in profile.edges]


def test_the_numbers_are_in_the_page(profile, page):
    assert json.loads("".join(page.words["profile"])) == json.loads(json.dumps(profile.as_dict()))


def test_names_are_escaped(text, page):
    assert "small <mlp>" not in text
    assert page.words["h1"] == ["small <mlp> & co"]


def test_every_template_escapes(profile):
    name = "<b>\"&'</b>"
    rows = tuple(
        replace(row, kernel=replace(row.kernel, name=name, operators=(name, *row.operators[1:])))
        for row in profile.rows
    )
    text = page_text(replace(profile, rows=rows))
    assert name not in text
    assert "<b>&" not in text
    assert name in Reader(text).words["td"]


def test_a_step_without_arena_says_so(profile):
    text = page_text(replace(profile, blocks=()))
    assert "This step keeps nothing between its kernels." in text
    assert len(re.findall("<svg", text)) == 2


def test_nothing_stands_between_lines_that_keep_white_space(text):
    program = text[text.index('<div class="text">') : text.index("</details>")]
    assert "\n" not in program[: program.rindex("</div></div>")]


def test_the_program_is_told_line_by_line(profile, text):
    lines = [line for line in str(profile.step).splitlines() if line.startswith("  %")]
    assert len(lines) > len(profile.rows)
    plain = Reader(text)
    told = "".join(plain.words["div"])
    assert all(line in told for line in lines)


def test_the_code_of_kernels_and_values_is_told(profile, page):
    cells = page.words["td"]
    assert all(row.kernel.listed_lines() in cells for row in profile.rows)
    wanted = {value.line for value in profile.step.values()[len(profile.step.params) :]} - {""}
    assert wanted <= {attrs.get("title") for tag, attrs in page.elements if tag == "div"}


def test_parts_and_totals_are_told(profile, page):
    told = " ".join(page.words["b"])
    for total in profile.totals:
        assert f"{total.part} " in told


def test_both_schemes_have_every_colour(text):
    style = text[text.index("<style>") : text.index("</style>")]
    light, dark = style.split("prefers-color-scheme: dark")
    defined = set(re.findall(r"(--[\w-]+):", light))
    assert defined == set(re.findall(r"(--[\w-]+):", dark)) - {"--c"}
    assert set(re.findall(r"var\((--[\w-]+)", style)) <= defined | {"--c"}
