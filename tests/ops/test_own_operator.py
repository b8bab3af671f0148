"""A user's own operator: what is said about methods that are missing or return something else."""
# ruff: noqa: ARG005

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from adjoint import CompileOptions, compile, ops
from adjoint.errors import AdjointError, CompileError, DifferentiationError, InternalError, TypeRuleError
from adjoint.ir import Function, apply, param
from adjoint.ir.value import Op
from adjoint.ops.base import Elementwise, Operator
from adjoint.transforms import gradient

X = param("x", (3,))
OPTIONS = CompileOptions(threads=1, cache=False)


@dataclass(frozen=True, slots=True)
class Bare(Operator):
    """Defines nothing."""

    name: ClassVar[str] = "bare"


@dataclass(frozen=True, slots=True)
class Typed(Bare):
    """Has a type only."""

    def infer(self, *inputs):
        """The type of the first operand."""
        return inputs[0]


@dataclass(frozen=True, slots=True)
class Pointwise(Elementwise):
    """An elementwise operator without `scalar`."""

    name: ClassVar[str] = "pointwise"


def message(kind, build):
    with pytest.raises(AdjointError) as caught:
        build()
    assert isinstance(caught.value, kind)
    assert not isinstance(caught.value, InternalError)
    return caught.value.message


def compiled(op, *inputs):
    return compile(Function("f", (X,), (apply(op, *inputs),)), options=OPTIONS)


def gradient_of(op_class, vjp):
    op = type(op_class.__name__, (op_class,), {"vjp": vjp, "__slots__": ()})()
    return gradient(Function("f", (X,), (ops.sum(apply(op, X)),)), "x")


def test_a_missing_infer():
    assert message(TypeRuleError, lambda: apply(Bare(), X)) == (
        "Bare: an operator must define infer(self, ...), which returns the type of the result, got none for f32[3]; "
        "add it"
    )


def test_an_infer_that_returns_no_type():
    wrong = type("Wrong", (Bare,), {"infer": lambda self, x: None, "__slots__": ()})()
    assert message(TypeRuleError, lambda: apply(wrong, X)) == (
        "Wrong.infer must return a TensorType, got None (is a return missing?); return the type of the result"
    )


def test_a_missing_lowering():
    assert message(CompileError, lambda: compiled(Typed(), X)) == (
        "bare: the operator must define lower(self, k, index, x), which returns the element at an index; add it to "
        "Typed"
    )
    assert message(CompileError, lambda: compiled(Pointwise(), X, X)) == (
        "pointwise: the operator must define scalar(self, k, x0, x1), which returns an element given those of the "
        "operands; add it to Pointwise"
    )


def test_an_op_that_is_no_operator():
    @dataclass(frozen=True, slots=True)
    class Foreign(Op):
        name: ClassVar[str] = "foreign"

        def infer(self, x):
            return x

    assert message(CompileError, lambda: compiled(Foreign(), X)) == (
        "foreign: only operators derived from adjoint.ops.base.Operator can be compiled, got Foreign; derive it from "
        "Operator and define lower"
    )


def test_other_missing_methods():
    for call, expected in [
        (lambda: Typed().reference(np.ones(3)), "bare: the operator must define reference(self, x), which computes"),
        (lambda: Typed().vjp(X, X, X), "bare: the operator must define vjp(self, ct, out, x), which returns a tuple"),
        (
            lambda: Typed().vectorize((True,), X),
            "bare: the operator must define vectorize(self, mapped, x), which applies it along a mapped axis",
        ),
        (Typed.samples, "Typed: an operator must define samples(), which its tests need; add it"),
    ]:
        assert message(CompileError, call).startswith(expected)


def test_a_missing_or_wrong_vjp_names_the_operator():
    function = Function("f", (X,), (ops.sum(apply(Typed(), X)),))
    assert message(DifferentiationError, lambda: gradient(function, "x")) == (
        "operators on the path to the gradient must have a vjp, got none for bare at %0 in @f; define one, or insert "
        "stop_gradient before them"
    )
    rule = "the vjp of bare must return a tuple with a cotangent or None for each of 1 operand, got "
    for vjp, got in [
        (lambda self, ct, out, x: None, "None (is a return missing?)"),
        (lambda self, ct, out, x: ct, "an object of type Value"),
        (lambda self, ct, out, x: (ct, ct), "a tuple of 2"),
    ]:
        assert (
            message(DifferentiationError, lambda v=vjp: gradient_of(Typed, v)) == rule + got + "; correct the operator"
        )
    assert message(DifferentiationError, lambda: gradient_of(Typed, lambda self, ct, out, x: (1.0,))) == (
        "the vjp of bare must return graph values, got the float 1.0; compute them with operators"
    )
