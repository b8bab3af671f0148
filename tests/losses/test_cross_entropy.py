"""Cross-entropy against closed forms in NumPy, PyTorch's numbers, and the traps that others fell into."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import Function, TensorType, param
from adjoint.losses import CrossEntropyLoss, cross_entropy
from adjoint.testing.interpreter import interpret
from adjoint.transforms.differentiate import gradient

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/torch/losses.json").read_text())["cases"]
CASES = [case for case in GOLDEN if case["name"] == "cross_entropy"]


def loss_and_gradient(loss, *arrays):
    """The loss of the arrays and the gradient of its sum in the first one."""
    function = loss.function(*(TensorType(a.shape, a.dtype) for a in arrays))
    value = interpret(function, *arrays)[0]
    if loss.reduction == "none":
        loss = replace(loss, reduction="sum")
        function = loss.function(*(TensorType(a.shape, a.dtype) for a in arrays))
    return value, interpret(gradient(function, ["predictions"]), *arrays)[1]


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def closed_form(x, y, w, ignore, smoothing):
    """Loss of every row, divisor of the mean, gradient of the sum, from the definition, row by row."""
    rows, classes = x.shape
    losses, gradient_, divisor = np.zeros(rows), np.zeros_like(x), 0.0
    p = softmax(x)
    for n in range(rows):
        if y[n] == ignore:
            continue
        target = w * smoothing / classes
        target[y[n]] += (1 - smoothing) * w[y[n]]
        losses[n] = -(target * np.log(p[n])).sum()
        gradient_[n] = p[n] * target.sum() - target
        divisor += w[y[n]]
    return losses, divisor, gradient_


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{np.shape(c['targets'])}-{c['settings']}")
def test_pytorch_gives_the_same(case):
    loss = CrossEntropyLoss(**case["settings"])
    value, grad = loss_and_gradient(loss, np.array(case["predictions"]), np.array(case["targets"]))
    np.testing.assert_allclose(value, case["loss"], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(grad, case["gradient"], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("ignore", [-100, 2, 7, None])
@pytest.mark.parametrize("weighted", [False, True])
def test_class_indices_follow_the_definition(reduction, smoothing, ignore, weighted):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((6, 4)) * 3
    y = np.array([0, 3, 2, 1, 2, 3])
    if ignore is not None:
        y[1] = ignore
    w = rng.random(4) + 0.5 if weighted else np.ones(4)
    losses, divisor, grad = closed_form(x, y, w, ignore, smoothing)
    loss = CrossEntropyLoss(reduction, ignore, smoothing)
    got, got_grad = loss_and_gradient(loss, x, y, *([w] if weighted else []))
    scale = 1 / divisor if reduction == "mean" else 1.0
    np.testing.assert_allclose(got, losses if reduction == "none" else losses.sum() * scale, rtol=1e-12)
    np.testing.assert_allclose(got_grad, grad * scale, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_one_hot_is_the_same_as_its_indices(reduction):
    """Relax's tutorial has int64 one-hot labels; its mean divided by the number of classes too."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((64, 10)).astype(np.float32)
    y = rng.integers(0, 10, 64)
    loss = CrossEntropyLoss(reduction)
    by_index = loss_and_gradient(loss, x, y)
    for dtype in (np.int64, np.float32, np.uint8):
        by_one_hot = loss_and_gradient(loss, x, np.eye(10, dtype=dtype)[y])
        np.testing.assert_array_equal(by_one_hot[0], by_index[0])
        np.testing.assert_array_equal(by_one_hot[1], by_index[1])
    rows = -np.log(softmax(x.astype(np.float64))[np.arange(64), y])
    expected = rows.sum() if reduction == "sum" else rows.sum() / 64
    np.testing.assert_allclose(by_index[0], expected, rtol=1e-6)


def test_ignored_rows_with_weights_read_nothing_outside():
    """An ignored index far outside the classes, with class weights: the row is dropped, whatever it holds."""
    x = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], np.float32)
    y = np.array([2, -1_000_000])
    loss = CrossEntropyLoss(ignore_index=-1_000_000, weight=[1.0, 2.0, 4.0])
    value, grad = loss_and_gradient(loss, x, y)
    np.testing.assert_allclose(value, -np.log(softmax(x.astype(np.float64))[0, 2]), rtol=1e-6)
    assert np.all(grad[1] == 0)
    changed = loss_and_gradient(loss, np.array([x[0], [900.0, -3.0, 5.0]], np.float32), y)
    assert changed[0] == value


def test_an_ignored_row_of_infinite_loss_adds_nothing():
    x = np.array([[0.0, 1.0], [-np.inf, 0.0]])
    value = interpret(
        CrossEntropyLoss("sum", 0).function(TensorType((2, 2), "f64"), TensorType((2,), "i64")), x, np.array([1, 0])
    )[0]
    np.testing.assert_allclose(value, np.log1p(np.exp(-1.0)), rtol=1e-12)


def test_the_mean_of_nothing_is_nan():
    value, _ = loss_and_gradient(CrossEntropyLoss(), np.zeros((2, 3)), np.array([-100, -100]))
    assert np.isnan(value)


def test_an_empty_batch_has_no_loss():
    x, y = np.zeros((0, 3)), np.zeros(0, np.int64)
    assert loss_and_gradient(CrossEntropyLoss("sum"), x, y)[0] == 0
    assert np.isnan(loss_and_gradient(CrossEntropyLoss(), x, y)[0])
    assert np.isnan(loss_and_gradient(CrossEntropyLoss(), x, np.zeros((0, 3)))[0])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64])
def test_any_integer_dtype_indexes(dtype):
    """The default ignore_index does not exist in unsigned dtypes, and must not wrap round to a class there."""
    x = np.random.default_rng(5).standard_normal((3, 200))
    y = np.array([0, 100, 127], dtype)
    value, _ = loss_and_gradient(CrossEntropyLoss("none"), x, y)
    np.testing.assert_allclose(value, -np.log(softmax(x)[np.arange(3), y.astype(int)]), rtol=1e-12)


@pytest.mark.parametrize("bad", [-1, 3, 1 << 40])
def test_labels_out_of_range_are_refused(bad):
    function = CrossEntropyLoss().function(TensorType((2, 3)), TensorType((2,), "i64"))
    with pytest.raises(ValueError, match="3"):
        interpret(function, np.zeros((2, 3), np.float32), np.array([0, bad]))


def test_large_logits_neither_overflow_nor_lose_the_gradient():
    x = np.array([[1000.0, 0.0], [0.0, 1000.0]], np.float32)
    value, grad = loss_and_gradient(CrossEntropyLoss("none"), x, np.array([1, 1]))
    np.testing.assert_array_equal(value, [1000.0, 0.0])
    np.testing.assert_array_equal(grad, [[1.0, -1.0], [0.0, 0.0]])


def test_probabilities_have_a_gradient_too():
    x, t = np.random.default_rng(6).standard_normal((2, 3, 4))
    function = CrossEntropyLoss("sum").function(TensorType(x.shape, "f64"), TensorType(t.shape, "f64"))
    got = interpret(gradient(function, ["targets"]), x, t)[1]
    np.testing.assert_allclose(got, -np.log(softmax(x)), rtol=1e-12)


def test_the_function_names_its_parameters():
    function = CrossEntropyLoss().function(TensorType((2, 3)), TensorType((2,), "i32"), TensorType((3,)))
    assert isinstance(function, Function)
    assert function.name == "cross_entropy_loss"
    assert [p.label for p in function.params] == ["predictions", "targets", "weights"]
    assert function.results[0].type == TensorType(())


def test_settings_compare_and_hash():
    assert CrossEntropyLoss(weight=np.array([1.0, 2.0])) == CrossEntropyLoss(weight=[1, 2])
    assert len({CrossEntropyLoss(), CrossEntropyLoss(), CrossEntropyLoss("sum")}) == 2


@pytest.mark.parametrize(
    ("predictions", "targets", "message"),
    [
        (((2, 3), "i32"), ((2,), "i64"), r"float dtype, got i32\[2,3\]"),
        (((), "f32"), ((), "i64"), r"\[N, C\].*got f32\[\]"),
        (((2, 0), "f32"), ((2,), "i64"), r"C >= 1, got f32\[2,0\]"),
        (((2, 3), "f32"), ((3,), "i64"), r"indices of shape \[2\] or probabilities of shape \[2, 3\], got i64\[3\]"),
        (((2, 3, 4), "f32"), ((2, 3), "i64"), r"class indices of shape \[2, 4\]"),
        (((2, 3), "f32"), ((2,), "f32"), r"integer dtype, got f32\[2\]; cast"),
        (((2, 3), "f32"), ((2,), "bool"), r"integer dtype, got bool\[2\]"),
        (((2, 3), "f32"), ((2, 3), "bool"), r"float or integer dtype, got bool\[2,3\]"),
    ],
)
def test_types_that_do_not_fit_are_refused(predictions, targets, message):
    with pytest.raises(TypeRuleError, match=message):
        CrossEntropyLoss().function(TensorType(*predictions), TensorType(*targets))


def test_wrong_weights_are_refused():
    x, y = TensorType((2, 3)), TensorType((2,), "i64")
    with pytest.raises(TypeRuleError, match=r"one f32 per class, f32\[3\], got f32\[4\]"):
        CrossEntropyLoss().function(x, y, TensorType((4,)))
    with pytest.raises(TypeRuleError, match=r"f32\[3\], got f64\[3\]"):
        CrossEntropyLoss().function(x, y, TensorType((3,), "f64"))
    with pytest.raises(TypeRuleError, match="given twice"):
        CrossEntropyLoss(weight=[1, 2, 3]).function(x, y, TensorType((3,)))
    with pytest.raises(TypeRuleError, match=r"one number per class, got an array of shape \(1, 3\)"):
        CrossEntropyLoss(weight=[[1, 2, 3]])


def test_wrong_settings_are_refused():
    with pytest.raises(InvalidValueError, match="one of mean, sum, none, got 'avg'"):
        CrossEntropyLoss("avg")
    with pytest.raises(InvalidValueError, match=r"between 0 and 1, got 1\.5"):
        CrossEntropyLoss(label_smoothing=1.5)
    with pytest.raises(InvalidValueError, match=r"an int or None, got 0\.5"):
        CrossEntropyLoss(ignore_index=0.5)
    with pytest.raises(InvalidValueError, match="ignore_index requires class indices, got 0"):
        CrossEntropyLoss(ignore_index=0).function(TensorType((2, 3)), TensorType((2, 3)))


def test_a_wrong_number_of_arguments_is_refused():
    with pytest.raises(TypeRuleError, match=r"takes \(predictions, targets, weights\), weights optional, got 1"):
        CrossEntropyLoss().function(TensorType((2, 3)))
    with pytest.raises(TypeRuleError, match="got 1 argument"):
        CrossEntropyLoss()(param("x", (2, 3)))
    with pytest.raises(TypeRuleError, match=r"TensorType\(shape, dtype\), got tuple"):
        CrossEntropyLoss().function((2, 3), (2,))


def test_the_function_form_takes_weights_as_values_and_arrays():
    x, y, w = param("x", (2, 3)), param("y", (2,), "i64"), param("w", (3,))
    arrays = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([0, 2])
    weights = np.array([1, 2, 3], np.float32)
    as_value = interpret(Function("f", (x, y, w), (cross_entropy(x, y, w),)), *arrays, weights)[0]
    as_array = interpret(Function("f", (x, y), (cross_entropy(x, y, weights),)), *arrays)[0]
    assert as_value == as_array
