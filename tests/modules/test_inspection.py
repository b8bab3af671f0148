"""Programs of modules and compiled functions as text and as profiles, with the lines of the code that made them."""

import re
from pathlib import Path

import numpy as np
import pytest

import adjoint
from adjoint import jit, nn, optim
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.profiling.machine import Level, Peaks
from adjoint.tensor.explain import explain_recompiles

#: Limits that are made up, so that no machine is measured.
PEAKS = Peaks("made-up", 256, 1, 100.0, (Level("L1", 10_000, 50.0), Level("memory", None, 10.0)))
X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
SOURCE = Path(__file__).read_text().splitlines()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 5), nn.Linear(5, 1)

    def forward(self, x):
        hidden = self.first(x).tanh()  # the line of tanh
        return self.second(hidden)


def line(mark):
    """``file:line`` of the line of this file with a comment."""
    return f"{Path(__file__).name}:{next(n for n, text in enumerate(SOURCE, 1) if text.endswith(f'# {mark}'))}"


@pytest.fixture(scope="module")
def trained():
    """A network after two steps of training, and its loss and optimizer."""
    adjoint.manual_seed(0)
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    x = adjoint.tensor(X)
    for _ in range(2):
        loss = model(x).square().mean()  # the line of the loss
        optimizer.zero_grad()
        loss.backward()  # the line of backward
        optimizer.step()  # the line of the step
        loss.item()
    return model


def test_a_module_shows_the_step_that_trains_it(trained):
    text = trained.show()
    for pattern, mark in [
        (r"= tanh\(", "the line of tanh"),
        (r"= square\(", "the line of the loss"),
        (r"%first.weight_new: f32\[5,3\] = subtract\(%first.weight, ", "the line of the step"),
    ]:
        (found,) = re.findall(rf".*{pattern}.*", text)
        assert found.endswith(f"# {line(mark)}")
    assert all("  # test_inspection.py:" in one for one in text.splitlines() if one.startswith("  %"))
    assert repr(text) == str(text)


def test_kernels_have_the_lines_of_what_they_compute(trained):
    text = trained.show("kernels")
    heads = [one for one in text.splitlines() if one.startswith("# ")]
    assert len(heads) == len(re.findall("^kernel ", text, re.MULTILINE))
    assert any(line("the line of tanh") in head for head in heads)
    assert any(line("the line of the step") in head for head in heads)
    assert "define" in trained.show("llvm")
    assert "group at level 1" in trained.show("fuse")


def test_example_inputs_show_the_forward_pass_without_running_it(trained):
    before = len(explain_recompiles())
    text = trained.show("graph", X)
    assert text.startswith("func @Net(%x0: f32[4,3], ")
    assert line("the line of tanh") in text
    assert "square" not in text
    assert len(explain_recompiles()) == before


def test_the_program_that_was_compiled_last_with_the_parameters():
    other = Net()
    step = jit(lambda x: other(x).sum().detach())
    with adjoint.no_grad():
        step(X)
    assert "func @lambda(" in other.show()
    adjoint.exp(other(adjoint.tensor(X[:1])).mean()).item()
    assert "exp" in other.show()


def test_profiles_name_the_lines(trained):
    for profile in (trained.profile(runs=2, peaks=PEAKS), trained.profile(X, runs=2, peaks=PEAKS)):
        assert any(line("the line of tanh") in row.kernel.listed_lines() for row in profile.rows)
        table = str(profile).splitlines()
        assert table[0].split() == ["kernel", "µs", "share", "GFLOP/s", "roofline", "computes", "line"]
        assert len(table) == len(profile.rows) + 3
        assert line("the line of tanh") in str(profile)
        assert table[-1].startswith("Net: ")


def test_profiling_a_compiled_step_changes_nothing():
    w = adjoint.tensor([[1.0], [2.0], [3.0]], requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1)

    @jit
    def step(x):
        optimizer.zero_grad()
        loss = (x @ w).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    profile = step.profile(X, runs=2, peaks=PEAKS)
    assert w.tolist() == [[1.0], [2.0], [3.0]]
    assert {"matmul", "square"} <= {operator for row in profile.rows for operator in row.operators}
    assert profile.state.startswith("All inputs are random numbers, except x, w, ")
    step(X)
    assert w.tolist() != [[1.0], [2.0], [3.0]]


def test_refusals(trained):
    with pytest.raises(TypeRuleError) as error:
        Net().show()
    assert error.value.message == (
        "show: Net must have taken part in a program, got no program with its parameters; read a result first, or pass "
        "example inputs"
    )
    with pytest.raises(InvalidValueError) as error:
        trained.show("machine")
    assert error.value.message.startswith(
        "show: the stage must be one of graph, kernels, llvm, asm, or the name of a pass, got 'machine'; passes are "
        "inline_calls, "
    )
    with pytest.raises(TypeRuleError) as error:
        jit(lambda x: x, dynamic={"x": {0: "n"}}).profile(X)
    assert error.value.message == (
        "profile: a function is measured for one size, got lambda, which has a dynamic size; profile jit(function) "
        "without dynamic"
    )
    with pytest.raises(TypeRuleError) as error:
        jit(lambda x: x).profile(X)
    assert error.value.message == ("profile: lambda computes nothing, got no operations in it; let it return some")
