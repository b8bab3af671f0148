"""Transposed planes: every element and channel is where it belongs, whatever the squares leave over."""

import numpy as np
import pytest

from adjoint.kernel.index import Var, as_index
from adjoint.kernel.interpreter import run_kernel
from adjoint.kernel.ir import Buffer, Kernel
from adjoint.lower.contractions.borders import Image
from adjoint.lower.contractions.planes import first_plane, transposed_planes


@pytest.mark.parametrize(("size", "columns"), [((4, 4), 4), ((3, 7), 4), ((5, 5), 3)])
def test_elements_of_a_plane_lie_apart_by_a_vector(size, columns):
    shape, f32 = (2, 6, *size), np.dtype(np.float32)
    image, to = (
        Buffer("x", f32, np.prod(shape).item(), "external"),
        Buffer("t", f32, (np.prod(size).item() + 2) * 4, "arena"),
    )
    n, c = Var("n", 2), Var("c", 6)
    read = Image(image, shape, (as_index(n), as_index(c), as_index(0), as_index(0)))
    first = first_plane(read, {n: as_index(1), c: as_index(2)})
    body = transposed_planes(read, to, 2, first, columns, 4)
    x, made = np.arange(image.size, dtype=f32), np.zeros(to.size, f32)
    run_kernel(Kernel("k", Var("u", 1), body), {image: x, to: made})
    wanted = x.reshape(shape)[1, 2 : 2 + columns].reshape(columns, -1).T
    np.testing.assert_array_equal(made.reshape(-1, 4)[2:, :columns], wanted)
    np.testing.assert_array_equal(made.reshape(-1, 4)[:2], 0)
