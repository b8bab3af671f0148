"""One measure of how close numbers are: per element, against a wider reference and a bound of its rounding.

`adjoint.testing.rounding` says where the bounds are from. No tolerance here comes from what one machine or one BLAS
did, and none is relative to the largest element of a tensor.
"""

from functools import lru_cache

import numpy as np

from adjoint.testing.rounding import rounding, unit_roundoff

__all__ = ["agrees_with_graph", "close_to_product", "within"]


def within(found, wanted, bound, message=""):
    """No element is further from the wanted one than its bound allows; infinities and NaN are where they should be."""
    found = np.asarray(found)
    wanted, bound = np.asarray(wanted), np.asarray(bound)
    assert found.shape == wanted.shape, f"{message}: {found.shape} instead of {wanted.shape}"
    finite = np.isfinite(wanted.astype(bound.dtype)) if wanted.dtype.kind not in "biu" else np.ones(wanted.shape, bool)
    np.testing.assert_array_equal(found[~finite].astype("f8"), wanted[~finite].astype("f8"), err_msg=message)
    off = abs(found[finite].astype(bound.dtype) - wanted[finite].astype(bound.dtype))
    least = np.finfo(found.dtype).tiny if found.dtype.kind == "f" else 0
    allowed = np.broadcast_to(bound, wanted.shape)[finite] + least
    # Said so, a NaN is no number that is close.
    far = ~(off <= allowed)
    if far.any():
        worst = int(np.argmax(np.where(far, np.nan_to_num(off / np.maximum(allowed, 1e-300), nan=np.inf), 0)))
        raise AssertionError(
            f"{message}: {far.sum()} of {far.size} elements are off by more than rounding allows; the worst is "
            f"{found[finite][worst]} instead of {wanted[finite][worst]}, where {allowed[worst]:.3g} is allowed"
        )


def agrees_with_graph(found, function, *arrays, message="", slack=1):
    """What was computed of a function is what its graph means, in wider floats, but for `slack` times rounding."""
    found = found if isinstance(found, tuple | list) else (found,)
    given = [np.asarray(array, p.dtype) for p, array in zip(function.params, arrays, strict=True)]
    wanted = _meaning(function, *((array.shape, array.tobytes()) for array in given))
    for number, (got, (want, bound)) in enumerate(zip(found, wanted, strict=True)):
        assert got.dtype == function.results[number].dtype
        within(got, want, slack * bound, f"{message or function.name}, result {number}")


@lru_cache(maxsize=4)
def _meaning(function, *given):
    """`rounding` of arrays that are given by shape and bytes: tests of several targets share it."""
    arrays = (
        np.frombuffer(data, p.dtype).reshape(shape) for p, (shape, data) in zip(function.params, given, strict=True)
    )
    return rounding(function, *arrays)


def close_to_product(found, a, b, more=0.0):
    """A product of matrices of n terms, and `more` added: off by at most ``(sqrt(n) + 1) u (|a| @ |b| + |more|)``."""
    kind = np.longdouble if np.asarray(a).dtype == np.float64 else np.float64
    left, right, rest = (np.asarray(x).astype(kind) for x in (a, b, more))
    size = abs(left) @ abs(right) + abs(rest)
    bound = (np.sqrt(left.shape[-1]) + 1) * unit_roundoff(np.asarray(a).dtype) * size
    within(found, left @ right + rest, bound)
