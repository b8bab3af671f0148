"""The interpreter: what it computes, frees, checks and refuses."""

import gc
import warnings
import weakref
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import TypeRuleError, VerifyError
from adjoint.ir import DTYPES, Function, TensorType, Value, apply, param
from adjoint.ir.value import Op
from adjoint.ops.base import Operator
from adjoint.testing import interpret


def function(params, *results, name="f"):
    return Function(name, tuple(params), results)


def test_a_graph_computes_what_numpy_does():
    x, w = param("x", (2, 3)), param("w", (3, 4))
    a, b = np.random.default_rng(0).normal(size=(2, 3)), np.random.default_rng(1).normal(size=(3, 4))
    a, b = a.astype(np.float32), b.astype(np.float32)
    f = function([x, w], ops.relu(ops.matmul(x, w)), ops.sum(x, axis=0))
    found = interpret(f, a, b)
    np.testing.assert_allclose(found[0], np.maximum(a @ b, 0), rtol=1e-6)
    np.testing.assert_allclose(found[1], a.sum(0), rtol=1e-6)


def test_results_are_a_tuple_also_of_one_and_may_be_parameters_or_repeat():
    x = param("x", (2,))
    doubled = ops.add(x, x)
    found = interpret(function([x], doubled, x, doubled), np.ones(2, np.float32))
    np.testing.assert_array_equal(found, [[2, 2], [1, 1], [2, 2]])
    assert len(interpret(function([x], doubled), np.ones(2, np.float32))) == 1


def test_unused_parameters_are_allowed():
    x, y = param("x", ()), param("y", ())
    assert interpret(function([x, y], ops.exp(x)), np.float32(0), np.float32(9)) == (1,)


def test_depth_is_not_limited_by_recursion():
    x = param("x", ())
    value = x
    for _ in range(20_000):
        value = ops.negative(value)
    assert interpret(function([x], value), np.float32(3)) == (3,)


def test_calls_are_run_and_may_nest_deeply():
    x = param("x", (2,))
    inner = function([x], ops.add(x, 1.0), name="inner")
    for depth in range(3000):
        y = param("y", (2,))
        inner = function([y], ops.call(inner, y), name=f"level{depth}")
    np.testing.assert_array_equal(interpret(inner, np.zeros(2, np.float32)), [[1, 1]])


def test_calls_with_several_results_give_tuples():
    x = param("x", (2,))
    both = function([x], ops.exp(x), ops.negative(x), name="both")
    y = param("y", (2,))
    first, second = ops.call(both, y)
    again, _ = ops.call(both, second)
    found = interpret(function([y], first, ops.add(second, again)), np.zeros(2, np.float32))
    np.testing.assert_array_equal(found, [[1, 1], [1, 1]])


@dataclass(frozen=True, slots=True)
class Watched(Operator):
    """Counts how many of the arrays that it made are alive."""

    name: ClassVar[str] = "watched"
    alive: ClassVar[list] = []
    most: ClassVar[list] = []

    def infer(self, x):
        return x

    def reference(self, x):
        made = x + 1
        Watched.alive.append(weakref.ref(made))
        gc.collect(0)
        Watched.most.append(sum(ref() is not None for ref in Watched.alive))
        return made


def test_values_are_freed_after_their_last_use():
    x = param("x", (5,))
    value = x
    for _ in range(50):
        value = apply(Watched(), value)
    assert interpret(function([x], value), np.zeros(5, np.float32))[0].tolist() == [50] * 5
    assert len(Watched.most) == 50
    assert max(Watched.most) <= 2


def test_overflow_and_invalid_operations_do_not_warn():
    x = param("x", (3,))
    f = function([x], ops.exp(x), ops.log(x), ops.divide(x, 0.0), ops.multiply(x, 1e38))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        interpret(f, np.array([1e3, -1, 0], np.float32))


@dataclass(frozen=True, slots=True)
class Liar(Operator):
    """Says float32 and returns float64."""

    name: ClassVar[str] = "liar"

    def infer(self, x):
        return x

    def reference(self, x):
        return x.astype(np.float64)


def test_a_reference_that_disagrees_with_infer_is_found():
    x = param("x", (2,))
    with pytest.raises(VerifyError, match=r"liar: infer returns f32\[2\], but reference returns f64\[2\]"):
        interpret(function([x], apply(Liar(), x)), np.zeros(2, np.float32))


def test_arguments_must_be_of_the_parameters_types():
    x = param("x", (2,))
    f = function([x], ops.exp(x))
    with pytest.raises(TypeRuleError, match=r"@f: %x must be f32\[2\], got f64\[2\]; convert the array"):
        interpret(f, np.zeros(2))
    with pytest.raises(TypeRuleError, match=r"%x must be f32\[2\], got f32\[3\]"):
        interpret(f, np.zeros(3, np.float32))
    with pytest.raises(TypeRuleError, match=r"got complex128\[2\]"):
        interpret(f, np.zeros(2, complex))
    with pytest.raises(TypeRuleError, match="@f takes x, got 0 arrays"):
        interpret(f)


def test_ops_without_a_reference_are_refused():
    @dataclass(frozen=True, slots=True)
    class Bare(Op):
        name: ClassVar[str] = "bare"

    value = Value(Bare(), (), TensorType((), DTYPES["f32"]))
    with pytest.raises(VerifyError, match="bare is not an operator with a reference"):
        interpret(function([], value))
