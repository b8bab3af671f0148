"""`CompileOptions(memory_budget=...)`: the arena is within it, and the bits are those of the step without."""

import re

import numpy as np
import pytest

from adjoint.compiler import CompileOptions, compile, host
from adjoint.errors import CompileError, InvalidValueError
from adjoint.ir import TensorType
from adjoint.losses import CrossEntropyLoss
from adjoint.models import gpt, mlp
from adjoint.optim import SGD, Adam
from adjoint.pipeline import lower_function
from adjoint.training import SetupTrainer, Trainer
from tests.closeness import agrees_with_graph

ROWS, LENGTH = 256, 16


def deep(layers=16):
    """An MLP of equal layers, and a batch."""
    setup = SetupTrainer(CrossEntropyLoss(), SGD(0.1), [TensorType((ROWS, 10)), TensorType((ROWS,), "i64")])
    rng = np.random.default_rng(0)
    return setup(mlp((32, *[32] * layers, 10), ROWS)), (
        rng.standard_normal((ROWS, 32)).astype("f4"),
        rng.integers(0, 10, ROWS),
    )


def small_gpt():
    """A GPT of three narrow layers, and a batch."""
    count = 4 * LENGTH
    setup = SetupTrainer(CrossEntropyLoss(), Adam(0.01), [TensorType((count, 17)), TensorType((count,), "i64")])
    module = setup(gpt(layers=3, heads=2, width=32, length=LENGTH, batch_size=4, vocabulary=17))
    rng = np.random.default_rng(0)
    return module, (rng.integers(0, 17, (4, LENGTH)), rng.integers(0, 17, count))


def options(budget=None, **others):
    return CompileOptions(cache=False, threads=1, memory_budget=budget, **others)


def trained(module, batch, budget, steps=3):
    trainer = Trainer(module, seed=3, options=options(budget))
    trainer.init_parameters()
    losses = [trainer.update(*batch) for _ in range(steps)]
    return losses, trainer.export_params()


def working(module, budget=None):
    return lower_function(module["step"], host(), budget).working_bytes(1)


@pytest.mark.parametrize(("network", "share"), [(deep, 0.8), (deep, 0.55), (small_gpt, 0.6)])
def test_working_memory_is_within_the_budget_and_training_has_the_same_bits(network, share):
    module, batch = network()
    budget = int(share * working(module))
    assert working(module, budget) <= budget
    losses, params = trained(module, batch, None)
    again, others = trained(module, batch, budget)
    assert again == losses
    for name, array in params.items():
        np.testing.assert_array_equal(others[name], array)


def test_recomputed_gradients_are_those_of_the_interpreter():
    module, _ = deep()
    gradients = module["backbone_loss_adjoint"]
    rng = np.random.default_rng(1)
    arrays = [
        rng.integers(0, 10, p.shape) if p.dtype.kind == "i" else (rng.standard_normal(p.shape) / 6).astype("f4")
        for p in gradients.params[:-1]
    ]
    arrays.append(np.array(ROWS, np.int32))
    whole = compile(gradients, options=options())
    name = gradients.name
    made = compile(gradients, options=options(whole.memory[name].working * 6 // 10))
    assert made.memory[name].working <= whole.memory[name].working * 6 // 10
    found = made(*arrays)
    for one, other in zip(found, whole(*arrays), strict=True):
        np.testing.assert_array_equal(one, other)
    agrees_with_graph(found, gradients, *arrays)


def test_what_cannot_be_met_is_refused_with_what_can():
    module, _ = deep(8)
    with pytest.raises(CompileError, match=r"^@step needs at least \d+ bytes of working memory even") as refused:
        working(module, 1000)
    assert "got memory_budget=1000; increase it, or reduce the batch size" in refused.value.message
    least = int(re.search(r"at least (\d+)", refused.value.message)[1])
    assert working(module, least) == least


def test_a_budget_that_is_met_already_changes_nothing():
    module, _ = deep()
    whole = compile(module, entries=("step",), options=options())["step"]
    same = compile(module, entries=("step",), options=options(whole.memory.working))["step"]
    assert same.objects == whole.objects


def test_what_threads_have_to_themselves_counts():
    module, _ = small_gpt()
    memory = {threads: budgeted(module, threads, None) for threads in (1, 4)}
    assert memory[1].scratch > 0
    assert memory[4].scratch == 4 * memory[1].scratch
    assert memory[4].working == memory[4].arena + memory[4].scratch
    budget = memory[1].working + memory[1].scratch
    assert budgeted(module, 1, budget) == memory[1]
    less = budgeted(module, 4, budget)
    assert less.working <= budget
    assert less.arena < memory[4].arena


def budgeted(module, threads, budget):
    options = CompileOptions(cache=False, threads=threads, memory_budget=budget)
    return compile(module, entries=("step",), options=options)["step"].memory


def test_the_cache_tells_budgets_apart(tmp_path):
    module, _ = deep()
    kept = {"cache_directory": tmp_path, "threads": 1}
    whole = compile(module, entries=("step",), options=CompileOptions(**kept))
    budget = whole.memory["step"].working * 8 // 10
    for cached in (False, True):
        made = compile(module, entries=("step",), options=CompileOptions(**kept, memory_budget=budget))
        assert made.cached == cached
        assert made.memory["step"].working <= budget


@pytest.mark.parametrize("budget", [-1, 1.5, "1", True])
def test_wrong_budgets_are_refused(budget):
    with pytest.raises(
        InvalidValueError, match="memory_budget must be a number of bytes, an integer of at least 0, got"
    ):
        CompileOptions(memory_budget=budget)
