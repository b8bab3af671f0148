"""The gradient scaler: scaled losses, steps left out, growth and backoff, state, refusals."""

import numpy as np
import pytest

from adjoint.errors import InvalidValueError
from adjoint.optim import SGD, GradScaler
from adjoint.tensor.explain import explain_recompiles
from adjoint.tensor.tensor import from_array

SETTINGS = {"init_scale": 8.0, "growth_factor": 4.0, "backoff_factor": 0.5, "growth_interval": 2}


def leaf(value=1.0):
    return from_array(np.array(value, np.float32), requires_grad=True)


def test_a_loop_steps_with_the_true_gradient_and_leaves_out_what_overflows():
    """loss = w * factor, so the gradient is the factor; one that is infinite is left out and halves the scale."""
    w = leaf()
    optimizer, scaler = SGD([w], lr=1.0, momentum=0.5), GradScaler(**SETTINGS)
    path, scales, compiled = [], [], []
    for factor in (0.25, np.inf, 0.25, 0.25, 0.25):
        optimizer.zero_grad()
        scaler.scale(w * from_array(np.array(factor, np.float32))).backward()
        scaler.step(optimizer)
        scaler.update()
        path.append(float(w.numpy(force=True)))
        scales.append(scaler.get_scale())
        compiled.append(len(explain_recompiles()))
    assert path == [0.75, 0.75, 0.375, -0.0625, -0.53125]
    assert scales == [8.0, 4.0, 4.0, 16.0, 16.0]
    assert compiled[1] == compiled[-1]


def test_the_scale_grows_after_clean_steps_and_halves_after_each_overflow():
    """Growth counts the clean steps since the last change; the step and the scale are one compiled program."""
    w = leaf()
    scaler = GradScaler(init_scale=4096.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=3)
    optimizer, path, scales = SGD([w], lr=0.5), [], []
    for overflow in (0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0):
        optimizer.zero_grad()
        scaler.scale(w * from_array(np.array(np.inf if overflow else 0.25, np.float32))).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        path.append(float(w.numpy(force=True)))
    assert scales == [4096, 4096, 8192, 8192, 4096, 4096, 4096, 8192, 4096, 2048, 2048]
    np.testing.assert_array_equal(np.diff(path, prepend=1.0), -0.125 * np.array([1, 1, 1, 1, 0, 1, 1, 1, 0, 0, 1]))


def test_gradients_can_be_changed_between_unscale_and_step():
    w = leaf()
    optimizer, scaler = SGD([w], lr=1.0), GradScaler(**SETTINGS)
    (loss,) = scaler.scale([w * 3.0])
    loss.backward()
    scaler.unscale_(optimizer)
    assert float(w.grad.numpy()) == 3.0
    w.grad = w.grad * 0.5
    scaler.step(optimizer)
    scaler.update(2.0)
    assert float(w.numpy(force=True)) == -0.5
    assert scaler.get_scale() == 2.0


def test_half_gradients_are_unscaled_in_single_precision():
    """The scale is too large for an f16, and its inverse too small, but the gradient is neither."""
    h = from_array(np.array(1.0, np.float16), requires_grad=True)
    scaler = GradScaler(init_scale=2.0**26)
    h.grad = from_array(np.array(2.0**15, np.float16))
    scaler.unscale_(SGD([h]))
    assert float(h.grad.numpy()) == 2.0**-11


def test_one_optimizer_that_overflows_does_not_stop_the_other():
    v, w = leaf(), leaf()
    first, second, scaler = SGD([v], lr=1.0), SGD([w], lr=1.0), GradScaler(**SETTINGS)
    v.grad, w.grad = from_array(np.float32(np.nan)), from_array(np.float32(8.0))
    scaler.step(first)
    scaler.step(second)
    scaler.update()
    assert (float(v.numpy(force=True)), float(w.numpy(force=True)), scaler.get_scale()) == (1.0, 0.0, 4.0)


def test_the_state_is_numbers_and_continues():
    scaler = GradScaler(**SETTINGS)
    other = GradScaler()
    other.load_state_dict({**scaler.state_dict(), "_growth_tracker": 1})
    assert other.state_dict() == {
        "scale": 8.0,
        "growth_factor": 4.0,
        "backoff_factor": 0.5,
        "growth_interval": 2,
        "_growth_tracker": 1,
    }


def test_a_scaler_that_is_not_enabled_changes_nothing():
    w = leaf()
    optimizer, scaler = SGD([w], lr=1.0), GradScaler(enabled=False)
    w.grad = from_array(np.float32(0.5))
    assert scaler.scale(w) is w
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    scaler.load_state_dict(scaler.state_dict())
    assert (float(w.numpy(force=True)), scaler.get_scale(), scaler.is_enabled()) == (0.5, 1.0, False)


def called(*names):
    w = leaf()
    optimizer, scaler = SGD([w]), GradScaler()
    w.grad = from_array(np.float32(1.0))
    for name in names:
        getattr(scaler, name)(*([optimizer] if name != "update" else []))


WRONG = {
    "growth": (
        lambda: GradScaler(growth_factor=1.0),
        "GradScaler: growth_factor must be above 1, got 1.0",
    ),
    "backoff": (
        lambda: GradScaler(backoff_factor=1.0),
        "GradScaler: backoff_factor must be below 1, got 1.0",
    ),
    "update first": (
        lambda: called("update"),
        "GradScaler: update() needs gradients, got none since the last update(); call step(optimizer) first",
    ),
    "two steps": (
        lambda: called("step", "step"),
        "GradScaler: an optimizer can step once between updates, got step() again; call update() after each step",
    ),
    "unscaled twice": (
        lambda: called("unscale_", "unscale_"),
        "GradScaler: the gradients of an optimizer can be unscaled once between updates, got unscale_() after "
        "unscale_(); call update() after each step",
    ),
    "unscaled after the step": (
        lambda: called("step", "unscale_"),
        "GradScaler: the gradients of an optimizer can be unscaled once between updates, got unscale_() after step(); "
        "call update() after each step",
    ),
    "no gradients": (
        lambda: GradScaler().step(SGD([leaf()])),
        "GradScaler: the optimizer's parameters must have gradients, got none; call scaler.scale(loss).backward() "
        "first",
    ),
    "an empty state": (
        lambda: GradScaler().load_state_dict({}),
        "GradScaler: the state must have a scale, got an empty one, of a scaler that was not enabled; create the "
        "scaler with enabled=False",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_uses_are_refused_in_one_sentence(case):
    make, expected = WRONG[case]
    with pytest.raises(InvalidValueError) as caught:
        make()
    assert caught.value.message == expected
