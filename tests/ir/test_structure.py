"""When functions and modules are equal, and what they reach by calls."""

import numpy as np
import pytest

from adjoint.errors import TypeRuleError, VerifyError
from adjoint.ir import Function, IRModule, Value, apply, callees, closure, infer_type, param
from tests.ir.operators import Apply, Attributes, Join, Split, Unary

X = param("x", (2,))


def attributes(**given):
    return Function("f", (X,), (apply(Attributes(**given), X),))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"number": 0.0}, {"number": -0.0}),
        ({"number": 1.0}, {"number": 2.0}),
        ({"axes": (1,)}, {"axes": (1, 1)}),
        ({"anything": (0.0,)}, {"anything": (-0.0,)}),
        ({"text": "a"}, {"data": b"a"}),
    ],
)
def test_other_attributes_make_another_function(one, other):
    assert attributes(**one) == attributes(**one)
    assert attributes(**one) != attributes(**other)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: IRModule(Function("f", (X,), (X,))),
            "IRModule takes its functions as a tuple, got a Function; write IRModule((function,))",
        ),
        (lambda: IRModule(("f",)), "IRModule takes a tuple of functions, got a str in it; leave it out"),
        (lambda: Function("f", (X, 3), (X,)), "function @f takes graph values as its parameters, got an int; pass a "),
        (lambda: Function("f", (X,), None), "function @f takes graph values as its results, got None; pass a tuple of"),
        (
            lambda: param("x", None),
            "param: the shape of x must be a tuple of sizes, got None; write param('x', (4, 3))",
        ),
        (
            lambda: param("x", "3"),
            "param: the shape of x must be a tuple of sizes, got a str; write param('x', (4, 3))",
        ),
        (lambda: param("x", 2.5), "param: the shape of x must be a tuple of sizes, got a float; write param('x', "),
        (
            lambda: param((4, 3), "x"),
            "param takes a name, then a shape, got a tuple as the name; write param('x', (4, 3))",
        ),
    ],
)
def test_parts_of_another_kind_are_refused(make, sentence):
    with pytest.raises(TypeRuleError) as refusal:
        make()
    assert refusal.value.message.startswith(sentence)


@pytest.mark.parametrize("size", [3, np.int64(3)])
def test_a_number_is_the_shape_of_one_axis(size):
    assert param("x", size).type == param("x", (3,)).type


def test_nan_is_equal_to_itself():
    assert attributes(number=float("nan")) == attributes(number=float("nan"))
    assert Function("f", (X,), (X,), {"a": float("nan")}) == Function("f", (X,), (X,), {"a": float("nan")})


def test_names_of_values_carry_no_meaning_and_names_of_parameters_do():
    assert Function("f", (X,), (apply(Unary(), X, label="a"),)) == Function("f", (X,), (apply(Unary(), X),))
    y = param("y", (2,))
    assert Function("f", (X,), (X,)) != Function("f", (y,), (y,))
    assert Function("f", (X, y), (X,)) != Function("f", (y, X), (X,))


def test_a_value_used_twice_is_not_two_equal_values():
    once = apply(Unary(), X)
    shared = Function("f", (X,), (apply(Join(), once, once),))
    twice = Function("f", (X,), (apply(Join(), apply(Unary(), X), apply(Unary(), X)),))
    assert shared != twice


def test_functions_with_other_callees_differ():
    one = Function("g", (X,), (X,))
    other = Function("g", (X,), (apply(Unary(), X),))
    assert Function("f", (X,), (apply(Apply(one), X),)) != Function("f", (X,), (apply(Apply(other), X),))


def test_a_function_declares_every_parameter_that_it_uses():
    y = param("y", (2,))
    with pytest.raises(VerifyError) as caught:
        Function("f", (X,), (apply(Join(), X, y),))
    assert caught.value.message == (
        "function @f must declare every parameter that its results depend on, got %y: f32[2] only in its graph; add it "
        "to its parameters"
    )
    with pytest.raises(VerifyError, match=r"got %x: f32\[2\], %y: f32\[2\] only in its graph; add them to"):
        Function("f", (), (apply(Join(), X, y), y))
    again = param("x", (2,))
    with pytest.raises(VerifyError, match=r"declare and use the same object, because each call of param\('x', ...\)"):
        Function("f", (again,), (apply(Unary(), X),))


def test_a_long_chain_of_values_is_a_function():
    value = X
    for _ in range(100_000):
        value = Value(Unary(), (value,), X.type)
    assert Function("f", (X,), (value,)).results == (value,)


def test_modules_compare_functions_order_and_attributes():
    f, g = Function("f", (X,), (X,)), Function("g", (X,), (X,))
    assert IRModule((f, g), {"a": 1}) == IRModule((f, g), {"a": 1})
    assert IRModule((f, g)) != IRModule((g, f))
    assert IRModule((f,)) != IRModule((f, g))
    assert IRModule((f,), {"a": 0.0}) != IRModule((f,), {"a": -0.0})
    assert IRModule((f,)) != f
    caller = Function("h", (X,), (apply(Apply(f), X),))
    assert IRModule((caller,)) != IRModule((f, caller))


def test_equal_functions_have_equal_hashes():
    one, other = attributes(number=1.0), attributes(number=1.0)
    assert one is not other
    assert len({one, other}) == 1
    assert len({IRModule((one,)), IRModule((other,))}) == 1


def test_callees_and_closure():
    f, g = Function("f", (X,), (X,)), Function("g", (X,), (X,))
    h = Function("h", (X,), (apply(Apply(g, (f,)), X),))
    top = Function("top", (X,), (apply(Join(), apply(Apply(f), X), apply(Apply(h), X)),))
    assert callees(top) == [f, h]
    assert callees(h) == [g, f]
    assert [function.name for function in closure((top,))] == ["f", "g", "h", "top"]
    assert [function.name for function in closure((h, top))] == ["g", "f", "h", "top"]


def test_apply_refuses_a_wrong_number_of_operands_and_tuples():
    with pytest.raises(TypeRuleError, match=r"unary: wrong number of operands, got f32\[2\], f32\[2\]"):
        apply(Unary(), X, X)
    pair = apply(Split(), X)
    with pytest.raises(
        TypeRuleError, match=r"unary: operands must be tensors, got \(f32\[2\], f32\[2\]\); extract the items"
    ):
        apply(Unary(), pair)
    with pytest.raises(TypeRuleError, match="unary: operands must be graph values, got float"):
        apply(Unary(), 1.0)


def test_an_operators_own_mistake_is_not_dressed_up():
    class Broken(Unary):
        def infer(self, x):
            return x.nothing_like_that

    with pytest.raises(AttributeError, match="nothing_like_that"):
        infer_type(Broken(), (X.type,))


def test_functions_return_something_and_name_things_once():
    with pytest.raises(VerifyError, match="function @f has no results; return at least one"):
        Function("f", (X,), ())
    with pytest.raises(VerifyError, match="two parameters named x; rename one"):
        Function("f", (X, param("x", ())), (X,))
    with pytest.raises(VerifyError, match="two functions named f; rename one"):
        IRModule((Function("f", (X,), (X,)), Function("f", (X,), (apply(Unary(), X),))))


def test_values_say_what_they_are():
    assert repr(Value(Unary(), (X,), X.type, "y")) == "<Value y: f32[2] = unary>"


@pytest.mark.parametrize(("params", "results", "what"), [(X, (X,), "parameters"), ((X,), X, "results")])
def test_one_value_is_not_a_tuple_of_its_rows(params, results, what):
    with pytest.raises(TypeRuleError) as refusal:
        Function("f", params, results)
    assert refusal.value.message == (
        f"function @f takes its {what} as a tuple, got one value of type f32[2]; write (value,)"
    )
