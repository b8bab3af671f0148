"""Lowering of elementwise operators, taken literally element by element, against their references."""

import numpy as np
import pytest

from adjoint.ops.base import Elementwise
from adjoint.ops.catalogue import CATALOGUE
from tests.ops.running import lowered

#: What NumPy's own casts do not do (saturate) is the builder's to know: its tests are those of compiled code.
CLASSES = [cls for cls in CATALOGUE if issubclass(cls, Elementwise) and cls.name != "cast"]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.name)
def test_every_element_is_the_references(cls):
    for number, sample in enumerate(s for s in cls.samples() if not s.error):
        with np.errstate(all="ignore"):
            found, expected = lowered(sample.op, *sample.inputs), sample.op.reference(*sample.inputs)
        assert found.dtype == expected.dtype
        rtol = {2: 1e-2, 4: 1e-6, 8: 1e-15}.get(expected.dtype.itemsize, 0)
        message = f"sample {number}: {sample}"
        np.testing.assert_allclose(
            found.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=rtol, err_msg=message
        )
