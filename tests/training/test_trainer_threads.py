"""One trainer used by several Python threads."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from adjoint.training import Trainer
from tests.training.models import BATCH, batches

THREADS, STEPS = 4, 100


@pytest.fixture(autouse=True)
def _restless():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def made(module, cache):
    trainer = Trainer(module, options=cache, seed=1)
    trainer.init_parameters()
    return trainer


def test_the_first_steps_may_come_from_several_threads(module, cache):
    ((x, y),) = batches(1)
    alone, shared = made(module, cache), made(module, cache)
    expected = [alone.update(x, y) for _ in range(THREADS * STEPS)]
    with ThreadPoolExecutor(THREADS) as pool:
        losses = list(pool.map(lambda _: shared.update(x, y), range(THREADS * STEPS)))
    assert sorted(losses) == sorted(expected)
    for name, array in alone.export_params().items():
        np.testing.assert_array_equal(shared.export_params()[name], array)


def test_a_prediction_is_made_between_two_steps(module, cache):
    """Whatever a prediction gives while another thread trains, some number of whole steps gives too."""
    ((x, y),) = batches(1)
    alone, shared = made(module, cache), made(module, cache)
    possible = {alone.predict(x).tobytes()}
    for _ in range(STEPS):
        alone.update(x, y)
        possible.add(alone.predict(x).tobytes())
    with ThreadPoolExecutor(2) as pool:
        training = pool.submit(lambda: [shared.update(x, y) for _ in range(STEPS)])
        found = [shared.predict(x).tobytes()]
        while not training.done():
            found.append(shared.predict(x).tobytes())
        training.result()
    assert set(found) <= possible


def test_an_epoch_and_predictions_go_on_together(module, cache):
    inputs = [np.concatenate(arrays) for arrays in zip(*batches(50), strict=True)]
    alone, shared = made(module, cache), made(module, cache)
    expected = alone.run_epoch(inputs, seed=3).losses
    with ThreadPoolExecutor(1) as pool:
        training = pool.submit(lambda: shared.run_epoch(inputs, seed=3).losses)
        while not training.done():
            assert np.isfinite(shared.predict(inputs[0][:BATCH])).all()
    np.testing.assert_array_equal(training.result(), expected)
