"""The networks that benchmarks train, at sizes for tests, and steps of them.

In place of ResNet-20 there is ResNet-8, with one block in each stage instead of three: it has all of its convolutions
(tests/test_models.py), and takes less than half the time to compile.
"""

from collections.abc import Iterator
from functools import cache

import numpy as np

from adjoint import Function, IRModule, SetupTrainer, TensorType, Trainer, losses, models, optim
from adjoint.kernel.program import Program
from adjoint.kernel.target import Target
from adjoint.pipeline import lower_function

TOKENS, BATCH, VOCABULARY = 16, 4, 31

#: Of both residual networks.
_MOMENTUM = losses.CrossEntropyLoss(), optim.SGD(0.01, momentum=0.9, weight_decay=1e-4)

#: By name: the model, the loss, the optimizer.
NETWORKS = {
    "mlp": (lambda: models.mlp((196, 128, 64, 10), 64), losses.CrossEntropyLoss("sum"), optim.SGD(0.01)),
    "linreg": (lambda: models.linreg(), losses.MSELoss("sum"), optim.SGD(0.01)),
    "lenet": (lambda: models.lenet(4), losses.CrossEntropyLoss(), optim.SGD(0.01, momentum=0.9)),
    "resnet8": (lambda: models._residual_network((4, 3, 16, 16), 10, 1), *_MOMENTUM),
    "gpt": (
        lambda: models.gpt(layers=1, heads=2, width=32, length=TOKENS, batch_size=BATCH, vocabulary=VOCABULARY),
        losses.CrossEntropyLoss(),
        optim.AdamW(0.001),
    ),
    "bigmlp": (lambda: models.mlp((96, 256, 256, 96), 32), losses.MSELoss(), optim.Adam(0.001)),
}

#: Those of which the number of kernels matters.
LARGE = {"resnet20": (lambda: models.resnet20(4, 16), *_MOMENTUM)}


def module_of(name: str) -> IRModule:
    """The step of a network, not yet compiled."""
    make, loss, optimizer = (NETWORKS | LARGE)[name]
    module = make()
    out = module["backbone"].results[0].type
    classes = isinstance(loss, losses.CrossEntropyLoss)
    labels = TensorType(out.shape[:1], "i64") if classes else TensorType(out.shape)
    return SetupTrainer(loss, optimizer, (out, labels))(module)


def batches(module: IRModule, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Random inputs of a step: inputs of the model and labels, other ones each time."""
    rng = np.random.default_rng(7)
    step = module["step"]
    x, y = step.params[0].type, step.params[1].type

    def draw(of: TensorType, limit: int) -> np.ndarray:
        if of.dtype.kind == "i":
            return rng.integers(0, limit, of.shape)
        return rng.standard_normal(of.shape).astype(np.float32)

    for _ in range(count):
        yield draw(x, VOCABULARY), draw(y, module["backbone"].results[0].shape[1])


def trained(trainer: Trainer, steps: int) -> dict[str, bytes]:
    """Every bit that some steps leave: losses, parameters, states, what the optimizer keeps."""
    trainer.init_parameters()
    left = {"loss": np.array([trainer.update(x, y) for x, y in batches(trainer.module, steps)])}
    left |= trainer.export_params() | trainer.export_states() | trainer.export_optimizer_state()
    return {name: array.tobytes() for name, array in left.items()}


@cache
def step_of(name: str) -> tuple[Function, list[np.ndarray]]:
    """A training step of a network, with arguments for it: all rows but one are present."""
    module = module_of(name)
    step = module["step"]
    ((x, y),) = batches(module, 1)
    rng = np.random.default_rng(0)
    rest = [rng.uniform(0.01, 0.1, p.shape).astype(p.dtype) for p in step.params[2:]]
    assert step.params[-1].label == module.attrs["rows"]
    rest[-1] = np.array(x.shape[0] - 1, np.int32)
    return step, [*(np.asarray(a, p.dtype) for a, p in zip((x, y), step.params, strict=False)), *rest]


@cache
def program_of(name: str, target: Target) -> Program:
    """The step of a network, lowered for a target."""
    return lower_function(module_of(name)["step"], target)
