"""ATen operators agree with PyTorch's, where it is installed: the words of the table, and results of the others."""

import inspect
from functools import reduce

import numpy as np
import pytest

import adjoint
from adjoint.importers.torch_export.arrays import as_tensor, dtype_from
from adjoint.importers.torch_export.operators import operator_of, same_words

torch = pytest.importorskip("torch")

#: Arguments that say where or how tensors are stored, which functions of adjoint need not take.
STORAGE = {"layout", "device", "pin_memory", "memory_format", "non_blocking", "generator"}


def aten(name):
    return reduce(getattr, name.split("."), torch.ops.aten)


@pytest.mark.parametrize("name", sorted(same_words()))
def test_functions_of_the_table_take_the_arguments_of_atens(name):
    function = reduce(getattr, same_words()[name].split("."), adjoint)
    parameters = list(inspect.signature(function).parameters.values())
    own = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    named = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    theirs = [one for one in aten(name)._schema.arguments if one.name not in STORAGE]
    positional = [one.name for one in theirs if not one.kwarg_only]
    # The first argument, and the flag of the mode, have several names in ATen.
    first = {"input", "self", "x", "a", "y", "result", "A"}
    pairs = list(zip(own, positional, strict=False))
    assert len(pairs) == len(positional)
    assert all(a == b or {a, b} <= first or {a, b} == {"training", "train"} for a, b in pairs)
    assert {one.name for one in theirs if one.kwarg_only} <= {*named, *own[len(positional) :]}


def x(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


IDS = torch.tensor([0, 2, 2])
STATES = [x(4, 3, 5), x(4, 3, 5, seed=1)]
WEIGHTS = [
    x(*shape, seed=n)
    for n, shape in enumerate(shape for size in (2, 2, 10, 10) for shape in ((20, size), (20, 5), (20,), (20,)))
]
GRU = [x(15, *one.shape[1:], seed=n) for n, one in enumerate(WEIGHTS)]

CALLS = [
    ("_adaptive_avg_pool2d.default", x(1, 2, 5, 5), [2, 3]),
    ("_cdist_forward.default", x(3, 2), x(4, 2, seed=1), 1.0, None),
    ("_native_batch_norm_legit.default", x(4, 2, 3), x(2), x(2), torch.zeros(2), torch.ones(2), True, 0.1, 1e-3),
    ("_native_batch_norm_legit.no_stats", x(4, 2, 3), x(2), None, True, 0.1, 1e-3),
    ("_native_batch_norm_legit_no_training.default", x(4, 2), x(2), x(2), torch.zeros(2), torch.ones(2), 0.1, 1e-3),
    ("grid_sampler_2d.default", x(1, 2, 4, 4), torch.tanh(x(1, 3, 3, 2)), 0, 0, False),
    ("native_group_norm.default", x(2, 4, 3), x(4), x(4), 2, 4, 3, 2, 1e-3),
    ("native_layer_norm.default", x(2, 3, 4), [3, 4], x(3, 4), None, 1e-3),
    ("_softmax.default", x(2, 3), 1, False),
    ("_to_copy.default", x(2, 3), {"dtype": torch.float64}),
    ("arange.start_step", 2, 9, 3),
    ("avg_pool2d.default", x(1, 2, 5, 5), [3, 3], [], [1, 1], True, False),
    ("bernoulli.p", x(4), 1.0),
    ("binary_cross_entropy.default", torch.sigmoid(x(3)), torch.ones(3), None, 2),
    ("binary_cross_entropy_with_logits.default", x(2, 3), torch.ones(2, 3), None, x(3).abs(), 1),
    ("block_diag.default", [x(2, 2), x(1, 3)]),
    ("col2im.default", x(1, 8, 9), [4, 4], [2, 2], [1, 1], [0, 0], [1, 1]),
    ("convolution.default", x(1, 2, 5, 5), x(4, 1, 3, 3), x(4), [2, 2], [1, 1], [1, 1], False, [0, 0], 2),
    ("convolution.default", x(1, 2, 5, 5), x(2, 3, 3, 3), None, [2, 2], [1, 1], [1, 1], True, [1, 1], 1),
    ("cross_entropy_loss.default", x(3, 4), IDS, x(4).abs(), 1, 0, 0.2),
    ("elu.default", x(5), 1.5, 2.0, 0.5),
    ("embedding.default", x(4, 2), IDS, 2),
    ("expand.default", x(2, 1), [3, -1, 2]),
    ("gather.default", x(3, 4), 1, IDS[:, None]),
    ("gru.input", x(3, 6, 2), STATES[0], GRU, True, 2, 0.0, False, True, True),
    ("huber_loss.default", x(4), x(4, seed=1), 2, 0.5),
    ("im2col.default", x(1, 2, 4, 4), [2, 2], [1, 1], [1, 1], [2, 2]),
    ("index.Tensor", x(3, 4, 5), [None, IDS, None]),
    ("index.Tensor", x(3, 4, 5), [IDS[:, None], None, IDS]),
    ("index_put.default", x(3, 4), [IDS, IDS], x(3), True),
    ("index_put.default", x(3, 4), [None, torch.tensor([1, 3])], x(3, 2)),
    ("index_put.default", x(3, 4, 2), [IDS, None, torch.tensor([0, 1, 1])], x(3, 4), True),
    ("index_put.default", x(3, 4, 2), [None, IDS, IDS % 2], x(3, 3), True),
    ("index_put.default", x(3, 4, 2), [None, IDS], x(3, 3, 2)),
    ("index_put.default", x(3, 4), [x(3, 4) > 0], torch.tensor(5.0)),
    ("index_put.default", x(3, 4), [torch.tensor([True, False, True])], torch.tensor(5.0)),
    ("kl_div.default", torch.log_softmax(x(4), 0), torch.softmax(x(4), 0), 2),
    ("linalg_solve.default", x(3, 3), x(3, 2)),
    ("linalg_svdvals.default", x(3, 4)),
    ("linalg_vector_norm.default", x(3, 4), 1, [0, 1], True),
    ("log_sigmoid.default", x(4)),
    ("lstm.input", x(3, 6, 2), STATES, WEIGHTS, True, 2, 0.0, False, True, True),
    ("masked_fill.Tensor", x(4), x(4) > 0, torch.tensor(3.0)),
    ("max_pool2d.default", x(1, 2, 5, 5), [2, 2], [], [0, 0], [1, 1], True),
    ("max_pool2d_with_indices.default", x(1, 2, 4, 4), [2, 2]),
    ("meshgrid.indexing", [x(2), x(3)], {"indexing": "xy"}),
    ("new_full.default", x(2), [2, 2], 1.5),
    ("nll_loss_nd.default", torch.log_softmax(x(3, 4), 1), IDS),
    ("norm.Scalar", x(3, 4)),
    ("numpy_T.default", x(2, 3)),
    ("reflection_pad2d.default", x(1, 1, 4, 4), [1, 2, 0, 1]),
    ("replication_pad2d.default", x(1, 1, 4, 4), [1, 2, 0, 1]),
    ("scatter.value", x(3, 4), 1, IDS[:, None], 2.0),
    ("smooth_l1_loss.default", x(4), x(4, seed=1), 1, 0.5),
    ("std.correction", x(3, 4), [0], {"correction": 0, "keepdim": True}),
    ("std.dim", x(3, 4), [1], False),
    ("std_mean.correction", x(3, 4), [1], {"correction": 1}),
    ("sum_to_size.default", x(2, 3, 4), [3, 1]),
    ("squeeze.dims", x(1, 2, 1), [0, 2]),
    ("upsample_bicubic2d.vec", x(1, 2, 4, 4), [6, 7], False, None),
    ("upsample_bilinear2d.vec", x(1, 2, 4, 4), None, True, [2.0, 1.5]),
    ("upsample_nearest2d.vec", x(1, 2, 4, 4), [8, 2], None),
    ("var.correction", x(3, 4), None, {"correction": 1}),
    ("var_mean.correction", x(3, 4), [0, 1], {"correction": 0}),
    ("zeros.default", [2, 3], {"dtype": torch.int64}),
]


def converted(given):
    if isinstance(given, list | tuple):
        return type(given)(converted(one) for one in given)
    if isinstance(given, dict):
        return {key: converted(one) for key, one in given.items()}
    return dtype_from(torch, given) if isinstance(given, torch.dtype) else as_tensor(given)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call[0])
def test_results_are_pytorchs(call):
    name, *args = call
    keywords = args.pop() if isinstance(args[-1], dict) else {}
    expected = aten(name)(*args, **keywords)
    found = operator_of(name)(*converted(args), **converted(keywords))
    pairs = zip(found, expected, strict=True) if isinstance(expected, list | tuple) else [(found, expected)]
    for own, theirs in pairs:
        assert tuple(own.shape) == tuple(theirs.shape)
        assert own.dtype == dtype_from(torch, theirs.dtype)
        np.testing.assert_allclose(np.asarray(own), theirs.numpy(), rtol=2e-5, atol=2e-6)
