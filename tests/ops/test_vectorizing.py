"""The rule of every operator along a mapped axis, on its own samples: it agrees with a loop over single operands."""

from itertools import product

import numpy as np
import pytest

from adjoint.ir import is_float
from adjoint.ops.base import Operator
from adjoint.ops.catalogue import CATALOGUE
from adjoint.testing.interpreter import interpret
from adjoint.testing.rounding import rounding
from adjoint.transforms import vectorize
from tests.closeness import within
from tests.ops.running import graph_of

#: Operators with operands, which alone can be mapped.
MAPPABLE = [cls for cls in CATALOGUE if any(s.inputs for s in cls.samples() if not s.error)]

#: The most samples of an operator, and elements of a sample, that are run: `cast` has hundreds, attention large ones.
SAMPLES, ELEMENTS = 40, 1500


def samples_of(cls):
    good = [s for s in cls.samples() if not s.error and sum(x.size for x in s.inputs) <= ELEMENTS]
    return good[:: -(-len(good) // SAMPLES)]


def subsets(count):
    """Which operands are mapped: all, and each alone."""
    return [p for p in product((True, False), repeat=count) if sum(p) in (1, count)]


def another(x):
    """Another valid operand: the elements in reverse order, or a smaller one if there is only one."""
    if x.size != 1 or x.dtype == np.bool_:
        return np.flip(x).copy()
    return np.asarray(x * 0.75 if is_float(x.dtype) else np.maximum(x, 1) - 1).astype(x.dtype)


@pytest.mark.parametrize("cls", MAPPABLE, ids=lambda cls: cls.name)
def test_a_mapped_operator_agrees_with_a_loop(cls):
    for sample in samples_of(cls):
        single = graph_of(sample)
        for mapped in subsets(len(sample.inputs)):
            rows = [(x, another(x)) if has else (x, x) for x, has in zip(sample.inputs, mapped, strict=True)]
            given = [np.stack(row) if has else row[0] for row, has in zip(rows, mapped, strict=True)]
            function = vectorize(single, [0 if has else None for has in mapped], 2)
            (found,) = interpret(function, *given)
            for position in range(2):
                ((wanted, bound),) = rounding(single, *(row[position] for row in rows))
                within(found[position], wanted, bound, f"{sample.op} mapped over {mapped}")


@pytest.mark.parametrize("cls", MAPPABLE, ids=lambda cls: cls.name)
def test_every_operator_with_operands_has_a_rule(cls):
    assert cls.vectorize is not Operator.vectorize
