"""A small run in the object door that uses whatever a checkpoint has to contain."""

import numpy as np

import adjoint
from adjoint import nn, optim
from adjoint.training.callbacks import Callback


class Net(nn.Module):
    """Two layers with dropout and batch norm, and a count of calls that state_dict leaves out."""

    def __init__(self, width=5):
        super().__init__()
        self.first = nn.Linear(3, width)
        self.norm = nn.BatchNorm1d(width)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(width, 2)
        self.register_buffer("calls", adjoint.zeros(()), persistent=False)

    def forward(self, x):
        self.calls += 1
        return self.last(self.drop(self.norm(self.first(x)).relu()))


class Counting(Callback):
    """Has numbers and an array as its state."""

    def __init__(self):
        self.count, self.total = 0, np.zeros(2)

    def state_dict(self):
        return {"count": self.count, "pair": (1, float("inf"))}

    def load_state_dict(self, state):
        assert state["pair"] == (1, float("inf"))
        self.count = state["count"]

    def state_arrays(self):
        return {"total": self.total}

    def load_state_arrays(self, arrays):
        self.total = arrays["total"]


class Training:
    """A network with an optimizer, a schedule and a callback."""

    def __init__(self, make=None, seed=0):
        adjoint.manual_seed(seed)
        self.network = Net()
        make = make or (lambda params: optim.AdamW(params, lr=0.1))
        self.optimizer = make(self.network.parameters())
        self.schedule = optim.lr_scheduler.MultiStepLR(self.optimizer, milestones=[2, 4], gamma=0.5)
        self.callback = Counting()
        self.losses = []

    def steps(self, first, end):
        for step in range(first, end):
            rng = np.random.default_rng(step)
            x, y = rng.standard_normal((4, 3), np.float32), rng.integers(0, 2, 4)
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.network(adjoint.tensor(x)), adjoint.tensor(y))
            loss.backward()
            self.optimizer.step()
            self.schedule.step()
            self.callback.count += 1
            self.callback.total += step
            self.losses.append(loss.item())
        return self

    def parts(self):
        return {"network": self.network, "optimizer": self.optimizer, "schedulers": self.schedule,
                "callbacks": [self.callback]}  # fmt: skip
