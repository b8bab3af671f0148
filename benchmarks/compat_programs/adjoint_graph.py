"""A perceptron in adjoint, as graphs."""

import json
import sys
import time

import numpy as np

from adjoint import Function, IRModule, SetupTrainer, Trainer, ops, param
from adjoint.losses import CrossEntropyLoss
from adjoint.optim import SGD


def arrays():
    """The batch, and the weights of both layers, [out, in]."""
    rng = np.random.RandomState(0)
    x = rng.rand(64, 784).astype(np.float32)
    y = rng.randint(0, 10, 64).astype(np.int64)
    w0 = (rng.rand(128, 784).astype(np.float32) - 0.5) / 14
    w1 = (rng.rand(10, 128).astype(np.float32) - 0.5) / 6
    return x, y, w0, w1


def make_step():
    x, y, w0, w1 = arrays()
    shapes = {"x": (64, 784), "w0": (784, 128), "b0": (128,), "w1": (128, 10), "b1": (10,)}
    inputs = tuple(param(name, shape) for name, shape in shapes.items())
    hidden = ops.relu(ops.linear(*inputs[:3]))
    backbone = Function("backbone", inputs, (ops.linear(hidden, *inputs[3:]),))
    module = IRModule((backbone,), {"param_num": 4, "state_num": 0})
    trainer = Trainer(SetupTrainer(CrossEntropyLoss(reduction="mean"), SGD(0.1, momentum=0.9))(module))
    zeros = np.zeros(128, np.float32), np.zeros(10, np.float32)
    trainer.load_params({"w0": w0.T.copy(), "b0": zeros[0], "w1": w1.T.copy(), "b1": zeros[1]})
    return lambda: trainer.update(x, y)


def main(steps):
    step = make_step()
    losses = [float(step()) for _ in range(8)]
    for _ in range(steps // 4):
        step()
    float(step())
    start = time.perf_counter()
    for _ in range(steps):
        loss = step()
    float(loss)
    return {"losses": losses, "rate": steps / (time.perf_counter() - start)}


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))
