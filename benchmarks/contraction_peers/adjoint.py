"""adjoint: one graph function per contraction, whose results are written to resident buffers."""

from collections.abc import Callable

import numpy as np

from adjoint import Function, Value, compile, ops, param
from adjoint.compiler import CompileOptions
from adjoint.runtime.bound import aligned
from adjoint.transforms.differentiate import cotangents
from benchmarks.contraction_cases import Case

MODES = ("compiled",)


def value_of(case: Case, left: Value, right: Value) -> Value:
    """The contraction as a graph value."""
    if case.kind.startswith("matmul"):
        turned = case.transposed
        return ops.matmul(left, right, transpose_a=turned[0], transpose_b=turned[1])
    # Take the gradient from the vjp of the convolution, as `differentiate` does.
    image = param("image", case.result, case.dtype) if case.kind == "data" else left
    weight = param("weight", case.result, case.dtype) if case.kind == "weight" else right
    forward = ops.conv2d(image, weight, stride=case.stride, padding=case.padding, groups=case.groups)
    if case.kind == "forward":
        return forward
    ct = left if case.kind == "data" else right
    of_image, of_weight = forward.op.vjp(ct, forward, image, weight)
    return of_image if case.kind == "data" else of_weight


def function_of(case: Case) -> tuple[Function, dict[str, np.ndarray]]:
    """The function of a contraction, which overwrites its last parameters with the results, and arrays for them all."""
    if case.kind.startswith("attention"):
        operands = [param(name, case.right, case.dtype) for name in ("q", "k", "v", "ct")]
        *qkv, ct = operands
        out = ops.scaled_dot_product_attention(*qkv, causal=case.causal)
        if case.kind == "attention":
            operands, results = qkv, (out,)
        else:
            results = tuple(value for value in cotangents([(out, ct)], qkv) if value is not None)
    else:
        operands = [param("left", case.left, case.dtype), param("right", case.right, case.dtype)]
        results = (value_of(case, *operands),)
    made = [param(f"made{i}", result.shape, case.dtype) for i, result in enumerate(results)]
    donated = {"donate": tuple((p.label, i) for i, p in enumerate(made))}
    function = Function("contraction", (*operands, *made), results, donated)
    return function, {p.label: aligned(p.shape, p.dtype) for p in function.params}


def prepare(
    case: Case,
    mode: str,  # noqa: ARG001
    threads: int,
    left: np.ndarray,
    right: np.ndarray,
) -> tuple[Callable[[], object], Callable[[], np.ndarray]]:
    """A function that runs the contraction once, and one that returns its result."""
    function, kept = function_of(case)
    given = (*left, right) if case.kind.startswith("attention") else (left, right)
    results = [array for name, array in kept.items() if name.startswith("made")]
    for array, values in zip(kept.values(), given, strict=False):
        if not any(array is result for result in results):
            array[...] = values
    bound = compile(function, options=CompileOptions(threads=threads))["contraction"].bind(kept)
    return bound.call, lambda: results[0] if len(results) == 1 else np.stack(results)
