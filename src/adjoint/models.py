"""Small models, as modules of graph IR with one function ``backbone``."""

from collections.abc import Sequence
from itertools import pairwise

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import Function, IRModule, Value, param

__all__ = ["linreg", "mlp"]


def mlp(sizes: Sequence[int] = (784, 128, 128, 10), batch_size: int = 64) -> IRModule:
    """A multilayer perceptron: ``x @ w + b`` a layer, with relu between layers.

    Parameters
    ----------
    sizes : sequence of int, default (784, 128, 128, 10)
        Features of the input, of each hidden layer, and of the output.
    batch_size : int, default 64
        Rows of a batch.

    Returns
    -------
    IRModule
        ``backbone(x: f32[batch, sizes[0]], w0, b0, w1, b1, ...) -> logits: f32[batch, sizes[-1]]`` with
        ``wi: f32[sizes[i], sizes[i + 1]]`` and ``bi: f32[sizes[i + 1]]``.

    Raises
    ------
    InvalidValueError
        Where there are fewer than two sizes, or one of them or the batch is below 1.
    """
    if len(sizes) < 2 or min(*sizes, batch_size) < 1:
        raise InvalidValueError(
            f"mlp: sizes are two or more numbers from 1 and batch_size is from 1, got {tuple(sizes)} and {batch_size}"
        )
    x = param("x", (batch_size, sizes[0]))
    params: list[Value] = []
    out = x
    for i, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        weight, bias = param(f"w{i}", (fan_in, fan_out)), param(f"b{i}", (fan_out,))
        params += [weight, bias]
        out = ops.linear(out, weight, bias)
        if i < len(sizes) - 2:
            out = ops.relu(out)
    return _module(x, params, out.named("logits"))


def linreg(features: int = 2, batch_size: int = 4) -> IRModule:
    """Linear regression without a bias: ``x @ w``.

    Parameters
    ----------
    features : int, default 2
        Columns of the input.
    batch_size : int, default 4
        Rows of a batch.

    Returns
    -------
    IRModule
        ``backbone(x: f32[batch, features], w: f32[features, 1]) -> predictions: f32[batch, 1]``.

    Raises
    ------
    InvalidValueError
        Where a size is below 1.
    """
    if min(features, batch_size) < 1:
        raise InvalidValueError(f"linreg: features and batch_size are from 1, got {features} and {batch_size}")
    x, weight = param("x", (batch_size, features)), param("w", (features, 1))
    return _module(x, [weight], ops.matmul(x, weight).named("predictions"))


def _module(x: Value, params: Sequence[Value], result: Value) -> IRModule:
    backbone = Function("backbone", (x, *params), (result,))
    return IRModule((backbone,), {"param_num": len(params), "state_num": 0})
