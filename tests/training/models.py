"""Modules to train in tests."""

import numpy as np

from adjoint import ops
from adjoint.ir import Function, IRModule, TensorType, param

SIZES, BATCH = (12, 16, 8, 3), 8
LOGITS, INDICES = TensorType((BATCH, 3)), TensorType((BATCH,), "i64")


def batches(count, seed=0):
    """Batches for a model of `SIZES`, of three classes that can be told apart."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((3, SIZES[0]))
    for _ in range(count):
        y = rng.integers(0, 3, BATCH)
        yield (centres[y] + 0.3 * rng.standard_normal((BATCH, SIZES[0]))).astype(np.float32), y


def widened(params):
    """Arrays by name in float64."""
    return {name: array.astype(np.float64) for name, array in params.items()}


def normalising(batch=4, features=3, classes=2):
    """A linear model over inputs that are centred by a running mean: one state, returned after the output."""
    x = param("x", (batch, features))
    w, b = param("w", (features, classes)), param("b", (classes,))
    mean = param("mean", (features,))
    out = ops.add(ops.matmul(ops.subtract(x, mean), w), b)
    new_mean = ops.add(ops.multiply(mean, 0.9), ops.multiply(ops.mean(x, axis=0), 0.1))
    backbone = Function("backbone", (x, w, b, mean), (out, new_mean))
    return IRModule((backbone,), {"param_num": 2, "state_num": 1})


def linear(dtype="f32", batch=4, features=3, classes=2):
    """A linear model of a dtype."""
    x, w = param("x", (batch, features), dtype), param("w", (features, classes), dtype)
    return IRModule((Function("backbone", (x, w), (ops.matmul(x, w),)),), {"param_num": 1, "state_num": 0})


def batch_normalised(batch=8, features=3, classes=2, momentum=0.25):
    """A linear layer with batch normalisation, before another; with the function that predicts, and how it begins."""
    functions = []
    for name in ("backbone", "backbone_inference"):
        x, w, v = param("x", (batch, features)), param("w", (features, 4)), param("v", (4, classes))
        scale, shift, mean, var = (param(n, (4,)) for n in ("scale", "shift", "mean", "var"))
        hidden, updated = ops.matmul(x, w), []
        if name == "backbone":
            hidden, *updated = ops.batch_norm(hidden, mean, var, scale, shift, momentum=momentum)
        else:
            hidden = ops.batch_norm_inference(hidden, mean, var, scale, shift)
        out = ops.matmul(ops.relu(hidden), v)
        functions.append(Function(name, (x, w, v, scale, shift, mean, var), (out, *updated)))
    init = (("scale", "ones"), ("var", "ones"), ("v", "normal", 0.5))
    return IRModule(tuple(functions), {"param_num": 4, "state_num": 2, "init": init})
