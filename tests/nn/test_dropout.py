"""Dropout: rates, scales, whole channels, modes and refusals."""

import numpy as np
import pytest

import adjoint
import adjoint.nn.functional as F  # noqa: N812
from adjoint import nn
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.tensor.making import from_array


def ones(*shape):
    return from_array(np.ones(shape, np.float32))


def test_elements_and_channels_are_dropped_and_scaled():
    adjoint.manual_seed(4)
    x = from_array(np.ones((40, 50), np.float32), requires_grad=True)
    dropped = nn.Dropout(0.25)(x)
    channels = {n: getattr(nn, f"Dropout{n}d")(0.25)(ones(20, 50, *(3,) * n)) for n in (1, 2, 3)}
    changed = ones(40, 50)
    assert F.dropout(changed, 0.25, inplace=True) is changed
    nothing, everything = F.dropout(ones(3), 0.0), F.dropout(ones(3), 1.0)
    attended = F.scaled_dot_product_attention(ones(2, 3, 4), ones(2, 3, 4), ones(2, 3, 4), dropout_p=0.5)
    many = nn.MultiheadAttention(4, 2, dropout=0.5)(ones(3, 2, 4), ones(3, 2, 4), ones(3, 2, 4))[1]
    dropped.backward(ones(40, 50))
    arrays = {n: c.numpy().reshape(20 * 50, -1) for n, c in channels.items()}
    for array in (dropped.numpy(force=True), changed.numpy(), *(a[:, :1] for a in arrays.values())):
        assert set(np.unique(array)) == {0.0, np.float32(4 / 3)}
        # The share of n draws is within 5 standard deviations of the true one.
        assert abs((array == 0).mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / array.size)
    assert all((a == a[:, :1]).all() for a in arrays.values())
    np.testing.assert_array_equal(x.grad.numpy(), dropped.numpy(force=True))
    assert nothing.tolist() == [1.0] * 3
    assert everything.tolist() == [0.0] * 3
    # Equal scores: each element is a third of the number of weights that are left, which are doubled.
    assert set(np.round(attended.numpy() * 3).ravel()) <= {0.0, 2.0, 4.0, 6.0}
    assert set(np.round(many.numpy(force=True) * 3).ravel()) <= {0.0, 1.0, 2.0}  # the mean of two heads


def test_seeds_repeat_dropout_and_every_call_draws_anew():
    results = []
    for _ in range(2):
        adjoint.manual_seed(5)
        results += [F.dropout(ones(30)), F.dropout(ones(30))]
    first, second, third, fourth = (r.tolist() for r in results)
    assert (first, second) == (third, fourth)
    assert first != second


def test_prediction_drops_nothing():
    x = ones(3)
    assert nn.Dropout().eval()(x) is x
    assert F.dropout(x, training=False) is x


def test_what_dropout_refuses():
    with pytest.raises(InvalidValueError) as caught:
        nn.Dropout2d(1.5)
    assert caught.value.message == "Dropout2d: p must be from 0 to 1, got 1.5; pass a probability"
    with pytest.raises(InvalidValueError) as caught:
        F.dropout(ones(2), -0.1)
    assert caught.value.message == "dropout: p must be from 0 to 1, got -0.1; pass a probability"
    with pytest.raises(TypeRuleError) as caught:
        F.dropout2d(ones(2, 3))
    assert caught.value.message == "dropout2d: the input must have 3 or 4 axes, got the shape (2, 3); reshape it"


def test_gumbel_softmax():
    adjoint.manual_seed(3)
    logits = adjoint.tensor(np.log([0.1, 0.2, 0.7])).float().expand(4000, 3).clone().requires_grad_()
    soft = F.gumbel_softmax(logits, tau=0.5)
    hard = F.gumbel_softmax(logits, tau=0.5, hard=True)
    (hard * adjoint.tensor([1.0, 0.0, 0.0])).sum().backward()
    np.testing.assert_allclose(soft.sum(-1).detach().numpy(), 1.0, rtol=1e-5)
    chosen = hard.detach().numpy()
    assert np.array_equal(np.sort(chosen, -1), np.tile([0.0, 0.0, 1.0], (4000, 1)))
    # Five standard errors of each frequency.
    np.testing.assert_array_less(np.abs(chosen.mean(0) - [0.1, 0.2, 0.7]), 5 * np.sqrt([0.09, 0.16, 0.21]) / 4000**0.5)
    # The gradient is that of the softmax: nonzero, of both signs, and it adds up to 0 over the classes.
    assert (logits.grad[:, 0] >= 0).all()
    np.testing.assert_allclose(logits.grad.sum(-1).numpy(), 0.0, atol=1e-5)
    assert logits.grad[:, 0].sum() > 1
    with pytest.raises(InvalidValueError) as error:
        F.gumbel_softmax(logits, tau=0.0)
    assert error.value.message == "gumbel_softmax: tau must be positive, got 0.0; use 1.0"
