"""adjoint: one graph function per contraction, whose result is written to a resident buffer."""

from collections.abc import Callable

import numpy as np

from adjoint import Function, Value, compile, ops, param
from adjoint.compiler import CompileOptions
from adjoint.runtime.bound import aligned
from benchmarks.contraction_cases import Case

MODES = ("compiled",)


def value_of(case: Case, left: Value, right: Value) -> Value:
    """The contraction as a graph value."""
    if case.kind.startswith("matmul"):
        return ops.matmul(left, right, transpose_a=case.kind == "matmul_ta")
    # Take the gradient from the vjp of the convolution, as `differentiate` does.
    image = param("image", case.result, case.dtype) if case.kind == "data" else left
    weight = param("weight", case.result, case.dtype) if case.kind == "weight" else right
    forward = ops.conv2d(image, weight, stride=case.stride, padding=case.padding)
    if case.kind == "forward":
        return forward
    ct = left if case.kind == "data" else right
    of_image, of_weight = forward.op.vjp(ct, forward, image, weight)
    return of_image if case.kind == "data" else of_weight


def prepare(
    case: Case,
    mode: str,  # noqa: ARG001
    threads: int,
    left: np.ndarray,
    right: np.ndarray,
) -> tuple[Callable[[], object], Callable[[], np.ndarray]]:
    """A function that runs the contraction once, and one that returns its result."""
    inputs = param("left", case.left, case.dtype), param("right", case.right, case.dtype)
    result = param("made", case.result, case.dtype)
    function = Function("contraction", (*inputs, result), (value_of(case, *inputs),), {"donate": (("made", 0),)})
    kept = {p.label: aligned(p.shape, p.dtype) for p in function.params}
    kept["left"][...], kept["right"][...] = left, right
    bound = compile(function, options=CompileOptions(threads=threads))["contraction"].bind(kept)
    return bound.call, lambda: kept["made"]
