"""Inlined elements are memoized by what they are made from, not by its address."""

from adjoint.ir import DTYPES, param
from adjoint.kernel.index import Var, as_index
from adjoint.kernel.ir import Buffer, Coordinate, Load
from adjoint.lower.analysis.inlining import Inliner


def test_a_guard_is_told_from_one_whose_memory_it_got():
    """What a choice guards is read unguarded where it is inside its buffer; what another guard is around is not."""
    x, buffer, i = param("x", (8,)), Buffer("x", DTYPES["f32"], 8, "external"), Var("i", 8)
    inliner = Inliner({x: buffer}, {})

    def condition(low):
        return inliner.call("ge", Coordinate(as_index(i), DTYPES["i64"]), inliner.const(low, DTYPES["i64"]))

    addresses = set()
    for low in range(1, 200):
        # The choice, its condition and its guards are gone after this line.
        inliner.choose(condition(low), lambda: inliner.element(x, (i,)), lambda: inliner.element(x, (i,)))
        inliner.guard = condition(low)
        addresses.add(id(inliner.guard))
        made = inliner.element(x, (i,))
        assert isinstance(made, Load)
        assert made.guard is inliner.guard
        inliner.guard = None
    assert len(addresses) > 100, "each guard that is remembered lives on"


def test_constant_conditions_are_folded_and_constant_bits_are_not():
    inliner = Inliner({}, {})
    number = Coordinate(as_index(Var("i", 8)), DTYPES["i32"])
    holds = inliner.call("lt", number, inliner.const(3, DTYPES["i32"]))
    true, one = inliner.const(True, DTYPES["bool"]), inliner.const(1, DTYPES["i32"])
    assert inliner.call("and", holds, true) is holds
    assert inliner.call("or", holds, true).value is True
    for function in ("and", "or"):
        assert inliner.call(function, number, one).operands == (number, one)
