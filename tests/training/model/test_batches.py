"""Pipelines of `adjoint.data` as what a model trains on."""

import numpy as np

import adjoint
from adjoint import nn, optim
from adjoint.data import GeneratorDataset, NumpySlicesDataset
from adjoint.training.callbacks import Callback
from adjoint.training.model import Model
from adjoint.training.model.batches import steps_of

X = np.array([[1, 2], [2, 3], [4, 6], [3, 1]], np.float32)
Y = np.array([[8], [13], [26], [9]], np.float32)


class Steps(Callback):
    def on_train_epoch_end(self, run):
        self.seen = run.epoch, run.steps_per_epoch, run.step, run.batch_size


def trained(data):
    """The weights after two epochs from w = [[2], [1]], and what a callback has seen."""
    network = nn.Linear(2, 1, bias=False)
    with adjoint.no_grad():
        network.weight.copy_(adjoint.tensor([[2.0, 1.0]]))
    steps = Steps()
    model = Model(network, nn.MSELoss(reduction="sum"), optim.SGD(network.parameters(), lr=0.01))
    model.fit(2, data, callbacks=[steps])
    return network.weight.detach().numpy().tolist(), steps.seen


def by_hand(batches):
    """The same in float64."""
    weight = np.array([[2.0, 1.0]])
    for x, y in batches:
        weight -= 0.01 * 2 * (x @ weight.T - y).T @ x
    return weight


def test_a_pipeline_gives_the_bits_of_native_code():
    rows = NumpySlicesDataset((X, Y), ["x", "y"]).shuffle().batch(2)
    assert rows.arrays() is not None
    native, seen = trained(rows)
    assert seen == (2, 2, 4, 2)
    assert np.allclose(native, by_hand([*rows.epoch(0), *rows.epoch(1)]), rtol=1e-5)
    mapped = rows.map(np.copy)
    assert mapped.arrays() is None
    assert trained(mapped) == (native, seen)
    # A filter, after which the number of batches is unknown.
    filtered = NumpySlicesDataset((X, Y), ["x", "y"]).shuffle().filter(lambda x: x.sum() > 0).batch(2).prefetch()
    assert trained(filtered) == (native, (2, None, 4, 2))


def test_the_number_of_batches():
    data = GeneratorDataset([1, 2, 3], "x").batch(2)
    assert (steps_of(data), steps_of(data.filter(bool)), steps_of(iter([]))) == (2, None, None)
