"""Why programs were compiled."""

import logging

import numpy as np
import pytest

from adjoint import optim
from adjoint.errors import AdjointWarning
from adjoint.tensor.explain import Compilations, explain_recompiles, log
from tests.tensor.making import leaf, plain


def reason(program, first, second):
    """Why the second program was compiled."""
    program(*first).elements()
    before = log.count
    program(*second).elements()
    assert log.count == before + 1
    return explain_recompiles()[-1]


def test_a_shape_that_changes():
    def program(x, y):
        return (x * 2.0 + y) * x

    found = reason(program, (plain(np.ones((3, 7))), plain(1.0)), (plain(np.ones((3, 7))), plain(np.ones(7))))
    assert found.reason == "tensor x1 is f32[7] and was f32[]"
    assert "test_explain.py" in found.line
    assert found.operations == 5
    assert found.seconds > 0


def test_an_argument_that_changes():
    found = reason(lambda x, n: (x + 1.0) ** n, (plain(np.ones(11)), 2), (plain(np.ones(11)), 3))
    assert found.reason == "an argument of pow is 3 and was 2"


def test_an_operation_that_changes():
    found = reason(
        lambda x, add: (x * 3.0) + 1.0 if add else -(x * 3.0), (plain(np.ones(13)), True), (plain(np.ones(13)), False)
    )
    assert found.reason == "neg comes where add came before"


def test_views_and_helpers_are_named():
    found = reason(
        lambda x, view: (x * 5.0).view(-1) if view else (x * 5.0).square(),
        (plain(np.ones(19)), True),
        (plain(np.ones(19)), False),
    )
    assert found.reason == "square comes where reshape came before"


def test_the_line_is_the_users_where_an_optimizer_differs():
    def program(lr):
        w = leaf(np.ones(23))
        (w * w).sum().backward()
        optim.SGD([w], lr=0.1, nesterov=lr, momentum=0.5).step()
        return w

    found = reason(program, (False,), (True,))
    assert "test_explain.py" in found.line


def test_a_view_that_changes():
    found = reason(
        lambda x, back: (x * 3.0).flip(0) if back else (x * 3.0)[1:] + 1.0,
        (plain(np.ones(29)), True),
        (plain(np.ones(29)), False),
    )
    assert found.reason == "select comes where flip came before"


def test_other_results():
    def program(kept):
        x = plain(np.ones(17))
        y = x + 1.0
        z = y * y
        return (y, z) if kept else (z,)

    held = program(True)
    held[0].elements()
    held = program(False)
    held[0].elements()
    assert explain_recompiles()[-1].reason == "other results of the same operations are in use"


def test_the_list_prints_as_a_table():
    (plain(np.ones(19)) * 2.0).elements()
    last = repr(Compilations(explain_recompiles()[-1:])).splitlines()
    assert last[0].endswith("it is the first program of its kind") or " [at " in last[0]
    assert last[1].endswith("in 1 compilation")
    assert repr(Compilations()) == "nothing has been compiled"


def test_many_programs_that_differ_at_one_place_give_a_warning(monkeypatch):
    monkeypatch.setattr("adjoint.tensor.explain._MANY", 2)

    def program(n):
        return (plain(np.ones(23)) * plain(np.ones((n, 1)))).elements()

    program(1)
    program(2)
    with pytest.warns(
        AdjointWarning, match=r"3 programs were compiled that differ at the same place, the last because"
    ):
        program(3)
    program(4)  # once for each line


def test_compilations_are_announced_with_reason_line_and_seconds(caplog):
    def program(x):
        return x.cosh() * 7.0

    with caplog.at_level(logging.WARNING, logger="adjoint"):
        program(plain(np.ones(31))).elements()
    assert not caplog.records
    with caplog.at_level(logging.INFO, logger="adjoint"):
        program(plain(np.ones((31, 1)))).elements()
        program(plain(np.ones((31, 1)))).elements()
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("adjoint", logging.INFO)
    found = explain_recompiles()[-1]
    assert record.getMessage() == (
        f"compiled 3 operations in {found.seconds:.3f} s, because {found.reason} [at {found.line}]"
    )
