"""The peer of adjoint trains what the workloads say: held to loops in float64 NumPy."""

from math import erf, sqrt
from pathlib import Path

import numpy as np
import pytest

from adjoint import Function, compile, ops, param
from benchmarks import worker, workloads
from benchmarks.workloads import Workload

PEERS = Path(workloads.__file__).parent / "peers"


@pytest.fixture(scope="module")
def peer():
    return worker.load_peer(PEERS / "adjoint.py")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ADJOINT_CACHE", str(tmp_path))


def loss_and_grads(w, p, x, y):
    """Loss and gradients of linear layers with relu between them, in the dtype of the parameters."""
    count = sum(name.startswith("w") for name in p)
    inputs = [x.astype(np.float64)]
    for i in range(count):
        z = inputs[-1] @ p[f"w{i}"] + p.get(f"b{i}", 0.0)
        inputs.append(np.maximum(z, 0) if i < count - 1 else z)
    out, rows = inputs[-1], np.arange(len(x))
    if w.loss.startswith("ce"):
        log_p = out - out.max(1, keepdims=True)
        log_p -= np.log(np.exp(log_p).sum(1, keepdims=True))
        loss, ct, terms = -log_p[rows, y].sum(), np.exp(log_p), len(x)
        ct[rows, y] -= 1
    else:
        loss, ct, terms = ((out - y) ** 2).sum(), 2 * (out - y), out.size
    if w.loss.endswith("mean"):
        loss, ct = loss / terms, ct / terms
    grads = {}
    for i in reversed(range(count)):
        grads[f"w{i}"], grads[f"b{i}"] = inputs[i].T @ ct, ct.sum(0)
        ct = (ct @ p[f"w{i}"].T) * (inputs[i] > 0)
    return loss, grads


def updated(settings, kept, t, name, p, g):
    """One parameter after update number `t`: the formulas of torch.optim's documentation."""
    decay = settings.get("wd", 0.0)
    if settings["kind"] != "adamw":
        g = g + decay * p
    if settings["kind"] == "sgd":
        kept[name] = settings.get("momentum", 0.0) * kept.get(name, 0.0) + g
        return p - settings["lr"] * kept[name]
    (beta1, beta2), (m, v) = settings["betas"], kept.get(name, (0.0, 0.0))
    kept[name] = m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    if settings["kind"] == "adamw":
        p = p - settings["lr"] * decay * p
    return p - settings["lr"] * m / (1 - beta1**t) / (np.sqrt(v / (1 - beta2**t)) + settings["eps"])


def numpy_training(w, steps):
    """Losses of the steps, and the parameters after them."""
    p, kept, losses = {name: a.astype(np.float64) for name, a in w.params.items()}, {}, []
    for t in range(1, steps + 1):
        loss, grads = loss_and_grads(w, p, *w.batches[(t - 1) % len(w.batches)])
        p = {name: updated(w.opt, kept, t, name, a, grads[name]) for name, a in p.items()}
        losses.append(loss)
    return losses, p


def numpy_losses(w, steps):
    return numpy_training(w, steps)[0]


def adjoint_losses(peer, w, steps):
    step, read = peer.build(w, peer.MODES[0], 1)
    pairs = (w.batches[i % len(w.batches)] for i in range(steps))
    return [read(step(x, y.astype(peer.INT) if y.dtype.kind == "i" else y)) for x, y in pairs]


@pytest.mark.parametrize("name", ["mlp", "linreg"])
def test_losses_of_a_workload_are_those_of_numpy(peer, name):
    w = workloads.make(name)
    losses = adjoint_losses(peer, w, 5)
    assert all(isinstance(loss, float) for loss in losses)
    np.testing.assert_allclose(losses, numpy_losses(w, 5), rtol=1e-5)


BETAS = {"betas": (0.9, 0.99), "eps": 1e-8}


@pytest.mark.parametrize(
    ("loss", "settings"),
    [
        ("ce_mean", {"kind": "sgd", "lr": 0.1, "momentum": 0.9, "wd": 0.01}),
        ("mse_mean", {"kind": "adam", "lr": 0.01, "wd": 0.1, **BETAS}),
        ("ce_sum", {"kind": "adamw", "lr": 0.01, "wd": 0.1, **BETAS}),
        ("mse_sum", {"kind": "adam", "lr": 0.01, **BETAS}),
    ],
)
def test_losses_and_optimizers_of_other_workloads_are_those_of_numpy(peer, loss, settings):
    rng = np.random.default_rng(3)
    params = {"w0": rng.standard_normal((5, 7)), "b0": rng.standard_normal(7), "w1": rng.standard_normal((7, 3))}
    params = {name: array.astype(np.float32) for name, array in params.items()}
    y = rng.integers(0, 3, 6).astype(np.int32) if loss.startswith("ce") else rng.standard_normal((6, 3)).astype("f4")
    w = Workload("small", params, {}, [(rng.standard_normal((6, 5)).astype("f4"), y)], workloads.mlp().forward, loss,
                 settings, 0)  # fmt: skip
    np.testing.assert_allclose(adjoint_losses(peer, w, 5), numpy_losses(w, 5), rtol=1e-5)


def test_operators_do_what_workloads_says(peer):
    rng = np.random.default_rng(4)
    types = {"x": (2, 3, 6), "table": (5, 6), "g": (6,), "image": (2, 3, 2, 2)}
    x, table, g, image = (rng.standard_normal(shape).astype(np.float32) for shape in types.values())
    ids = np.array([[4, 0, 1], [2, 2, 3]])
    given = {name: param(name, shape) for name, shape in types.items()}
    weights = {"n.g": param("scale", (3,)), "n.b": param("shift", (3,))}
    o = peer.Ops(weights, {"n.mean": param("mean", (3,)), "n.var": param("var", (3,))})
    index = param("ids", ids.shape, "i64")
    built = (
        o.gelu(given["x"]), o.add(given["x"], given["g"]), o.reshape(given["x"], (6, 6)),
        o.transpose(given["x"], (2, 0, 1)), o.avgpool(given["image"]), o.flatten(given["image"]),
        o.embed(given["table"], index), o.pos(given["table"], index), o.layernorm(given["x"], given["g"]),
        *o.split3(given["x"]), o.head(given["x"], given["table"]),
    )  # fmt: skip
    copied = tuple(ops.add(value, 0.0) for value in built)
    found = compile(Function("all", (*given.values(), index), copied))(x, table, g, image, ids)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(-1, keepdims=True)
    expected = (
        wide * (1 + np.vectorize(erf)(wide / sqrt(2))) / 2, x + g, x.reshape(6, 6),
        x.transpose(2, 0, 1), image.mean((2, 3)), image.reshape(2, 12),
        table[ids], table, centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * g,
        x[..., :2], x[..., 2:4], x[..., 4:], wide @ table.T,
    )  # fmt: skip
    assert len(found) == len(expected)
    for got, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_labels_out_of_range_are_refused_and_nothing_is_trained(peer):
    w = workloads.make("mlp")
    step, _ = peer.build(w, "step", 1)
    x, y = w.batches[0][0], w.batches[0][1].astype(np.int64)
    bad = y.copy()
    bad[3] = 10
    with pytest.raises(ValueError, match="10"):
        step(x, bad)
    np.testing.assert_allclose(step(x, y), numpy_losses(w, 1)[0], rtol=1e-5)
