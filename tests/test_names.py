"""Parameters with the names of PyTorch's ``state_dict``, from the graph to the code, the profile and back."""

import numpy as np
import pytest

from adjoint import SetupTrainer, Trainer, losses, ops, optim
from adjoint.cli import main
from adjoint.codegen.targets import target_for
from adjoint.compiler import CompileOptions
from adjoint.errors import TypeRuleError
from adjoint.ir import Function, IRModule, TensorType, param
from adjoint.kernel.parser import parse_kernels
from adjoint.kernel.printer import print_kernels
from adjoint.pipeline import lower_function
from adjoint.profiling.page import page_text
from adjoint.profiling.step import profile_module
from tests.profiling.steps import PEAKS

OPTIONS = CompileOptions(threads=1, cache=False)
X = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)
LABELS = np.array([0, 2, 1, 2])


def module(names):
    """A perceptron whose parameters have these names."""
    x = param("x", (4, 5))
    w0, b0, w1, b1 = map(param, names, [(5, 6), (6,), (6, 3), (3,)])
    function = Function("backbone", (x, w0, b0, w1, b1), ((x @ w0 + b0).relu() @ w1 + b1,))
    return IRModule((function,), {"param_num": 4, "state_num": 0, "init": ((names[0], "normal", 0.5),)})


def trained(names, optimizer):
    types = (TensorType((4, 3)), TensorType((4,), "i64"))
    return SetupTrainer(losses.CrossEntropyLoss(), optimizer, types)(module(names))


NAMES = {
    "convolution": ("conv0.weight", "conv0.bias", "fc.weight", "fc.bias"),
    "sequential": ("0.weight", "0.bias", "2.weight", "2.bias"),
    "list": ("0", "1", "10", "2"),
    "transformer": ("h.0.attn.c_attn.weight", "h.0.attn.c_attn.bias", "h.1.mlp.c_fc.weight", "h.1.mlp.c_fc.bias"),
    "words": ("inf", "nan.0", "1e5", "t1"),
    "kernel words": ("if.in", "True", "0.1.2", "f32"),
}


def run(names):
    """A trainer after three steps, and their losses."""
    trainer = Trainer(trained(names, optim.AdamW(0.1)), seed=1, options=OPTIONS)
    trainer.init_parameters()
    return trainer, [trainer.update(X, LABELS) for _ in range(3)]


@pytest.fixture(scope="module")
def plain():
    return run(("w0", "b0", "w1", "b1"))


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_training_does_not_depend_on_names(names, plain):
    dotted, found = run(names)
    assert found == plain[1]
    weights = dotted.export_params()
    assert list(weights) == list(names)
    for given, other in zip(weights.values(), plain[0].export_params().values(), strict=True):
        np.testing.assert_array_equal(given, other)
    dotted.load_params({name: weight * 0 for name, weight in weights.items()})
    assert not dotted.predict(X).any()


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_graphs_and_kernels_read_back(names):
    step = trained(names, optim.Adam())
    assert ops.parse(str(step)) == step
    kernels = list(lower_function(step["step"], target_for("avx2")).kernels)
    text = print_kernels(kernels)
    assert print_kernels(parse_kernels(text)) == text
    assert all(name in text for name in names)


@pytest.mark.parametrize("stage", ["graph", "adjoint", "step", "kernels", "llvm", "asm"])
def test_every_stage_of_show_prints(capsys, tmp_path, stage):
    (tmp_path / "model.txt").write_text(str(module(NAMES["sequential"])))
    loss = [] if stage == "graph" else ["--loss", "mse"]
    assert main(["show", str(tmp_path / "model.txt"), "--stage", stage, *loss]) == 0
    printed = capsys.readouterr().out
    assert ("0.weight" in printed) or stage in ("llvm", "asm")
    assert "step" in printed or stage in ("graph", "adjoint", "kernels")


def test_the_profile_shows_the_names():
    profile = profile_module(trained(NAMES["sequential"], optim.SGD(0.1)), "dotted", OPTIONS, runs=2, peaks=PEAKS)
    text = page_text(profile)
    assert "0.weight" in text
    assert "2.bias_new" in text


@pytest.mark.parametrize("name", ["", ".", "a.", ".a", "a..b", "a b", "a-b", "a/b", '"a"', "%a", "a\n"])
def test_other_names_are_refused(name):
    with pytest.raises(TypeRuleError) as refusal:
        param(name, (2,))
    assert refusal.value.message == (
        "a parameter name must be letters, digits and underscores, in parts separated by dots as in layers.0.weight, "
        f"got {name!r}; rename it"
    )
