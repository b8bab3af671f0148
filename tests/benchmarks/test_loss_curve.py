"""`benchmarks/loss_curve.py`: adjoint's side against float64 NumPy, and what counts as agreement."""

import numpy as np
import pytest

from benchmarks import loss_curve
from benchmarks.loss_curve import Curve
from benchmarks.workloads import Workload
from tests.benchmarks.test_peer_adjoint import numpy_training


def test_adjoint_trains_on_the_batches_and_weights_of_the_problem(tmp_path, monkeypatch):
    monkeypatch.setenv("ADJOINT_CACHE", str(tmp_path))
    steps = 5
    arrays = loss_curve.problem(steps, 3, synthetic=True)
    assert (arrays["x"].shape, arrays["x"].dtype, arrays["y"].shape) == ((steps, 64, 784), np.uint8, (steps, 64))
    found = loss_curve.train(arrays, 1)
    params = {name: arrays[name] for name in ("w0", "b0", "w1", "b1", "w2", "b2")}
    settings = {"kind": "sgd", "lr": float(arrays["rate"]), "wd": float(arrays["decay"])}
    batches = [(x.astype(np.float32) / 255, y) for x, y in zip(arrays["x"], arrays["y"], strict=True)]
    losses, trained = numpy_training(Workload("mlp", params, {}, batches, None, "ce_sum", settings, 0), steps)
    np.testing.assert_allclose(found.losses, losses, rtol=1e-5)
    out = arrays["test_x"] / 255
    for i in range(3):
        out = np.maximum(out, 0) if i else out
        out = out @ trained[f"w{i}"] + trained[f"b{i}"]
    # One image in a thousand may lie so close between two classes that rounding decides.
    assert found.accuracy == pytest.approx((out.argmax(1) == arrays["test_y"]).mean(), abs=1e-3)


def test_the_same_seed_gives_the_same_problem():
    one, two, other = (loss_curve.problem(2, seed, synthetic=True) for seed in (5, 5, 6))
    assert all(np.array_equal(one[name], two[name]) for name in one)
    assert not np.array_equal(one["w0"], other["w0"])
    assert not np.array_equal(one["x"], other["x"])


def curve(accuracy=0.8, **changes):
    losses = np.linspace(100.0, 1.0, 30)
    for name, factor in changes.items():
        losses[int(name.removeprefix("step_")) - 1] *= factor
    return Curve(losses, accuracy)


@pytest.mark.parametrize(
    ("ours", "wrong"),
    [
        (curve(), []),
        (curve(step_20=1.00009, step_30=1.05, accuracy=0.8029), []),
        (curve(step_20=1.0003), ["the losses of step 20 differ by 3.0e-04, more than 1e-04"]),
        (curve(step_20=float("nan")), ["the losses of step 20 differ by nan, more than 1e-04"]),
        (curve(accuracy=0.796), ["the accuracies differ by 0.40%, more than 0.3%"]),
    ],
)
def test_curves_agree_at_step_20_and_in_accuracy(ours, wrong):
    assert loss_curve.verdict(ours, curve())[3] == wrong


def test_the_differences_are_relative():
    early, end, accuracy, _ = loss_curve.verdict(curve(step_20=1.01, step_30=0.5, accuracy=0.7), curve())
    assert (early, end, accuracy) == pytest.approx((0.01, 0.5, 0.1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--steps", "19"], "--steps must be at least 20, got 19"), ([], "PyTorch is not installed here")],
)
def test_what_cannot_be_compared_is_refused(arguments, message, monkeypatch, capsys):
    monkeypatch.delenv("TORCH_PYTHON", raising=False)
    monkeypatch.setattr(loss_curve, "find_peers", lambda *_: {"torch": type("NoTorch", (), {"python": None})})
    with pytest.raises(SystemExit) as stopped:
        loss_curve.main(arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("accuracy", "status"), [(0.8, 0), (0.9, 1)])
def test_the_exit_status_says_whether_they_agree(accuracy, status, monkeypatch, capsys):
    monkeypatch.setattr(loss_curve, "find_peers", lambda *_: {"torch": type("Torch", (), {"python": "python"})})
    monkeypatch.setattr(loss_curve, "problem", lambda *_: {})
    monkeypatch.setattr(loss_curve, "train", lambda *_: curve(accuracy))
    monkeypatch.setattr(loss_curve, "train_torch", lambda *_: curve())
    assert loss_curve.main([]) == status
    said = capsys.readouterr().out
    assert "relative difference of the losses: 0.0e+00 at step 20" in said
    assert ("the accuracies differ" in said) == bool(status)
