"""Optimizers and learning rates; the numbers are those of MindSpore 2.10 on the CPU for the same calls."""

import numpy as np
import pytest

import adjoint.compat.mindspore as ms
from adjoint.compat.mindspore import Parameter, Tensor, nn
from adjoint.errors import InvalidValueError, TypeRuleError

GRADIENTS = [[0.1, -0.2, 0.3], [0.3, 0.1, -0.5], [-0.2, 0.2, 0.1]]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda p: nn.Momentum(p, 0.1, 0.9, weight_decay=0.1), [0.408768505, -0.929836988, 1.893095016]),
        (lambda p: nn.SGD(p, 0.1, 0.9, dampening=0.1, weight_decay=0.1), [0.413795292, -0.928723574, 1.890262961]),
        (lambda p: nn.Adam(p, 0.1, eps=1e-2, weight_decay=0.1), [0.391944557, -0.906158745, 1.899104118]),
        (lambda p: nn.AdamWeightDecay(p, 0.1, eps=1e-2, weight_decay=0.1), [0.148452058, -0.86952132, 1.907070637]),
        (lambda p: nn.RMSProp(p, 0.1, epsilon=1e-2, momentum=0.5), [0.455332845, -1.003046989, 2.01503849]),
        (lambda p: nn.RMSProp(p, 0.1, epsilon=1e-2, centered=True), [0.47962901, -1.013229132, 2.011442661]),
        (nn.Adagrad, [0.499435931, -1.000182509, 1.999916553]),
        (nn.Adadelta, [0.495969683, -1.002309561, 1.999671936]),
        (lambda p: nn.AdaMax(p, 0.1), [0.312987208, -0.902542531, 1.932115078]),
        (lambda p: nn.SGD(p, [0.1, 0.01, 0.001]), [0.487200022, -0.98119998, 1.974900007]),
        (lambda p: nn.SGD(p, nn.ExponentialDecayLR(0.1, 0.5, 1)), [0.480000019, -0.99000001, 1.992499948]),
    ],
)
def test_three_updates_are_those_of_mindspore(make, expected):
    weight = Parameter(Tensor(np.array([0.5, -1.0, 2.0], np.float32)), name="w")
    optimizer = make([weight])
    for gradient in GRADIENTS:
        assert optimizer((Tensor(gradient),))
    np.testing.assert_allclose(weight.asnumpy(), expected, rtol=3e-6)


def test_a_loss_scale_divides_gradients():
    weight = Parameter(Tensor([1.0]), name="w")
    nn.Momentum([weight], 0.1, 0.9, loss_scale=4.0)((Tensor([2.0]),))
    assert weight.item() == pytest.approx(1 - 0.1 * 2 / 4)


def test_beta_and_gamma_do_not_decay_unless_groups_say_so():
    zero = (Tensor([0.0]), Tensor([0.0]))

    def made():
        return [Parameter(Tensor([1.0]), name="norm.gamma"), Parameter(Tensor([1.0]), name="fc.weight")]

    plain = made()
    optimizer = nn.SGD(plain, 0.1, weight_decay=0.5)
    optimizer(zero)
    assert [p.item() for p in plain] == pytest.approx([1.0, 0.95])
    assert list(optimizer.parameters) == plain
    grouped = made()
    groups = [{"params": [grouped[0]], "weight_decay": 0.5, "lr": 0.2}, {"params": [grouped[1]]}]
    nn.SGD([*groups, {"order_params": grouped}], 0.1)(zero)
    assert [p.item() for p in grouped] == pytest.approx([0.9, 1.0])


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (nn.cosine_decay_lr(0.01, 0.1, 6, 2, 2), [0.1, 0.1, 0.055, 0.055, 0.01, 0.01]),
        (nn.piecewise_constant_lr([2, 4], [0.1, 0.01]), [0.1, 0.1, 0.01, 0.01]),
        (nn.warmup_lr(0.1, 6, 2, 2), [0.0, 0.0, 0.05, 0.05, 0.1, 0.1]),
        (nn.polynomial_decay_lr(0.1, 0.01, 6, 2, 2, 0.5), [0.1, 0.1, 0.07363961, 0.07363961, 0.01, 0.01]),
        (nn.natural_exp_decay_lr(0.1, 0.9, 4, 2, 2, True), [0.1] * 4),
        (nn.inverse_decay_lr(0.1, 0.5, 4, 2, 1), [0.1, 0.1, 0.06666667, 0.06666667]),
        (nn.exponential_decay_lr(0.1, 0.9, 6, 2, 1), [0.1, 0.1, 0.09, 0.09, 0.081, 0.081]),
        ([nn.PolynomialDecayLR(0.1, 0.01, 4, 0.5)(Tensor(2)).item()], [0.07363961]),
        ([nn.CosineDecayLR(0.01, 0.1, 4)(Tensor(2)).item()], [0.055]),
        ([nn.WarmUpLR(0.1, 4)(Tensor(2)).item()], [0.05]),
        ([nn.InverseDecayLR(0.1, 0.9, 4, True)(Tensor(2)).item()], [0.1]),
        ([nn.NaturalExpDecayLR(0.1, 0.9, 4)(Tensor(2)).item()], [0.01652989]),
    ],
)
def test_learning_rates_are_those_of_mindspore(found, expected):
    assert found == pytest.approx(expected, rel=1e-6)


def test_refusals_of_optimizers():
    weight = Parameter(Tensor([1.0]), name="w")
    with pytest.raises(InvalidValueError, match=r"^SGD: there must be a gradient for each of 1 parameters, got 0"):
        nn.SGD([weight])(())
    with pytest.raises(TypeRuleError, match=r"^SGD: learning_rate must be a number, a list of numbers or a Learning"):
        nn.SGD([weight], None)
    with pytest.raises(AttributeError, match=r"^mindspore\.nn\.FTRL is not covered; look for it in adjoint\.nn"):
        _ = ms.nn.FTRL
