"""What the parser refuses: each with its place, the rule, what was given and the fix."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adjoint.errors import ParseError
from adjoint.ir import parse, parse_function
from tests.ir.operators import OPERATORS


def body(lines, params="%x: f32[2]", result="f32[2]"):
    return f"func @f({params}) -> {result} {{\n  {lines}\n}}"


CASES = {
    "an operator that is not there": (
        body("%0: f32[2] = unari(%x)\n  return %0"),
        (2, 16),
        "there is no operator 'unari'; did you mean unary?",
    ),
    "a value that is not there": (
        body("%0: f32[2] = unary(%y)\n  return %0"),
        (2, 22),
        "%y is not defined above; known values: %x",
    ),
    "a value that is spelt otherwise": (
        body("%0: f32[2] = unary(%image)\n  return %0", "%images: f32[2]"),
        (2, 22),
        "%image is not defined above; did you mean %images?",
    ),
    "a value that comes later": (
        body("%a: f32[2] = unary(%b)\n  %b: f32[2] = unary(%x)\n  return %a"),
        (2, 22),
        "%b is not defined above",
    ),
    "a value defined twice": (
        body("%a: f32[2] = unary(%x)\n  %a: f32[2] = unary(%x)\n  return %a"),
        (3, 3),
        "%a is defined twice; rename this one",
    ),
    "a value named as a parameter": (body("%x: f32[2] = unary(%x)\n  return %x"), (2, 3), "%x is defined twice"),
    "a wrong type": (
        body("%a: f32[3] = unary(%x)\n  return %a"),
        (2, 3),
        "%a is declared as f32[3], but unary returns f32[2]; write %a: f32[2]",
    ),
    "what the operator refuses": (
        body("%a: f32[2] = join(%x, %y)\n  return %a", "%x: f32[2], %y: f32[3]"),
        (2, 16),
        "join: operands need one type, got f32[2], f32[3]; cast one",
    ),
    "too few operands": (
        body("%a: f32[2] = unary()\n  return %a"),
        (2, 16),
        "unary: wrong number of operands, got none",
    ),
    "a tuple where a tensor belongs": (
        body("%a: (f32[2], f32[2]) = split(%x)\n  %b: f32[2] = unary(%a)\n  return %b"),
        (3, 16),
        "unary: operands must be tensors, got (f32[2], f32[2]); extract the items of the tuple with tuple_get",
    ),
    "a tuple returned": (
        body("%a: (f32[2], f32[2]) = split(%x)\n  return %a", result="(f32[2], f32[2])"),
        (3, 10),
        "results must be tensors, got %a: (f32[2], f32[2]); return its items",
    ),
    "a wrong result type": (
        body("return %x", result="f64[2]"),
        (2, 3),
        "@f is declared as f64[2], but returns f32[2]; write -> f32[2]",
    ),
    "an attribute that is not there": (
        body("%a: f32[2] = attributes(%x) {numbr = 1.0}\n  return %a"),
        (2, 32),
        "attributes has no attribute 'numbr'; did you mean number?",
    ),
    "an attribute given twice": (
        body("%a: f32[2] = attributes(%x) {count = 1, count = 1}\n  return %a"),
        (2, 43),
        "attribute count is given twice; remove one",
    ),
    "an attribute of the wrong kind": (
        body('%a: f32[2] = attributes(%x) {count = "one"}\n  return %a'),
        (2, 40),
        'attributes: count takes int, got "one"; write one',
    ),
    "a float for an int": (
        body("%a: f32[2] = attributes(%x) {count = 1.5}\n  return %a"),
        (2, 40),
        "attributes: count takes int, got 1.5",
    ),
    "a bool for an int": (
        body("%a: f32[2] = attributes(%x) {axes = (True,)}\n  return %a"),
        (2, 39),
        "attributes: axes takes tuple[int, ...], got (True,)",
    ),
    "a pair of three": (
        body('%a: f32[2] = attributes(%x) {pair = ("a", 1.0, 2)}\n  return %a'),
        (2, 39),
        "attributes: pair takes tuple[str, float], got",
    ),
    "a choice that is none": (
        body('%a: f32[2] = attributes(%x) {mode = "left"}\n  return %a'),
        (2, 39),
        "attributes: mode takes Literal['up', 'down'], got \"left\"; write one",
    ),
    "an attribute that is missing": (
        body("%a: f32[2] = needs()\n  return %a"),
        (2, 16),
        "needs: attributes are missing (size)",
    ),
    "an attribute that the operator refuses": (
        body("%a: f32[2] = needs() {size = 0}\n  return %a"),
        (2, 16),
        "needs: size is at least 1, got 0; raise it",
    ),
    "a function that is not there": (
        body("%a: f32[2] = apply(%x) {body = @g, others = ()}\n  return %a"),
        (2, 34),
        "function @g is not defined above; there are no functions before it",
    ),
    "a word that is no literal": (
        body("%a: f32[2] = attributes(%x) {anything = true}\n  return %a"),
        (2, 43),
        "'true' is not a literal; put quotes around a string, or did you mean True?",
    ),
    "sizes without a comma": (body("return %x", "%x: f32[2 3]"), (1, 13), "f32[2 3] is not a type; separate sizes by"),
    "a size left out": (body("return %x", "%x: f32[2,,3]"), (1, 13), "f32[2,,3] is not a type"),
    "an endless number": (
        body(f"%a: f32[2] = attributes(%x) {{anything = {'7' * 5000}}}\n  return %a"),
        (2, 43),
        "77777777777777777777... has too many digits; write a float",
    ),
    "endless brackets": (
        body(f"%a: f32[2] = attributes(%x) {{anything = {'(' * 5000}"),
        (2, 143),
        "tuples nest at most 100 deep; flatten this one",
    ),
    "no literal at all": (
        body("%a: f32[2] = attributes(%x) {anything = )}\n  return %a"),
        (2, 43),
        "expected a literal, got ')'; write a number, string, tuple or dtype",
    ),
    "an escape that is none": (
        body('%a: f32[2] = attributes(%x) {text = "\\xZZ"}\n  return %a'),
        (2, 39),
        "is not a literal",
    ),
    "base64 that is none": (
        body('%a: f32[2] = attributes(%x) {data = b64"abc"}\n  return %a'),
        (2, 39),
        "is not a literal",
    ),
    "a string left open": (
        body('%a: f32[2] = attributes(%x) {text = "abc}\n  return %a'),
        (2, 39),
        "'\"' is not valid graph text; close the string on its line",
    ),
    "a character of no use": (body("return %x;"), (2, 12), "';' is not valid graph text; remove it"),
    "no result": (
        body("%a: f32[2] = unary(%x)"),
        (3, 1),
        "'return' and the results, at the end of the body",
    ),
    "a parameter without a name": (
        body("return %0", "%0: f32[2]"),
        (1, 9),
        "a parameter must have a name, got %0; use a name such as %x",
    ),
    "a parameter with no identifier": (
        body('return %"a b"', '%"a b": f32[2]'),
        (1, 9),
        "a parameter name must be letters, digits and underscores, in parts separated by dots as in layers.0.weight, "
        "got 'a b'; rename it",
    ),
    "two parameters of one name": (
        body("return %x", "%x: f32[2], %x: f32[2]"),
        (1, 21),
        "two parameters are named %x; rename one",
    ),
    "a parameter that is a tuple": (
        body("return %x", "%x: (f32[2], f32[2])"),
        (1, 9),
        "a parameter must be a tensor, got (f32[2], f32[2])",
    ),
    "a dtype that is none": (
        body("return %x", "%x: q32[2]"),
        (1, 13),
        "a type such as f32[2,3], got 'q32'",
    ),
    "a forgotten comma": (
        body("return %x", "%x: f32[2] %y: f32[2]"),
        (1, 20),
        "',' between parameters, got '%y'; insert it",
    ),
    "two functions of one name": (
        body("return %x") + "\n" + body("return %x"),
        (4, 6),
        "two functions are named @f; rename one",
    ),
    "text behind the end": (
        body("return %x") + " return",
        (3, 3),
        "expected a function or the end of the text, got 'return'; start a function with",
    ),
    "a module left open": (
        "module {\n" + body("return %x"),
        (4, 2),
        "'}' or func to go on with the module",
    ),
    "an attribute without a name": ("module {= 3} {}", (1, 9), "'}' or func"),
    "an end in the middle": (
        "func @f(%x: f32[2]) -> f32[2] {\n  %0: f32[2] = unary(",
        (2, 22),
        "a value such as %x, got 'the end of the text'",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_refusals(case):
    text, (line, column), message = CASES[case]
    with pytest.raises(ParseError) as caught:
        parse(text, OPERATORS)
    assert message in caught.value.message
    assert (caught.value.line, caught.value.column) == (line, column)
    assert f"line {line}, column {column}: " in caught.value.message
    assert f"(in {text.splitlines()[line - 1].strip()!r})" in caught.value.message


def test_no_function_at_all():
    with pytest.raises(ParseError, match="a function, got none; write func @name"):
        parse_function("module {}", OPERATORS)


def test_an_error_says_where_in_the_users_code():
    with pytest.raises(ParseError) as caught:
        parse("func", OPERATORS)
    assert caught.value.where is not None
    assert "test_parse_errors.py" in caught.value.where


TEXT = (
    'module {a = (1, "b")} {\n\nfunc @g(%x: f32[2]) -> f32[2] { return %x }\n\n'
    'func @f(%x: f32[2]) -> (f32[2], f32[2]) {donate = (("x", 0),)} {\n'
    '  %y: f32[2] = attributes(%x) {axes = (1, 2), data = b64"YQ==", text = "q", dtype = f32, number = -inf}\n'
    "  %1: f32[2] = apply(%y) {body = @g, others = ()}\n  return %y, %1\n}\n\n}"
)
PIECES = [*'%@{}(),=:"\\]-7\n', "", "->", "f32[", "%x", "@g", "func"]


def test_any_text_cut_short_is_refused_in_words():
    assert parse(TEXT, OPERATORS)["f"]
    for cut in range(1, len(TEXT) - 1, 3):
        with pytest.raises(ParseError, match=r"^line \d+, column \d+: "):
            parse(TEXT[:cut], OPERATORS)


@settings(max_examples=400, deadline=None)
@given(st.integers(0, len(TEXT)), st.integers(0, 12), st.sampled_from(PIECES) | st.text(max_size=4))
def test_any_text_is_a_module_or_refused_in_words(start, length, piece):
    damaged = TEXT[:start] + piece + TEXT[start + length :]
    try:
        module = parse(damaged, OPERATORS)
    except ParseError:
        return
    assert parse(str(module), OPERATORS) == module
