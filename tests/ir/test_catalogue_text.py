"""Every operator of the catalogue, with every attribute of its samples, reads back from its text."""

import pytest

from adjoint import ops
from adjoint.ir import Function, IRModule, apply, param
from adjoint.ops.catalogue import CATALOGUE


@pytest.mark.parametrize("operator", CATALOGUE, ids=lambda cls: cls.name)
def test_samples_read_back(operator):
    functions = []
    for number, sample in enumerate(operator.samples()):
        if sample.error:
            continue
        params = tuple(param(f"p{i}", x.shape, x.dtype) for i, x in enumerate(sample.inputs))
        functions.append(Function(f"f{number}", params, (apply(sample.op, *params),)))
    module = IRModule(tuple(functions))
    text = str(module)
    again = ops.parse(text)
    assert again == module
    assert str(again) == text
    for one, other in zip(again.functions, functions, strict=True):
        assert one.results[0].op.key() == other.results[0].op.key()
