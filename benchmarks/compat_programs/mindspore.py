"""A perceptron in MindSpore."""

import json
import sys
import time

import mindspore as ms
import numpy as np
from mindspore import nn


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
    first = nn.Dense(784, 128, weight_init=ms.Tensor(w0), bias_init="zeros")
    second = nn.Dense(128, 10, weight_init=ms.Tensor(w1), bias_init="zeros")
    model = nn.SequentialCell(first, nn.ReLU(), second)
    loss_function = nn.CrossEntropyLoss()
    optimizer = nn.Momentum(model.trainable_params(), learning_rate=0.1, momentum=0.9)

    def forward(x, y):
        return loss_function(model(x), y)

    value_and_grad = ms.value_and_grad(forward, None, optimizer.parameters)

    @ms.jit
    def step(x, y):
        loss, gradients = value_and_grad(x, y)
        optimizer(gradients)
        return loss

    x, y = ms.Tensor(x), ms.Tensor(y.astype(np.int32))
    return lambda: step(x, y).asnumpy()


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
