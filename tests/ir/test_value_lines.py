"""The line of code that a value comes from, in values, in text and in errors."""

import inspect
import threading
from pathlib import Path

import pytest

from adjoint import ops
from adjoint.errors import TypeRuleError, VerifyError, located, short_line
from adjoint.ir import Function, IRModule, Value, apply, param, parse, parse_function, rebuild, verify
from adjoint.ir.printer import print_functions, print_module
from adjoint.losses import MSELoss
from adjoint.models import linreg
from adjoint.optim import SGD
from tests.ir.operators import OPERATORS, Apply, Unary

X = param("x", (2,))


def here(offset=0):
    """``file:line`` of the caller."""
    frame = inspect.currentframe().f_back
    return f"{__file__}:{frame.f_lineno + offset}"


def test_a_value_has_the_line_that_created_it():
    y, wanted = apply(Unary(), X), here()
    assert y.line == wanted
    z, wanted = param("z", (2,)), here()
    assert z.line == wanted


def test_functions_of_adjoint_are_not_lines_of_the_user():
    y, wanted = ops.softmax(ops.add(X, 1.0)), here()
    values = Function("f", (X,), (y,)).values()
    assert len(values) > 5
    assert {v.line for v in values[1:]} == {wanted}


def test_the_innermost_line_of_the_user_counts():
    def layer(x):
        return ops.relu(x), here()

    for _ in range(2):
        value, wanted = layer(X)
        assert value.line == wanted


def test_models_losses_and_optimizers_of_adjoint_have_their_own_lines():
    def files(function):
        return {short_line(v.line).partition(":")[0] for v in function.values()}

    backbone = linreg()["backbone"]
    assert files(backbone) == {"models.py"}
    loss = MSELoss().function(X.type, X.type)
    assert files(loss) <= {"base.py", "regression.py"}
    assert loss.results[0].line.startswith(inspect.getsourcefile(MSELoss).rpartition("/")[0])
    assert {"scaling.py", "direction.py"} <= files(SGD(0.1, momentum=0.9).function({"w": X.type}))


def test_text_has_the_lines_of_its_file():
    text = "func @f(%x: f32[2]) -> f32[2] {\n  # a comment\n  %0: f32[2] = unary(%x)\n  return %0\n}"
    assert [v.line for v in parse_function(text, OPERATORS).values()] == ["text:1", "text:3"]
    assert [v.line for v in parse(text, OPERATORS, "folder/model.txt")["f"].values()] == [
        "folder/model.txt:1",
        "folder/model.txt:3",
    ]


def test_lines_do_not_count_when_functions_are_compared_or_printed():
    one = Function("f", (X,), (apply(Unary(), X),))
    other = Function("f", (X,), (apply(Unary(), X),))
    assert one.results[0].line != other.results[0].line
    assert one == other
    assert str(one) == str(other)


def test_lines_print_as_comments_that_read_back():
    with located("folder/model.py:7"):
        inner = Function("inner", (X,), (apply(Unary(), X),))
    with located(""):
        unknown = apply(Unary(), X)
    with located("model.py:9"):
        function = Function("f", (X,), (apply(Apply(inner), unknown),))
    text = print_functions([inner, function], show_lines=True)
    assert "  %0: f32[2] = unary(%x)  # model.py:7\n" in text
    assert "  %0: f32[2] = unary(%x)\n" in text
    assert "{body = @inner, others = ()}  # model.py:9\n" in text
    assert parse_function(text, OPERATORS) == function
    module = IRModule((inner,))
    assert print_module(module, show_lines=True) == str(module).replace("unary(%x)", "unary(%x)  # model.py:7")


def test_lines_of_other_systems_and_odd_files_are_short():
    assert short_line("C:\\models\\net.py:3") == "net.py:3"
    assert short_line("/tmp/a\nb.py:3") == "a b.py:3"
    assert short_line("text:12") == "text:12"
    assert short_line("") == ""


def test_what_replaces_a_value_has_its_line():
    y = apply(Unary(), X)
    z = apply(Unary(), y)
    made = rebuild((z,), lambda value, inputs: apply(Unary(), *inputs) if value is y else None)[0]
    assert made is not z
    assert [v.line for v in (made, made.inputs[0])] == [z.line, y.line]


def test_locations_nest_and_are_those_of_one_thread():
    found = []
    with located("a.py:1"):
        with located("b.py:2"):
            assert apply(Unary(), X).line == "b.py:2"
        assert apply(Unary(), X).line == "a.py:1"
        thread = threading.Thread(target=lambda: found.append(apply(Unary(), X).line))
        thread.start()
        thread.join()
    assert Path(found[0].rpartition(":")[0]).name == Path(__file__).name


def test_a_location_ends_with_an_error():
    with pytest.raises(TypeRuleError) as caught, located("a.py:1"):
        ops.add(X, param("y", (3,)))
    assert caught.value.where == "a.py:1"
    assert str(caught.value).endswith(" [at a.py:1]")
    assert apply(Unary(), X).line == here()


def test_an_error_about_a_value_of_unknown_line_has_that_of_the_caller():
    with pytest.raises(TypeRuleError) as caught, located(""):
        ops.add(X, param("y", (3,)))
    assert caught.value.where.startswith(__file__)


def test_the_verifier_names_the_line_of_a_wrong_type():
    with located("model.py:5"):
        good = apply(Unary(), X)
    wrong = Value(good.op, good.inputs, param("z", (3,)).type, "", None, good.line)
    with pytest.raises(VerifyError, match=r"\[at model.py:5\]$"):
        verify(Function("f", (X,), (wrong,)))
