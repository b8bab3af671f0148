"""Layers: running statistics, steps of a whole model, what they say and refuse."""

import numpy as np
import pytest

import adjoint.nn.functional as F  # noqa: N812
from adjoint import nn, ops
from adjoint.errors import AdjointError
from adjoint.ir import param
from adjoint.tensor.making import from_array


def zeros(*shape):
    return from_array(np.zeros(shape, np.float32))


def test_running_statistics_follow_the_batches_within_the_program():
    rng = np.random.default_rng(0)
    batches = rng.standard_normal((3, 6, 2)) * 2 + 1
    norms = {momentum: nn.BatchNorm1d(2, momentum=momentum).double() for momentum in (0.1, None)}
    for batch in batches:
        for norm in norms.values():
            norm(from_array(batch))
    means, variances = batches.mean(1), batches.var(1, ddof=1)
    expected = {None: (means.mean(0), variances.mean(0)), 0.1: (np.zeros(2), np.ones(2))}
    for mean, variance in zip(means, variances, strict=True):
        old = expected[0.1]
        expected[0.1] = (0.9 * old[0] + 0.1 * mean, 0.9 * old[1] + 0.1 * variance)
    for momentum, norm in norms.items():
        np.testing.assert_allclose(norm.running_mean.numpy(), expected[momentum][0], rtol=1e-12)
        np.testing.assert_allclose(norm.running_var.numpy(), expected[momentum][1], rtol=1e-12)
        assert norm.num_batches_tracked.item() == 3
        assert not norm.running_mean.requires_grad


def test_running_statistics_in_memory_of_numpy_are_written_there():
    mean, variance = np.zeros(2, np.float32), np.ones(2, np.float32)
    x = np.array([[1, 2], [3, 6]], np.float32)
    shared = (from_array(one, copy=False) for one in (mean, variance))
    F.batch_norm(from_array(x), *shared, training=True, momentum=0.5)
    np.testing.assert_allclose(mean, 0.5 * x.mean(0), rtol=1e-6)
    np.testing.assert_allclose(variance, 0.5 + 0.5 * x.var(0, ddof=1), rtol=1e-6)


def test_functions_build_graphs_of_values():
    x, w = param("x", (2, 3)), param("w", (4, 3))
    made = F.relu(F.linear(x, w))
    assert made.type == ops.relu(ops.matmul(x, w, transpose_b=True)).type
    assert F.mse_loss(x, x).shape == ()
    assert nn.MSELoss()(x, x).shape == ()


def test_losses_of_equal_settings_are_one_operation():
    prediction, target = zeros(2, 3), zeros(2, 3)
    first = nn.HuberLoss(delta=2.0)(prediction, target)
    second = nn.HuberLoss(delta=3.0)(prediction, target)
    assert first.item() == second.item() == 0.0

    class Settable(nn.MSELoss):
        def __call__(self, prediction, target):
            return ops.sum(ops.abs(prediction - target)) * self.__dict__.get("factor", 1.0)

    loss = Settable()
    x, y = from_array(np.ones(3)), from_array(np.zeros(3))
    found = [loss(x, y)]
    object.__setattr__(loss, "factor", 5.0)  # settings that change are not those of the recorded operation
    found.append(loss(x, y))
    assert [f.item() for f in found] == [3.0, 15.0]
    object.__setattr__(loss, "factor", np.ones(3))
    with pytest.raises(AdjointError) as caught:
        loss(x, y)
    assert caught.value.message == (
        "mse_loss: the attributes of a loss must be hashable when it is called with tensors, got reduction, factor; "
        "store tuples"
    )


def test_summary():
    model = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 2)).train()
    model[0].requires_grad_(False)
    table = nn.summary(model, (5, 3, 4, 4))
    kinds = [(layer.name, layer.kind, layer.result, layer.parameters) for layer in table.layers]
    assert kinds == [
        ("", "Sequential", "f32[5,2]", 108 + 8 + 34),
        ("0", "Conv2d", "f32[5,4,2,2]", 108),
        ("1", "BatchNorm2d", "f32[5,4,2,2]", 8),
        ("2", "Flatten", "f32[5,16]", 0),
        ("3", "Linear", "f32[5,2]", 34),
    ]
    assert table.layers[1].flops == 2 * (5 * 4 * 2 * 2) * 27
    assert table.layers[4].flops == 2 * 5 * 2 * 16 + 5 * 2
    assert table.flops == sum(layer.flops for layer in table.layers[1:])
    assert (table.parameters, table.trainable, table.buffers) == (150, 42, 9)
    assert str(table).splitlines()[-1] == "150 parameters (42 trained, 108 fixed), 9 in buffers"
    assert str(table).splitlines()[2].split() == ["Sequential", "f32[5,2]", "150", f"{table.flops:,}"]
    assert model[1].training
    assert model[1].num_batches_tracked.item() == 0


class Reads(nn.Module):
    def forward(self, input):
        return input * float((input * 2.0).item())


IMAGES, BAGS = zeros(1, 2, 4, 4), from_array(np.zeros((2, 2), np.int64))

REFUSALS = {
    "linear: the last axis of the input must be that of the weight [out, in], got f32[2,4] and f32[2,3]; reshape the "
    "input, or change in_features": lambda: nn.Linear(3, 2)(zeros(2, 4)),
    "embedding: the input must have an integer dtype, got f32[2]; convert it with long()": lambda: nn.Embedding(3, 2)(
        zeros(2)
    ),
    "bilinear: the inputs [..., in1] and [..., in2] must match the weight [out, in1, in2], got f32[1,2], f32[1,2] and "
    "f32[3,2,4]; reshape them": lambda: nn.Bilinear(2, 4, 3)(zeros(1, 2), zeros(1, 2)),
    "Conv2d: groups must divide in_channels and out_channels, got 2 for 4 and 3; change one": lambda: nn.Conv2d(
        4, 3, 1, groups=2
    ),
    "Conv2d: a setting must have one number, or one per axis of a window (2), got (1, 1, 1); change it": (
        lambda: nn.Conv2d(1, 1, (1, 1, 1))
    ),
    "conv2d: padding='same' requires a stride of 1, got (2, 2); pass the padding as numbers": lambda: nn.Conv2d(
        2, 2, 3, 2, "same"
    )(IMAGES),
    "conv2d: padding must be numbers, 'valid' or 'same', got 'full'; use 'same'": lambda: nn.Conv2d(
        2, 2, 3, padding="full"
    )(IMAGES),
    "BatchNorm1d: the input must have 2 or 3 axes, got the shape (1, 2, 4, 4); use the layer for it": (
        lambda: nn.BatchNorm1d(2)(IMAGES)
    ),
    "batch_norm: running statistics must be given unless training, got None; pass training=True": lambda: F.batch_norm(
        IMAGES, None, None
    ),
    "batch_norm: running statistics of a graph value cannot be changed, got f32[2,3]; use ops.batch_norm, which "
    "returns them": lambda: nn.BatchNorm1d(3)(param("x", (2, 3))),
    "layer_norm: the last axes of the input must be normalized_shape, got f32[2,4] and [3]; change one": (
        lambda: nn.LayerNorm(3)(zeros(2, 4))
    ),
    "GroupNorm: num_channels must be a multiple of num_groups, got 5 and 2; change one": lambda: nn.GroupNorm(2, 5),
    "Embedding: sparse must be False, the only choice that is supported, got True; omit it": lambda: nn.Embedding(
        2, 2, sparse=True
    ),
    "Embedding: padding_idx must be one of 2 rows, got 2; change it": lambda: nn.Embedding(2, 2, 2),
    "EmbeddingBag: padding_idx must be one of 2 rows, got -3; change it": lambda: nn.EmbeddingBag(2, 2, padding_idx=-3),
    "embedding_bag: mode must be 'mean', 'sum' or 'max', got 'min'; choose one": lambda: nn.EmbeddingBag(
        3, 2, mode="min"
    )(BAGS),
    "embedding_bag: max_norm, norm_type, scale_grad_by_freq and sparse must be None, 2.0, False and False, the only "
    "choices that are supported, got 1.0, 2.0, False and False; omit them": lambda: F.embedding_bag(
        BAGS, zeros(3, 2), max_norm=1.0
    ),
    "embedding_bag: per_sample_weights are for sums, got mode 'mean'; use mode='sum'": lambda: nn.EmbeddingBag(3, 2)(
        BAGS, None, zeros(2, 2)
    ),
    "embedding_bag: the input must hold integers and the table have two axes, got f32[2,2] and f32[3,2]; convert or "
    "reshape one": lambda: nn.EmbeddingBag(3, 2)(zeros(2, 2)),
    "embedding_bag: the input must be [bags, n], or [n] with a vector of offsets, got i64[2,2] and offsets i64[2]; "
    "reshape it": lambda: nn.EmbeddingBag(3, 2)(BAGS, BAGS[0]),
    "embedding_bag: per_sample_weights must have the shape of the input, got f32[2] and i64[2,2]; reshape them": (
        lambda: nn.EmbeddingBag(3, 2, mode="sum")(BAGS, None, zeros(2))
    ),
    "from_pretrained: the table must have two axes, got the shape (3,); reshape it": lambda: (
        nn.Embedding.from_pretrained(np.zeros(3))
    ),
    "MultiheadAttention: embed_dim must be a multiple of num_heads, got 5 and 2; change one": (
        lambda: nn.MultiheadAttention(5, 2)
    ),
    "MultiheadAttention: is_causal requires attn_mask, got None; pass the mask too": lambda: nn.MultiheadAttention(
        4, 2
    )(zeros(2, 4), zeros(2, 4), zeros(2, 4), is_causal=True),
    "scaled_dot_product_attention: is_causal must be False with a mask, got both; make the mask causal": lambda: (
        F.scaled_dot_product_attention(IMAGES, IMAGES, IMAGES, attn_mask=zeros(4, 4), is_causal=True)
    ),
    "TransformerEncoderLayer: the activation must be relu, gelu or a function, got 'silu'; pass one": lambda: (
        nn.TransformerEncoderLayer(4, 2, activation="silu")
    ),
    "softmax: the axis must be given, got dim=None; pass dim=-1 for the last one": lambda: nn.Softmax()(zeros(2)),
    "glu: the axis dim must have an even size, got f32[2,3] and dim=-1; reshape it": lambda: nn.GLU()(zeros(2, 3)),
    "prelu: the weight must have one element, or one per channel of f32[2,3], got f32[2]; change "
    "num_parameters": lambda: nn.PReLU(2)(zeros(2, 3)),
    "pad: with mode 'reflect', an axis of 3 can get 0 to 2 elements, got 3 and 0; pad less": lambda: F.pad(
        zeros(2, 3), (3, 0), mode="reflect"
    ),
    "interpolate: either size or scale_factor must be given, got both or none; pass one": lambda: F.interpolate(IMAGES),
    "Flatten: start_dim and end_dim must be axes of the input in this order, got 1 and -1 for f32[3]; change one": (
        lambda: nn.Flatten()(zeros(3))
    ),
    "Unflatten: the sizes must multiply to that of the axis, got [2, 2] for axis 0 of f32[3]; change them": lambda: (
        nn.Unflatten(0, (2, 2))(zeros(3))
    ),
    "huber_loss: delta must be positive, got 0; use 1.0": lambda: F.huber_loss(zeros(2), zeros(2), delta=0),
    "kl_div: reduction must be one of mean, sum, none, got 'avg'": lambda: nn.KLDivLoss("avg"),
    "summary: forward must not read the elements of a tensor, which Reads does; call the layers instead": lambda: (
        nn.summary(Reads(), (1,))
    ),
    "summary: the model must be a module, got the class Reads; pass an nn.Module": lambda: nn.summary(Reads),
}


@pytest.mark.parametrize("expected", REFUSALS)
def test_what_layers_refuse(expected):
    with pytest.raises(AdjointError) as caught:
        REFUSALS[expected]()
    assert caught.value.message == expected
    assert caught.value.where.startswith(__file__)
