"""Names that stay: `numbered` stores the printed names, and copies and replacements of values keep them."""

import pytest

from adjoint.ir import Function, apply, free_number, numbered, param, parse_function, unnumbered, value_names
from tests.ir.operators import OPERATORS, Apply, Join, Unary

X = param("x", (2, 3))


def body(function):
    """The names of the values that are no parameters."""
    return list(value_names(function).values())[len(function.params) :]


def small():
    """Values without labels, one with a label, and two that share one."""
    a = apply(Unary(), X)
    b = apply(Unary(), a, label="b")
    c = apply(Join(), b, a)
    return Function("f", (X,), (apply(Unary(), apply(Unary(), c, label="b")), c))


def test_numbered_stores_what_is_printed():
    function = small()
    made = numbered(function)
    assert str(made) == str(function)
    assert made == function
    names = [value.label or value.number for value in made.values()]
    assert names == ["x", 0, "b", 2, "b_1", 4]
    assert made.params == function.params


def test_a_numbered_function_is_left_alone():
    made = numbered(small())
    assert numbered(made) is made
    assert numbered(made, 100) is made


def test_a_value_keeps_its_number_when_others_come_and_go():
    made = numbered(small())
    c = made.results[1]
    fewer = Function("g", (X,), (apply(Unary(), c),))
    assert body(fewer) == ["%0", "%b", "%2", "%3"]
    more = Function("h", (X,), (apply(Join(), apply(Unary(), X), apply(Unary(), made.results[0])),))
    assert body(more) == ["%5", "%0", "%b", "%2", "%b_1", "%4", "%6", "%7"]


def test_new_numbers_are_above_those_that_were_freed():
    made = numbered(small())
    free = free_number(made)
    assert free == 5
    fewer = Function("g", (X,), (apply(Unary(), made.results[1].inputs[1]),))
    assert body(fewer) == ["%0", "%1"]
    assert body(numbered(fewer, free)) == ["%0", "%5"]


def test_two_values_with_the_same_number_get_different_ones():
    one = numbered(Function("f", (X,), (apply(Unary(), X),))).results[0]
    other = numbered(Function("g", (X,), (apply(Join(), X),))).results[0]
    assert (one.number, other.number) == (0, 0)
    assert body(Function("h", (X,), (one, other))) == ["%0", "%1"]


def test_a_label_of_digits_is_not_a_number():
    function = numbered(Function("f", (X,), (apply(Unary(), apply(Unary(), X), label="0"),)))
    assert body(function) == ["%0", '%"0"']
    assert numbered(function) is function


def test_called_functions_are_left_alone():
    inner = small()
    made = numbered(Function("g", (X,), (apply(Apply(inner), apply(Unary(), X)),)))
    assert made.results[0].op.body is inner


def test_a_copy_for_another_function_has_no_number():
    value = numbered(Function("f", (X,), (apply(Unary(), X),))).results[0]
    assert unnumbered(value, value.inputs).number is None
    labelled = apply(Unary(), X, label="a")
    assert unnumbered(labelled, labelled.inputs) is labelled


def test_copies_and_replacements_keep_name_and_line():
    value = numbered(Function("f", (X,), (apply(Unary(), X),))).results[0]
    y = param("y", (2, 3))
    copy = value.with_inputs((y,))
    assert (copy.number, copy.line, copy.inputs) == (0, value.line, (y,))
    assert value.with_inputs((X,)) is value
    better = apply(Join(), X).in_place_of(value)
    assert (better.op, better.number, better.line) == (Join(), 0, value.line)
    assert (value.named("a").label, value.named("a").number, value.named("a").line) == ("a", None, value.line)


@pytest.mark.parametrize("numbers", [(0, 1, 2), (5, 3, 4), (7, 2, 9)])
def test_text_reads_back_with_its_numbers(numbers):
    a, b, c = numbers
    text = (
        "func @f(%x: f32[2]) -> f32[2] {\n"
        f"  %{a}: f32[2] = unary(%x)\n  %{b}: f32[2] = unary(%{a})\n  %{c}: f32[2] = unary(%{b})\n"
        f"  return %{c}\n}}"
    )
    assert str(parse_function(text, OPERATORS)) == text


def test_a_chain_of_100000_values_is_numbered():
    value = X
    for _ in range(100_000):
        value = apply(Unary(), value)
    assert numbered(Function("f", (X,), (value,))).results[0].number == 99_999
