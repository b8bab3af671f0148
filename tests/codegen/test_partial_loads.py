"""Edges of vectors where loads leave out no lanes: which are known, and that they are read in pieces."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.codegen.module import emit_modules
from adjoint.codegen.partial_loads import active_prefix, load_prefix
from adjoint.codegen.targets import target_for
from adjoint.codegen.writer import Writer
from adjoint.ir import Function, param
from adjoint.kernel.index import Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Const, Coordinate, Load
from adjoint.pipeline import finish_program, lower_function

I64, BOOL, F32 = np.dtype(np.int64), np.dtype(np.bool_), np.dtype(np.float32)
LANE, COLUMN = Var("l", 4), Var("j", 3)


def text(index):
    """An index as code has it: a number where the loop over columns is unrolled."""
    return str(index.constant) if not index.variables() else "%v1"


def below(index, limit, function="lt"):
    return Apply(function, (Coordinate(index, I64), Const(limit, I64)), BOOL)


@pytest.mark.parametrize(
    ("guard", "count"),
    [
        (None, 3),
        (below(as_index(LANE), 2), 2),
        (below(as_index(LANE) + 4, 7), 3),
        (below(as_index(LANE), 100), 3),
        (below(as_index(LANE) + 8, 7), 0),
        (below(as_index(LANE), 2, "ge"), 0),
        (below(as_index(LANE) * 2, 2), 0),
        (below(as_index(LANE) + as_index(COLUMN), 2), 0),
        (Load(Buffer("mask", BOOL, 4, "external"), as_index(LANE)), 0),
    ],
)
def test_which_lanes_lead(guard, count):
    assert active_prefix(guard, LANE, 3, text) == count


@pytest.mark.parametrize(
    ("count", "pieces"), [(1, [(0, 1)]), (3, [(0, 2), (2, 1)]), (4, [(0, 4)]), (7, [(0, 4), (4, 2), (6, 1)])]
)
def test_pieces_are_powers_of_two(count, pieces):
    asked = []

    def load(type_, first):
        asked.append((first, int(type_[1 : type_.index(" ")]) if type_.startswith("<") else 1))
        return f"%at{first}"

    load_prefix(Writer({}), count, 8, "float", load)
    assert asked == pieces


def test_edges_of_products_are_masked_only_where_loads_can_be():
    x, w = param("x", (13, 37)), param("w", (37, 7))
    function = Function("edge", (x, w), (ops.matmul(x, w),))
    for name, masked in (("neon", False), ("sse2", False), ("avx2", True), ("rvv", True)):
        target = target_for(name)
        written = "".join(emit_modules(finish_program(lower_function(function, target)), target))
        assert ("@llvm.masked.load" in written) == masked, name
