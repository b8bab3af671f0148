"""``tf.math``: the functions of ``tf`` of the same names."""

from adjoint.compat.tensorflow.mathematics import (
    abs, acos, add, add_n, argmax, argmin, asin, atan, ceil, cos, cosh, cumsum, divide, equal, erf, exp, floor, greater,
    greater_equal, less, less_equal, log, log1p, logical_and, logical_not, logical_or, maximum, minimum, multiply,
    negative, not_equal, pow, reduce_all, reduce_any, reduce_logsumexp, reduce_max, reduce_mean, reduce_min,
    reduce_prod, reduce_std, reduce_sum, reduce_variance, round, rsqrt, sigmoid, sign, sin, sinh, softplus, sqrt,
    square, squared_difference, subtract, tan, tanh,
)  # fmt: skip
from adjoint.compat.uncovered import uncovered

__all__ = [
    "abs", "acos", "add", "add_n", "argmax", "argmin", "asin", "atan", "ceil", "cos", "cosh", "cumsum", "divide",
    "equal", "erf", "exp", "floor", "greater", "greater_equal", "less", "less_equal", "log", "log1p", "logical_and",
    "logical_not", "logical_or", "maximum", "minimum", "multiply", "negative", "not_equal", "pow", "reduce_all",
    "reduce_any", "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_std",
    "reduce_sum", "reduce_variance", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "softplus", "sqrt", "square",
    "squared_difference", "subtract", "tan", "tanh",
]  # fmt: skip
__getattr__ = uncovered(__name__, {}, "adjoint")
