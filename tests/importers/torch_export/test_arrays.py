"""PyTorch is optional; its tensors and arrays share memory."""

import sys

import numpy as np
import pytest

import adjoint
from adjoint.errors import MissingAttributeError
from adjoint.importers.torch_export.arrays import as_array, as_tensor, as_torch, is_torch_tensor


def test_without_pytorch_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingAttributeError) as error:
        adjoint.from_torch(None, None, None, None)
    assert error.value.message == (
        "from_torch needs the package torch, which is not installed; install it with pip install 'adjoint[torch]'"
    )


def test_other_objects_are_no_tensors_of_pytorch():
    assert not is_torch_tensor(adjoint.ones(1))
    assert as_tensor(3) == 3


def test_tensors_share_memory_both_ways():
    torch = pytest.importorskip("torch")
    theirs = torch.arange(3.0)
    own = as_tensor(theirs)
    theirs[0] = 5
    np.testing.assert_array_equal(own, [5, 1, 2])
    back = as_torch(own)
    back[1] = 7
    np.testing.assert_array_equal(theirs, [5, 7, 2])
    np.testing.assert_array_equal(as_tensor({"a": theirs})["a"], [5, 7, 2])


def test_all_dtypes_and_layouts_are_kept():
    torch = pytest.importorskip("torch")
    for dtype in (torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.uint16, torch.bool):
        theirs = torch.tensor([[0, 1, 1], [1, 0, 1]], dtype=dtype).T
        array = as_array(theirs)
        assert array.dtype.name == str(dtype).removeprefix("torch.")
        assert array.shape == (3, 2)
        assert torch.equal(as_torch(array), theirs)
