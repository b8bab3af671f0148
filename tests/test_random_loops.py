"""Training loops: random ones agree with NumPy, and with PyTorch where that is installed; many sizes stay bounded."""

import gc
import tracemalloc
import warnings

import numpy as np
import pytest

import adjoint
from adjoint import nn
from adjoint.errors import AdjointWarning
from adjoint.tensor.explain import log
from adjoint.tensor.plan import options
from adjoint.tensor.trace import fresh_trace
from tests.random_loops import ByHand, ByLibrary, disagreement, run, script


@pytest.mark.parametrize("seed", [3, 8, 11])  # 8 freezes, forks, accumulates and reads between both passes
def test_random_loops_agree_with_numpy(seed):
    calls = script(seed, iterations=3)
    fresh_trace()
    assert disagreement(run(ByLibrary(adjoint, seed), calls), run(ByHand(seed), calls)) is None


def test_random_loops_agree_with_pytorch(pytestconfig):
    torch = pytest.importorskip("torch")
    first = pytestconfig.getoption("--fuzz-seed")
    for seed in range(first, first + pytestconfig.getoption("--fuzz-count")):
        calls = script(seed)
        expected = run(ByLibrary(torch, seed), calls)
        assert disagreement(run(ByHand(seed), calls), expected) is None
        assert disagreement(run(ByLibrary(adjoint, seed), calls), expected) is None, f"seed {seed}"


def loop(iterations, sizes):
    """Train on batches of many sizes, and read every tenth loss."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = adjoint.optim.SGD(model.parameters(), lr=0.1)
    data = np.random.default_rng(0).standard_normal((max(sizes), 3)).astype(np.float32)
    for n in range(iterations):
        x = adjoint.tensor(data[: sizes[n % len(sizes)]])
        loss = nn.functional.mse_loss(model(x), x[:, :1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if n % 10 == 0:
            yield loss.item()


def test_a_thousand_iterations_of_sixteen_sizes_compile_seventeen_programs_and_memory_stays_flat():
    fresh_trace()
    sizes = list(range(2, 18))
    before = log.count, len(options.plans)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AdjointWarning)  # that sixteen programs differ in this size
        run = loop(1000, sizes)
        losses = [next(run) for _ in range(20)]  # 191 iterations: every size has been seen
        counts, objects = [], []
        tracemalloc.start()
        for n, loss in enumerate(run):
            losses.append(loss)
            if n % 10 == 9:
                gc.collect()
                counts.append(tracemalloc.get_traced_memory()[0])
                objects.append(len(gc.get_objects()))
        tracemalloc.stop()
    assert len(losses) == 100
    assert np.mean(losses[-20:]) < 0.7 * np.mean(losses[:20])
    assert log.count - before[0] <= 17
    assert len(options.plans) - before[1] <= 17
    assert max(counts[-4:]) - min(counts[-4:]) < 20_000
    assert max(objects[-4:]) - min(objects[-4:]) < 100
