"""Networks of `adjoint.models` that train as PyTorch trains them: the same losses from the same numbers."""

import json
from pathlib import Path

import numpy as np
import pytest

from adjoint import SetupTrainer, TensorType, Trainer, models, optim
from adjoint.compiler import CompileOptions
from adjoint.errors import InvalidValueError
from adjoint.losses import CrossEntropyLoss
from tests.golden.torch.formulas import NETWORKS, network_batches, network_start

RUNS = json.loads((Path(__file__).parent / "golden/torch/models.json").read_text())["runs"]
#: Relative error of a loss after some steps in f32: batch normalisation over few elements makes the most of it.
RTOL = {"lenet": 1e-4, "resnet20": 2e-3, "gpt": 1e-4}


def trainer_of(name, threads=1):
    settings, optimizer, hyper, _ = NETWORKS[name]
    module = getattr(models, name)(**settings)
    backbone = module["backbone"]
    out = backbone.results[0].type
    setup = SetupTrainer(
        CrossEntropyLoss(), getattr(optim, optimizer)(**hyper), (out, TensorType(out.shape[:1], "i64"))
    )
    trainer = Trainer(setup(module), options=CompileOptions(threads=threads))
    params = backbone.params[1 : 1 + module.attrs["param_num"]]
    shapes = {p.label: p.shape for p in params}
    trainer.load_params(network_start(shapes))
    states = backbone.params[1 + len(params) :]
    trainer.load_states({p.label: np.full(p.shape, p.label.endswith("_var"), np.float32) for p in states})
    return trainer, shapes


@pytest.mark.parametrize("run", RUNS, ids=[run["model"] for run in RUNS])
def test_losses_follow_pytorchs(run):
    name = run["model"]
    trainer, shapes = trainer_of(name)
    assert {n: list(shape) for n, shape in shapes.items()} == run["shapes"]
    losses = [trainer.update(x, y) for x, y in network_batches(name, len(run["losses"]))]
    np.testing.assert_allclose(losses, run["losses"], rtol=RTOL[name])
    states = trainer.export_states()
    for state, expected in run["states"].items():
        # A mean near 0 is no more exact than the numbers that it is of: their size is the standard deviation.
        size = np.sqrt(states[state.removesuffix("_mean") + "_var"]) if state.endswith("_mean") else 0.0
        assert (abs(states[state] - np.array(expected)) <= 1e-5 * (abs(np.array(expected)) + size)).all(), state


def test_the_number_of_threads_changes_no_bit():
    losses = []
    for threads in (1, 2):
        trainer, _ = trainer_of("lenet", threads)
        losses.append([trainer.update(x, y) for x, y in network_batches("lenet", 3)])
    assert losses[0] == losses[1]


def test_default_sizes_are_those_of_the_papers():
    counts = {}
    for name in NETWORKS:
        module = getattr(models, name)()
        params = module["backbone"].params[1 : 1 + module.attrs["param_num"]]
        counts[name] = sum(p.type.size for p in params)
        assert module.attrs["state_num"] == (42 if name == "resnet20" else 0)
    # The numbers that are quoted for LeNet-5 and for ResNet-20; for GPT the sum over layers, tables and scales.
    assert counts == {"lenet": 61706, "resnet20": 272474, "gpt": 4 * 12 * 128**2 + (65 + 64) * 128 + 9 * 128}


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: models.lenet(0), "lenet: batch_size must be at least 1, got 0"),
        (lambda: models.resnet20(size=0), "resnet20: size must be at least 1, got 0"),
        (lambda: models.gpt(vocabulary=0), "gpt: vocabulary must be at least 1, got 0"),
        (lambda: models.gpt(heads=3), "gpt: heads must divide width, got 3 and 128"),
    ],
)
def test_sizes_that_are_none_are_refused(build, words):
    with pytest.raises(InvalidValueError, match=words):
        build()
