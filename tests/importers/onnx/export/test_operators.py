"""The samples of every operator that is written in ONNX, computed by ONNX's reference and by the specification."""

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx.reference import ReferenceEvaluator

from adjoint.importers.onnx.export.export import _model
from adjoint.importers.onnx.export.operators import WRITTEN
from adjoint.importers.onnx.export.tracing import Exported
from adjoint.importers.onnx.package import require_onnx
from adjoint.ir import Function, is_float, param
from adjoint.ir.value import apply
from adjoint.ops.catalogue import CATALOGUE
from tests.importers.onnx.models import OLD_REFERENCE

CLASSES = {op.name: op for op in CATALOGUE}

#: The dtypes that are compared: half floats are rounded at other places, and ONNX's operators lack some integers.
PLAIN = {np.dtype(code) for code in ("f4", "f8", "i4", "i8", "?")}


def computed(op, arrays):
    """What ONNX's reference computes with an operator."""
    params = tuple(param(f"x{n}", array.shape, array.dtype) for n, array in enumerate(arrays))
    function = Function("net", params, (apply(op, *params),))
    exported = Exported(function, {p: p.label for p in params}, {})
    proto = _model(exported, require_onnx("test"), None, None, 18)
    feed = {p.label: array for p, array in zip(params, arrays, strict=True)}
    with np.errstate(all="ignore"):
        return ReferenceEvaluator(proto).run(None, feed)[0]


def usable(sample):
    """Whether a sample is valid, and ONNX's reference can compute it."""
    op, arrays = sample.op, [np.asarray(array) for array in sample.inputs]
    if sample.error or not all(a.dtype in PLAIN and a.size for a in arrays):
        return False
    if op.name == "pad" and any(op.interior):  # which is refused
        return False
    if op.name == "cast" and not (np.abs(arrays[0].astype(float)) < 2**31).all():  # what is out of range is not defined
        return False
    if op.name == "scatter" and op.reduce != "set" and OLD_REFERENCE:
        return False
    if op.name == "sum_pool2d" and not np.isfinite(arrays[0]).all():  # the reference leaves NaN out
        return False
    if op.name == "attention" and op.dropout:  # which is refused
        return False
    return "conv_transpose" not in op.name or op.groups == 1  # the reference adds up the groups wrongly


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_samples_agree_with_the_specification(name):
    compared = 0
    for sample in filter(usable, CLASSES[name].samples()):
        arrays = [np.asarray(array) for array in sample.inputs]
        with np.errstate(all="ignore"):
            expected = np.asarray(sample.op.reference(*arrays))
        if expected.dtype not in PLAIN or not expected.size:
            continue
        found = computed(sample.op, arrays)
        assert found.shape == expected.shape
        assert found.dtype == expected.dtype
        tolerance = 2e-5 if is_float(expected.dtype) else 0
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=str(sample.op))
        compared += 1
    assert compared
