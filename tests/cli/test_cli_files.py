"""Models from files: what is taken from graph text and from Python files, and what is refused, word for word."""

import json
import sys

import pytest

import adjoint
from adjoint.cli import main
from adjoint.models import linreg, mlp
from tests.cli.helpers import refusal
from tests.profiling.steps import PEAKS

PYTHON = """
import sys
from adjoint import SetupTrainer, TensorType, losses, models, optim

folder = sys.path[0]
words = sys.argv
logits = TensorType((2, 3))
setup = SetupTrainer(losses.CrossEntropyLoss(), optim.Adam(0.01), (logits, TensorType((2,), "i64")))
module = setup(models.mlp((5, 4, 3), batch_size=2))


def bare():
    return models.mlp((5, 4, 3), batch_size=2)


if __name__ == "__main__":
    raise SystemExit("it trains")
"""


@pytest.fixture(autouse=True)
def _peaks(monkeypatch):
    monkeypatch.setattr("adjoint.profiling.step.machine_peaks", lambda *_, **__: PEAKS)
    monkeypatch.setattr("adjoint.profiling.step.keep_peaks", lambda _, peaks: peaks)


@pytest.fixture
def text(tmp_path):
    """A file with a backbone and no step."""
    path = tmp_path / "model.txt"
    path.write_text(str(mlp((5, 4, 3), batch_size=2)))
    return str(path)


@pytest.fixture
def python(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(PYTHON)
    return str(path)


def made_step():
    setup = adjoint.SetupTrainer(
        adjoint.losses.CrossEntropyLoss(),
        adjoint.optim.Adam(0.01),
        (adjoint.TensorType((2, 3)), adjoint.TensorType((2,), "i64")),
    )
    return setup(mlp((5, 4, 3), batch_size=2))


@pytest.mark.parametrize("stage", ["adjoint", "step", "kernels", "llvm", "asm"])
def test_no_loss_is_assumed_for_a_backbone(capsys, text, stage):
    assert refusal(capsys, "show", text, "--stage", stage) == (
        f"the stage {stage} needs a loss, but {text} contains a backbone without a step; choose one with --loss "
        "cross-entropy, l1, mse"
    )


def test_profiles_and_passes_need_a_loss_too(capsys, text):
    for words, use in ((("profile", text), "profile"), (("show", text, "--print-after", "fuse"), "--print-after")):
        assert refusal(capsys, *words).startswith(f"{use} needs a loss, but {text} contains a backbone without a step")


@pytest.mark.parametrize(
    ("loss", "targets", "operator"),
    [("cross-entropy", "i64[2]", "log"), ("mse", "f32[2,3]", "square"), ("l1", "f32[2,3]", "abs")],
)
def test_the_loss_that_is_named_is_trained(capsys, text, loss, targets, operator):
    assert main(["show", text, "--stage", "step", "--loss", loss]) == 0
    out = capsys.readouterr().out
    assert f"%targets: {targets}" in out
    assert f"= {operator}(" in out


def test_classes_on_the_second_axis_have_a_label_for_each_place(capsys, tmp_path):
    path = tmp_path / "pixels.txt"
    x, w = adjoint.param("x", (2, 3, 4, 5)), adjoint.param("w", (3, 3, 1, 1))
    backbone = adjoint.Function("backbone", (x, w), (adjoint.ops.conv2d(x, w),))
    path.write_text(str(adjoint.IRModule((backbone,), {"param_num": 1, "state_num": 0})))
    assert main(["show", str(path), "--stage", "step", "--loss", "cross-entropy"]) == 0
    assert "%targets: i64[2,4,5]" in capsys.readouterr().out


def test_a_step_is_used_as_it_is(capsys, tmp_path):
    path, numbers = tmp_path / "model.txt", tmp_path / "numbers.json"
    path.write_text(str(made_step()))
    assert main(["show", str(path), "--stage", "step"]) == 0
    assert capsys.readouterr().out == f"{made_step()['step']}\n"
    assert main(["profile", str(path), "--runs", "2", "--json", str(numbers)]) == 0
    assert json.loads(numbers.read_text())["title"] == "model"
    capsys.readouterr()
    assert refusal(capsys, "profile", str(path), "--loss", "mse") == (
        f"--loss would build a step, but {path} contains one, which is used as it is; omit it"
    )
    assert refusal(capsys, "show", str(path), "--stage", "step", "--loss", "mse", "--optimizer", "adam") == (
        f"--loss and --optimizer would build a step, but {path} contains one, which is used as it is; omit them"
    )


def test_a_step_alone_has_no_stage_of_gradients(capsys, tmp_path):
    path = tmp_path / "step.txt"
    path.write_text(str(adjoint.IRModule((made_step()["step"],))))
    assert refusal(capsys, "show", str(path), "--stage", "adjoint") == (
        "the stage adjoint is a module's function backbone_loss_adjoint, which SetupTrainer makes, but "
        f"{path} contains step; choose the stage step"
    )


def test_a_python_file_is_run_like_a_script_but_does_not_train(capsys, python, tmp_path):
    arguments, folders, modules = list(sys.argv), list(sys.path), set(sys.modules)
    assert main(["show", python, "--stage", "step"]) == 0
    assert capsys.readouterr().out == f"{made_step()['step']}\n"
    assert main(["show", f"{python}:bare"]) == 0
    assert adjoint.ops.parse(capsys.readouterr().out) == mlp((5, 4, 3), batch_size=2)
    assert refusal(capsys, "show", f"{python}:folder").startswith("'folder' of")
    assert (sys.argv, sys.path) == (arguments, folders)
    assert "train" not in set(sys.modules) - modules
    (tmp_path / "beside.py").write_text("from train import bare as module\nimport sys\nassert len(sys.argv) == 1\n")
    try:
        assert main(["show", str(tmp_path / "beside.py")]) == 0
    finally:
        sys.modules.pop("train", None)


def test_a_python_file_is_profiled_under_its_name(python, tmp_path):
    numbers = tmp_path / "numbers.json"
    for name, loss, title in (("", (), "train"), (":bare", ("--loss", "l1"), "train · l1 · sgd")):
        assert main(["profile", python + name, *loss, "--runs", "2", "--json", str(numbers)]) == 0
        assert json.loads(numbers.read_text())["title"] == title


def test_a_python_file_that_makes_no_module_is_refused(capsys, tmp_path):
    path = tmp_path / "train.py"
    path.write_text("from adjoint.models import linreg\nmodel = linreg()\nnumber = 3\ntext = lambda: 'a'\n")
    assert refusal(capsys, "show", str(path)) == (
        f"{path} must define 'module', an IRModule or a function that returns one; it defines model, choose with "
        f"{path}:NAME"
    )
    assert refusal(capsys, "show", f"{path}:number") == (
        f"'number' of {path} must be an IRModule or a function that returns one, but it is int; choose another name "
        f"with {path}:NAME"
    )
    assert refusal(capsys, "show", f"{path}:text") == (
        f"'text' of {path} must be an IRModule or a function that returns one, but it returned str; choose another "
        f"name with {path}:NAME"
    )
    assert main(["show", f"{path}:model"]) == 0
    assert adjoint.ops.parse(capsys.readouterr().out) == linreg()


@pytest.mark.parametrize(
    ("source", "line", "said"),
    [
        ("x = 1\nx = y\n", 2, "NameError: name 'y' is not defined"),
        ("x = 1\n\ndef module():\n    return 1 / 0\n", 4, "ZeroDivisionError: division by zero"),
        ("x = 1\nif x\n", 2, "SyntaxError: expected ':'"),
        ("import sys\n\nsys.exit()\n", 3, "SystemExit"),
        ("import json\njson.loads('')\n", 2, "JSONDecodeError: Expecting value: line 1 column 1 (char 0)"),
    ],
)
def test_the_line_that_fails_is_named(capsys, tmp_path, source, line, said):
    path = tmp_path / "train.py"
    path.write_text(source)
    assert refusal(capsys, "show", str(path)) == f"{path}:{line}: the file failed with {said}; correct this line"


def test_what_adjoint_refuses_in_a_file_has_its_line(capsys, tmp_path):
    path = tmp_path / "train.py"
    path.write_text("from adjoint import param\n\nx = param('x', (2, -1))\n")
    said = refusal(capsys, "show", str(path))
    assert said.startswith(f"{path}:3: ")
    with pytest.raises(adjoint.AdjointError) as refused:
        adjoint.param("x", (2, -1))
    assert said == f"{path}:3: {refused.value.message}"
