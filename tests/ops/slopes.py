"""Results and gradients of small graphs at given arrays."""

import numpy as np

from adjoint.ir import Function, is_float, param
from adjoint.testing import interpret, pullback


def result(build, *arrays):
    """What the graph ``build(*params)`` gives for the arrays."""
    params = tuple(param(f"x{i}", a.shape, a.dtype) for i, a in enumerate(arrays))
    return interpret(Function("f", params, (build(*params),)), *arrays)[0]


def slopes(build, *arrays):
    """The gradient of ``sum(build(*params))`` for each float array."""
    params = tuple(param(f"x{i}", a.shape, a.dtype) for i, a in enumerate(arrays))
    out = build(*params)
    ct = param("ct", out.shape, out.dtype)
    found = pullback([out], [ct], [p for p in params if is_float(p.dtype)])
    return interpret(Function("g", (*params, ct), found), *arrays, np.ones(out.shape, out.dtype))


def f32(*values):
    return np.array(values, np.float32)


def f64(*values):
    return np.array(values, np.float64)
