"""Results that get a place of their own."""

import numpy as np

from adjoint import ops
from adjoint.compiler import CompileOptions, compile
from adjoint.errors import located
from adjoint.ir import Function, param
from adjoint.transforms.separate_results import separate_results
from tests.closeness import agrees_with_graph


def test_a_donated_result_that_others_read_is_copied():
    x, y = param("x", (16,)), param("y", (16,))
    new = ops.add(x, y)
    donating = Function("f", (x, y), (new, ops.exp(new)), {"donate": (("x", 0),)})
    assert separate_results(donating).results[0].inputs == (new,)
    assert separate_results(Function("f", (x, y), (new, ops.exp(new)))).results[0] is new
    alone = Function("f", (x, y), (new,), {"donate": (("x", 0),)})
    assert separate_results(alone).results[0] is new


def test_what_is_updated_in_place_is_not_read_too_early():
    """The second result reads the new contents of x in another kernel than the one that writes them."""
    x, s = param("x", (16,)), param("s", ())
    new = ops.add(ops.multiply(x, 0.5), 1.0)
    scale = ops.exp(ops.multiply(s, 0.125))
    y = param("y", (16,))
    function = Function("f", (x, y, s), (ops.add(y, ops.divide(new, scale)), new), {"donate": (("y", 0), ("x", 1))})
    arrays = np.arange(16, dtype=np.float32), np.ones(16, np.float32), np.float32(2)
    compiled = compile(function, options=CompileOptions(threads=1, cache=False))(*arrays)
    agrees_with_graph(compiled, function, *arrays)


def test_a_copy_has_the_line_of_what_it_copies():
    with located("model.py:3"):
        y = ops.exp(param("x", (2,)))
    made = separate_results(Function("f", y.inputs, (y, y)))
    assert [value.line for value in made.results] == ["model.py:3"] * 2
