"""`Report`: the page of a run, its parts, hostile names, interruptions and resumes."""

import re
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest

import adjoint
from adjoint import nn
from adjoint.errors import AdjointWarning, InvalidValueError
from adjoint.training.model import Model
from adjoint.training.report import Report
from adjoint.training.report.page import span
from tests.training.callbacks.running import FakeRun

LOSSES = [[4.0, 3.0, 2.0], [1.0, 1.0, 0.5]]
RESULTS = [{"accuracy": 0.5, "loss": 1.5}, {"accuracy": 0.75, "loss": 0.625, "mae": 3.25}]
HOSTILE = "<script>alert('x')</script>\"&"


class Page(HTMLParser):
    """The tags of a page, which must be closed in order, and its text."""

    VOID = frozenset({"meta", "img"})

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.extend(data.split())

    @property
    def text(self):
        return " ".join(self.words)

    def count(self, name):
        return sum(tag == name for tag, _ in self.tags)


def page(path):
    return Page(path.read_text("utf-8"))


@pytest.fixture
def run():
    network = nn.Linear(16, 2)
    optimizer = adjoint.optim.SGD(network.parameters(), lr=0.25)
    run = FakeRun(LOSSES, RESULTS, network=network, optimizer=optimizer, config={"model": {"width": 16}})
    rows = np.random.default_rng(0).standard_normal((6, 16)).astype(np.float32)
    run.dataset = run.valid_dataset = [(rows, np.array([0, 1, 0, 1, 0, 1]))]
    run.model = SimpleNamespace(predict=Model(network).predict)
    return run


def test_a_page_has_all_parts(run, tmp_path):
    path = tmp_path / "reports" / "report.html"
    run.train(Report(path, title="Digits", class_names=["even", "odd"]))
    found = page(path)
    assert "Digits finished 2 epochs 0.75 validation accuracy 0.625 validation loss 3.25 validation mae" in found.text
    for words in ("6 steps in 2 complete epochs", "34 parameters", "0.75 s of training", "8 steps a second, 32 rows"):
        assert words in found.text
    assert [title for title in re.findall("<figcaption>(.*?)</figcaption>", path.read_text()) if "<" not in title] == [
        *("Loss", "accuracy", "mae", "Learning rate"),
    ]
    assert "1 3 3 0.5 1.5 0.25 0.375 s" in found.text  # epoch, steps, training loss, accuracy, loss, rate, time
    assert "2 6 0.8333 0.75 0.625 3.25 0.25 0.75 s" in found.text
    assert "6 validation rows" in found.text
    assert (found.count("img"), found.count("script")) == (6, 0)
    assert 'model {"width": 16}' in found.text
    assert "Linear(in_features=16, out_features=2, bias=True)" in found.text
    assert not path.with_name("report.html.new").exists()


def test_a_page_needs_nothing_from_elsewhere(run, tmp_path):
    path = tmp_path / "report.html"
    run.train(Report(path))
    text = path.read_text()
    assert "http" not in text
    assert all("src" not in each or each["src"].startswith("data:") for _, each in page(path).tags)
    style = text[text.index("<style>") : text.index("</style>")]
    light = style.split("prefers-color-scheme: dark")[0]
    defined = set(re.findall(r"(--[\w-]+):", light))
    assert set(re.findall(r"var\((--[\w-]+)", style)) <= defined | {"--c", "--v"}


def test_hostile_names_are_escaped(run, tmp_path):
    run.results = [{HOSTILE: 0.5}, {HOSTILE: 0.5}]
    run.config = {HOSTILE: HOSTILE}
    path = tmp_path / "report.html"
    run.train(Report(path, title=HOSTILE, class_names=[HOSTILE, HOSTILE]))
    found = page(path)
    assert found.count("script") == 0
    assert found.text.count("<script>alert('x')</script>\"&") >= 8


def test_a_matrix_of_the_metrics_is_preferred(run, tmp_path):
    run.results = [{"confusion": np.array([[30, 10], [0, 40]])}] * 2
    path = tmp_path / "report.html"
    run.train(Report(path))
    assert "80 validation rows, 88% right" in page(path).text


def test_kernels_of_the_step_are_shown(run, tmp_path):
    kernel = SimpleNamespace(name="matmul_0", listed_operators=lambda: "matmul, add", listed_lines=lambda: "model.py:3")
    row = SimpleNamespace(kernel=kernel, part="forward", nanoseconds=1500.0, share=1.0, gflops=12.0)
    profile = SimpleNamespace(rows=[row] * 20, nanoseconds=30_000.0, threads=2)
    run.model = SimpleNamespace(profile=lambda *batch: profile if len(batch) == 2 else None)
    path = tmp_path / "report.html"
    run.train(Report(path))
    assert "The slowest of 20 kernels; all together 30.0 µs a step on 2 threads." in page(path).text
    assert page(path).text.count("matmul_0 forward 1.50 µs 100% 12.0 matmul, add model.py:3") == 12


def test_what_cannot_be_made_is_noted(run, tmp_path):
    run.model.profile = lambda *batch: {}[f"clock{len(batch)}"]
    run.valid_dataset = [(np.zeros((2, 3), np.float32), np.array([0, 1]))]
    path = tmp_path / "report.html"
    run.train(Report(path))
    assert "The profile could not be made: KeyError: 'clock2'" in page(path).text
    assert "Predictions could not be made: TypeRuleError: " in page(path).text


def test_an_interrupted_run_has_a_page(run, tmp_path):
    path = tmp_path / "report.html"

    def step():
        if run.step == 4:
            raise KeyError(HOSTILE)

    with pytest.raises(KeyError):
        run.train(Report(path), step=step)
    found = page(path)
    assert "ended after step 1 of epoch 2 with KeyError: " in found.text
    assert "4 steps in 1 complete epochs" in found.text
    assert found.count("img") == 0


def test_a_page_that_cannot_be_written_does_not_hide_the_error(run, tmp_path):
    folder = tmp_path / "folder"
    report = Report(folder / "report.html")
    report.on_train_begin(run)
    folder.rmdir()
    with pytest.warns(AdjointWarning, match=r"Report: .*report.html cannot be written \(No such file"):
        report.on_exception(run, KeyboardInterrupt())


def test_a_page_that_cannot_be_made_does_not_hide_the_error(run, tmp_path, monkeypatch):
    report = Report(tmp_path / "report.html")
    report.on_train_begin(run)
    monkeypatch.setattr("adjoint.training.report.callback.report_text", lambda _: {}["text"])
    with pytest.warns(AdjointWarning, match=r"Report: the page could not be made \(KeyError: 'text'\)"):
        report.on_exception(run, KeyboardInterrupt())


def test_a_run_that_was_stopped_says_why(run, tmp_path):
    path = tmp_path / "report.html"
    run.train(Report(path), step=lambda: run.stop("enough"), until=3)
    assert "stopped in epoch 1 of 2: enough" in page(path).text


def test_a_resumed_run_has_all_curves(run, tmp_path):
    first, second = Report(tmp_path / "a.html"), Report(tmp_path / "b.html")
    run.train(first, until=4)
    second.load_state_dict(first.state_dict())
    second.load_state_arrays(first.state_arrays())
    resumed = FakeRun(LOSSES, RESULTS, network=run.network).resume(4).train(second)
    assert second.state_arrays()["losses"].tolist() == [4.0, 3.0, 2.0, 1.0, 1.0, 0.5]
    assert [each.epoch for each in second._epochs] == [1, 2]
    assert second._epochs[1].seconds == 0.75
    assert resumed.step == 6


def test_no_more_learning_rates_are_kept_than_a_curve_needs(run, tmp_path):
    constant, falling = Report(tmp_path / "a.html"), Report(tmp_path / "b.html")
    for run.step in range(1, 5001):
        run.optimizer.param_groups[0]["lr"] = 0.5
        constant.on_train_step_end(run)
        run.optimizer.param_groups[0]["lr"] = 1 / run.step
        falling.on_train_step_end(run)
    assert constant.state_dict()["rates"] == [[1, 0.5], [5000, 0.5]]
    kept = falling.state_dict()["rates"]
    assert 1000 <= len(kept) <= 2000
    assert (kept[0], kept[-1]) == ([1, 1.0], [5000, 1 / 5000])


def test_a_path_that_cannot_be_written_is_refused_at_the_beginning(run, tmp_path):
    path = tmp_path / "report.html"
    path.with_name("report.html.new").mkdir()
    with pytest.raises(InvalidValueError) as error:
        run.train(Report(path))
    assert error.value.message == f"Report: {path} cannot be written (Is a directory); choose another file"


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.512, "0.512 s"), (99, "99 s"), (125, "2 min 5 s"), (7505, "2 h 5 min")]
)
def test_times_are_in_words(seconds, words):
    assert span(seconds) == words
