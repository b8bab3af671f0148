"""Every pass on the programs of ``tests/golden/<pass>``: the text that it makes, and that it means the same."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.ir import is_float, verify
from adjoint.testing.interpreter import interpret
from tests.golden.passes import CASES, PASSES, halves, made


def test_every_pass_has_golden_texts():
    assert {case.split("/")[0] for case in CASES} == set(PASSES)


@pytest.mark.parametrize("case", CASES)
def test_golden(case):
    function = made(case)
    assert str(function) == halves(case)[1]
    verify(function)
    assert ops.parse_function(str(function)) == function


#: Passes that change what is computed: they add results or join functions.
ADDS = ("differentiate", "append_loss", "prune_params")


@pytest.mark.parametrize("case", [case for case in CASES if case.split("/")[0] not in ADDS])
def test_the_results_are_the_same_bits(case):
    before = ops.parse(halves(case)[0])["main"]
    rng = np.random.default_rng(0)
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, 3.0])
    for trial in range(4):
        arrays = []
        for p in before.params:
            drawn = rng.normal(size=p.shape) if trial < 2 else rng.choice(special, p.shape)
            arrays.append(drawn.astype(p.dtype) if is_float(p.dtype) else rng.integers(0, 2, p.shape).astype(p.dtype))
        for one, other in zip(interpret(before, *arrays), interpret(made(case), *arrays), strict=True):
            np.testing.assert_array_equal(one, other)
            np.testing.assert_array_equal(np.signbit(one[one == one]), np.signbit(other[other == other]))
