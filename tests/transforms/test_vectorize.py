"""Vectorization of functions: against loops over examples, alone, nested, and together with differentiation."""

import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from adjoint import CompileOptions, compile, ops
from adjoint.errors import InvalidValueError, VectorizationError
from adjoint.ir import Function, param, verify
from adjoint.ops.calls import call
from adjoint.ops.contract import MatMul
from adjoint.ops.transcendental import Exp
from adjoint.testing.graphs import arguments, functions, losses
from adjoint.testing.interpreter import interpret
from adjoint.testing.rounding import rounding
from adjoint.transforms import cse, gradient, inline_calls, jvp, simplify, vectorize, vjp
from tests.closeness import within
from tests.transforms.operators import NoRule, NoRuleEither, NotMapped, NoValue, through

RANDOM = settings(deadline=None, max_examples=25, derandomize=True, suppress_health_check=list(HealthCheck))
OPTIONS = CompileOptions(threads=1, cache=False)
RNG = np.random.default_rng(0)
X = param("x", (3,), "f64")
W = param("w", (3, 4), "f64")


def drawn(*shape):
    return RNG.standard_normal(shape)


def looped(function, axes, arrays):
    """The results for one example after the other, stacked; every axis is 0 or None."""
    size = next(len(a) for a, axis in zip(arrays, axes, strict=True) if axis == 0)
    rows = [
        interpret(function, *(a if axis is None else a[n] for a, axis in zip(arrays, axes, strict=True)))
        for n in range(size)
    ]
    return [np.stack(column) for column in zip(*rows, strict=True)]


def agree(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)


def test_axes_may_be_anywhere():
    function = Function("f", (X, W), (ops.matmul(X, W), ops.sum(ops.exp(X))), {"note": 1})
    x, w = drawn(5, 3), drawn(5, 3, 4)
    outer = [np.stack([a @ b for a, b in zip(x, w, strict=True)]), np.exp(x).sum(1)]
    made = vectorize(function, (-1, 1), 5, (1, -1))
    verify(made)
    assert made.name == "vectorized_f"
    assert not made.attrs
    assert [str(p.type) for p in made.params] == ["f64[3,5]", "f64[3,5,4]"]
    assert [p.label for p in made.params] == ["x", "w"]
    agree(interpret(made, x.T.copy(), np.moveaxis(w, 0, 1).copy()), [outer[0].T, outer[1]])
    agree(interpret(vectorize(function, 0, 5, name="g"), x, w), outer)
    assert vectorize(function, 0, 5, name="g").name == "g"


def test_results_that_all_examples_share_are_repeated_or_not_mapped():
    function = Function("f", (X, W), (ops.exp(X), ops.exp(W), W))
    x, w = drawn(2, 3), drawn(3, 4)
    made = vectorize(function, (0, None), 2, (0, -1, None))
    agree(interpret(made, x, w), [np.exp(x), np.stack([np.exp(w)] * 2, -1), w])
    agree(interpret(vectorize(function, None, 2, None), x[0], w), interpret(function, x[0], w))


def test_what_examples_share_is_computed_once():
    function = Function("f", (X, W), (ops.matmul(ops.exp(X), ops.exp(W)),))
    made = vectorize(function, (0, None), 5)
    assert sorted(v.shape for v in made.values() if isinstance(v.op, Exp)) == [(3, 4), (5, 3)]
    (product,) = [v for v in made.values() if isinstance(v.op, MatMul)]
    assert product.shape == (5, 4)


def test_nested_vectorization_is_an_outer_product_of_examples():
    y = param("y", (3,), "f64")
    function = Function("f", (X, y), (ops.sum(ops.multiply(X, ops.exp(y))),))
    made = vectorize(vectorize(function, (None, 0), 4), (0, None), 5, out_axes=1)
    x, other = drawn(5, 3), drawn(4, 3)
    agree(interpret(made, x, other), [np.exp(other) @ x.T])


def test_a_layer_is_one_product_however_deeply_it_is_nested():
    function = Function("f", (X, W), (ops.matmul(X, W),))
    made = simplify(vectorize(vectorize(function, (0, None), 4), (0, None), 5))
    (product,) = [v for v in made.values() if isinstance(v.op, MatMul)]
    assert product.inputs[0].shape == (20, 3)
    x, w = drawn(5, 4, 3), drawn(3, 4)
    agree(interpret(made, x, w), [x @ w])


def network(kind):
    """A scalar function of two float64 parameters, and of indices where it has some."""
    x, w = param("x", (2, 3), "f64"), param("w", (3, 4), "f64")
    if kind == "classifier":
        return Function("f", (x, w), (ops.logsumexp(ops.layer_norm(ops.tanh(ops.matmul(x, w)))),))
    if kind == "attention":
        key = ops.matmul(x, w)
        return Function("f", (x, w), (ops.sum(ops.scaled_dot_product_attention(key, key, x, causal=True)),))
    if kind == "convolution":
        image, taps = param("x", (1, 2, 4, 5), "f64"), param("w", (4, 1, 2, 2), "f64")
        folded = ops.conv2d(image, taps, padding=1, stride=(1, 2), groups=2)
        return Function("f", (image, taps), (ops.sum(ops.square(ops.max_pool2d(folded, 2, 1))),))
    ids = param("ids", (2,), "i64")
    rows = ops.scatter_add(ids, ops.take(w, ids), 3)
    return Function(
        "f", (x, w, ids), (ops.sum(ops.exp(ops.multiply(ops.slice_axis(w, 1, 0, 3), ops.sum(x)))) + rows.max(),)
    )


@pytest.mark.parametrize("kind", ["classifier", "attention", "convolution", "indices"])
@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
def test_the_gradient_commutes_with_vectorization(kind, axes):
    """Per-example gradients three ways: a loop, the gradient vectorized, and the vectorized function differentiated."""
    function = network(kind)
    axes = (*axes, 0)[: len(function.params)]
    arrays = [np.array([[2, 0], [1, 1], [0, 2]]) if p.label == "ids" else drawn(3, *p.shape) for p in function.params]
    arrays = [a if axis == 0 else a[0] for a, axis in zip(arrays, axes, strict=True)]
    each = gradient(function)
    wanted = looped(each, axes, arrays)
    agree(interpret(vectorize(each, axes, 3), *arrays), wanted)
    made = vjp(vectorize(function, axes, 3))
    verify(made)
    cotangents = interpret(made, *arrays, np.ones(3))
    # The gradient of a parameter that the examples share is the sum of their gradients.
    agree(cotangents, [w if axis == 0 else w.sum(0) for w, axis in zip(wanted[1:], axes[:2], strict=True)])


def test_a_jacobian_by_rows_and_by_columns():
    function = Function("f", (X, W), (ops.sin(ops.matmul(X, W)),))
    x, w = drawn(3), drawn(3, 4)
    exact = np.cos(x @ w)[:, None] * w.T
    rows = vectorize(vjp(function, "x"), (None, None, 0), 4)
    agree(interpret(rows, x, w, np.eye(4)), [exact])
    columns = vectorize(jvp(function, "x"), (None, None, 0), 3, out_axes=(None, 1))
    agree(interpret(columns, x, w, np.eye(3)), [np.sin(x @ w), exact])


def test_a_hessian_forward_over_reverse():
    function = Function("f", (X,), (ops.sum(ops.exp(ops.multiply(X, ops.sum(X)))),))
    slope = gradient(function)
    second = vectorize(jvp(slope, "x", results=1), (None, 0), 3, out_axes=(None, None, 0))
    x = drawn(3) / 2
    found = interpret(second, x, np.eye(3))[2]
    along = [interpret(jvp(slope, "x", results=1), x, row)[2] for row in np.eye(3)]
    agree([found, found], [np.stack(along), found.T])
    sides = [interpret(slope, x + sign * 1e-5 * np.eye(3)[1])[1] for sign in (1, -1)]
    np.testing.assert_allclose(found[1], (sides[0] - sides[1]) / 2e-5, rtol=1e-7)


def agrees_with_examples(function, picked):
    """Vectorized over 2 examples, with the mapped axis anywhere, a function agrees with each example alone."""
    note(str(function))
    axes = [None if n == 0 else (n - 1) % (len(p.shape) + 1) for n, p in zip(picked, function.params, strict=False)]
    examples = [arguments(function, seed) for seed in range(2)]
    given_ = [
        one if axis is None else np.stack((one, other), axis) for one, other, axis in zip(*examples, axes, strict=True)
    ]
    made = vectorize(function, axes, 2)
    verify(made)
    found = interpret(made, *given_)
    for position, example in enumerate(examples):
        rows = [shared if axis is None else own for shared, own, axis in zip(examples[0], example, axes, strict=True)]
        for result, (wanted, bound) in zip(found, rounding(function, *rows), strict=True):
            within(result[position], wanted, bound)


#: For each parameter, one number: 0 for a shared one, otherwise the axis plus one.
PICKED = st.lists(st.integers(0, 4), min_size=20, max_size=20)


@RANDOM
@given(functions(calls=True), PICKED)
def test_random_graphs_agree_with_single_examples(function, picked):
    agrees_with_examples(function, picked)


@RANDOM
@given(losses(), PICKED)
def test_gradients_of_random_graphs_agree_with_single_examples(function, picked):
    agrees_with_examples(gradient(function), picked)


def test_calls_are_vectorized_once_for_each_choice_of_arguments():
    inner = Function("inner", (X, W), (ops.matmul(X, W), ops.exp(W)))
    product, grown = call(inner, X, W)
    again, _ = call(inner, X, grown)
    fixed, _ = call(inner, ops.full(1.0, (3,), "f64"), W)
    function = Function("f", (X, W), (product, again, fixed))
    x, w = drawn(5, 3), drawn(3, 4)
    for axes, names in [
        ((0, None), {"vectorized_inner", "inner"}),
        ((0, 0), {"vectorized_inner", "vectorized_inner_1"}),
    ]:
        made = vectorize(function, axes, 5, (0, 0, 0))
        verify(made)
        assert {v.op.callee.name for v in made.values() if v.op.name == "call"} == names
        arrays = (x, w if axes[1] is None else drawn(5, 3, 4))
        agree(interpret(made, *arrays), looped(function, axes, arrays))
        agree(interpret(cse(simplify(inline_calls(made))), *arrays), looped(function, axes, arrays))


def test_deep_graphs_and_deep_calls_need_no_recursion():
    value = X
    for _ in range(5_000):
        value = ops.negative(value)
    x = drawn(2, 3)
    agree(interpret(vectorize(Function("f", (X,), (value,)), 0, 2), x), [x])
    function = Function("f0", (X,), (ops.negative(X),))
    for depth in range(1, sys.getrecursionlimit() + 100):
        function = Function(f"f{depth}", (X,), (call(function, X),))
    agree(interpret(vectorize(function, 0, 2), x), [-x])


def test_an_index_of_an_own_table_that_is_an_argument_is_checked():
    table, ids = param("table", (2, 3)), param("ids", (2,), "i64")
    function = vectorize(Function("f", (table, ids), (ops.take(table, ids),)), 0, 2)
    run = compile(function, options=OPTIONS)["vectorized_f"]
    tables = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    given = np.array([[1, 0], [0, 1]])
    np.testing.assert_array_equal(run(tables, given), [tables[0][given[0]], tables[1][given[1]]])
    with pytest.raises(InvalidValueError) as refusal:
        run(tables, np.array([[1, 0], [0, 2]]))
    assert refusal.value.message == "vectorized_f: ids must be in [0, 2), got 2 at (1, 1); nothing was updated"


def test_an_index_that_is_computed_stays_in_its_own_table():
    """As without the mapped axis: reads are clipped and get no gradient, and writes are dropped."""
    table, ids = param("table", (2, 3)), param("ids", (2,), "i64")
    found = ops.multiply(ids, ops.sum(ids))
    single = Function("f", (table, ids), (ops.take(table, found), ops.scatter_add(found, table, 2)))
    tables = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    given = np.array([[2, 0], [1, -2]])  # found: 4 and 0 for the first example, -1 and 2 for the second
    run = compile(vectorize(single, 0, 2), options=OPTIONS)["vectorized_f"]
    rows, sums = run(tables, given)
    np.testing.assert_array_equal(rows, [tables[0][[1, 0]], tables[1][[0, 1]]])
    np.testing.assert_array_equal(sums, [[tables[0][1], [0, 0, 0]], np.zeros((2, 3))])

    slopes = compile(vjp(vectorize(single, 0, 2), "table", results=0), options=OPTIONS)["vjp_vectorized_f"]
    of_rows = slopes(tables, given, np.ones((2, 2, 3), np.float32))
    np.testing.assert_array_equal(of_rows, [[[1, 1, 1], [0, 0, 0]], np.zeros((2, 3))])


def refused(error, *arguments, **options):
    with pytest.raises(error) as refusal:
        vectorize(*arguments, **options)
    return refusal.value.message


def test_wrong_axes_and_sizes_are_refused():
    function = Function("f", (X, W), (ops.matmul(X, W),))
    assert refused(InvalidValueError, function, (0,), 5) == (
        "vectorize: in_axes must have one axis or None for each parameter of @f, got 1 for 2 parameters; correct it"
    )
    assert refused(InvalidValueError, function, 0, 5, (0, 0)) == (
        "vectorize: out_axes must have one axis or None for each result of @f, got 2 for 1 result; correct it"
    )
    assert refused(InvalidValueError, function, (2, 0), 5) == (
        "vectorize: axis 2 is out of range for rank 2; use -2 to 1"
    )
    for size in (0, True, 2.5):
        assert refused(InvalidValueError, function, 0, size) == (
            f"vectorize: size must be an integer of at least 1, got {size!r}; count the examples"
        )
    assert refused(InvalidValueError, function, (0, None), 5, None) == (
        "vectorize: result 0 of @f depends on a mapped parameter, so its axis in out_axes must be an integer, got "
        "None; pass 0"
    )


def test_all_operators_without_a_rule_are_listed():
    inner = Function("inner", (X,), (through(NoRuleEither, X),))
    function = Function("f", (X, W), (through(NoRule, ops.add(call(inner, X), 1.0), "y"), through(NoRule, W)))
    assert refused(VectorizationError, function, (0, None), 5) == (
        "operators that depend on a mapped parameter must have a rule to vectorize them, got none for no_rule_either "
        "at %0 in @inner, no_rule at %y in @f; define the method vectorize"
    )
    x, w = drawn(3), drawn(3, 4)
    agree(interpret(vectorize(function, None, 2, None), x, w), [x + 1, w])


def test_rules_that_are_wrong_are_refused():
    for cls, message in [
        (
            NotMapped,
            "the vectorize of not_mapped must return a value of type f64[5,3], with the mapped axis first, got f64[3]; "
            "correct the operator",
        ),
        (
            NoValue,
            "the vectorize of no_value must return a graph value, got None (is a return missing?); compute it with "
            "operators",
        ),
    ]:
        assert refused(VectorizationError, Function("f", (X,), (through(cls, X),)), 0, 5) == message
