"""What a long training leaves in the optimizer's state where no gradient comes."""

from dataclasses import replace

import numpy as np
import pytest

from adjoint.losses import CrossEntropyLoss
from adjoint.models import mlp
from adjoint.optim import SGD, Adam
from adjoint.training import SetupTrainer, Trainer
from tests.training.models import BATCH, INDICES, LOGITS, SIZES, batches


def subnormal(trainer):
    """How many elements of the optimizer's state are subnormal."""
    tiny = np.finfo(np.float32).smallest_normal
    state = [a for a in trainer.export_optimizer_state().values() if a.dtype == np.float32]
    return sum(int(((array != 0) & (np.abs(array) < tiny)).sum()) for array in state)


@pytest.mark.parametrize("optimizer", [SGD(0.01, 0.9), Adam(0.001)], ids=["momentum", "adam"])
@pytest.mark.parametrize("flush", [True, False], ids=["flushed", "gradual"])
def test_moments_decay_to_zero_and_not_into_subnormal_numbers(cache, optimizer, flush):
    module = SetupTrainer(CrossEntropyLoss(), optimizer, [LOGITS, INDICES])(mlp(SIZES, BATCH))
    trainer = Trainer(module, options=replace(cache, flush_subnormals=flush), seed=1)
    trainer.init_parameters()
    ((x, y),) = batches(1)
    trainer.update(x, y)
    # From now on half of the features are 0, and so are the gradients of their weights.
    x[:, ::2] = 0
    for _ in range(1200):
        trainer.update(x, y)
    assert (subnormal(trainer) == 0) == flush
