"""Dropping of parameters."""

from adjoint import ops
from adjoint.ir import Function, param
from adjoint.transforms import prune_params

X, Y, Z = (param(name, (2,)) for name in "xyz")


def names(function, **options):
    return [p.label for p in prune_params(function, **options).params]


def test_what_nothing_reaches_goes_and_the_order_stays():
    assert names(Function("f", (X, Y, Z), (ops.add(Z, X),))) == ["x", "z"]
    assert names(Function("f", (X, Y, Z), (ops.full(0.0, ()),))) == []


def test_what_is_kept():
    function = Function("f", (X, Y, Z), (ops.exp(X),), {"donate": (("y", 0),)})
    assert names(function) == ["x", "y"]
    assert names(function, keep=["z"]) == ["x", "y", "z"]
    assert prune_params(function).attrs == function.attrs
