"""`CompileOptions(memory_budget=...)`: the arena is within it, and the bits are those of the step without."""

import re

import numpy as np
import pytest

import adjoint.pipeline
from adjoint.compiler import CompileOptions, compile, host
from adjoint.errors import CompileError, InvalidValueError
from adjoint.ir import TensorType
from adjoint.losses import CrossEntropyLoss
from adjoint.lower.contractions import schedules
from adjoint.lower.program import lower
from adjoint.models import gpt, lenet, mlp
from adjoint.optim import SGD, Adam
from adjoint.pipeline import lower_function
from adjoint.training import SetupTrainer, Trainer
from tests.closeness import agrees_with_graph

ROWS, LENGTH = 256, 16


def deep(layers=10):
    """An MLP of equal layers, and a batch."""
    setup = SetupTrainer(CrossEntropyLoss(), SGD(0.1), [TensorType((ROWS, 10)), TensorType((ROWS,), "i64")])
    rng = np.random.default_rng(0)
    return setup(mlp((32, *[32] * layers, 10), ROWS)), (
        rng.standard_normal((ROWS, 32)).astype("f4"),
        rng.integers(0, 10, ROWS),
    )


def small_gpt():
    """A GPT of two narrow layers, and a batch."""
    count = 4 * LENGTH
    setup = SetupTrainer(CrossEntropyLoss(), Adam(0.01), [TensorType((count, 17)), TensorType((count,), "i64")])
    module = setup(gpt(layers=2, heads=2, width=32, length=LENGTH, batch_size=4, vocabulary=17))
    rng = np.random.default_rng(0)
    return module, (rng.integers(0, 17, (4, LENGTH)), rng.integers(0, 17, count))


def options(budget=None, **others):
    return CompileOptions(cache=False, threads=1, memory_budget=budget, **others)


def trained(module, batch, budget, steps=3):
    """Losses and parameters after some steps, and the working memory of the step."""
    trainer = Trainer(module, seed=3, options=options(budget))
    trainer.init_parameters()
    losses = [trainer.update(*batch) for _ in range(steps)]
    return losses, trainer.export_params(), trainer._executables["step"].memory["step"].working


def working(module, budget=None):
    return lower_function(module["step"], host(), budget).working_bytes(1)


@pytest.mark.parametrize(("network", "shares"), [(deep, (0.8, 0.6)), (small_gpt, (0.6,))])
def test_working_memory_is_within_the_budget_and_training_has_the_same_bits(network, shares):
    module, batch = network()
    losses, params, whole = trained(module, batch, None)
    for share in shares:
        budget = int(share * whole)
        again, others, less = trained(module, batch, budget)
        assert less <= budget
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
    assert "; got memory_budget=1000; increase it, or reduce the batch size" in refused.value.message
    least = int(re.search(r"at least (\d+)", refused.value.message)[1])
    assert working(module, least) == least
    with pytest.raises(CompileError, match=f"^@step needs at least {least} bytes .* got memory_budget={least - 1};"):
        working(module, least - 1)


def small_lenet():
    """LeNet-5, and a batch."""
    setup = SetupTrainer(CrossEntropyLoss(), Adam(0.01), [TensorType((32, 10)), TensorType((32,), "i64")])
    rng = np.random.default_rng(0)
    return setup(lenet(batch_size=32)), (rng.standard_normal((32, 1, 32, 32)).astype("f4"), rng.integers(0, 10, 32))


def test_a_small_cnn_runs_its_kernels_in_a_leaner_order(monkeypatch):
    """Nothing in LeNet is worth recomputing; but indices and padding need not lie there while others need the room."""
    monkeypatch.setattr(schedules, "plan_kn2row", lambda *_: None)  # it reads the images without padding
    module, batch = small_lenet()
    program = lower_function(module["step"], host())
    # No order needs less than its largest kernel, whose operands are the activations of the first convolution, their
    # gradient before and after pooling, and the indices of the maxima: of 6 x 28 x 28 and 6 x 14 x 14 for 32 images.
    wide, pooled = 32 * 6 * 28 * 28, 32 * 6 * 14 * 14
    bound = 4 * wide + 4 * wide + 4 * pooled + 8 * pooled
    budget = int(0.85 * program.working_bytes(1))
    assert bound < budget
    found = lower_function(module["step"], host(), budget)
    assert bound <= found.working_bytes(1) <= budget
    assert sorted(k.name for k in found.kernels) == sorted(k.name for k in program.kernels)
    assert trained(module, batch, budget, steps=2)[0] == trained(module, batch, None, steps=2)[0]


def test_a_refusal_says_what_needs_the_memory():
    module, _ = small_lenet()
    with pytest.raises(CompileError) as refused:
        working(module, 1_000_000)
    said = re.fullmatch(
        r"@step needs at least (\d+) bytes of working memory even with recomputation: at the peak, the kernel (\S+) "
        r"reads and writes (\d+) bytes at once, beside (\d+) bytes of other values of which recomputation can free no "
        r"more, and (\d+) bytes of scratch memory per thread; got memory_budget=1000000; increase it, or reduce the "
        r"batch size",
        refused.value.message,
    )
    least, own, others, scratch = (int(said[number]) for number in (1, 3, 4, 5))
    found = lower_function(module["step"], host(), least)
    assert own + others + scratch <= least == found.working_bytes(1)
    (kernel,) = (k for k in found.kernels if k.name == said[2])
    assert own == sum(b.nbytes for b in {*kernel.reads, *kernel.writes} if b.space == "arena")


def test_a_network_is_planned_at_most_twice_for_a_refusal(monkeypatch):
    module, _ = deep()
    planned = {}

    def counted(function, *args):
        """`lower`, once for each graph."""
        text = str(function)
        if text not in planned:
            planned[text] = lower(function, *args)
        return planned[text]

    monkeypatch.setattr(adjoint.pipeline, "lower", counted)
    with pytest.raises(CompileError, match=r"needs at least \d+ bytes"):
        working(module, 1000)
    assert len(planned) == 2
    whole, most = (program.working_bytes(1) for program in planned.values())
    budget = (2 * whole + most) // 3
    assert most < budget < whole
    assert working(module, budget) <= budget


def test_a_budget_that_is_met_already_changes_nothing():
    module, _ = deep()
    whole = compile(module, entries=("step",), options=options())["step"]
    same = compile(module, entries=("step",), options=options(whole.memory.working))["step"]
    assert same.objects == whole.objects


def test_what_threads_have_to_themselves_counts():
    module, _ = deep(8)
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
