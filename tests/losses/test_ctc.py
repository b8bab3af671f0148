"""CTC against the sum over all alignments, enumerated one by one in f64, and against numbers from PyTorch."""

from itertools import product

import numpy as np
import pytest

import adjoint as torch
from adjoint import Function, TensorType, losses, param
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.losses import CTCLoss
from adjoint.tensor.explain import log
from adjoint.testing import interpret

T, C = 4, 3
#: Empty, one label, two labels, a repeated label that needs a blank, and one that does not fit into two steps.
TARGETS = [[], [2], [1, 2], [2, 2], [1, 1]]
STEPS = [3, 4, 4, 4, 2]

#: Numbers of PyTorch 2.13.
LOSS = 0.8684027935867801
GRADIENT = [
    0.005432222382836, -0.01032337824754, 0.004891155864703, -0.2865992943974, 0.3136797715532, -0.02708047715584,
    0.008016297479387, -0.06663033152026, 0.05861403404087, 0.007686870554365, 0.04485485999928, -0.05254173055364,
]  # fmt: skip


def probabilities(batch, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((T, batch, C))
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


def collapsed(path, blank):
    kept = [c for n, c in enumerate(path) if not n or c != path[n - 1]]
    return [c for c in kept if c != blank]


def enumerated(p, target, blank):
    """Minus the logarithm of the sum over all alignments, and its gradient with respect to the logarithms."""
    total, slopes = 0.0, np.zeros_like(p)
    for path in product(range(p.shape[1]), repeat=len(p)):
        if collapsed(path, blank) == target:
            chance = np.prod(p[np.arange(len(p)), path])
            total += chance
            slopes[np.arange(len(p)), path] -= chance
    with np.errstate(divide="ignore"):
        return -np.log(total), slopes / total if total else slopes


def padded(targets, fill=0):
    made = np.full((len(targets), 2), fill, np.int64)
    for row, target in zip(made, targets, strict=True):
        row[: len(target)] = target
    return made


def test_all_alignments_are_counted():
    blank = 2
    targets = [[(c + blank) % C for c in target] for target in TARGETS]  # classes that are not the blank
    p, lengths = probabilities(len(targets), blank), np.array([len(t) for t in targets])
    found = [enumerated(p[:steps, n], targets[n], blank) for n, steps in enumerate(STEPS)]
    expected, slopes = np.array([loss for loss, _ in found]), np.zeros_like(p)
    for n, (_, own) in enumerate(found):
        slopes[: STEPS[n], n] = own
    assert np.isinf(expected[-1])
    assert np.isfinite(expected[:-1]).all()

    logs = torch.tensor(np.log(p), requires_grad=True)
    loss = torch.nn.functional.ctc_loss(
        logs, torch.tensor(padded(targets, blank + 7)), STEPS, torch.tensor(lengths), blank, "none"
    )
    joined = torch.tensor(np.concatenate(targets).astype(np.int64))
    rows = {
        "mean": CTCLoss(blank, "mean", zero_infinity=True)(logs, joined, STEPS, tuple(lengths.tolist())),
        "sum": CTCLoss(blank, "sum", zero_infinity=True)(logs, joined, torch.tensor(STEPS), torch.tensor(lengths)),
    }
    weights = np.arange(1.0, 1 + len(targets))
    (loss[:-1] * torch.tensor(weights[:-1])).sum().backward()
    np.testing.assert_allclose(loss.detach().numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(logs.grad.numpy(), slopes * np.append(weights[:-1], 0)[:, None], rtol=1e-11, atol=1e-13)
    finite = np.where(np.isinf(expected), 0.0, expected)
    np.testing.assert_allclose(rows["sum"].item(), finite.sum(), rtol=1e-12)
    np.testing.assert_allclose(rows["mean"].item(), (finite / np.maximum(lengths, 1)).mean(), rtol=1e-12)


def test_numbers_of_torch():
    """``x = 2 * sin(1.7 * arange(1, 25)).view(4, 2, 3)``, requires_grad; ``ctc_loss(x.log_softmax(2), ...)``."""
    x = torch.tensor(2 * np.sin(1.7 * np.arange(1, 25)).reshape(4, 2, 3), requires_grad=True)
    loss = torch.nn.CTCLoss()(x.log_softmax(2), torch.tensor([[1, 2], [2, 0]]), (4, 3), (2, 1))
    loss.backward()
    assert loss.item() == pytest.approx(LOSS, rel=1e-12)
    np.testing.assert_allclose(x.grad.numpy()[:2].ravel(), GRADIENT, rtol=1e-10)


def test_one_sequence_and_half_floats():
    p = probabilities(1, 3)
    expected = enumerated(p[:, 0], [1, 1], 0)[0]
    logs = torch.tensor(np.log(p[:, 0]).astype(np.float32))
    single = torch.nn.functional.ctc_loss(
        logs, torch.tensor([1, 1]), torch.tensor(T), torch.tensor(2), reduction="none"
    )
    half = torch.nn.functional.ctc_loss(logs.bfloat16(), torch.tensor([1, 1]), (T,), (2,), reduction="sum")
    empty = torch.nn.functional.ctc_loss(logs, torch.zeros((0,), dtype=torch.int64), (T,), (0,), reduction="sum")
    assert single.shape == ()
    assert half.dtype == torch.bfloat16
    assert single.item() == pytest.approx(expected, rel=1e-6)
    assert half.item() == pytest.approx(expected, rel=2e-2)
    assert empty.item() == pytest.approx(-np.log(p[:, 0, 0]).sum(), rel=1e-6)


def test_other_lengths_are_the_same_program():
    logs = torch.tensor(np.log(probabilities(2)))
    targets, before = torch.tensor([[1, 2], [2, 0]]), log.count
    for lengths in ([4, 3], [2, 4], [3, 3]):
        assert np.isfinite(CTCLoss(reduction="sum")(logs, targets, lengths, [2, 1]).item())
    assert log.count - before <= 1


def test_a_graph_of_its_own():
    types = (TensorType((T, 2, C)), TensorType((2, 2), "i64"), TensorType((2,), "i64"), TensorType((2,), "i64"))
    function = CTCLoss(reduction="none").function(*types)
    assert isinstance(function, Function)
    p = probabilities(2, 5)
    arrays = np.log(p).astype(np.float32), np.array([[1, 2], [2, 0]]), np.array([4, 3]), np.array([2, 1])
    expected = [enumerated(p[:4, 0], [1, 2], 0)[0], enumerated(p[:3, 1], [2], 0)[0]]
    np.testing.assert_allclose(interpret(function, *arrays)[0], expected, rtol=1e-5)


def test_refusals():
    x, y, n = param("x", (T, 2, C)), param("y", (2, 2), "i64"), param("n", (2,), "i64")
    cases = [
        ((param("x", (T,)), y, n, n), {}, "predictions must be [T, N, C] or [T, C], got f32[4]; reshape them"),
        ((x, y, n, n), {"blank": 3}, "blank must be a class from 0 to 2, got 3; correct it"),
        (
            (x, param("y", (2, 2)), n, n),
            {},
            "targets must be integers of shape [2, S] or [all labels] for predictions f32[4,2,3], got f32[2,2]; "
            "reshape or cast them",
        ),
        ((x, y, [5, 4], n), {}, "input_lengths must be from 0 to 4, got [5, 4]; correct them"),
        (
            (x, y, n, param("m", (3,), "i64")),
            {},
            "target_lengths must be integers, one for each of 2 sequences, got i64[3]; pass i64[2]",
        ),
        (
            (x, param("y", (4,), "i64"), n, [2, 1]),
            {},
            "target_lengths must add up to the number of targets, 4, got [2, 1]; correct them, or pass targets of "
            "shape [N, S]",
        ),
    ]
    for args, settings, message in cases:
        with pytest.raises((TypeRuleError, InvalidValueError)) as error:
            losses.ctc(*args, **settings)
        assert error.value.message == f"ctc_loss: {message}"
    with pytest.raises(InvalidValueError) as error:
        CTCLoss()(torch.zeros(T, 2, C), torch.tensor([[1, 2], [2, 0]]), (5, 4), (2, 1))
    assert error.value.message == "ctc_loss: input_lengths must be from 0 to 4, got [5, 4]; correct them"
