"""Memory that steps work in."""

from itertools import pairwise

import numpy as np
import pytest

from adjoint.ir import TensorType
from adjoint.runtime.bound import aligned, aligned_together


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1"])
@pytest.mark.parametrize("shape", [(), (3,), (5, 7), (300, 1000)])
def test_arrays_begin_with_a_cache_line(shape, dtype):
    array = aligned(shape, np.dtype(dtype))
    assert array.shape == shape
    assert array.dtype == dtype
    assert array.ctypes.data % 64 == 0
    assert array.flags.c_contiguous
    assert not array.any()
    array.fill(1)
    assert array.all()


def test_large_arrays_begin_in_sets_of_their_own():
    """A weight and its two moments, whichever lie between: four lines of each are in no set together."""
    arrays = [aligned((1 << 15,), np.dtype("f4")) for _ in range(8)]
    lines = [array.ctypes.data // 64 % 64 for array in arrays]
    apart = [(a - b) % 64 for n, a in enumerate(lines) for b in lines[:n]]
    assert min(min(d, 64 - d) for d in apart) >= 4


def test_arrays_that_live_together_share_a_block():
    shapes = {"w": (300, 1000), "scale": (), "m": (300, 1000), "bias": (7,), "v": (300, 1000)}
    arrays = aligned_together({name: TensorType(shape, np.dtype("f4")) for name, shape in shapes.items()})
    assert {name: array.shape for name, array in arrays.items()} == shapes
    places = [(array.ctypes.data, array.nbytes) for array in arrays.values()]
    assert all(start % 64 == 0 for start, _ in places)
    assert all(start + nbytes <= after for (start, nbytes), (after, _) in pairwise(places))
    assert places[-1][0] - places[0][0] < sum(nbytes for _, nbytes in places) + 3 * 2 * 4096
    lines = [arrays[name].ctypes.data // 64 % 64 for name in ("w", "m", "v")]
    assert len(set(lines)) == 3
    for number, array in enumerate(arrays.values()):
        assert not array.any()
        array.fill(number)
    assert all((array == number).all() for number, array in enumerate(arrays.values()))


def test_no_arrays_at_all():
    assert aligned_together({}) == {}
