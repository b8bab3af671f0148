"""A perceptron in OneFlow."""

import json
import sys
import time

import numpy as np
import oneflow as flow
from oneflow import nn


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
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    with flow.no_grad():
        model[0].weight.copy_(flow.tensor(w0))
        model[2].weight.copy_(flow.tensor(w1))
        model[0].bias.zero_()
        model[2].bias.zero_()
    loss_function = nn.CrossEntropyLoss()
    optimizer = flow.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = flow.tensor(x), flow.tensor(y)

    def step():
        loss = loss_function(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


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
