"""`benchmarks/publish.py` and the blocks that it renders, from made-up results."""

import copy

import pytest
from rich.console import Console

from benchmarks import blocks, publish, record, wording, workloads

MACHINE = {"cpu": "Abacus", "llvm_cpu": "abacus5", "vector_bits": 64, "cores": 2}
RUN = {"time": "2026-01-02T03:04:05+00:00", "commit": "abc123", "dirty": False, "machine": MACHINE}


def cell(peer, rate, mode="step", **more):
    label = peer if mode == "step" else f"{peer}:{mode}"
    ratio = None if peer == "adjoint" else {"ratio": 1000 / rate, "low": 900 / rate, "high": 1100 / rate}
    made = {"label": label, "peer": peer, "mode": mode, "version": "7.5", "import_s": 0.01, "peak_bytes": 50 * 2**20}
    made |= {"first_loss_cold_s": [0.5, 0.75, 9.0], "first_loss_cached_s": [0.25], "losses_compared": 20, "others": []}
    return made | {"steps_per_second": rate, "adjoint_is": ratio, "error": None, **more}


def entry(name="mlp", threads=1, cells=None, **run):
    cells = cells or [cell("jax", 400.0, peak_bytes=2**30), cell("adjoint", 1000.0), cell("tvm", 10.0)]
    return {"run": {**RUN, **run}, "workload": name, "threads": threads, "flops": 2_000_000, "cells": cells}


def steps(*entries):
    found = {}
    for one in entries:
        found.setdefault(one["workload"], {})[str(one["threads"])] = one
    return {"steps": found}


def table(text):
    """Rows of the first table of a text, by the first cell."""
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {row[0]: row[1:] for row in rows[2:]}


# ---- where results come from


def test_results_of_one_place_are_one_sentence():
    text = wording.provenance_text({"mlp, 1 thread": entry(), "mlp, 2 threads": entry(threads=2)})
    assert text == (
        "Measured on 2026-01-02, on 2 cores of Abacus (abacus5, vectors of 64 bits): "
        "adjoint at commit abc123, JAX 7.5 and TVM 7.5."
    )


def test_pieces_measured_on_several_days_are_one_sentence():
    later = entry(threads=2, time="2026-01-04T00:00:00+00:00")
    assert "Measured from 2026-01-02 to 2026-01-04, on" in wording.provenance_text({"a": entry(), "b": later})


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ({"machine": {**MACHINE, "cpu": "Slide rule"}}, "2 cores of Slide rule"),
        ({"commit": "def456"}, "adjoint at commit def456"),
        ({"dirty": True}, "abc123 with uncommitted changes"),
        ({"commit": None}, "adjoint at a commit that was not recorded"),
    ],
)
def test_results_of_several_places_are_never_mixed_without_saying_so(run, words):
    made = steps(entry(), entry(threads=2, **run), entry("gpt"))
    first, *items = (line for line in blocks.steps_origin(made).split("\n") if line and not line.startswith("Not"))
    assert first == "These measurements come from different runs:"
    assert [item.partition(": ")[0] for item in items] == ["- mlp, 1 thread; gpt, 1 thread", "- mlp, 2 threads"]
    assert words in items[1]
    assert words not in items[0]


def test_other_versions_are_another_place():
    other = entry(threads=2, cells=[cell("jax", 400.0, version="8"), cell("adjoint", 1000.0), cell("tvm", 10.0)])
    assert "JAX 8 and" in wording.provenance_text({"a": entry(), "b": other}).splitlines()[-1]


def test_modes_that_were_not_measured_are_named():
    text = blocks.steps_origin(steps(entry(cells=[cell("adjoint", 1.0), cell("torch", 1.0, "eager")])))
    assert "Not measured in every case: " in text
    assert "`torch:eager_fused`" in text
    assert "`torch:eager`" not in text
    assert "eager_channels_last" not in text  # for networks with convolutions only
    assert "`torch:eager_channels_last`" in blocks.steps_origin(steps(entry("lenet")))


# ---- complete steps


def test_the_summary_has_rates_ratios_first_losses_and_memory():
    two = entry(threads=2, cells=[cell("adjoint", 12345678.0), cell("torch", 50.0, "compile")])
    rows = table(blocks.summary(steps(entry(), two, entry("linreg"))))
    name = "MLP 784-128-128-10, batch 64"
    assert list(rows) == [name, "linear regression 4x2 (per-step overhead)"]
    assert rows[name] == ["1,000", "2.5x JAX", "12,350,000", "20x PyTorch (`compile`)", "0.75 s", "0.25 s", "50 MB"]
    assert rows["linear regression 4x2 (per-step overhead)"][2:4] == ["-", "-"]


def test_every_kind_of_cpu_has_a_column_the_newest_first(tmp_path):
    path = tmp_path / "results.json"
    new = {"machine": {**MACHINE, "llvm_cpu": "znver5"}, "time": "2026-02-01T00:00:00+00:00"}
    for one in (entry(), entry("gpt"), entry(cells=[cell("adjoint", 5000.0), cell("jax", 500.0)], **new)):
        record.store(path, ("steps", one["workload"], "1"), one)
    results = record.load(path)
    text = blocks.BLOCKS["cpus/table"](results)
    assert text.splitlines()[0] == "| steps/s, 1 thread | AMD Zen 5 | abacus5 |"
    assert table(text)["MLP 784-128-128-10, batch 64"] == ["5,000 (2.0x)", "1,000 (2.5x)"]
    assert table(text)["GPT, 4 layers, batch 12x64"] == ["-", "1,000 (2.5x)"]
    assert "- AMD Zen 5, mlp: on 2026-02-01, on 2 cores of Abacus (znver5" in blocks.BLOCKS["cpus/origin"](results)


def test_the_notes_are_counted_from_all_tables():
    text = blocks.summary_notes(steps(entry(), entry(threads=2)))
    assert text == (
        "The fastest peer was JAX in every case; adjoint is 100 to 100 times as fast as TVM. Its process needs the "
        "least memory in every measurement, and `import adjoint` takes 0.01 s."
    )
    small = entry(threads=2, cells=[cell("adjoint", 10.0), cell("torch", 5.0, peak_bytes=1), cell("tvm", 0.25)])
    text = blocks.summary_notes(steps(entry(), small))
    assert "The fastest peer was JAX or PyTorch in every case; adjoint is 100 to 4,000 times as fast as TVM." in text
    assert "least memory in 1 of 2 measurements" in text


def test_a_table_has_the_fastest_first_and_its_remarks():
    slow = cell("tvm", 10.0, losses_compared=3, others=[0.5, 0.5])
    text = blocks.steps_tables(steps(entry(cells=[slow, cell("jax", 400.0), cell("adjoint", 1000.0)])))
    assert text.startswith("### mlp, 1 thread\n")
    rows = table(text)
    assert list(rows) == ["**adjoint**", "jax", "tvm"]
    assert rows["jax"] == ["2500 µs", "400", "2.50 x", "0.8", "0.01 s", "0.75 s", "0.25 s", "50 MB"]
    assert "adjoint is 2.50 times as fast as jax, the best of its peers (rounds: 2.25 to 2.75)." in text
    assert "tvm is slow: 3 of 20 losses were compared." in text
    assert "not quiet: others took 0.50 of these cores" in text


def test_limits_are_of_one_machine():
    where = {"where": {"mlp": {"run": RUN, "peaks": {"gflops": 10.0}}}}
    made = steps(entry(), entry("resnet"))
    # 2 MFLOP at 10 GFLOP/s take 200 µs; JAX takes 2500.
    assert "MLP take 200 µs" in blocks.limits({**made, **where})
    assert "than about 12.5 times as fast as JAX" in blocks.limits({**made, **where})
    other = copy.deepcopy(where)
    other["where"]["mlp"]["run"]["machine"]["cpu"] = "Slide rule"
    assert blocks.limits({**made, **other}) == blocks.limits(made)
    assert "was not measured on the machine" in blocks.limits(made)


# ---- pages


@pytest.fixture
def root(tmp_path):
    (tmp_path / "docs" / "design").mkdir(parents=True)
    (tmp_path / "README.md").write_text("before\n<!-- results: steps/origin -->\nold\n<!-- end -->\nafter\n")
    (tmp_path / "docs" / "design" / "page.md").write_text("<!-- results: programs -->\n<!-- end -->\n")
    record.store(tmp_path / "results.json", ("steps",), steps(entry())["steps"])
    return tmp_path


@pytest.fixture
def facts(monkeypatch):
    one = dict.fromkeys(("kernels", "distinct", "uncoalesced", "barriers"), 3)
    one |= dict.fromkeys(("arena_bytes", "scratch_bytes", "parameter_bytes"), 2048)
    made = {"target": "avx512", "workloads": dict.fromkeys(workloads.WORKLOADS, one)}
    monkeypatch.setattr(publish, "facts", lambda: made)
    return made


def published(root, *more):
    with open("/dev/null", "w") as nowhere:
        console = Console(record=True, width=300, file=nowhere)
        status = publish.main(["--root", str(root), "--results", str(root / "results.json"), *more], console)
    return status, console.export_text()


def test_blocks_are_replaced_and_the_rest_stays(root, facts):
    assert published(root, "--check")[0] == 1
    assert "old" in (root / "README.md").read_text()
    assert published(root)[0] == 0
    text = (root / "README.md").read_text()
    assert text.startswith("before\n<!-- results: steps/origin -->\n\nMeasured on 2026-01-02")
    assert text.endswith("\n\n<!-- end -->\nafter\n")
    assert "old" not in text
    assert table((root / "docs/design/page.md").read_text())["`mlp`"] == ["3", "3", "3", "2 KB", "2 KB", "2 KB"]
    assert record.load(root / "results.json")["programs"] == facts
    assert published(root) == published(root, "--check") == (0, "")


def test_long_lines_of_prose_are_broken(root, facts):  # noqa: ARG001
    assert published(root)[0] == 0
    assert max(len(line) for line in (root / "README.md").read_text().splitlines()) <= 120


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- results: steps/origin -->\n", "a block begins with the line"),
        ("<!-- end -->\n", "a block begins with the line"),
        ("<!-- results: weather -->\n<!-- end -->\n", "got weather"),
        ("<!-- results: where/gpt -->\n<!-- end -->\n", "the results have no 'where' for the block where/gpt"),
    ],
)
def test_a_page_that_cannot_be_rendered_is_refused_and_left(root, facts, text, message):  # noqa: ARG001
    (root / "README.md").write_text(text)
    status, said = published(root)
    assert (status, message in said) == (2, True)
    assert (root / "README.md").read_text() == text
