"""Functions rewritten for another number of rows, against the same functions written for it."""

import numpy as np
import pytest

from adjoint import models, ops
from adjoint.errors import InvalidValueError
from adjoint.ir import Function, param, verify
from adjoint.testing import interpret
from adjoint.training.predict import inference_function
from adjoint.transforms.batch_axis import batch_inputs
from adjoint.transforms.resize_batch import resize_batch


@pytest.mark.parametrize("rows", [1, 3, 16])
@pytest.mark.parametrize("model", [models.mlp, models.linreg, models.lenet, models.resnet20, models.gpt])
def test_models_become_what_they_would_have_been(model, rows):
    assert inference_function(model(batch_size=8), rows) == inference_function(model(batch_size=rows), rows=None)


def positions(rows):
    """Values that no input reaches, of one element for each row: they are resized as well."""
    x = param("x", (rows, 4))
    number = ops.cast(ops.iota((rows, 4)), "f32")
    return Function("main", (x,), (ops.add(ops.multiply(x, number), ops.full(2.0, (rows, 4))),))


def test_what_is_combined_with_rows_is_resized_too():
    whole = positions(6)
    made = resize_batch(whole, batch_inputs(whole, whole.params), 3)
    verify(made)
    assert made == positions(3)


def test_a_constant_with_a_number_for_each_row_is_shortened():
    x = param("x", (4, 2))
    numbers = np.arange(8, dtype=np.float32).reshape(4, 2)
    whole = Function("main", (x,), (ops.multiply(x, ops.constant(numbers)),))
    made = resize_batch(whole, batch_inputs(whole, whole.params), 3)
    verify(made)
    given = np.random.default_rng(0).standard_normal((3, 2)).astype(np.float32)
    np.testing.assert_array_equal(interpret(made, given)[0], given * numbers[:3])
    with pytest.raises(InvalidValueError, match=r"= constant\(...\): f32\[4,2\] depends on the number of rows"):
        resize_batch(whole, batch_inputs(whole, whole.params), 5)


def noisy(rows):
    """Random numbers for each row, of one key and of a key for each row."""
    x, key = param("x", (rows, 4)), param("key", (2,), "u32")
    noise = ops.random.normal(key, (rows, 4))
    return Function("main", (x, key), (ops.add(ops.dropout(x, key), noise),))


def test_random_numbers_are_resized_and_each_row_keeps_its_own():
    whole = noisy(6)
    axes = batch_inputs(whole, whole.params)
    made = resize_batch(whole, axes, 3)
    verify(made)
    assert made == noisy(3)
    x, key = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32), ops.random.key_array(1)
    np.testing.assert_array_equal(interpret(made, x[:3], key)[0], interpret(whole, x, key)[0][:3])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: ops.subtract(x, ops.mean(x, 0)), r"= sum\(...\): f32\[2\] depends on the number of rows"),
        (lambda x: ops.matmul(x, ops.transpose(x)), r"= matmul\(...\): f32\[4,4\] depends on the number of rows"),
        (lambda _: ops.full(1.0, (4,)), r"= full\(...\): f32\[4\] depends on the number of rows"),
    ],
)
def test_functions_that_depend_on_the_number_of_rows(build, message):
    x = param("x", (4, 2))
    function = Function("main", (x,), (build(x),))
    with pytest.raises(InvalidValueError, match=message):
        resize_batch(function, batch_inputs(function, function.params), 2)


def test_a_parameter_with_something_for_each_row():
    x, w = param("x", (4, 2)), param("w", (4, 2))
    function = Function("main", (x, w), (ops.multiply(x, w),))
    with pytest.raises(InvalidValueError, match=r"%w = param\(...\): f32\[4,2\] depends on the number of rows"):
        resize_batch(function, batch_inputs(function, (x,)), 2)
