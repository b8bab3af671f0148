"""Operators: ``from adjoint import ops; ops.add(x, y)``.

This package exports the functions that build graphs: they broadcast, accept scalars and negative axes, and explain
errors. The operator classes, which are strict, stay in the modules of their families; `adjoint.ops.catalogue` lists
them all.
"""

from typing import TYPE_CHECKING

from adjoint.ops import random
from adjoint.ops.arithmetic import add, divide, floor_divide, multiply, negative, subtract, true_divide
from adjoint.ops.attention import scaled_dot_product_attention
from adjoint.ops.build import broadcast, full_like
from adjoint.ops.calls import call
from adjoint.ops.composites import (
    dropout,
    embedding,
    leaky_relu,
    linear,
    log_softmax,
    logsumexp,
    silu,
    softmax,
    softplus,
)
from adjoint.ops.contract import matmul
from adjoint.ops.convert import cast, check_range, stop_gradient
from adjoint.ops.convolution import conv2d
from adjoint.ops.create import constant, full, iota
from adjoint.ops.cumulative import cummax, cummin, cumprod, cumsum, linear_recurrence, logcumsumexp
from adjoint.ops.diagonals import diag_embed, diagonal, eye, tril, triu
from adjoint.ops.dynamic import dynamic_slice, dynamic_update_slice
from adjoint.ops.einsum import einsum
from adjoint.ops.gathering import (
    coo_matmul,
    csr_matmul,
    gather,
    gather_nd,
    scatter,
    scatter_nd,
    scatter_reduce,
    segment_max,
    segment_mean,
    segment_min,
    segment_sum,
)
from adjoint.ops.gaussian import gelu
from adjoint.ops.index import one_hot, scatter_add, take, take_along_last
from adjoint.ops.indexing import getitem
from adjoint.ops.linalg import cholesky, cholesky_solve, det, inv, logdet, slogdet, solve, solve_triangular
from adjoint.ops.logic import (
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    not_equal,
    where,
)
from adjoint.ops.missing import missing_function
from adjoint.ops.normalization import batch_norm, batch_norm_inference, layer_norm, variance
from adjoint.ops.ordering import (
    argsort,
    kthvalue,
    median,
    mode,
    nanmedian,
    nanquantile,
    quantile,
    searchsorted,
    sort,
    topk,
)
from adjoint.ops.piecewise import abs, clip, floor, maximum, minimum, relu, sign
from adjoint.ops.pooling import avg_pool2d, max_pool2d
from adjoint.ops.powers import power, reciprocal, rsqrt, sqrt, square
from adjoint.ops.reduce import argmax, max, mean, min, prod, sum
from adjoint.ops.shape import (
    broadcast_to,
    concat,
    expand_dims,
    flip,
    pad,
    permute,
    reshape,
    slice,
    slice_axis,
    squeeze,
    stack,
    transpose,
)
from adjoint.ops.sizes import count
from adjoint.ops.text import parse, parse_function
from adjoint.ops.transcendental import cos, erf, exp, expm1, log, log1p, sigmoid, sin, tanh
from adjoint.ops.views import flatten, swapaxes

__all__ = [
    "abs",
    "add",
    "argmax",
    "argsort",
    "avg_pool2d",
    "batch_norm",
    "batch_norm_inference",
    "broadcast",
    "broadcast_to",
    "call",
    "cast",
    "check_range",
    "cholesky",
    "cholesky_solve",
    "clip",
    "concat",
    "constant",
    "conv2d",
    "coo_matmul",
    "cos",
    "count",
    "csr_matmul",
    "det",
    "diag_embed",
    "diagonal",
    "divide",
    "dropout",
    "dynamic_slice",
    "dynamic_update_slice",
    "einsum",
    "embedding",
    "equal",
    "erf",
    "exp",
    "expand_dims",
    "expm1",
    "eye",
    "flatten",
    "flip",
    "floor",
    "floor_divide",
    "full",
    "full_like",
    "gather",
    "gather_nd",
    "gelu",
    "getitem",
    "greater",
    "greater_equal",
    "inv",
    "iota",
    "kthvalue",
    "layer_norm",
    "leaky_relu",
    "less",
    "less_equal",
    "linear",
    "log",
    "log1p",
    "log_softmax",
    "logdet",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsumexp",
    "matmul",
    "max",
    "max_pool2d",
    "maximum",
    "mean",
    "median",
    "min",
    "minimum",
    "mode",
    "multiply",
    "nanmedian",
    "nanquantile",
    "negative",
    "not_equal",
    "one_hot",
    "pad",
    "parse",
    "parse_function",
    "permute",
    "power",
    "prod",
    "quantile",
    "random",
    "reciprocal",
    "relu",
    "reshape",
    "rsqrt",
    "scaled_dot_product_attention",
    "scatter",
    "scatter_add",
    "scatter_nd",
    "scatter_reduce",
    "searchsorted",
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_sum",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "slice",
    "slice_axis",
    "slogdet",
    "softmax",
    "softplus",
    "solve",
    "solve_triangular",
    "sort",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "stop_gradient",
    "subtract",
    "sum",
    "swapaxes",
    "take",
    "take_along_last",
    "tanh",
    "topk",
    "transpose",
    "tril",
    "triu",
    "true_divide",
    "variance",
    "where",
]

if not TYPE_CHECKING:

    def __getattr__(name):
        """Refuse a name, with the function that does the same as the one that NumPy or PyTorch gives this name."""
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        raise missing_function(name, __all__)
