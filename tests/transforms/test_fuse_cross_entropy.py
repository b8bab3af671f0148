"""Softmaxes over the columns of products, in blocks of columns."""

import numpy as np
import pytest

from adjoint import Function, costs, losses, ops, param
from adjoint.compiler import CompileOptions, compile
from adjoint.ir import is_float
from adjoint.ops.control import is_control
from adjoint.pipeline import after_graph_passes
from adjoint.testing.interpreter import interpret
from adjoint.transforms import MixedPrecision, gradient, mixed_precision

#: The last block of columns is smaller than the others.
ROWS, WIDTH, CLASSES, BLOCK = 6, 5, 27, 8


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Blocks of so many columns, whatever the size of the product."""
    monkeypatch.setattr(costs, "column_block", lambda *_: BLOCK)


def loops(function):
    """Loops in a function after the graph passes."""
    return sum(map(is_control, after_graph_passes(function).values()))


def drawn(function, scale=1.0):
    """Arguments: normal numbers, and class indices."""
    rng = np.random.default_rng(3)
    return [
        (scale * rng.normal(size=p.shape)).astype(p.dtype) if is_float(p.dtype) else rng.integers(0, CLASSES, p.shape)
        for p in function.params
    ]


def agree(function, arrays):
    """Compare the compiled function with the interpreted graph."""
    # The cache does not know which costs a program was planned with.
    found = compile(function, options=CompileOptions(threads=2, cache=False))(*arrays)
    wanted = interpret(function, *arrays)
    for one, other in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


def head(shape=(ROWS,), bias=False, stored_as_columns=False, classes_first=False, dtype="f64", extra=(), **settings):
    """A cross-entropy of a product, and its gradients."""
    x = param("x", (*shape, WIDTH), dtype)
    w = param("w", (WIDTH, CLASSES) if stored_as_columns else (CLASSES, WIDTH), dtype)
    targets = param("targets", shape, "i64")
    logits = ops.matmul(x, w, transpose_b=not stored_as_columns)
    params = [x, w]
    if bias:
        params.append(param("b", (CLASSES,), dtype))
        logits = logits + params[-1]
    if classes_first:
        logits = ops.permute(logits, (0, 2, 1))
    loss = losses.cross_entropy(logits, targets, **settings)
    loss = loss if not loss.shape else (loss * loss).sum()
    results = (loss, *(make(logits) for make in extra))
    return gradient(Function("head", (*params, targets), results), [p.label for p in params])


CASES = {
    "mean": {},
    "sum": {"reduction": "sum"},
    "of rows": {"reduction": "none"},
    "bias": {"bias": True},
    "weights stored as columns": {"stored_as_columns": True, "bias": True},
    "ignored": {"ignore_index": 7},
    "smoothed": {"label_smoothing": 0.2},
    "class weights": {"weight": np.linspace(0.5, 1.5, CLASSES), "label_smoothing": 0.1, "ignore_index": 3},
    "sequences": {"shape": (2, 3), "classes_first": True},
}


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_losses_and_gradients(case, kept, monkeypatch):
    monkeypatch.setattr(costs, "keeps_product", lambda _: kept)
    function = head(**CASES[case])
    assert loops(function) == 2
    agree(function, drawn(function))


def test_mixed_precision_adds_in_float32():
    function = mixed_precision(head(dtype="f32", bias=True), MixedPrecision())
    assert loops(function) == 2
    arrays = drawn(function)
    wide = head(bias=True)
    exact = interpret(wide, *(a.astype(p.dtype) for a, p in zip(arrays, wide.params, strict=True)))
    found = compile(function, options=CompileOptions(cache=False))(*arrays)
    for one, other in zip(found, exact, strict=True):
        np.testing.assert_allclose(one, other, atol=0.03)


def test_evaluation_has_one_loop():
    x, w, targets = param("x", (ROWS, WIDTH), "f64"), param("w", (CLASSES, WIDTH), "f64"), param("t", (ROWS,), "i64")
    function = Function("f", (x, w, targets), (losses.cross_entropy(ops.matmul(x, w, transpose_b=True), targets),))
    assert loops(function) == 1
    agree(function, drawn(function))


def test_rows_of_infinite_and_of_large_logits():
    function = head(bias=True)
    arrays = drawn(function, scale=30.0)
    arrays[2][:9] = -np.inf  # more than the first block
    arrays[3][:] = 20
    agree(function, arrays)


@pytest.mark.parametrize("use", [lambda y: y, lambda y: y.argmax(-1), lambda y: ops.matmul(y, y, transpose_b=True)])
def test_a_product_that_is_needed_as_a_whole_is_left_alone(use):
    assert loops(head(extra=(use,))) == 0


def test_targets_of_all_classes_are_left_alone():
    x, w, t = param("x", (ROWS, WIDTH)), param("w", (WIDTH, CLASSES)), param("t", (ROWS, CLASSES))
    assert loops(Function("f", (x, w, t), (losses.cross_entropy(x @ w, t),))) == 0
