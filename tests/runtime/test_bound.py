"""Memory that steps work in."""

import numpy as np
import pytest

from adjoint.runtime.bound import aligned


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
