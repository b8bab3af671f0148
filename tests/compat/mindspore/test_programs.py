"""Programs of MindSpore's documents, of which only the imports are changed."""

import re

import numpy as np
import pytest

import adjoint.compat.mindspore as ms
import adjoint.compat.mindspore.dataset as ds
from adjoint.compat.mindspore import Model, Parameter, ParameterTuple, Tensor, context, nn, ops
from adjoint.compat.mindspore.common.initializer import Normal
from adjoint.compat.mindspore.nn import Accuracy
from adjoint.compat.mindspore.ops import operations as P
from adjoint.compat.mindspore.train.callback import CheckpointConfig, LossMonitor, ModelCheckpoint, TimeMonitor
from adjoint.errors import InvalidValueError, TypeRuleError


@pytest.fixture(autouse=True)
def pynative():
    ms.set_seed(1)
    yield
    context.set_context(mode=ms.PYNATIVE_MODE)


class LeNet5(nn.Cell):
    def __init__(self, num_class=10, num_channel=1):
        super().__init__()
        self.conv1 = nn.Conv2d(num_channel, 6, 5, pad_mode="valid", weight_init=Normal(0.02))
        self.conv2 = nn.Conv2d(6, 16, 5, pad_mode="valid")
        self.fc1 = nn.Dense(16 * 5 * 5, 120, weight_init=Normal(0.02))
        self.fc2 = nn.Dense(120, 84)
        self.fc3 = nn.Dense(84, num_class)
        self.relu = nn.ReLU()
        self.max_pool2d = nn.MaxPool2d(kernel_size=2, stride=2)
        self.flatten = nn.Flatten()

    def construct(self, x):
        x = self.max_pool2d(self.relu(self.conv1(x)))
        x = self.max_pool2d(self.relu(self.conv2(x)))
        x = self.flatten(x)
        x = self.relu(self.fc1(x))
        x = self.relu(self.fc2(x))
        return self.fc3(x)


def digits(rows=32):
    """Images of 4 classes, each of which has light in another quarter."""
    rng = np.random.default_rng(0)
    labels = np.arange(rows, dtype=np.int32) % 4
    images = rng.normal(0, 0.1, (rows, 1, 32, 32)).astype(np.float32)
    for image, label in zip(images, labels, strict=True):
        y, x = divmod(int(label), 2)
        image[0, 16 * y : 16 * y + 16, 16 * x : 16 * x + 16] += 1
    return ds.NumpySlicesDataset((images, labels), column_names=["image", "label"]).batch(8, drop_remainder=True)


def test_lenet_is_trained_evaluated_saved_and_loaded(tmp_path, capsys):
    context.set_context(mode=context.GRAPH_MODE, device_target="CPU")
    train = digits()
    network = LeNet5(4)
    net_loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    net_opt = nn.Momentum(network.trainable_params(), 0.05, 0.9)
    config = CheckpointConfig(save_checkpoint_steps=train.get_dataset_size(), keep_checkpoint_max=3)
    saved = ModelCheckpoint(prefix="lenet", directory=str(tmp_path), config=config)
    model = Model(network, net_loss, net_opt, metrics={"Accuracy": Accuracy()})
    monitors = [TimeMonitor(data_size=train.get_dataset_size()), saved, LossMonitor(per_print_times=4)]
    model.train(8, train, callbacks=monitors, dataset_sink_mode=True)
    printed = capsys.readouterr().out
    assert re.search(r"epoch: 8 step: 4, loss is \d", printed)
    assert "per step time" in printed
    assert model.eval(train, dataset_sink_mode=False) == {"Accuracy": 1.0}

    assert sorted(file.stem for file in tmp_path.glob("*.safetensors")) == ["lenet-6_4", "lenet-7_4", "lenet-8_4"]
    parameters = ms.load_checkpoint(str(tmp_path / "lenet-8_4.ckpt"))
    assert sorted(parameters)[:3] == ["conv1.weight", "conv2.weight", "fc1.bias"]
    other = LeNet5(4)
    assert ms.load_param_into_net(other, parameters) == ([], [])
    x = Tensor(np.ones((2, 1, 32, 32)), ms.float32)
    np.testing.assert_array_equal(other(x).asnumpy(), network(x).asnumpy())

    ms.save_checkpoint(network, str(tmp_path / "own"))
    again = ms.load_checkpoint(str(tmp_path / "own.ckpt"))
    assert list(again) == [parameter.name for parameter in network.trainable_params()]
    assert ms.load_param_into_net(network, {"else": again["fc1.bias"]})[1] == ["else"]
    with pytest.raises(
        InvalidValueError, match=r"^load_param_into_net: fc1\.bias must have shape \(120,\), got \(84,\)"
    ):
        ms.load_param_into_net(network, {"fc1.bias": again["fc2.bias"]})


class Line(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(2, 1, weight_init="ones", bias_init="zeros")

    def construct(self, x):
        return self.fc(x)


X = np.array([[1, 2], [3, 4], [5, 7], [0, 1]], np.float32)
Y = np.array([[1], [0], [2], [3]], np.float32)


def mean_square(w, b):
    """The loss of `Line` and its gradients, by their formulas."""
    error = X @ w.T + b - Y
    return (error**2).mean(), 2 * error.T @ X / 4, 2 * error.mean(0)


class ClippedTrainStep(nn.TrainOneStepCell):
    def __init__(self, network, optimizer, sens=1.0):
        super().__init__(network, optimizer, sens)
        self.hyper_map = ops.HyperMap()

    def construct(self, *inputs):
        weights = self.weights
        loss = self.network(*inputs)
        sens = ops.fill(loss.dtype, loss.shape, self.sens)
        grads = self.grad(self.network, weights)(*inputs, sens)
        grads = self.grad_reducer(grads)
        grads = ops.clip_by_global_norm(grads, 0.5)
        return ops.depend(loss, self.optimizer(grads))


class OwnTrainStep(nn.Cell):
    def __init__(self, network, optimizer, sens=1.0):
        super().__init__(auto_prefix=False)
        self.network = network
        self.network.set_grad()
        self.optimizer = optimizer
        self.weights = self.optimizer.parameters
        self.grad = ops.GradOperation(get_by_list=True, sens_param=True)
        self.sens = sens

    def construct(self, *inputs):
        loss = self.network(*inputs)
        sens = ops.fill(loss.dtype, loss.shape, self.sens)
        grads = self.grad(self.network, self.weights)(*inputs, sens)
        return ops.depend(loss, self.optimizer(grads))


@pytest.mark.parametrize("step", [ClippedTrainStep, OwnTrainStep])
def test_a_training_step_of_ones_own_is_called_and_trained(step):
    context.set_context(mode=ms.GRAPH_MODE)
    net = Line()
    cell = step(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), learning_rate=0.1)).set_train()
    w, b = np.ones((1, 2), np.float32), np.zeros(1, np.float32)
    losses = []
    for _ in range(2):
        loss, dw, db = mean_square(w, b)
        losses.append(loss)
        norm = np.sqrt((dw**2).sum() + (db**2).sum())
        factor = 0.5 / max(norm, 0.5) if step is ClippedTrainStep else 1.0
        w, b = w - 0.1 * factor * dw, b - 0.1 * factor * db
    assert [cell(Tensor(X), Tensor(Y)).item() for _ in range(2)] == pytest.approx(losses, rel=1e-5)
    np.testing.assert_allclose(net.fc.weight.asnumpy(), w, rtol=1e-5)
    data = ds.NumpySlicesDataset((X, Y), ["x", "y"], shuffle=False).batch(4)
    run = Model(cell).train(1, data)
    assert run.loss == pytest.approx(mean_square(w, b)[0], rel=1e-5)


def test_gradient_operations_of_inputs_and_weights():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.z = Parameter(Tensor(np.array([2.0], np.float32)), name="z")
            self.matmul = P.MatMul()

        def construct(self, x, y):
            return self.matmul(x * self.z, y)

    x = Tensor([[0.5, 0.6, 0.4], [1.2, 1.3, 1.1]], dtype=ms.float32)
    y = Tensor([[0.01, 0.3, 1.1], [0.1, 0.2, 1.3], [2.1, 1.2, 3.3]], dtype=ms.float32)
    net = Net()
    ones = np.ones((2, 3), np.float32)
    dx, dy = 2 * ones @ y.asnumpy().T, 2 * x.asnumpy().T @ ones
    np.testing.assert_allclose(ops.GradOperation()(net)(x, y).asnumpy(), dx, rtol=1e-5)
    both = ops.GradOperation(get_all=True)(net)(x, y)
    np.testing.assert_allclose(both[1].asnumpy(), dy, rtol=1e-5)
    weights = ParameterTuple(net.trainable_params())
    (of_x, of_y), (of_z,) = ops.GradOperation(get_all=True, get_by_list=True)(net, weights)(x, y)
    # 29.11 and the gradients above are what MindSpore's documents print for these tensors, times 2 for z.
    assert of_z.item() == pytest.approx((x.asnumpy() @ y.asnumpy()).sum(), rel=1e-5)
    np.testing.assert_allclose(of_x.asnumpy(), dx, rtol=1e-5)
    np.testing.assert_allclose(of_y.asnumpy(), dy, rtol=1e-5)
    sens = Tensor([[0.1, 0.6, 0.2], [0.8, 1.3, 1.1]], dtype=ms.float32)
    seeded = ops.GradOperation(sens_param=True)(net)(x, y, sens)
    np.testing.assert_allclose(seeded.asnumpy(), 2 * sens.asnumpy() @ y.asnumpy().T, rtol=1e-5)


def test_gradients_of_the_functional_tutorial():
    x, y = ops.ones(5, dtype=ms.float32), ops.zeros(3, dtype=ms.float32)
    w = Parameter(Tensor(np.arange(15).reshape(5, 3) / 10, ms.float32), name="w")
    b = Parameter(Tensor(np.array([0.1, 0.2, -3.0]), ms.float32), name="b")

    def function_with_logits(x, y, w, b):
        z = ops.matmul(x, w) + b
        return ops.binary_cross_entropy_with_logits(z, y, ops.ones_like(z), ops.ones_like(z)), z

    def function_stop_gradient(x, y, w, b):
        loss, z = function_with_logits(x, y, w, b)
        return loss, ops.stop_gradient(z)

    logits = w.asnumpy().sum(0) + b.asnumpy()
    expected = 1 / (1 + np.exp(-logits)) / 3
    loss, z = function_with_logits(x, y, w, b)
    assert loss.item() == pytest.approx(np.log1p(np.exp(logits)).mean(), rel=1e-5)
    grads = ms.grad(function_with_logits, (2, 3))(x, y, w, b)
    np.testing.assert_allclose(grads[1].asnumpy(), expected + 1, rtol=1e-5)
    grads = ms.grad(function_stop_gradient, (2, 3))(x, y, w, b)
    np.testing.assert_allclose(grads[1].asnumpy(), expected, rtol=1e-5)
    grads, aux = ms.grad(function_with_logits, (2, 3), has_aux=True)(x, y, w, b)
    np.testing.assert_array_equal(aux.asnumpy(), z.asnumpy())
    np.testing.assert_allclose(grads[0].asnumpy(), np.tile(expected, (5, 1)), rtol=1e-5)
    with pytest.raises(TypeRuleError, match=r"^grad: return_ids is not covered, got True; zip the gradients"):
        ms.grad(function_with_logits, return_ids=True)


def test_a_train_step_with_value_and_grad():
    net = Line()
    loss_fn = nn.MSELoss()
    optimizer = nn.SGD(net.trainable_params(), learning_rate=0.01)

    def forward_fn(data, label):
        logits = net(data)
        loss = loss_fn(logits, label)
        return loss, logits

    grad_fn = ms.value_and_grad(forward_fn, None, optimizer.parameters, has_aux=True)

    @ms.jit
    def train_step(data, label):
        (loss, _), grads = grad_fn(data, label)
        return ops.depend(loss, optimizer(grads))

    net.set_train()
    data = ds.GeneratorDataset(list(zip(X, Y, strict=True)), column_names=["data", "label"], shuffle=False).batch(4)
    w, b = np.ones((1, 2), np.float32), np.zeros(1, np.float32)
    for _ in range(3):
        for batch, (inputs, targets) in enumerate(data.create_tuple_iterator()):
            expected, dw, db = mean_square(w, b)
            w, b = w - 0.01 * dw, b - 0.01 * db
            assert batch == 0
            assert train_step(inputs, targets).asnumpy() == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(net.fc.bias.asnumpy(), b, rtol=1e-5)
    for columns in data.create_dict_iterator(num_epochs=1):
        assert isinstance(columns["data"], ms.Tensor)
        assert columns["label"].shape == (4, 1)
