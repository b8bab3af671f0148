"""Memory shared by DLPack: with NumPy, and with a library that does not say whether its memory may be written to."""

import ctypes
import gc

import ml_dtypes
import numpy as np
import pytest

import adjoint as torch
from adjoint.errors import AdjointError
from adjoint.tensor.dlpack import _Tensor, _Versioned
from tests.tensor.comparing import message

#: Whether this NumPy knows version 1 of the protocol, in which memory can be read-only.
VERSIONED = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


class Foreign:
    """An array of a library of before version 1: its capsules have no version, and its methods no arguments."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.device


class Asked(Foreign):
    """A library that passes on what it is asked for."""

    def __dlpack__(self, **asked):
        return self.array.__dlpack__(**asked)


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "i8", "i16", "i32", "i64", "u8", "bool"])
def test_elements_are_those_of_numpy_in_every_dtype(dtype):
    x = torch.tensor([[1, 0, 3], [4, 5, 6]]).to(dtype)
    seen = np.from_dlpack(x)
    assert seen.dtype == x.dtype
    assert seen.tolist() == x.tolist()
    x[0, 1] = 1
    assert seen[0, 1] == 1
    if VERSIONED:  # before, what NumPy imports cannot be written to
        back = torch.from_dlpack(Asked(seen))
        back[1, 1] = 0
        assert x[1, 1].item() == seen[1, 1] == 0


def test_bfloat16_is_passed_as_bfloat16():
    x = torch.tensor([1.5, -2.0]).bfloat16()
    capsule = x.__dlpack__()
    described = _Tensor.from_address(ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor"))
    assert (described.code, described.bits, described.lanes) == (4, 16, 1)  # kDLBfloat, as in dlpack.h
    y, z = torch.from_dlpack(Asked(x) if VERSIONED else Foreign(x)), torch.from_dlpack(x)
    z[0] = 3
    assert y.dtype == z.dtype == ml_dtypes.bfloat16
    assert x.tolist() == y.tolist() == z.tolist() == [3.0, -2.0]


def test_memory_that_is_not_said_to_be_writeable_is_never_written_to():
    array = np.ones(4)
    x = torch.from_dlpack(Foreign(array))
    array[0] = 2  # its own library may
    assert x.tolist() == [2, 1, 1, 1]
    x += 1
    weight = torch.nn.Parameter(torch.from_dlpack(Foreign(array)))
    optimizer = torch.optim.SGD([weight], lr=0.5)

    @torch.jit
    def step():
        optimizer.zero_grad()
        (weight * weight).sum().backward()
        optimizer.step()

    step()
    step()
    assert x.tolist() == [3, 2, 2, 2]
    assert weight.tolist() == [0, 0, 0, 0]
    loaded = torch.nn.Module()
    loaded.register_buffer("b", torch.from_dlpack(Foreign(array)))
    loaded.load_state_dict({"b": np.zeros(4)})
    assert loaded.b.tolist() == [0, 0, 0, 0]
    assert array.tolist() == [2, 1, 1, 1]


def test_read_only_arrays_are_shared_until_they_are_changed():
    array = np.arange(3.0)
    view = array.view()
    view.flags.writeable = False
    x = torch.from_dlpack(view)
    assert x.elements().address == array.ctypes.data
    array[0] = 7
    assert x.tolist() == [7, 1, 2]
    seen = np.from_dlpack(x)
    assert not seen.flags.writeable
    x.zero_()
    assert array.tolist() == seen.tolist() == [7, 1, 2]


def test_memory_outlives_its_tensor_and_is_not_used_again():
    @torch.jit
    def doubled(x):
        return x * 2

    first = np.from_dlpack(doubled(torch.ones(5)))
    for n in range(4):
        gc.collect()
        doubled(torch.full((5,), float(n)))
    assert first.tolist() == [2, 2, 2, 2, 2]
    y = torch.arange(4.0)
    seen = np.from_dlpack(y)
    y.add_(1)
    del y
    gc.collect()
    assert seen.tolist() == [1, 2, 3, 4]


def test_a_slice_of_an_array_is_changed_with_its_tensor():
    memory = np.zeros(6)
    part = memory[2:5]
    del memory
    x = torch.from_numpy(part)
    x += 1
    assert part.tolist() == [1, 1, 1]


def test_what_cannot_be_shared_is_copied():
    x = torch.arange(6.0).view(2, 3)
    row = np.from_dlpack(x[1])
    x.zero_()
    assert row.tolist() == [3, 4, 5]
    array = np.arange(6.0).reshape(2, 3).T
    assert torch.from_dlpack(array).tolist() == [[0, 3], [1, 4], [2, 5]]
    copy = torch.from_dlpack(array, copy=True)
    copy.zero_()
    assert array.sum() == 15
    if VERSIONED:
        assert np.from_dlpack(x, copy=True).ctypes.data != x.elements().address
    scalar = torch.from_dlpack(Asked(np.array(3.0)))
    assert (scalar.shape, scalar.item()) == ((), 3.0)


def test_a_capsule_is_consumed_once():
    capsule = np.ones(2).__dlpack__()
    assert torch.from_dlpack(capsule).tolist() == [1, 1]
    assert message(lambda: torch.from_dlpack(capsule)) == (
        "from_dlpack: a capsule can be consumed once, got one that has been; make a new one"
    )


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: torch.from_dlpack([1.0]),
            "from_dlpack: the argument must have __dlpack__, got a list; use adjoint.tensor",
        ),
        (
            lambda: torch.from_dlpack(Foreign(np.ones(1), device=(2, 0))),
            "from_dlpack: the memory must be on the CPU, DLPack's device 1, got device 2; copy it to the CPU first",
        ),
        (
            lambda: torch.from_dlpack(np.ones((2, 3)).T, copy=False),
            "from_dlpack: memory that is shared must be C-contiguous and aligned, got the strides [8, 24] for the "
            "shape [3, 2]; leave copy=False out",
        ),
        (
            lambda: torch.ones(2, requires_grad=True).__dlpack__(),
            "__dlpack__: what others may change must not require a gradient, got f32[2] that does; use tensor.detach()",
        ),
        (
            lambda: torch.ones(2).__dlpack__(stream=1),
            "__dlpack__: tensors are on the CPU, (1, 0), without streams, got the stream 1; leave it out",
        ),
        (
            lambda: torch.ones(2).__dlpack__(dl_device=(2, 0)),
            "__dlpack__: tensors are on the CPU, (1, 0), without streams, got device (2, 0); leave it out",
        ),
        (
            lambda: torch.ones(2, 2)[0].__dlpack__(copy=False),
            "__dlpack__: a view of another tensor, and memory that is read-only, are copied, got f32[2] with "
            "copy=False; leave that out",
        ),
    ],
)
def test_refusals(call, sentence):
    assert message(call) == sentence


@pytest.mark.skipif(not VERSIONED, reason="this NumPy makes no capsules with a version")
def test_another_version_is_refused():
    capsule = np.ones(1).__dlpack__(max_version=(1, 0))
    pointer = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor_versioned")
    _Versioned.from_address(pointer).major = 2
    with pytest.raises(AdjointError, match=r"the version must be 1, got 2\.\d; copy the elements with NumPy"):
        torch.from_dlpack(capsule)
    _Versioned.from_address(pointer).major = 1
