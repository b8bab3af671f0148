"""Modules to train in tests."""

from adjoint import ops
from adjoint.ir import Function, IRModule, param


def normalising(batch=4, features=3, classes=2):
    """A linear model over inputs that are centred by a running mean: one state, returned after the output."""
    x = param("x", (batch, features))
    w, b = param("w", (features, classes)), param("b", (classes,))
    mean = param("mean", (features,))
    out = ops.add(ops.matmul(ops.subtract(x, mean), w), b)
    new_mean = ops.add(ops.multiply(mean, 0.9), ops.multiply(ops.mean(x, axis=0), 0.1))
    backbone = Function("backbone", (x, w, b, mean), (out, new_mean))
    return IRModule((backbone,), {"param_num": 2, "state_num": 1})
