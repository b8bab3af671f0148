"""Compiled code agrees with the reference of every operator, on its own samples."""

import pytest

from adjoint.compiler import CompileOptions, compile
from adjoint.ir import Function, apply, param
from adjoint.ops.catalogue import CATALOGUE
from tests.closeness import agrees_with_graph

OPTIONS = CompileOptions(threads=1, cache=False)


def joined(samples):
    """One function of all samples' operands to all their results, so that an operator compiles once."""
    params, results = [], []
    for number, sample in enumerate(samples):
        own = [param(f"s{number}_{i}", x.shape, x.dtype) for i, x in enumerate(sample.inputs)]
        params += own
        results.append(apply(sample.op, *own))
    return Function("samples", tuple(params), tuple(results))


@pytest.mark.parametrize("cls", CATALOGUE, ids=lambda cls: cls.name)
def test_compiled_code_agrees_with_the_reference(cls):
    samples = [sample for sample in cls.samples() if not sample.error]
    function = joined(samples)
    arrays = [x for sample in samples for x in sample.inputs]
    agrees_with_graph(compile(function, options=OPTIONS)(*arrays), function, *arrays, message=cls.name)
