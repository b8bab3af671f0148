"""Functions that are told how many rows are present, against the same functions written for that many."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import Function, param, verify
from adjoint.losses import cross_entropy
from adjoint.testing import interpret
from adjoint.testing.graphs import arguments, functions
from adjoint.transforms.batch_axis import batch_inputs
from adjoint.transforms.differentiate import gradient
from adjoint.transforms.mask_batch import mask_batch

ROWS = 6


def weight(*shape):
    return param("w", shape, "f64")


def of_rows(rows, build, shape=(4,), targets=()):
    """A function of inputs of that many rows, and of a weight and of targets if it has them."""
    x = param("x", (rows, *shape), "f64")
    given = [x, *(param(f"t{n}", (rows, *s), dtype) for n, (s, dtype) in enumerate(targets))]
    made = build(*given)
    results, weights = made if isinstance(made, tuple) else (made, [])
    return Function("main", (*given, *weights), (results,))


def product(x):
    w = weight(4, 3)
    return ops.sum(ops.square(ops.mean(ops.tanh(ops.matmul(x, w)), 0))), [w]


def normalised(x):
    ones = ops.full(1.0, (4,), "f64")
    out, mean, var = ops.batch_norm(x, ones, ones)
    return ops.add(ops.sum(ops.square(ops.square(out))), ops.add(ops.sum(mean), ops.sum(ops.square(var))))


def images(x):
    w = weight(2, 3, 3, 3)
    hidden = ops.max_pool2d(ops.relu(ops.conv2d(x, w, padding=1)), 2)
    flat = ops.reshape(hidden, (x.shape[0], -1))
    return ops.sum(ops.square(ops.mean(flat, 0))), [w]


def tokens(x):
    """Positions of each row one after the other, as in the loss of a language model."""
    w = weight(3, 5)
    rows = ops.matmul(ops.reshape(x, (x.shape[0] * 4, 3)), w)
    return ops.mean(ops.log(ops.sum(ops.exp(rows), -1))), [w]


def gram(x):
    """A product that runs over the rows."""
    return ops.mean(ops.square(ops.matmul(ops.transpose(x), x)))


def table(x, ids):
    w = weight(5, 4)
    return ops.sum(ops.square(ops.mean(ops.multiply(ops.take(w, ids), x), 0))), [w]


CASES = {
    "mean": (lambda x: ops.mean(ops.square(x)), (4,), ()),
    "sum": (lambda x: ops.sum(ops.exp(x)), (4,), ()),
    "max": (lambda x: ops.sum(ops.square(ops.max(x, 0))), (4,), ()),
    "min": (lambda x: ops.sum(ops.square(ops.min(x, 0, keepdims=True))), (4,), ()),
    "prod": (lambda x: ops.sum(ops.prod(x, 0)), (4,), ()),
    "argmax": (lambda x: ops.cast(ops.sum(ops.argmax(x, 0)), "f64"), (4,), ()),
    "variance": (lambda x: ops.sum(ops.variance(x, 0, correction=1)), (4,), ()),
    "softmax over rows": (
        lambda x: ops.sum(ops.square(ops.mean(ops.square(ops.softmax(ops.mean(x, 1), 0))))),
        (4,),
        (),
    ),
    "logsumexp": (lambda x: ops.sum(ops.logsumexp(x, 0)), (4,), ()),
    "count": (lambda x: ops.count(x, dtype="f64"), (4,), ()),
    "count of columns": (lambda x: ops.multiply(ops.count(x, 1, "f64"), ops.sum(x)), (4,), ()),
    "transposed": (lambda x: ops.mean(ops.square(ops.sum(ops.transpose(x), 1))), (4,), ()),
    "product": (product, (4,), ()),
    "batch_norm": (normalised, (4,), ()),
    "images": (images, (3, 4, 4), ()),
    "tokens": (tokens, (4, 3), ()),
    "gram": (gram, (4,), ()),
    "embedding": (table, (4,), [((), "i64")]),
    "cross_entropy": (cross_entropy, (4,), [((), "i64")]),
    "weighted cross_entropy": (lambda x, y: cross_entropy(x, y, [1.0, 2.0, 0.5, 3.0], 2), (4,), [((), "i64")]),
    "probabilities": (lambda x, y: cross_entropy(x, y), (4,), [((4,), "f64")]),
}


def drawn(function, rng):
    """An array for each parameter; integers are classes."""
    return [
        rng.standard_normal(p.shape) if p.dtype.kind == "f" else rng.integers(0, 4, p.shape).astype(p.dtype)
        for p in function.params
    ]


def with_absent_rows(function, shorter, arrays, rng):
    """The arrays of the shorter function, with arbitrary rows after theirs."""
    given = []
    for p, q, array in zip(function.params, shorter.params, arrays, strict=True):
        filled = drawn(Function("one", (p,), (p,)), rng)[0] * (100 if p.dtype.kind == "f" else 1)
        filled[tuple(slice(n) for n in q.shape)] = array
        given.append(filled)
    return given


#: One row has no variance.
SEVERAL = ("variance", "batch_norm")


@pytest.mark.parametrize(
    ("name", "rows"), [(name, n) for name in CASES for n in (1, 2, 5, ROWS) if n > 1 or name not in SEVERAL]
)
def test_absent_rows_have_no_influence(name, rows):
    build, shape, targets = CASES[name]
    whole = of_rows(ROWS, build, shape, targets)
    masked = mask_batch(whole, batch_inputs(whole, whole.params))
    verify(masked)
    assert [str(p.type) for p in masked.params[len(whole.params) :]] == ["i32[]"]
    rng = np.random.default_rng(rows)
    few = of_rows(rows, build, shape, targets)
    arrays = drawn(few, rng)
    given = [*with_absent_rows(whole, few, arrays, rng), np.array(rows, np.int32)]
    (got,), (wanted,) = interpret(masked, *given), interpret(few, *arrays)
    np.testing.assert_allclose(got, wanted, rtol=1e-12)
    if name not in ("argmax", "count"):
        (_, *grads), (_, *wanted_grads) = interpret(gradient(masked), *given), interpret(gradient(few), *arrays)
        for p, q, grad, wanted_grad in zip(
            (p for p in whole.params if p.dtype.kind == "f"),
            (p for p in few.params if p.dtype.kind == "f"),
            grads,
            wanted_grads,
            strict=True,
        ):
            inside = np.zeros_like(grad)
            inside[tuple(slice(n) for n in q.shape)] = wanted_grad
            np.testing.assert_allclose(grad, inside, rtol=1e-10, atol=1e-12, err_msg=p.label)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: ops.sum(ops.matmul(x, ops.transpose(x))), r"%1 = matmul\(...\): f64\[6,6\] depends on all rows"),
        (lambda x: ops.sum(ops.flip(x, 0)), r"= flip\(...\): f64\[6,4\] depends on all rows of a batch"),
        (lambda x: ops.sum(ops.slice_axis(x, 0, 0, 1)), r"= slice\(...\): f64\[1,4\] depends on all rows of a batch"),
        (lambda x: ops.sum(ops.concat(x, x, axis=0)), r"= concat\(...\): f64\[12,4\] depends on all rows of a batch"),
    ],
)
def test_rows_that_cannot_be_left_out(build, message):
    function = of_rows(ROWS, build)
    with pytest.raises(InvalidValueError, match=message):
        mask_batch(function, batch_inputs(function, function.params))


def test_a_single_row_cannot_be_left_out():
    function = of_rows(1, CASES["mean"][0])
    with pytest.raises(InvalidValueError, match="its batch is a single row"):
        mask_batch(function, batch_inputs(function, function.params))


def test_the_first_parameter_may_be_contracted():
    """Here it is the weight: its rows are those of the inner axis, and are the second operand's."""
    w, x = param("w", (4, 3), "f64"), param("x", (5, 4), "f64")
    function = Function("main", (w, x), (ops.matmul(x, w),))
    masked = mask_batch(function, batch_inputs(function, (w,)))
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((4, 3)), rng.standard_normal((5, 4))
    (found,) = interpret(masked, a, b, np.array(3, np.int32))
    np.testing.assert_allclose(found, b[:, :3] @ a[:3], rtol=1e-12)


def other_rows(arrays, function, axes, rows, rng):
    """The arrays with other elements in the rows that are absent."""
    changed = []
    for p, array in zip(function.params, arrays, strict=True):
        array = array.copy()
        if p in axes.of:
            absent = np.moveaxis(array, axes.of[p].position, 0)[rows * axes.of[p].each :]
            absent[...] = rng.permutation(absent.ravel()).reshape(absent.shape)[::-1]
        changed.append(array)
    return changed


@settings(max_examples=120, deadline=None, derandomize=True)
@given(functions(max_ops=6), st.integers(0, 1000))
def test_in_random_graphs_absent_rows_have_no_influence(function, seed):
    axes = batch_inputs(function, function.params)
    try:
        masked = mask_batch(function, axes)
    except InvalidValueError:
        return
    verify(masked)
    rng = np.random.default_rng(seed)
    arrays = arguments(function, rng)
    whole = np.array(axes.rows, np.int32)
    for one, other in zip(interpret(function, *arrays), interpret(masked, *arrays, whole), strict=True):
        np.testing.assert_array_equal(one, other)
    rows = int(rng.integers(1, axes.rows))
    present = np.array(rows, np.int32)
    changed = other_rows(arrays, function, axes, rows, rng)
    both = zip(interpret(masked, *arrays, present), interpret(masked, *changed, present), function.results, strict=True)
    for one, other, result in both:
        axis = axes.axis(result)
        kept = (...,) if axis is None else (*(slice(None),) * axis.position, slice(rows * axis.each))
        np.testing.assert_array_equal(one[kept], other[kept])
