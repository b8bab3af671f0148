"""What the verifier refuses: each with the value's name and the fix."""

import pytest

from adjoint.errors import VerifyError
from adjoint.ir import Function, IRModule, TensorType, Value, apply, param, parse, verify
from tests.ir.operators import OPERATORS, Apply, Join, Split, Unary

X = param("x", (2,))
Y = param("y", (2,))
LEAF = Function("leaf", (X,), (apply(Unary(), X),))


def test_good_programs_pass():
    text = """module {n = 1} {
        func @g(%x: f32[2]) -> f32[2] { %0: f32[2] = unary(%x) return %0 }
        func @f(%x: f32[2], %y: f32[2]) -> (f32[2], f32[2]) {donate = (("x", 1), ("y", 0))} {
          %a: f32[2] = apply(%x) {body = @g}
          %b: f32[2] = join(%a, %y)
          return %a, %b
        }
    }"""
    module = parse(text, OPERATORS)
    verify(module)
    verify(module["f"])


def refused(program, message):
    with pytest.raises(VerifyError) as caught:
        verify(program)
    assert message in caught.value.message


def test_a_type_that_the_operator_does_not_infer():
    wrong = Value(Unary(), (X,), TensorType((3,)), "a")
    refused(
        Function("f", (X,), (wrong,)), "%a in @f: has type f32[3], but unary returns f32[2]; create values with apply"
    )


def test_operands_that_the_operator_refuses():
    wrong = Value(Join(), (X, param("z", (3,))), X.type)
    function = Function("f", wrong.inputs, (wrong,))
    refused(function, "%0 in @f: join: operands need one type, got f32[2], f32[3]; cast one")
    refused(Function("f", (X,), (Value(Unary(), (), X.type),)), "%0 in @f: unary: wrong number of operands, got none")


def test_a_tuple_where_a_tensor_belongs():
    pair = apply(Split(), X)
    refused(Function("f", (X,), (Value(Unary(), (pair,), X.type),)), "%1 in @f: unary: operands must be tensors")
    refused(
        Function("f", (X,), (pair,)),
        "%0 in @f: results must be tensors, got (f32[2], f32[2]); extract its items with tuple_get",
    )


def test_a_parameter_that_is_computed():
    made = apply(Unary(), X, label="made")
    refused(
        Function("f", (X, made), (made,)), "%made in @f: is a parameter, but computed by unary; create it with param"
    )


def test_a_parameter_whose_type_is_another_than_declared():
    wrong = Value(X.op, (), TensorType((3,)), "x")
    refused(Function("f", (wrong,), (wrong,)), "%x in @f: has type f32[3], but param returns f32[2]")


@pytest.mark.parametrize(
    ("donate", "message"),
    [
        ("x", "@f: donate must be a tuple of pairs (parameter name, result index), got 'x'; pass pairs"),
        (("x", 0), "@f: donate must be a tuple of pairs (parameter name, result index)"),
        ((("x", True),), "@f: donate must be a tuple of pairs (parameter name, result index)"),
        ((("x", 0, 1),), "@f: donate must be a tuple of pairs (parameter name, result index)"),
        ((("z", 0),), "@f: donate names the unknown parameter 'z'; known parameters: x, w"),
        ((("x", 2),), "@f: donate maps %x to result 2; use a result index from 0 to 1"),
        ((("x", -1),), "@f: donate maps %x to result -1"),
        ((("w", 0),), "%0 in @f: cannot reuse the buffer of %w: f32[3] is not f32[2]; remove the pair"),
        ((("x", 0), ("x", 1)), "@f: donate uses %x or result 1 twice; remove one pair"),
    ],
)
def test_donations(donate, message):
    w = param("w", (3,))
    results = (apply(Unary(), X), apply(Unary(), apply(Unary(), X)))
    refused(Function("f", (X, w), results, {"donate": donate}), message)


def test_one_buffer_for_two_results():
    function = Function("f", (X, Y), (apply(Join(), X, Y),), {"donate": (("x", 0), ("y", 0))})
    refused(function, "@f: donate uses %y or result 0 twice; remove one pair")


def test_what_is_wrong_in_a_callee():
    bad = Function("bad", (X,), (Value(Unary(), (X,), TensorType((2,), "f64"), "a"),))
    caller = Value(Apply(bad), (X,), TensorType((2,), "f64"))
    refused(Function("f", (X,), (caller,)), "%a in @bad: has type f64[2]")


def test_two_functions_of_one_name_that_differ():
    other = Function("leaf", (X,), (X,))
    both = apply(Join(), apply(Apply(LEAF), X), apply(Apply(other), X))
    refused(Function("f", (X,), (both,)), "two functions named @leaf; rename one")


def test_a_function_may_not_hide_behind_its_own_name():
    inner = Function("f", (X,), (apply(Unary(), X),))
    refused(Function("f", (X,), (apply(Apply(inner), X),)), "two functions named @f; rename one")


def test_modules_hold_their_callees_before_the_callers():
    caller = Function("f", (X,), (apply(Apply(LEAF), X),))
    verify(IRModule((LEAF, caller)))
    message = "@f calls @leaf, which does not precede it in the module; move it there"
    refused(IRModule((caller,)), message)
    refused(IRModule((caller, LEAF)), message)
    other = Function("leaf", (X,), (X,))
    refused(IRModule((other, caller)), "@f calls a different @leaf than the module's; rename one, or call the module's")


def test_an_equal_callee_is_the_same_callee():
    copy = Function("leaf", (X,), (apply(Unary(), X),))
    verify(IRModule((copy, Function("f", (X,), (apply(Apply(LEAF), X),)))))


def test_a_chain_of_100000_values_is_verified():
    value = X
    for _ in range(100_000):
        value = apply(Unary(), value)
    verify(Function("f", (X,), (value,)))
