"""Lowering of elementwise operators, taken literally element by element, against their references."""

import numpy as np
import pytest

from adjoint.ops.base import Elementwise
from adjoint.ops.catalogue import CATALOGUE
from tests.closeness import agrees_with_graph
from tests.ops.running import graph_of, lowered

#: What NumPy's own casts do not do (saturate) is the builder's to know: its tests are those of compiled code.
CLASSES = [cls for cls in CATALOGUE if issubclass(cls, Elementwise) and cls.name != "cast"]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.name)
def test_every_element_is_the_references(cls):
    for number, sample in enumerate(s for s in cls.samples() if not s.error):
        with np.errstate(all="ignore"):
            found = lowered(sample.op, *sample.inputs)
        agrees_with_graph(found, graph_of(sample), *sample.inputs, message=f"sample {number}: {sample}")
