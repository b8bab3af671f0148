"""A call of each overload of PyTorch's core ATen set, and how it is written with adjoint where that differs."""

from functools import reduce
from typing import Any

import numpy as np

import adjoint
from adjoint.nn import functional as F  # noqa: N812
from adjoint.ops.aten import aten_operators

#: The table, by name.
TABLE = {each.name: each for each in aten_operators()}

RNG = np.random.default_rng(0)


def _floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


X, Y, Z = _floats(3, 4), _floats(3, 4), _floats(4, 5)
UNIT = RNG.uniform(-0.9, 0.9, (3, 4)).astype(np.float32)
POSITIVE = RNG.uniform(0.5, 3.0, (3, 4)).astype(np.float32)
BATCH, OTHER = _floats(2, 3, 4), _floats(2, 4, 5)
IMAGE, VOLUME, SEQUENCE = _floats(2, 4, 6, 6), _floats(1, 2, 4, 4, 4), _floats(2, 3, 8)
INTEGERS, SMALL = RNG.integers(-5, 6, (3, 4)), RNG.integers(1, 4, (3, 4))
BOOLS, MORE_BOOLS = RNG.random((3, 4)) > 0.5, RNG.random((3, 4)) > 0.5
WEIRD = np.array([1.0, np.inf, -np.inf, np.nan], np.float32)
IDS, PLACES = np.array([0, 2, 2]), np.array([[0, 1, 1, 2], [2, 0, 1, 0]])
ROWS = _floats(5, 3)
WINDOW, WEIGHT = ([2, 2], [2, 2], [0, 0]), _floats(5, 4, 3, 3)
CHANNELS, MEAN, VARIANCE = _floats(4), _floats(4), POSITIVE[0]
MAXIMA = np.array([[[[7, 9, 11], [19, 21, 23], [31, 33, 35]]] * 4] * 2)

_UNARY = """
abs alias amax amin any argmax argmin atan asinh ceil clone cos cosh elu erf exp expm1 floor gelu hardtanh leaky_relu
mean neg nonzero prod relu round sigmoid sign sin sinh tan tanh trunc
"""
_OF_POSITIVE = "log log10 log1p log2 reciprocal rsqrt sqrt"
_BINARY = "add sub mul div eq ne lt le gt ge fmod remainder"

#: The arguments of a call, by operator and overload.
CALLS: dict[str, tuple[Any, ...]] = {
    **{f"{name}.default": (X,) for name in _UNARY.split()},
    **{f"{name}.default": (UNIT,) for name in ("acos", "asin", "atanh")},
    **{f"{name}.default": (POSITIVE,) for name in _OF_POSITIVE.split()},
    **{f"{name}.Scalar": (X, 0.5) for name in _BINARY.split()},
    **{f"{name}.Tensor": (X, Y) for name in _BINARY.split()},
    **{f"bitwise_{name}.Scalar": (INTEGERS, 3) for name in ("and", "or", "xor")},
    **{f"bitwise_{name}.Tensor": (INTEGERS, SMALL) for name in ("and", "or", "xor")},
    **{f"logical_{name}.default": (BOOLS, MORE_BOOLS) for name in ("and", "or", "xor")},
    **{f"{name}.default": (X, Y) for name in ("maximum", "minimum", "atan2", "copy")},
    **{f"{name}.default": (WEIRD,) for name in ("isinf", "isnan")},
    "_adaptive_avg_pool2d.default": (IMAGE, [2, 3]),
    "_adaptive_avg_pool2d_backward.default": (_floats(2, 4, 2, 2), IMAGE),
    "_adaptive_avg_pool3d.default": (VOLUME, [2, 2, 1]),
    "_cdist_forward.default": (X, Y, 2.0, None),
    "_embedding_bag.default": (ROWS, IDS, np.array([0, 1])),
    "_local_scalar_dense.default": (X[0, 0],),
    "_log_softmax.default": (X, 1, False),
    "_native_batch_norm_legit.default": (IMAGE, CHANNELS, MEAN, MEAN, VARIANCE, True, 0.1, 1e-5),
    "_native_batch_norm_legit.no_stats": (IMAGE, CHANNELS, MEAN, True, 0.1, 1e-5),
    "_native_batch_norm_legit_no_training.default": (IMAGE, CHANNELS, MEAN, MEAN, VARIANCE, 0.1, 1e-5),
    "_pdist_forward.default": (X,),
    "_softmax.default": (X, 0, False),
    "_to_copy.default": (X,),
    "acosh.default": (POSITIVE + 1.0,),
    "adaptive_avg_pool1d.default": (SEQUENCE, [3]),
    "addmm.default": (_floats(5), X, Z),
    "any.dim": (BOOLS, 1),
    "any.dims": (BOOLS, [0, 1]),
    "arange.start_step": (1, 9, 2),
    "avg_pool1d.default": (SEQUENCE, [2], [2]),
    "avg_pool2d.default": (IMAGE, *WINDOW),
    "avg_pool2d_backward.default": (_floats(2, 4, 3, 3), IMAGE, *WINDOW, False, True, None),
    "avg_pool3d.default": (VOLUME, [2, 2, 2], [2, 2, 2]),
    "bitwise_not.default": (INTEGERS,),
    "bmm.default": (BATCH, OTHER),
    "cat.default": ([X, Y], 1),
    "clamp.default": (X, -0.5, 0.5),
    "clamp.Tensor": (X, -POSITIVE, POSITIVE),
    "col2im.default": (_floats(2, 12, 4), [3, 3], [2, 2], [1, 1], [0, 0], [1, 1]),
    "constant_pad_nd.default": (X, [1, 2, 0, 1], 0.5),
    "convolution.default": (IMAGE, WEIGHT, _floats(5), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
    "convolution_backward.default": (
        *(_floats(2, 5, 6, 6), IMAGE, WEIGHT, [5], [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
        [True, True, True],
    ),
    "cumsum.default": (X, 1),
    "diagonal.default": (X, 1),
    "div.Scalar_mode": (X, 0.5),
    "div.Tensor_mode": (X, Y),
    "embedding.default": (ROWS, IDS),
    "embedding_dense_backward.default": (_floats(3, 3), IDS, 5, -1, False),
    "empty.memory_format": ([3, 4],),
    "expand.default": (X[:1], [3, 4]),
    "fill.Scalar": (X, 2.0),
    "flip.default": (X, [0, 1]),
    "full.default": ([2, 3], 1.5),
    "full_like.default": (X, 1.5),
    "gather.default": (X, 0, PLACES),
    "grid_sampler_2d.default": (IMAGE, RNG.uniform(-1.2, 1.2, (2, 3, 5, 2)).astype(np.float32), 2, 1, True),
    "index.Tensor": (X, [IDS, None]),
    "index_put.default": (X, [IDS], _floats(3, 4), True),
    "index_select.default": (X, 0, IDS),
    "logical_not.default": (BOOLS,),
    "masked_scatter.default": (X, BOOLS, _floats(12)),
    "max.dim": (X, 1),
    "max_pool2d_with_indices.default": (IMAGE, *WINDOW),
    "max_pool2d_with_indices_backward.default": (
        *(_floats(2, 4, 3, 3), np.arange(288, dtype=np.float32).reshape(2, 4, 6, 6), *WINDOW, [1, 1], False),
        MAXIMA,
    ),
    "max_pool3d_with_indices.default": (VOLUME, [2, 2, 2]),
    "mean.dim": (X, [0]),
    "min.dim": (X, 0),
    "mm.default": (X, Z),
    "native_dropout.default": (X, 0.0, True),
    "native_group_norm.default": (IMAGE, CHANNELS, MEAN, 2, 4, 36, 2, 1e-5),
    "native_layer_norm.default": (X, [4], CHANNELS, MEAN, 1e-5),
    "permute.default": (BATCH, [2, 0, 1]),
    "pow.Scalar": (2.0, X),
    "pow.Tensor_Scalar": (X, 3),
    "pow.Tensor_Tensor": (POSITIVE, X),
    "prod.dim_int": (X, 1),
    "rand.default": ([2, 3],),
    "randn.default": ([2, 3],),
    "randperm.default": (6,),
    "reflection_pad1d.default": (SEQUENCE, [1, 2]),
    "reflection_pad2d.default": (IMAGE, [1, 2, 3, 0]),
    "reflection_pad3d.default": (VOLUME, [1, 2, 3, 0, 1, 1]),
    "repeat.default": (X, [2, 1]),
    "replication_pad2d.default": (IMAGE, [1, 2, 3, 0]),
    "replication_pad3d.default": (VOLUME, [1, 2, 3, 0, 1, 1]),
    "scalar_tensor.default": (1.5,),
    "scatter.src": (X, 0, PLACES[:, :2], Y),
    "scatter.value": (X, 0, PLACES, 2.0),
    "scatter_add.default": (X, 0, PLACES, Y),
    "scatter_reduce.two": (X, 0, PLACES, Y, "amax"),
    "select.int": (X, 1, 2),
    "select_scatter.default": (X, _floats(3), 1, 2),
    "slice.Tensor": (X, 1, 0, 4, 2),
    "slice_scatter.default": (X, _floats(3, 2), 1, 0, 4, 2),
    "sort.default": (X, 1, True),
    "split_with_sizes.default": (X, [1, 3], 1),
    "squeeze.dim": (X[:1], 0),
    "squeeze.dims": (X[:1, :1], [0, 1]),
    "sum.dim_IntList": (X, [0]),
    "sym_is_contiguous.default": (X,),
    "sym_numel.default": (X,),
    "sym_size.int": (X, 1),
    "sym_stride.int": (X, 0),
    "topk.default": (X, 2),
    "unsqueeze.default": (X, 1),
    "upsample_bilinear2d.vec": (IMAGE, [4, 9], False, None),
    "upsample_nearest2d.vec": (IMAGE, [12, 3], None),
    "var.correction": (X, [1]),
    "var.dim": (X, [0], False),
    "view.default": (X, [2, 6]),
    "where.self": (BOOLS, X, Y),
}

#: Keyword arguments of calls.
KEYWORDS = {
    "add.Tensor": {"alpha": 2},
    "div.Scalar_mode": {"rounding_mode": "floor"},
    "div.Tensor_mode": {"rounding_mode": "trunc"},
    "var.correction": {"correction": 0},
}

#: Overloads that are not called: the second writes its result into memory that is given to it, and the gradients of
#: normalization take statistics that the forward operators return beside their result.
NOT_CALLED = {"atan2.out", "native_group_norm_backward.default", "native_layer_norm_backward.default"}


def _gradients(function: Any, ct: Any, *operands: Any) -> tuple[Any, ...]:
    leaves = [each.clone().requires_grad_() for each in operands]
    function(*leaves).backward(ct)
    return tuple(leaf.grad for leaf in leaves)


def _windows(ct: Any, x: Any, window: list[int], stride: list[int], padding: list[int], *_: Any) -> Any:
    return _gradients(lambda image: F.max_pool2d(image, window, stride, padding), ct, x)[0]


#: The same calls with adjoint, where they are not those of the first function that the table names.
WRITTEN = {
    "_adaptive_avg_pool2d_backward.default": lambda ct, x: _gradients(
        lambda image: F.adaptive_avg_pool2d(image, 2), ct, x
    )[0],
    "_cdist_forward.default": lambda x, y, p, _: adjoint.cdist(x, y, p),
    "_embedding_bag.default": lambda table, ids, offsets: F.embedding_bag(ids, table, offsets, mode="sum"),
    "_log_softmax.default": lambda x, axis, _: adjoint.log_softmax(x, axis),
    "_native_batch_norm_legit.default": lambda x, w, b, mean, var, *rest: F.batch_norm(x, mean, var, w, b, *rest),
    "_native_batch_norm_legit.no_stats": lambda x, w, b, *rest: F.batch_norm(x, None, None, w, b, *rest),
    "_native_batch_norm_legit_no_training.default": lambda x, w, b, mean, var, *rest: F.batch_norm(
        x, mean, var, w, b, False, *rest
    ),
    "_softmax.default": lambda x, axis, _: adjoint.softmax(x, axis),
    "_to_copy.default": lambda x: x.to(x.dtype, copy=True),
    "alias.default": lambda x: x.view_as(x),
    "any.dims": lambda x, axes: adjoint.any(x, tuple(axes)),
    "avg_pool2d_backward.default": lambda ct, x, *rest: _gradients(lambda y: F.avg_pool2d(y, *rest), ct, x)[0],
    "col2im.default": lambda x, size, window, *rest: F.fold(x, size, window, *rest),
    "convolution.default": lambda x, w, b, s, p, d, *_: F.conv2d(x, w, b, s, p, d),
    "convolution_backward.default": lambda ct, x, w, *_: _gradients(
        lambda image, weight, bias: F.conv2d(image, weight, bias, padding=1), ct, x, w, adjoint.zeros(5)
    ),
    "copy.default": lambda x, source: x.clone().copy_(source),
    "elu.default": lambda x: F.elu(x),
    "embedding_dense_backward.default": lambda ct, ids, *_: _gradients(
        lambda table: F.embedding(ids, table), ct, adjoint.zeros(5, 3)
    )[0],
    "grid_sampler_2d.default": lambda x, grid, mode, padding, corners: F.grid_sample(
        x, grid, ("bilinear", "nearest", "bicubic")[mode], ("zeros", "border", "reflection")[padding], corners
    ),
    "index.Tensor": lambda x, ids: x[ids[0]],
    "max_pool2d_with_indices.default": lambda x, *rest: F.max_pool2d(x, *rest, return_indices=True),
    "max_pool2d_with_indices_backward.default": _windows,
    "max_pool3d_with_indices.default": lambda x, *rest: F.max_pool3d(x, *rest, return_indices=True),
    "native_group_norm.default": lambda x, w, b, _n, _c, _hw, groups, eps: F.group_norm(x, groups, w, b, eps),
    **{
        f"{name}_pad{axes}d.default": lambda x, pad, mode=mode: F.pad(x, pad, mode)
        for name, mode, ranks in (("reflection", "reflect", (1, 2, 3)), ("replication", "replicate", (2, 3)))
        for axes in ranks
    },
    "slice.Tensor": lambda x, _, start, stop, step: x[:, start:stop:step],
    "squeeze.dims": lambda x, axes: x.squeeze(tuple(axes)),
    "upsample_bilinear2d.vec": lambda x, size, corners, _: F.interpolate(
        x, size, mode="bilinear", align_corners=corners
    ),
    "upsample_nearest2d.vec": lambda x, size, _: F.interpolate(x, size),
}


def tensors(library: Any, given: Any) -> Any:
    """Arrays as tensors of adjoint or PyTorch, also within lists; anything else as it is."""
    if isinstance(given, np.ndarray | np.generic):
        return library.tensor(np.array(given))
    return [tensors(library, each) for each in given] if isinstance(given, list) else given


def found(path: str) -> Any:
    """The function or method that a path of the table names."""
    return reduce(getattr, path.split("."), adjoint)


def called(overload: str) -> list[Any]:
    """The results of a call with adjoint."""
    function = WRITTEN.get(overload) or found(TABLE[overload.partition(".")[0]].functions[0])
    arguments = [tensors(adjoint, each) for each in CALLS[overload]]
    return results(function(*arguments, **KEYWORDS.get(overload, {})))


def results(result: Any) -> list[Any]:
    """What a call returned, as a list without None."""
    return [each for each in (result if isinstance(result, tuple | list) else (result,)) if each is not None]
