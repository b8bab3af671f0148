"""`Model`: its loops give the bits of a loop by hand, in native code and over batches of any dataset."""

from types import MappingProxyType

import numpy as np
import pytest

import adjoint
from adjoint import nn, optim
from adjoint.data import ArrayDataset
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.nn.functional import cross_entropy
from adjoint.training.callbacks import Callback
from adjoint.training.model import Model, TrainOneStep

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((70, 8)).astype(np.float32), RNG.integers(0, 3, 70)

# MindSpore's tutorial on Model: x, y, and the losses and error that it prints for w = [[2], [1]].
SMALL_X = np.array([[1, 2], [2, 3], [4, 6], [3, 1]], np.float32)
SMALL_Y = np.array([[8], [13], [26], [9]], np.float32)


class Batches:
    """The batches of an ArrayDataset as a dataset that only Python can walk."""

    def __init__(self, arrays):
        self.epoch = arrays.epoch
        self.count = len(arrays)

    def __len__(self):
        return self.count

    def __iter__(self):
        return self.epoch(0)


class Watch(Callback):
    def __init__(self, every=None):
        self.every = every
        self.seen, self.losses, self.events = [], [], []

    def on_train_begin(self, _run):
        self.events.append("train begins")

    def on_train_step_end(self, run):
        self.seen.append((run.epoch, run.step, run.step_in_epoch, len(run.losses)))

    def on_train_epoch_end(self, run):
        self.losses += run.losses.tolist()
        self.events.append(f"epoch {run.epoch} ends, {sorted(run.metrics)}")

    def on_train_end(self, _run):
        self.events.append("train ends")


class Rates(Callback):
    """Sets the learning rate after some steps."""

    every = 1
    rates = MappingProxyType({2: 0.01, 7: 0.3})

    def on_train_step_end(self, run):
        if run.step in self.rates:
            run.optimizer.param_groups[0]["lr"] = self.rates[run.step]


def linear():
    layer = nn.Linear(2, 1, bias=False)
    layer.load_state_dict({"weight": adjoint.tensor([[2.0, 1.0]])})
    return layer


def network():
    adjoint.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))


def by_hand(data, epochs, rates=None):
    """The network after a training loop as PyTorch's users write it, and its losses."""
    model, losses = network(), []
    optimizer = optim.AdamW(model.parameters(), lr=0.05)
    for epoch in range(epochs):
        for x, y in data.epoch(epoch):
            if rates and len(losses) in rates:
                optimizer.param_groups[0]["lr"] = rates[len(losses)]
            loss = cross_entropy(model(adjoint.tensor(x)), adjoint.tensor(y))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            losses.append(loss.item())
    return model, losses


def state(model):
    return [tensor.numpy().tobytes() for tensor in model.state_dict().values()]


@pytest.mark.parametrize("native", [True, False])
def test_the_bits_are_those_of_a_loop_by_hand(native):
    """Dropout, running statistics, an incomplete last batch, clipping, and a rate that a callback changes."""
    data = ArrayDataset(X, Y, batch_size=16, seed=1)
    expected, losses = by_hand(data, 3, Rates.rates)
    model, watch = network(), Watch(every=4)
    trained = Model(model, nn.CrossEntropyLoss(), optim.AdamW(model.parameters(), lr=0.05), clip=0.5)
    run = trained.train(3, data if native else Batches(data), [watch, Rates()])
    assert watch.losses == losses
    assert state(model) == state(expected)
    assert watch.seen == [(1, 4, 4, 4), (2, 8, 3, 3), (3, 12, 2, 2)]
    assert (run.step, run.step_in_epoch, run.steps_per_epoch, run.epoch) == (15, 5, 5, 3)


class Seldom(Rates):
    """As `Rates`, called after every 5 steps: in between, steps follow each other without Python's checks."""

    every = 5
    rates = MappingProxyType({5: 0.01, 20: 0.3})


@pytest.mark.parametrize("kind", ["arrays", "tensors", "mixed"])
def test_steps_in_a_row_give_the_bits_of_a_loop_by_hand(kind):
    data = ArrayDataset(X, Y, batch_size=4, seed=1)
    expected, losses = by_hand(data, 2, Seldom.rates)

    def batches(epoch, start=0):
        for number, (x, y) in enumerate(data.epoch(epoch, start)):
            tensors = kind == "tensors" or (kind == "mixed" and number % 3 == 0)
            yield (adjoint.tensor(x), y) if tensors else (x, y)

    given, model, watch = Batches(data), network(), Watch()
    given.epoch = batches
    trained = Model(model, nn.CrossEntropyLoss(), optim.AdamW(model.parameters(), lr=0.05), clip=0.5)
    run = trained.train(2, given, [watch, Seldom()])
    assert watch.losses == losses
    assert state(model) == state(expected)
    assert run.step == 36


def test_the_steps_before_an_error_are_counted():
    class Keep(Callback):
        def on_exception(self, run, error):
            self.step, self.losses, self.message = run.step, run.losses.tolist(), str(error)

    batches = [(X[:4], Y[:4])] * 12 + [(X[:4], Y[:4] + 3)] + [(X[:4], Y[:4])] * 5
    model, keep = network(), Keep()
    trained = Model(model, nn.CrossEntropyLoss(), optim.SGD(model.parameters(), lr=0.05))
    with pytest.raises(IndexError, match=r"must be in \[0, 3\)"):
        trained.train(1, batches, keep)
    assert keep.step == len(keep.losses) == 12
    assert np.isfinite(keep.losses).all()


def test_a_run_begins_without_the_gradients_of_loops_before_it():
    """Of a compiled step, which keeps none, and of a backward pass without an update."""
    data = ArrayDataset(X, Y, batch_size=16, seed=1)
    expected, losses = by_hand(data, 1)
    model = network()
    optimizer = optim.AdamW(model.parameters(), lr=0.05)
    idle = optim.SGD(model.parameters(), lr=0.0)

    @adjoint.jit
    def step(x, y):
        loss = cross_entropy(model[0](x)[:, :3], y)
        loss.backward()
        idle.step()
        return loss.detach()

    step(X[:4], Y[:4])
    watch = Watch()
    Model(model, nn.CrossEntropyLoss(), optimizer, clip=0.5).train(1, data, watch)
    assert watch.losses == losses
    assert state(model) == state(expected)
    model[0](adjoint.tensor(X[:4])).sum().backward()
    before = state(model)
    Model(model, nn.CrossEntropyLoss(), optim.SGD(model.parameters(), lr=0.0)).train(1, data)
    assert [a == b for a, b in zip(before, state(model), strict=True)][:2] == [True, True]


def test_the_numbers_of_mindspores_tutorial():
    layer, watch = linear(), Watch()
    model = Model(layer, nn.MSELoss(reduction="sum"), optim.SGD(layer.parameters(), lr=0.01), metrics={"mse", "loss"})
    data = ArrayDataset(SMALL_X, SMALL_Y, batch_size=2, shuffle=False)
    model.fit(2, data, data, callbacks=watch)
    np.testing.assert_allclose(watch.losses, [52.0, 58.0304, 0.0846553, 5.42138], rtol=1e-5)
    np.testing.assert_allclose(model.evaluate(data)["mse"], 1.0036646, rtol=1e-6)
    assert watch.events == [
        "train begins",
        "epoch 1 ends, ['loss', 'mse']",
        "epoch 2 ends, ['loss', 'mse']",
        "train ends",
    ]
    by_network = model.predict(SMALL_X).numpy()
    np.testing.assert_allclose(by_network, SMALL_X @ layer.weight.detach().numpy().T, rtol=1e-6)


@pytest.mark.parametrize(
    ("sens", "scale", "weights"),
    [(1.0, None, [3.4, 3]), (2.0, None, [4.8, 5]), (1024.0, None, [1435.6, 2049]), (1024.0, 1024.0, [3.4, 3])],
)
def test_sens_multiplies_and_the_loss_scale_divides_gradients(sens, scale, weights):
    layer = linear()
    with_loss = _WithMSE(layer)
    step = TrainOneStep(with_loss, optim.SGD(layer.parameters(), lr=0.01), sens, loss_scale=scale)
    Model(step).train(1, [(SMALL_X, SMALL_Y)])
    np.testing.assert_allclose(layer.weight.detach().numpy()[0], weights, rtol=1e-6)


class _WithMSE(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x, y):
        return ((self.network(x) - y) ** 2).sum()


def test_a_step_of_ones_own_changes_gradients():
    class Signs(TrainOneStep):
        def forward(self, *inputs):
            loss, grads = self.value_and_grad(*inputs)
            assert list(grads) == ["network.weight"]
            self.apply_gradients({name: grad.sign() for name, grad in grads.items()})
            return loss

    layer = linear()
    Model(Signs(_WithMSE(layer), optim.SGD(layer.parameters(), lr=0.5))).train(
        2, ArrayDataset(SMALL_X, SMALL_Y, batch_size=4)
    )
    np.testing.assert_array_equal(layer.weight.detach().numpy(), [[3.0, 2.0]])


def test_accumulated_gradients_make_the_update_of_a_larger_batch():
    def trained(batch_size, accumulate):
        adjoint.manual_seed(0)
        layer = nn.Linear(8, 3)
        optimizer = optim.SGD(layer.parameters(), lr=0.5, momentum=0.9)
        data = ArrayDataset(X[:64], Y[:64], batch_size=batch_size, shuffle=False)
        Model(layer, nn.CrossEntropyLoss(), optimizer, accumulate=accumulate).train(2, data)
        return layer.weight.detach().numpy()

    np.testing.assert_allclose(trained(16, 4), trained(64, 1), atol=1e-6)


def test_an_overflow_leaves_the_update_out_and_halves_the_scale():
    layer = linear()
    scaler = adjoint.amp.GradScaler(init_scale=8.0)
    model = Model(layer, nn.MSELoss(), optim.SGD(layer.parameters(), lr=0.01), loss_scale=scaler)
    model.train(1, [(np.full((1, 2), np.inf, np.float32), np.zeros((1, 1), np.float32))])
    assert scaler.get_scale() == 4.0
    np.testing.assert_array_equal(layer.weight.detach().numpy(), [[2.0, 1.0]])


@pytest.mark.parametrize("native", [True, False])
def test_a_callback_ends_the_run_after_the_step(native):
    class Stop(Callback):
        every = 3

        def on_train_step_end(self, run):
            run.stop("enough")

    layer = nn.Linear(8, 3)
    data = ArrayDataset(X, Y, batch_size=16)
    model = Model(layer, nn.CrossEntropyLoss(), optim.SGD(layer.parameters(), lr=0.1))
    run = model.train(2, data if native else Batches(data), Stop())
    assert (run.step, run.epoch, run.stop_reason) == (3, 1, "enough")


def test_an_exception_is_told_to_callbacks_and_not_swallowed():
    told = []

    class Fails(Callback):
        every = 2

        def on_train_step_end(self, _run):
            raise KeyError("mine")

        def on_exception(self, run, error):
            told.append((run.step, error))

    layer = nn.Linear(8, 3)
    model = Model(layer, nn.CrossEntropyLoss(), optim.SGD(layer.parameters(), lr=0.1))
    with pytest.raises(KeyError, match="mine") as raised:
        model.train(2, ArrayDataset(X, Y, batch_size=16), Fails())
    assert told == [(2, raised.value)]


def test_double_data_are_rounded_for_a_network_in_single_precision():
    layer = nn.Linear(8, 3)
    model = Model(layer, nn.CrossEntropyLoss(), optim.SGD(layer.parameters(), lr=0.1))
    run = model.train(1, ArrayDataset(X.astype(np.float64), Y, batch_size=35))
    assert run.losses.dtype == np.float32
    assert model.predict(X.astype(np.float64)).dtype == np.dtype(np.float32)


def test_batches_are_tuples_or_dicts():
    layer = linear()
    model = Model(layer, nn.MSELoss(reduction="sum"), optim.SGD(layer.parameters(), lr=0.01))
    assert model.train(1, [{"x": SMALL_X, "y": SMALL_Y}]).loss == 200.0


class Empty:
    def __iter__(self):
        return iter(())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda m: m.train(1, Empty()),
            InvalidValueError,
            "Model.train: the dataset must have at least one batch, got none; check its filters, and that drop_last "
            "does not remove an incomplete only one",
        ),
        (
            lambda m: m.train(2, iter([(SMALL_X, SMALL_Y)])),
            TypeRuleError,
            "a dataset for several epochs must begin anew with each iter(), got a list_iterator, an iterator; pass an "
            "object whose __iter__ makes one",
        ),
        (lambda m: m.train(0, []), InvalidValueError, "Model: epochs must be an integer of at least 1, got 0"),
        (
            lambda m: m.train(1, 3),
            TypeRuleError,
            "Model: train_dataset must be an iterable of batches, got an int; pass a DataLoader, an ArrayDataset or a "
            "list of batches",
        ),
        (
            lambda m: m.train(1, [], [print]),
            TypeRuleError,
            "Model: callbacks must be Callback objects, got a builtin_function_or_method; derive its class "
            "from Callback",
        ),
        (
            lambda m: Model(m.network).train(1, []),
            InvalidValueError,
            "Model: a model is trained with an optimizer, got none; pass optimizer=...",
        ),
        (
            lambda _: Model(abs),
            TypeRuleError,
            "Model takes an nn.Module, got a builtin_function_or_method; derive its class",
        ),
        (
            lambda m: Model(m.network, None, m.optimizer).train(1, [(SMALL_X,)]),
            TypeRuleError,
            "TrainOneStep: the network must return its loss, a tensor with one element, got shape (4, 1); pass a loss "
            "function, or reduce its result with mean() or sum()",
        ),
        (
            lambda m: TrainOneStep(m.network, m.optimizer, 0.0),
            InvalidValueError,
            "TrainOneStep: sens must be a finite number other than 0, got 0.0",
        ),
        (
            lambda m: TrainOneStep(m.network, optim.SGD(0.1)),
            TypeRuleError,
            "TrainOneStep takes an optimizer that is bound to parameters, got a SGD; write "
            "optim.SGD(network.parameters(), lr=...)",
        ),
    ],
)
def test_what_cannot_be_trained_is_refused(call, error, message):
    layer = linear()
    model = Model(layer, nn.MSELoss(), optim.SGD(layer.parameters(), lr=0.01))
    with pytest.raises(error) as raised:
        call(model)
    assert raised.value.message.startswith(message)
