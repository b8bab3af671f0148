"""The table of PyTorch's core ATen set: what it names exists, and is called as PyTorch calls it."""

from tests.ops.aten_calls import CALLS, NOT_CALLED, TABLE, WRITTEN, called, found

#: Calls that must know the elements, so that they cannot only be recorded.
READING = {"nonzero.default", "_local_scalar_dense.default"}


def test_the_set_is_that_of_torch_2_13():
    assert len(TABLE) == 164
    assert sum(len(each.overloads) for each in TABLE.values()) == 193
    assert sum(each.covered for each in TABLE.values()) == 158


def test_what_computes_an_operator_exists():
    for each in TABLE.values():
        assert all(callable(found(path)) for path in each.functions), each.name
        assert each.covered or each.remark, each.name


def test_each_overload_has_a_call():
    overloads = {f"{name}.{each}" for name, row in TABLE.items() if row.covered for each in row.overloads}
    assert overloads == CALLS.keys() | NOT_CALLED
    assert not CALLS.keys() & NOT_CALLED
    assert WRITTEN.keys() <= CALLS.keys()


def test_calls_are_accepted():
    """They are recorded and not computed; `test_aten_against_torch` compares the results with PyTorch's."""
    for overload in CALLS.keys() - READING:
        assert all(hasattr(each, "shape") or isinstance(each, int) for each in called(overload)), overload
