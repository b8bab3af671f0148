"""A small classifier and its trainer."""

import pytest

from adjoint.compiler import CompileOptions
from adjoint.losses import CrossEntropyLoss
from adjoint.models import mlp
from adjoint.optim import SGD
from adjoint.training import SetupTrainer, Trainer
from tests.training.models import BATCH, INDICES, LOGITS, SIZES


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """Options with a compile cache of the tests' own."""
    return CompileOptions(threads=1, cache_directory=tmp_path_factory.mktemp("compiled"))


@pytest.fixture(scope="session")
def module():
    """An MLP of `SIZES` under cross-entropy, momentum and weight decay."""
    return SetupTrainer(CrossEntropyLoss(), SGD(0.1, 0.9, weight_decay=0.01), [LOGITS, INDICES])(mlp(SIZES, BATCH))


@pytest.fixture
def trainer(module, cache):
    """A trainer of it with fresh parameters."""
    made = Trainer(module, options=cache, seed=1)
    made.init_parameters()
    return made
