"""Functions composed of operators: activations, softmax and related functions, the linear layer, dropout, embeddings.

They need no gradient or lowering of their own: both follow from the operators, and fusion combines them into kernels. A
maximum that is subtracted to avoid overflow of exponentials passes through `stop_gradient`: the result does not depend
on it, so its gradient is 0 and need not be computed.

``softmax(x)`` is ``exp(x - max - log(sum_exp))``, with the exponential last. So its gradient, ``p * (ct - sum(ct *
p))``, depends on its result only, and the exponentials before the division need not be kept.
"""

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.value import Value, apply
from adjoint.ops.arithmetic import add, multiply, subtract
from adjoint.ops.axes import Axes, axes_of
from adjoint.ops.centred import SumExp
from adjoint.ops.contract import flattened, matmul
from adjoint.ops.convert import cast, check_range, stop_gradient
from adjoint.ops.index import take
from adjoint.ops.logic import equal, greater, greater_equal, where
from adjoint.ops.piecewise import maximum
from adjoint.ops.powers import reciprocal
from adjoint.ops.random import uniform
from adjoint.ops.random_keys import as_key, is_number
from adjoint.ops.reduce import max, sum, widened
from adjoint.ops.rules import one_row, require_float
from adjoint.ops.shape import reshape, spread_back
from adjoint.ops.transcendental import exp, expm1, log, log1p, sigmoid

__all__ = [
    "dropout",
    "embedding",
    "leaky_relu",
    "linear",
    "log_softmax",
    "logsumexp",
    "silu",
    "softmax",
    "softplus",
]


def silu(x: Value) -> Value:
    """``x * sigmoid(x)``, also called swish (Elfwing, Uchibe and Doya, 2017). `x` is float."""
    require_float("silu", x)
    return multiply(x, sigmoid(x))


def softplus(x: Value) -> Value:
    """``log(1 + exp(x))``, accurate for all finite `x`; its gradient is ``sigmoid(x)``. `x` is float.

    With ``m = max(x, 0)`` it is ``m + log(exp(x - m) + exp(-m))``, where one of the terms is 1. The formula is smooth
    for constant m, so derivatives of every order are correct at 0 too.
    """
    require_float("softplus", x)
    top = stop_gradient(maximum(x, 0.0))
    return add(top, log1p(add(exp(subtract(x, top)), expm1(multiply(top, -1.0)))))


def leaky_relu(x: Value, slope: float = 0.01) -> Value:
    """`x` if it is positive, otherwise ``slope * x``; the gradient at 0 is `slope`, as in PyTorch. `x` is float."""
    require_float("leaky_relu", x)
    return where(greater(x, 0.0), x, multiply(x, slope))


def softmax(x: Value, axis: Axes = -1) -> Value:
    """``exp(x) / sum(exp(x))`` along an axis, computed from ``x - max(x)``.

    Parameters
    ----------
    x : Value
        Float, of rank 1 or more. 16-bit floats are computed in f32 and rounded once.
    axis : int or sequence of int, default -1
        Axes along which the result adds up to 1; None means all axes.
    """
    require_float("softmax", x)
    axes = axes_of("softmax", axis, len(x.shape))
    return x if 0 in x.shape else cast(exp(_log_softmax(widened(x), axes)), x.dtype)


def log_softmax(x: Value, axis: Axes = -1) -> Value:
    """``log(softmax(x))``, without the overflow and underflow of that formula.

    Parameters
    ----------
    x : Value
        Float, of rank 1 or more. 16-bit floats are computed in f32 and rounded once.
    axis : int or sequence of int, default -1
        Axes along which the exponentials of the result add up to 1; None means all axes.
    """
    require_float("log_softmax", x)
    axes = axes_of("log_softmax", axis, len(x.shape))
    return x if 0 in x.shape else cast(_log_softmax(widened(x), axes), x.dtype)


def _log_softmax(x: Value, axes: tuple[int, ...]) -> Value:
    """Composed of the same operators as the gradient of `SumExp`, so that common subexpressions are merged."""
    top = stop_gradient(max(x, axes))
    total = apply(SumExp(axes), x, top)
    lowered = subtract(x, spread_back(top, x.shape, axes))
    return subtract(lowered, spread_back(log(total), x.shape, axes))


def logsumexp(x: Value, axis: Axes = None, keepdims: bool = False) -> Value:
    """``log(sum(exp(x)))`` over axes, computed from ``x - max(x)``.

    It is -inf if all elements are, or if there are none; its gradient is ``softmax(x)``.

    Parameters
    ----------
    x : Value
        Float. 16-bit floats are computed in f32 and rounded once.
    axis : int or sequence of int, optional
        The axes to sum over, negative counting from the end; default: all axes.
    keepdims : bool, default False
        Keep the axes in the result, with size 1.
    """
    require_float("logsumexp", x)
    axes = axes_of("logsumexp", axis, len(x.shape))
    if any(x.shape[n] == 0 for n in axes):
        return add(sum(x, axes, keepdims), float("-inf"))
    wide = widened(x)
    top = max(wide, axes)
    # Do not subtract infinities: inf - inf would be NaN, while exp, sum and log give the correct infinity.
    finite = equal(subtract(top, top), 0.0)
    top = stop_gradient(where(finite, top, 0.0))
    result = cast(add(top, log(apply(SumExp(axes), wide, top))), x.dtype)
    return reshape(result, [1 if n in axes else size for n, size in enumerate(x.shape)]) if keepdims else result


def linear(x: Value, w: Value, b: Value | None = None) -> Value:
    """``x @ w + b``.

    Parameters
    ----------
    x : Value
        Shape ``[..., in]``.
    w : Value
        Shape ``[in, out]``; PyTorch stores the transpose.
    b : Value, optional
        Shape ``[out]``.
    """
    if len(w.shape) != 2:
        raise TypeRuleError(f"linear: w must have the shape [in, out], got {w.type}; use matmul for other products")
    if not x.shape or x.shape[-1] != w.shape[0]:
        flat = flattened(x.shape, w.shape[0])
        fix = f"x must be [..., {w.shape[0]}]"
        if flat:
            fix = f"x.flatten({len(flat) - 1}) makes {x.type.with_shape(flat)} of it"
        raise TypeRuleError(f"linear: the last axis of x must be the first of w, got x {x.type} and w {w.type}; {fix}")
    result = matmul(x, w)
    return result if b is None else add(result, one_row("linear", "b", b, result))


def dropout(x: Value, key: Value, rate: float | Value = 0.5) -> Value:
    """`x` with elements replaced by 0 with probability `rate`, and the others divided by ``1 - rate``.

    The gradient is dropped and divided alike. N. Srivastava et al., "Dropout: a simple way to prevent neural networks
    from overfitting", 2014.

    Parameters
    ----------
    x : Value
        Float.
    key : Value
        A key, u32[2]; for each step another one.
    rate : float or Value, default 0.5
        The probability, a number from 0 to 1 or a float scalar. It counts in multiples of ``2**-24``, rounded up, and
        has no gradient.
    """
    require_float("dropout", x)
    single = as_key("dropout", key)
    if len(single.shape) != 1:
        raise TypeRuleError(f"dropout: the key must be u32[2], got {single.type}; use random.bernoulli and where")
    if isinstance(rate, Value):
        require_float("dropout", rate)
        if rate.shape:
            raise TypeRuleError(f"dropout: the rate must be a scalar, got {rate.type}; use random.bernoulli and where")
        rate = stop_gradient(rate)
        threshold: float | Value = cast(rate, "f32")
        kept = subtract(1.0, cast(rate, x.dtype if x.dtype.itemsize > 4 else "f32"))
        scale: float | Value = cast(where(greater(kept, 0.0), reciprocal(kept), 0.0), x.dtype)
    else:
        if not is_number(rate) or not 0 <= rate <= 1:
            raise InvalidValueError(f"dropout: the rate must be from 0 to 1, got {rate!r}; pass a probability")
        if rate == 0:
            return x
        threshold, scale = rate, 1.0 / (1.0 - rate) if rate < 1 else 0.0
    return where(greater_equal(uniform(single, x.shape), threshold), multiply(x, scale), 0.0)


def embedding(table: Value, ids: Value) -> Value:
    """Rows of a table, one per id: `take` for a table of parameters.

    Parameters
    ----------
    table : Value
        Shape ``[V, ...]``.
    ids : Value
        Integers of any dtype and shape, 0 to ``V - 1``. Ids that are an argument of the compiled function, or views or
        casts of one, are checked before it changes anything.

    Returns
    -------
    Value
        Shape ``ids.shape + table.shape[1:]``. If a row is taken repeatedly, its gradients add up.
    """
    if not table.shape or not table.shape[0]:
        raise TypeRuleError(f"embedding: the table must not be empty, got {table.type}; pass at least one row")
    return take(table, check_range(ids, 0, table.shape[0]))
