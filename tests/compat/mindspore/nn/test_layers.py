"""Layers, activations, losses and cells; the numbers are those of MindSpore 2.10 on the CPU for the same calls."""

import numpy as np
import pytest

import adjoint.compat.mindspore as ms
from adjoint.compat.mindspore import Parameter, Tensor, nn
from adjoint.compat.mindspore.common.initializer import TruncatedNormal, XavierUniform, initializer
from adjoint.errors import InvalidValueError, NameLookupError, TypeRuleError

X = Tensor(np.arange(96).reshape(2, 3, 4, 4).astype(np.float32) / 10)
LOGITS = Tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]])


def test_convolutions_and_pools_fill_up_with_same():
    convolution = nn.Conv2d(3, 1, 3, stride=2, weight_init="ones")
    assert convolution.bias is None
    np.testing.assert_allclose(convolution(X).asnumpy()[0, 0], [[56.7, 40.5], [48.6, 34.2]], rtol=1e-6)
    largest = nn.MaxPool2d(3, 2, pad_mode="same")(X)
    np.testing.assert_allclose(largest.asnumpy()[0, 0], [[1.0, 1.1], [1.4, 1.5]], rtol=1e-6)
    means = nn.AvgPool2d(3, 2, pad_mode="same")(X)
    np.testing.assert_allclose(means.asnumpy()[0, 0], [[0.5, 0.65], [1.1, 1.25]], rtol=1e-6)
    assert nn.MaxPool2d(2)(X).shape == (2, 3, 3, 3)
    transposed = nn.Conv2dTranspose(3, 1, 3, stride=2, weight_init="ones")(X)
    assert transposed.shape == (2, 1, 8, 8)
    first = [4.8, 4.8, 9.9, 5.1, 10.5, 5.4, 11.1, 5.7]
    np.testing.assert_allclose(transposed.asnumpy()[0, 0, 0], first, rtol=1e-6)


def test_normalizations_have_mindspores_momentum_and_epsilon():
    norm = nn.BatchNorm2d(3)
    norm.set_train()
    assert norm(X).asnumpy().ravel()[0] == pytest.approx(-1.2889383, rel=1e-5)
    np.testing.assert_allclose(norm.moving_mean.asnumpy(), [0.315, 0.475, 0.635], rtol=1e-6)
    np.testing.assert_allclose(norm.moving_variance.asnumpy(), [1.516516] * 3, rtol=1e-6)
    assert [p.name for p in norm.trainable_params()] == ["gamma", "beta"]
    row = nn.LayerNorm([4])(Tensor([[0, 1e-4, 2e-4, 4e-4]]))
    np.testing.assert_allclose(row.asnumpy()[0], [-0.50128037, -0.21483445, 0.07161149, 0.64450336], rtol=1e-5)


def test_dropout_keeps_or_drops_while_it_is_trained():
    x = Tensor(np.ones(2000, np.float32))
    assert (nn.Dropout(0.9)(x).asnumpy() == 1).all()
    assert 0.05 < (nn.Dropout(0.9).set_train()(x).asnumpy() == 0).mean() < 0.15
    assert 0.85 < (nn.Dropout(p=0.9).set_train()(x).asnumpy() == 0).mean() < 0.95


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (
            lambda: nn.SoftmaxCrossEntropyWithLogits(sparse=True)(LOGITS, Tensor([0, 2], ms.int32)),
            [2.4076059, 0.5514447],
        ),
        (
            lambda: nn.SoftmaxCrossEntropyWithLogits()(LOGITS, Tensor([[0, 0.5, 0.5], [1, 0, 0]])),
            [0.9076059, 1.5514448],
        ),
        (lambda: nn.SmoothL1Loss()(LOGITS, LOGITS * 2), [[0.5, 1.5, 2.5], [0, 0, 0.5]]),
        (lambda: nn.KLDivLoss()(LOGITS, ms.ops.softmax(LOGITS)), -0.8265085),
        (lambda: nn.GELU()(LOGITS), [[0.841192, 1.9545977, 2.9963627], [0, 0, 0.841192]]),
        (lambda: nn.LeakyReLU()(-LOGITS), [[-0.2, -0.4, -0.6], [0, 0, -0.2]]),
    ],
)
def test_defaults_of_losses_and_activations(made, expected):
    np.testing.assert_allclose(made().asnumpy(), expected, rtol=1e-6, atol=1e-7)


def test_cells_name_their_parameters():
    net = nn.SequentialCell(nn.Dense(2, 3, activation="relu"), nn.BatchNorm1d(3))
    names = ["0.weight", "0.bias", "1.moving_mean", "1.moving_variance", "1.gamma", "1.beta"]
    assert [(n, p.name) for n, p in net.parameters_and_names()] == [(n, n) for n in names]
    assert list(net.parameters_dict()) == names
    outer = nn.WithLossCell(nn.CellList([net]), nn.MSELoss())
    assert [p.name for p in outer.trainable_params()] == ["0.0.weight", "0.0.bias", "0.1.gamma", "0.1.beta"]
    lstm = nn.LSTM(2, 3, batch_first=True)
    assert lstm(Tensor(np.ones((1, 4, 2), np.float32)))[0].shape == (1, 4, 3)
    assert lstm.trainable_params()[0].name == "weight_ih_l0"
    cell = nn.Cell()
    cell.insert_child_to_cell("inner", nn.Embedding(4, 2))
    assert [p.name for p in cell.get_parameters()] == ["inner.embedding_table"]
    assert list(cell.name_cells()) == ["inner"]


def test_initializers_by_object_name_and_number():
    assert (initializer("ones", [2], ms.float16).asnumpy() == np.ones(2, np.float16)).all()
    assert initializer(3, (1,)).item() == 3
    assert abs(initializer(TruncatedNormal(0.5), (1000,)).asnumpy()).max() <= 1
    assert abs(initializer(XavierUniform(), (30, 70)).asnumpy()).max() <= (6 / 100) ** 0.5
    with pytest.raises(NameLookupError, match=r"^initializer: none is called 'magic'; choose one of zeros"):
        initializer("magic", (2,))


def test_refusals_of_cells():
    with pytest.raises(TypeRuleError, match=r"^Cell: a cell must define construct\(self, \.\.\.\), got none; add it"):
        nn.Cell()(X)
    with pytest.raises(InvalidValueError, match=r"^pad_mode must be 'same', 'valid' or 'pad', got 'other'"):
        nn.Conv2d(3, 1, 3, pad_mode="other")(X)
    with pytest.raises(TypeRuleError, match=r"^Cell\.to_float: the type of computations is chosen for a whole model"):
        nn.Dense(2, 2).to_float(ms.float16)
    with pytest.raises(InvalidValueError, match=r"^set_context: device_target must be 'CPU', got 'GPU'; omit it"):
        ms.set_context(device_target="GPU")
    assert Parameter(Tensor([1.0]), name="a").set_data(Tensor([2.0])).item() == 2
