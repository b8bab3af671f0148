"""PyTorch's core ATen set against PyTorch, where that is installed: the names, and the results of calls."""

import numpy as np
import pytest

import adjoint
from tests.ops.aten_calls import CALLS, KEYWORDS, TABLE, called, results, tensors

torch = pytest.importorskip("torch")

#: Results that are drawn at random or not defined, of which only the shapes are compared.
UNDEFINED = {"empty.memory_format", "rand.default", "randn.default", "randperm.default"}


def test_the_table_has_all_names_and_overloads():
    core = {}
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::"):
            name, overload = schema.name.removeprefix("aten::"), schema.overload_name or "default"
            packet = getattr(torch.ops.aten, name, None)
            if overload in (packet.overloads() if packet else ()) and torch.Tag.core in getattr(packet, overload).tags:
                core.setdefault(name, set()).add(overload)
    assert {name: set(each.overloads) for name, each in TABLE.items()} == core


@pytest.mark.filterwarnings("ignore:.*programs were compiled:adjoint.errors.AdjointWarning")
@pytest.mark.parametrize("overload", CALLS)
def test_results_are_those_of_torch(overload):
    name, _, kind = overload.partition(".")
    given = [tensors(torch, each) for each in CALLS[overload]]
    theirs = results(getattr(getattr(torch.ops.aten, name), kind)(*given, **KEYWORDS.get(overload, {})))
    # PyTorch's operators also return what their gradients need.
    for mine, other in zip(called(overload), theirs, strict=False):
        if not isinstance(other, torch.Tensor):
            assert mine == other
            continue
        array = mine.detach().numpy() if isinstance(mine, adjoint.Tensor) else np.asarray(mine)
        assert array.shape == tuple(other.shape)
        if overload not in UNDEFINED:
            np.testing.assert_allclose(array, other.numpy(), rtol=2e-5, atol=2e-6)
