"""What the command line says to words: right ones, wrong ones, none."""

import subprocess
import sys

import pytest

import adjoint
from adjoint.cli import main
from tests.cli.helpers import refusal


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "trian fashion-mnist",
            "no command 'trian'; did you mean train? (there are train, eval, predict, generate, show, profile, "
            "ops, port, doctor, cache)",
        ),
        (
            "train fashion-mnst",
            "there is neither a dataset nor a file 'fashion-mnst', the datasets are mnist, fashion-mnist, cifar-10, "
            "jargon, python-help; did you mean fashion-mnist?",
        ),
        ("train fashion-mnist --epohcs 3", "no option '--epohcs'; did you mean --epochs or --report?"),
        (
            "train fashion-mnist --optimizer adma",
            "no optimizer 'adma'; did you mean adam? (there are sgd, adam, adamw)",
        ),
        ("train fashion-mnist --nothing-like-it", "no option '--nothing-like-it'; --help lists those that there are"),
        ("train fashion-mnist --epochs 0", "Invalid value for '--epochs': 0 is not in the range x>=1."),
        ("train fashion-mnist --threads 0", "Invalid value for '--threads': 0 is not in the range x>=1."),
        (
            "train fashion-mnist --momentum 0.9",
            "optimizer adam takes no 'momentum'; there are lr, betas, eps, weight_decay, amsgrad, maximize",
        ),
        ("train fashion-mnist --lr nan", "Adam: lr must be finite and at least 0, got nan"),
        (
            "train",
            "train takes a dataset, mnist, fashion-mnist, cifar-10, jargon, python-help or a file; name one, or pass "
            "--config",
        ),
        ("show mpl", "no model or file 'mpl'; did you mean mlp? (there are mlp, linreg, lenet, resnet20, gpt)"),
        (
            "show mlp --stage kernel",
            "no stage 'kernel'; did you mean kernels? (there are graph, adjoint, step, kernels, llvm, asm)",
        ),
        ("show mlp --kernel x", "--kernel requires one of the stages kernels, llvm, asm, got graph; omit it"),
        ("profile nothing-like-it", "no model or file 'nothing-like-it'; there are mlp, linreg, lenet, resnet20, gpt"),
    ],
)
def test_a_wrong_word_gets_one_sentence(capsys, words, message):
    assert refusal(capsys, *words.split()) == message


def test_no_words_print_the_help(capsys):
    assert main([]) == 2
    assert "Usage: adjoint [OPTIONS] COMMAND" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["train", "show", "profile", "ops", "doctor", "cache"])
def test_every_command_is_listed_and_has_help(capsys, name):
    assert main(["--help"]) == 0
    assert f"  {name} " in capsys.readouterr().out
    assert main([name, "--help"]) == 0
    assert f"Usage: adjoint {name}" in capsys.readouterr().out


def test_the_version_is_the_packages(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"adjoint {adjoint.__version__}\n"


def test_help_loads_neither_numpy_nor_llvm():
    code = "import sys; from adjoint.cli import main; main(['--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert {"numpy", "llvmlite", "rich"}.isdisjoint(done.stdout.split())


def test_a_reader_that_goes_away_is_no_error():
    command = f"{sys.executable} -m adjoint show mlp --stage step | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("func @step(")
    assert done.stderr == ""


def test_a_bug_in_adjoint_is_shown_with_the_graph(capsys, monkeypatch):
    def broken(_function):
        raise AttributeError("no such thing")

    monkeypatch.setattr(adjoint.pipeline, "GRAPH_PASSES", (broken,))
    assert main(["show", "linreg", "--stage", "kernels"]) == 2
    first, *graph = capsys.readouterr().err.splitlines()
    assert first.startswith("adjoint: @step is a valid graph, but compiling it failed, which is a bug in adjoint (Attr")
    assert first.endswith("(AttributeError: no such thing); please report it together with the graph below")
    assert graph[0].startswith("func @step(")
    assert graph[-1] == "}"
