"""Every published figure is in ``benchmarks/results.json``: pages say what it says, and measurements nowhere else."""

import re

import pytest

from adjoint.lower.schedule.memory import ALIGNMENT
from benchmarks import programs, publish, record, workloads
from benchmarks.blocks import BLOCKS
from tests.lower.schedule.test_memory import lifetimes

RESULTS = record.load()
PAGES = publish.pages()
DESIGN = [page for page in PAGES if page.parent.name == "design"]

#: A number with the unit of a measurement, or a factor.
FIGURE = re.compile(
    r"\d\s?(?:steps/s|GFLOP/s|GB/s|µs|ms|ns|KB|MB|GB|MiB|(?:milli|micro|nano)?seconds)(?!\w)"
    r"|\d\ss(?!\w)"
    r"|\d\s?x(?!\s?\d|\w)"
    r"|\d\s(?:times (?:as|the)|% (?:faster|slower))"
)

COMMAND = "run python benchmarks/publish.py and commit what it changes"


def entries():
    for section in ("steps", "doors"):
        for name, by_threads in RESULTS[section].items():
            for threads, entry in by_threads.items():
                yield pytest.param(entry, id=f"{section}-{name}-{threads}")
    for name, entry in RESULTS["where"].items():
        yield pytest.param(entry, id=f"where-{name}")
    for section in ("serving", "compat"):
        for name, entry in RESULTS[section].items():
            yield pytest.param(entry, id=f"{section}-{name}")
    for name, by_optimizer in RESULTS["late"].items():
        for optimizer, entry in by_optimizer.items():
            yield pytest.param(entry, id=f"late-{name}-{optimizer}")
    for name, by_threads in RESULTS["from_torch"].items():
        for threads, entry in by_threads.items():
            yield pytest.param(entry, id=f"from_torch-{name}-{threads}")


def prose(page):
    """A page without its generated blocks and its code."""
    text = re.sub(r"^```.*?^```$", "", publish.BLOCK.sub("", page.read_text()), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_says_what_the_results_say(page):
    text = page.read_text()
    assert publish.rendered(text, RESULTS) == text, COMMAND


@pytest.mark.parametrize("name", workloads.WORKLOADS)
def test_programs_are_as_published(name):
    assert RESULTS["programs"]["target"] == programs.TARGET
    assert programs.program_facts(name) == RESULTS["programs"]["workloads"][name], COMMAND


@pytest.mark.parametrize("name", workloads.WORKLOADS)
def test_steps_of_workloads_need_at_most_a_tenth_more_than_what_lives_at_once(name):
    program, _ = programs.program_of(name)
    lives = {buffer: life for buffer, life in lifetimes(program.kernels).items() if buffer.space == "arena"}
    assert set(lives) == set(program.offsets)
    sizes = {buffer: -(-buffer.nbytes // ALIGNMENT) * ALIGNMENT for buffer in lives}
    least = max(
        sum(sizes[buffer] for buffer, (first, last) in lives.items() if first <= position <= last)
        for position in range(len(program.kernels))
    )
    assert least <= program.arena_bound <= program.arena_bytes <= 1.1 * least


def test_every_workload_and_every_block_is_published():
    assert (
        sorted(RESULTS["steps"]) == sorted(RESULTS["late"]) == sorted(RESULTS["where"]) == sorted(workloads.WORKLOADS)
    )
    assert all(sorted(threads) == ["1", "2"] for threads in RESULTS["steps"].values())
    shown = {match[2] for page in PAGES for match in publish.BLOCK.finditer(page.read_text())}
    assert shown == set(BLOCKS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_come_with_where_they_were_measured(page):
    shown = [match[2] for match in publish.BLOCK.finditer(page.read_text())]
    measured = {name.partition("/")[0].replace("summary", "steps") for name in shown} - {"programs"}
    origins = {name: f"{name}/origin" for name in ("compat", "cpus", "doors", "from_torch", "late", "steps")}
    origins |= {name: f"{name}/machine" for name in ("serving", "where")}
    assert {origins[kind] for kind in measured} <= set(shown)


@pytest.mark.parametrize("entry", list(entries()))
def test_results_are_of_a_commit(entry):
    run = entry["run"]
    assert re.match(r"\d{4}-\d\d-\d\d", run["time"])
    assert run["machine"]["cpu"]
    assert run["command"].startswith("python benchmarks/")
    assert not run["dirty"], "measure again from a commit"
    assert not [cell["label"] for cell in entry.get("cells", ()) if cell["error"]]


@pytest.mark.parametrize("page", [page for page in PAGES if page not in DESIGN], ids=lambda page: page.name)
def test_there_are_no_other_measurements_on_a_page(page):
    text = prose(page)
    around = [text[max(match.start() - 30, 0) : match.end()] for match in FIGURE.finditer(text)]
    assert around == [], "show it in a block of results; settings are code"


@pytest.mark.parametrize("page", DESIGN, ids=lambda page: page.name)
def test_a_design_page_dates_its_measurements(page):
    text = " ".join(prose(page).split())
    if FIGURE.search(text):
        assert re.search(r"Measurements on this page were taken on 20\d\d-\d\d-\d\d .* (AMD|Intel|Arm) .*;", text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("6,817 steps/s on one thread", True),
        ("at most 237 GFLOP/s", True),
        ("0.59 s in a fresh process", True),
        ("takes 88.08 µs.", True),
        ("3.1x compiled PyTorch", True),
        ("is 7.4 x that", True),
        ("1.8 times as fast", True),
        ("1.6 times the speed", True),
        ("12 milliseconds", True),
        ("images of 32x32 pixels", False),
        ("a tile of 8 x 2 registers", False),
        ("64 tokens, vocabulary 65", False),
        ("the 1990s and 10 stages", False),
    ],
)
def test_figures_are_recognized(text, found):
    assert bool(FIGURE.search(text)) == found
