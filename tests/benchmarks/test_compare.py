"""`benchmarks/compare.py` on a repository of two commits that differ by a known number of instructions."""

import json
import platform
import shutil
import subprocess

import pytest
from rich.console import Console

from benchmarks import compare
from benchmarks.compare import Comparison
from benchmarks.counters.base import NoCounterError
from benchmarks.harness import ROOT

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or shutil.which("git") is None, reason="needs git, and counts x86-64"
)

#: The first line of the step's body in adjoint's code generator, and the same after three instructions that do nothing,
#: for which LLVM has to know assembly.
FIRST = '"  %many = icmp ugt i64 %threads, 1",'
MORE = """*['  call void asm sideeffect "nop", ""()'] * 3, """ + FIRST
KNOWS = "import llvmlite.binding\n\nllvmlite.binding.initialize_native_asmparser()\n"


def git(folder, *words):
    settings = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *settings, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """adjoint as it is, tagged ``before``; with three instructions more in every step; and broken."""
    folder = tmp_path_factory.mktemp("repository")
    for name in ("src", "benchmarks"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "before")
    git(folder, "tag", "before")
    generator = folder / "src" / "adjoint" / "codegen" / "module.py"
    assert generator.read_text().count(FIRST) == 1
    generator.write_text(generator.read_text().replace(FIRST, MORE) + KNOWS)
    git(folder, "commit", "--quiet", "-am", "after")
    git(folder, "tag", "after")
    generator.write_text("raise RuntimeError('it rains')\n")
    return folder


def compared(repository, *arguments):
    """Exit status, what was printed, and what was written."""
    written = repository.parent / "out.json"
    with open("/dev/null", "w") as nowhere:
        console = Console(record=True, width=120, file=nowhere)
        status = compare.main(
            [*arguments, "--repository", str(repository), "--workloads", "linreg", "--json", str(written)], console
        )
    return status, console.export_text(), json.loads(written.read_text()) if written.exists() else None


def test_a_commit_beside_itself_is_one(repository):
    status, text, written = compared(repository, "before", "before", "--at-most", "1")
    (found,) = written["workloads"]
    before, after = found["instructions"]
    assert (status, found["ratio"]) == (0, 1.0)
    assert before == after == sum(found["kernels"][0].values()) > 50
    assert "linreg" in text
    assert "1.0000" in text
    assert git(repository, "worktree", "list").count("\n") == 1  # the temporary ones are gone


def test_three_instructions_more_are_found_where_they_are(repository):
    status, text, written = compared(repository, "before", "after", "--at-most", "1")
    (found,) = written["workloads"]
    (before, after), (kernels, more) = found["instructions"], found["kernels"]
    assert after - before == 3
    assert {name: more[name] - kernels[name] for name in kernels if more[name] != kernels[name]} == {"step": 3}
    assert status == 1
    assert f"linreg grew to {after / before:.4f} times its old count" in text


def test_a_commit_that_does_not_run_is_named(repository):
    status, text, written = compared(repository, "before", ".")
    assert status == 1
    assert "linreg: RuntimeError: it rains" in text
    assert written["workloads"] == [{"workload": "linreg", "error": "RuntimeError: it rains"}]


def test_what_git_does_not_know_is_refused(repository):
    status, text, _ = compared(repository, "before", "nowhere")
    assert status == 2
    assert "nowhere" in text


def test_a_counter_that_does_not_work_is_refused_before_anything_is_checked_out(repository, monkeypatch):
    def refuse():
        raise NoCounterError("set something, or take blocks")

    monkeypatch.setattr(compare, "PerfCounter", refuse)
    status, text, _ = compared(repository, "nowhere", "nowhere", "--counter", "perf")
    assert status == 2
    assert "set something, or take blocks" in text


def test_kernels_that_changed_most_come_first():
    one = Comparison("mlp", (100.0, 90.0), ({"a": 10, "b": 50, "c": 40}, {"a": 12, "c": 40, "d": 5}))
    assert one.ratio == 0.9
    assert one.changed(2) == [("b", 50, None), ("d", None, 5)]
    assert one.changed(9) == [("b", 50, None), ("d", None, 5), ("a", 10, 12)]
    assert Comparison("mlp", (1.0, 1.0)).changed(3) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["HEAD"], "COMMIT"),
        (["HEAD", "HEAD", "--workloads", "vgg"], "got vgg"),
        (["HEAD", "HEAD", "--steps", "0"], "--steps is from 1"),
        (["HEAD", "HEAD", "--counter", "fingers"], "fingers"),
    ],
)
def test_wrong_options_are_refused(arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        compare.main(arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
