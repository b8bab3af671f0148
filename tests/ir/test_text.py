"""Graphs as text: the exact form, and that it reads back as the same graph and the same text."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjoint.ir import DTYPES, Function, IRModule, TensorType, Value, apply, param, parse, parse_function
from tests.ir.operators import OPERATORS, Apply, Attributes, Item, Join, Needs, Split, Unary

X = param("x", (2, 3))
Y = param("y", (2, 3))


def read(text):
    return parse(text, OPERATORS)


def assert_round_trip(program):
    text = str(program)
    again = parse_function(text, OPERATORS) if isinstance(program, Function) else read(text)
    assert again == program
    assert str(again) == text
    return again


def test_the_text_form():
    total = apply(Join(), X, Y, label="total")
    scaled = apply(Attributes(number=0.5, axes=(0,), pair=("a", 2.0)), total)
    pick = Function("pick", (X,), (X,))
    called = apply(Apply(pick), scaled)
    main = Function("main", (X, Y), (called, total), {"donate": (("x", 1),)})
    assert str(IRModule((pick, main), {"param_num": 2, "state_num": 0})) == (
        "module {param_num = 2, state_num = 0} {\n"
        "\n"
        "func @pick(%x: f32[2,3]) -> f32[2,3] {\n"
        "  return %x\n"
        "}\n"
        "\n"
        'func @main(%x: f32[2,3], %y: f32[2,3]) -> (f32[2,3], f32[2,3]) {donate = (("x", 1),)} {\n'
        "  %total: f32[2,3] = join(%x, %y)\n"
        '  %1: f32[2,3] = attributes(%total) {number = 0.5, count = 0, flag = False, text = "", data = b64"", '
        'axes = (0,), pair = ("a", 2.0), dtype = f32, type = f32[], maybe = None, scalar = 0, mode = "up", '
        "anything = None}\n"
        "  %2: f32[2,3] = apply(%1) {body = @pick, others = ()}\n"
        "  return %2, %total\n"
        "}\n"
        "\n"
        "}"
    )


def test_modules_with_and_without_attributes_read_back():
    function = Function("f", (X,), (apply(Unary(), X),), {"note": "a", "list": ((1, 2.5), (), (True,))})
    for module in (IRModule(()), IRModule((), {"a": 1}), IRModule((function,)), IRModule((function,), {"func": -3})):
        assert_round_trip(module)


def test_functions_alone_print_with_what_they_call_before_them():
    inner = Function("inner", (X,), (apply(Unary(), X),))
    middle = Function("middle", (X,), (apply(Apply(inner), X),))
    outer = Function("outer", (X,), (apply(Apply(middle, (inner, inner)), X),))
    text = str(outer)
    assert [line.split("(")[0] for line in text.splitlines() if line.startswith("func")] == [
        "func @inner",
        "func @middle",
        "func @outer",
    ]
    assert_round_trip(outer)
    assert read(text)["inner"] == inner


def test_equal_callees_that_are_different_objects_print_once():
    def inner():
        return Function("inner", (X,), (apply(Unary(), X),))

    outer = Function("outer", (X,), (apply(Join(), apply(Apply(inner()), X), apply(Apply(inner()), X)),))
    assert str(outer).count("func @inner") == 1
    assert_round_trip(outer)


def test_labels_that_several_values_share_are_numbered_and_unique_ones_stay():
    a = apply(Unary(), X, label="a")
    b = apply(Unary(), a, label="a")
    c = apply(Unary(), b, label="a_1")
    d = apply(Unary(), c, label="x")
    e = apply(Unary(), d, label="a")
    function = Function("f", (X,), (e,))
    names = [line.split(":")[0].strip() for line in str(function).splitlines()[1:-2]]
    assert names == ["%a", "%a_2", "%a_1", "%x_1", "%a_3"]
    assert_round_trip(function)


def test_a_parameter_keeps_its_name_before_any_value():
    early = apply(Needs(2), label="x")
    x = param("x", (2,))
    assert "%x_1: f32[2] = needs()" in str(Function("f", (x,), (apply(Join(), early, x),)))


def test_values_without_a_label_print_as_the_number_of_their_line():
    a = apply(Unary(), X)
    b = apply(Unary(), a, label="named")
    c = apply(Unary(), b)
    lines = str(Function("f", (X,), (c,))).splitlines()
    assert [line.split(":")[0].strip() for line in lines[1:4]] == ["%0", "%named", "%2"]


def test_a_label_that_looks_like_a_number_is_none():
    zero = apply(Unary(), apply(Unary(), X), label="0")
    function = Function("f", (X,), (zero,))
    assert '%"0": f32[2,3] = unary(%0)' in str(function)
    assert assert_round_trip(function).results[0].label == "0"


def test_shared_values_stay_shared():
    a = apply(Unary(), X)
    function = Function("f", (X,), (apply(Join(), a, a), a))
    again = assert_round_trip(function)
    assert again.results[0].inputs == (again.results[1], again.results[1])


def test_tuple_types_and_scalars_and_empty_axes():
    x = param("x", (), "bf16")
    y = param("y", (0, 4), "bool")
    function = Function("f", (x, y), (apply(Unary(), x), apply(Item(), apply(Split(), y))))
    assert "%1: (bool[0,4], bool[0,4]) = split(%y)" in str(function)
    assert_round_trip(function)


def test_comments_and_line_breaks_are_blanks():
    text = """
    # a function
    func @f(  # its parameters
        %x: f32[2]  # one
    ) -> f32[2] {
      %a : f32[2]=unary(%x) return %a }  # done
    """
    x = param("x", (2,))
    assert parse_function(text, OPERATORS) == Function("f", (x,), (apply(Unary(), x),))


def test_attributes_with_defaults_may_be_left_out_and_come_in_any_order():
    text = "func @f(%x: f32[2]) -> f32[2] { %0: f32[2] = attributes(%x) {flag = True, number = 2} return %0 }"
    op = parse_function(text, OPERATORS).results[0].op
    assert op == Attributes(number=2.0, flag=True)
    assert type(op.number) is float


def test_hand_written_numbers_stay():
    text = "func @f(%x: f32[2]) -> f32[2] { %7: f32[2] = unary(%x) %3: f32[2] = unary(%7) return %3 }"
    function = parse_function(text, OPERATORS)
    assert "%7: f32[2] = unary(%x)\n  %3: f32[2] = unary(%7)\n  return %3" in str(function)
    assert_round_trip(function)


def test_lines_that_nothing_uses_are_dropped():
    text = "func @f(%x: f32[2]) -> f32[2] { %a: f32[2] = unary(%x) return %x }"
    x = param("x", (2,))
    assert parse_function(text, OPERATORS) == Function("f", (x,), (x,))


def test_the_last_function_is_the_one_that_is_read():
    text = "func @g(%x: f32[2]) -> f32[2] { return %x }\nfunc @f(%x: f32[2]) -> f32[2] { return %x }"
    assert parse_function(text, OPERATORS).name == "f"
    assert [f.name for f in read(text)] == ["g", "f"]


def test_numpy_scalars_print_as_numbers():
    op = Attributes(number=np.float32(0.1), count=np.int64(3), axes=(np.int32(1),))
    function = Function("f", (X,), (apply(op, X),))
    text = str(function)
    assert "number = 0.10000000149011612, count = 3" in text
    assert assert_round_trip(function).results[0].op.axes == (1,)


def test_an_integer_where_a_float_is_declared_prints_as_a_float():
    function = Function("f", (X,), (apply(Attributes(number=3), X),))
    assert "number = 3.0" in str(function)
    assert_round_trip(function)


def test_infinities_nan_and_signed_zeros_survive():
    values = (float("inf"), -float("inf"), float("nan"), -0.0, 5e-324, 1e300, 0.1)
    for value in values:
        function = Function("f", (X,), (apply(Attributes(number=value, anything=(value,)), X),), {"a": value})
        again = assert_round_trip(function)
        assert repr(again.results[0].op.number) == repr(value)


def test_wrong_attributes_still_print():
    """What a verifier refuses must be seen to be understood."""
    function = Function("f", (X,), (Value(Attributes(count="three"), (X,), X.type),))
    assert 'count = "three"' in str(function)


NAMES = st.text(max_size=8) | st.sampled_from(["x", "x_1", "a.b", "0", "inf", "nan", "é", "func", "return", "\ud800"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | NAMES | st.binary(max_size=8)
LITERALS = st.recursive(
    SCALARS | st.sampled_from([*DTYPES.values(), TensorType((2, 0), "i8"), TensorType(())]),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=8,
)
ATTRS = st.dictionaries(NAMES, st.recursive(st.booleans() | st.integers() | st.floats() | NAMES, lambda inner: st.lists(
    inner, max_size=3).map(tuple), max_leaves=6), max_size=3)  # fmt: skip


@given(st.lists(st.tuples(NAMES, LITERALS), max_size=6), NAMES, ATTRS)
def test_any_label_any_attribute_any_name_reads_back(steps, name, attrs):
    value = X
    for label, anything in steps:
        value = apply(Attributes(anything=anything), value, label=label)
        value = apply(Join(), value, X)
    function = Function(name, (X,), (value,), attrs)
    assert_round_trip(function)
    assert_round_trip(IRModule((function,), attrs))


@given(st.text(st.characters(categories=["L", "Nd", "Pc"]), min_size=1, max_size=6).filter(str.isidentifier))
def test_any_identifier_is_a_parameter(name):
    x = param(name, (2,))
    assert_round_trip(Function("f", (x,), (apply(Unary(), x),)))


@given(st.data())
def test_any_graph_reads_back(data):
    values = [X, Y]
    for _ in range(data.draw(st.integers(0, 12))):
        inputs = data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
        label = data.draw(st.sampled_from(["", "", "x", "a", "a_1"]))
        values.append(apply(Join(), *inputs, label=label))
    results = data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
    assert_round_trip(Function("f", (X, Y), tuple(results)))


def chain(length):
    value = X
    for _ in range(length):
        value = apply(Join(), value, X)
    return Function("chain", (X,), (value,))


def test_a_chain_far_longer_than_the_stack_prints_and_parses():
    """Twenty times Python's limit of recursion; that the work is linear is tested below."""
    function = chain(20_000)
    text = str(function)
    assert text.count("\n") == 20_002
    assert parse_function(text, OPERATORS) == function


def work(task):
    """How many Python functions are called in a task: the same number on every machine."""
    count = 0

    def tick(_frame, event, _argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(tick)
    try:
        task()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("what", ["print", "parse", "compare"])
def test_the_work_is_linear(what):
    def measured(length):
        function = chain(length)
        text, other = str(function), chain(length)
        tasks = {
            "print": lambda: str(function),
            "parse": lambda: parse_function(text, OPERATORS),
            "compare": lambda: function == other,
        }
        return work(tasks[what])

    small, large = measured(2_000), measured(4_000)
    assert 1.9 < large / small < 2.1


def test_equality_of_deeply_shared_calls_is_linear():
    """Thirty functions that call the one before twice: 2**30 paths, thirty functions."""

    def tower():
        function = Function("f0", (X,), (apply(Unary(), X),))
        for level in range(1, 31):
            body = apply(Join(), apply(Apply(function), X), apply(Apply(function), X))
            function = Function(f"f{level}", (X,), (body,))
        return function

    one, other = tower(), tower()
    assert one == other
    assert parse_function(str(one), OPERATORS) == one
    assert one != replace(other, results=(X,))


def test_calls_that_nest_deeper_than_the_recursion_limit_print_and_compare():
    def tower():
        function = Function("f", (X,), (X,))
        for level in range(sys.getrecursionlimit() + 100):
            function = Function(f"f{level}", (X,), (apply(Apply(function), X),))
        return function

    one = tower()
    assert one == tower()
    assert parse_function(str(one), OPERATORS) == one
