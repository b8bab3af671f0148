"""Layers and functions that are computed here and by PyTorch, from the same numbers.

``python -m tests.nn.torch_cases`` prints the table `NUMBERS` of `tests/nn/torch_numbers.py`, with PyTorch installed.
Each case is a function of a library `lib` with ``lib.nn``, ``lib.F`` and ``lib.x(*shape)``, a tensor of f64 that
requires a gradient. Its results, and the gradients of all parameters and of all these tensors, are summed up with the
weights ``cos(1 + t + n)`` for element n of tensor t.
"""

import numpy as np


def numbers(shape, start=0.0):
    """The elements of every tensor: between -2 and 2, without order or symmetry."""
    size = int(np.prod(shape))
    return (2 * np.sin(start + 1.7 * np.arange(1, size + 1) + 0.03 * np.arange(size) ** 2)).reshape(shape)


def weights(shape, place):
    return np.cos(1.0 + place + np.arange(int(np.prod(shape)))).reshape(shape)


def functions(name, *shape, **settings):
    return lambda lib: getattr(lib.F, name)(lib.x(*shape), **settings)


def layer(name, *settings, shape=(2, 4, 6, 6), **named):
    return lambda lib: lib.filled(getattr(lib.nn, name)(*settings, **named))(lib.x(*shape))


def loss(name, *shape, kind="sign", **settings):
    def case(lib):
        input = lib.x(*shape)
        target = {
            "sign": lambda: lib.constant(np.where(numbers(shape, 3.0) > 0, 1.0, -1.0)),
            "unit": lambda: lib.constant((numbers(shape, 3.0) > 0).astype(np.float64)),
            "float": lambda: lib.constant(numbers(shape, 3.0)),
            "shares": lambda: lib.constant(
                np.abs(numbers(shape, 3.0)) / np.abs(numbers(shape, 3.0)).sum(1, keepdims=True)
            ),
            "count": lambda: lib.constant(np.round(np.abs(numbers(shape, 3.0)) * 2)),
            "class": lambda: lib.constant(
                np.arange(shape[0] * int(np.prod(shape[2:]))).reshape(shape[0], *shape[2:]) % shape[1]
            ),
        }[kind]()
        own = {k: lib.constant(v) if isinstance(v, np.ndarray) else v for k, v in settings.items()}
        if name in ("NLLLoss", "KLDivLoss"):
            input = lib.F.log_softmax(input, dim=1)
        if name == "BCELoss":
            input = lib.F.sigmoid(input)
        return getattr(lib.nn, name)(**own)(input, target)

    return case


def attention(lib, **settings):
    mha = lib.filled(lib.nn.MultiheadAttention(4, 2, batch_first=True))
    x = lib.x(2, 3, 4)
    return mha(x, x, x, **settings)


def cross_attention(lib):
    mha = lib.filled(lib.nn.MultiheadAttention(4, 2, kdim=3, vdim=5))
    return mha(lib.x(3, 2, 4), lib.x(5, 2, 3), lib.x(5, 2, 5), average_attn_weights=False)


def extended_attention(lib):
    mha = lib.filled(lib.nn.MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True, batch_first=True))
    padding = lib.constant(np.array([[False, False, True], [False, True, False]]))
    x = lib.x(2, 3, 4)
    return mha(x, lib.x(2, 3, 4), lib.x(2, 3, 4), key_padding_mask=padding)


def masked_attention(lib):
    mask = lib.constant(np.array([[True, False, True], [True, True, False]]))
    return lib.F.scaled_dot_product_attention(lib.x(1, 2, 2, 4), lib.x(1, 2, 3, 4), lib.x(1, 2, 3, 5), attn_mask=mask)


def float_masked_attention(lib):
    mask = lib.constant(numbers((2, 3)))
    q, k, v = lib.x(1, 4, 2, 4), lib.x(1, 2, 3, 4), lib.x(1, 2, 3, 4)
    return lib.F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.3, enable_gqa=True)


def causal_attention(lib):
    return lib.F.scaled_dot_product_attention(lib.x(2, 3, 4), lib.x(2, 3, 4), lib.x(2, 3, 4), is_causal=True)


def padded_attention(lib):
    padding = lib.constant(np.array([[False, False, True], [False, True, False]]))
    mask = lib.constant(np.triu(np.ones((3, 3), bool), 1))
    return attention(lib, key_padding_mask=padding, attn_mask=mask, is_causal=True)


def transformer(lib, **settings):
    part = lib.nn.TransformerEncoderLayer(4, 2, 5, dropout=0.0, **settings)
    return lib.filled(lib.nn.TransformerEncoder(part, 2, lib.nn.LayerNorm(4)))(lib.x(3, 2, 4))


def decoder(lib):
    part = lib.nn.TransformerDecoderLayer(4, 2, 5, dropout=0.0, batch_first=True)
    mask = lib.constant(np.triu(np.ones((3, 3), bool), 1))
    model = lib.filled(lib.nn.TransformerDecoder(part, 1))
    return model(lib.x(2, 3, 4), lib.x(2, 5, 4), tgt_mask=mask)


def whole_transformer(lib):
    model = lib.filled(lib.nn.Transformer(4, 2, 1, 1, 5, dropout=0.0, activation="gelu", batch_first=True))
    mask = lib.nn.Transformer.generate_square_subsequent_mask(3).to(lib.x(1).dtype)
    padding = lib.constant(np.array([[False] * 4 + [True], [False] * 5]))
    return model(lib.x(2, 5, 4), lib.x(2, 3, 4), tgt_mask=mask, src_key_padding_mask=padding)


def embedding(lib):
    table = lib.filled(lib.nn.Embedding(5, 3, padding_idx=1))
    return table(lib.constant(np.array([[0, 1, 4], [4, 4, 1]])))


def embedding_bag(mode, padding_idx, weighted=False):
    def case(lib):
        table = lib.filled(lib.nn.EmbeddingBag(5, 3, mode=mode, padding_idx=padding_idx))
        words, offsets = (lib.constant(np.array(ids)) for ids in ([0, 1, 4, 4, 2, 1], [0, 2, 2, 5]))
        return table(words, offsets, per_sample_weights=lib.x(6) if weighted else None)

    return case


def bilinear(lib):
    return lib.filled(lib.nn.Bilinear(3, 4, 2))(lib.x(2, 5, 3), lib.x(2, 5, 4))


def batch_norm_of_two(lib, momentum=0.1):
    """The statistics after two batches, and the second result."""
    norm = lib.filled(lib.nn.BatchNorm2d(3, momentum=momentum))
    norm(lib.x(2, 3, 2, 2))
    second = norm(lib.x(3, 3, 2, 2))
    norm.eval()
    return second, norm.running_mean, norm.running_var, norm(lib.x(2, 3, 2, 2))


def pairs(name, **settings):
    return lambda lib: getattr(lib.F, name)(lib.x(3, 4), lib.x(3, 4), **settings)


def triplets(name, target=True, **settings):
    def case(lib):
        third = lib.constant(np.array([1.0, -1.0, 1.0])) if target else lib.x(3, 4)
        shape = (3,) if name == "margin_ranking_loss" else (3, 4)
        return getattr(lib.F, name)(lib.x(*shape), lib.x(*shape), third, **settings)

    return case


def weighted(name, **settings):
    def case(lib):
        weight = lib.constant(np.abs(numbers((3, 4), 1.0)))
        return getattr(lib.F, name)(lib.x(3, 4), lib.constant(numbers((3, 4), 3.0)), weight=weight, **settings)

    return case


def labels(lib):
    target = lib.constant(np.array([[2, 0, -1, 1], [3, -1, 3, 3], [-1, 0, 0, 0]]))
    return lib.nn.MultiLabelMarginLoss()(lib.x(3, 4), target)


def distances(lib, **settings):
    own = lib.nn.PairwiseDistance(p=3.0, keepdim=True)
    parts = [lib.x(3, 4) for _ in range(3)]
    first = lib.nn.TripletMarginWithDistanceLoss(distance_function=own, reduction="sum", **settings)(*parts)
    return first, lib.nn.TripletMarginWithDistanceLoss(
        distance_function=lambda x, y: 1.0 - lib.nn.CosineSimilarity()(x, y), swap=True
    )(*parts)


def gaussian(lib):
    var = lib.constant(np.abs(numbers((3, 4), 2.0)))
    return lib.nn.GaussianNLLLoss(full=True)(lib.x(3, 4), lib.constant(numbers((3, 4), 3.0)), var)


def in_place(lib):
    hidden = lib.x(3, 4) * 3.0
    lib.nn.ReLU(inplace=True)(hidden)
    return lib.F.silu(hidden)


POINTWISE = [
    *("relu", "relu6", "sigmoid", "tanh", "silu", "mish", "softsign", "tanhshrink", "logsigmoid", "hardsigmoid"),
    *("hardswish", "hardtanh", "leaky_relu", "elu", "celu", "selu", "softplus", "softshrink", "hardshrink", "gelu"),
]

CASES = {
    **{name: functions(name, 3, 7) for name in POINTWISE},
    "celu with alpha": functions("celu", 3, 7, alpha=0.7),
    "elu with alpha": functions("elu", 3, 7, alpha=0.7),
    "gelu by tanh": functions("gelu", 3, 7, approximate="tanh"),
    "softplus with beta": functions("softplus", 3, 7, beta=2.0, threshold=1.0),
    "threshold": functions("threshold", 3, 7, threshold=0.3, value=-2.0),
    "softmax": functions("softmax", 3, 7, dim=0),
    "log_softmax": functions("log_softmax", 3, 7, dim=-1),
    "softmin": functions("softmin", 3, 7, dim=1),
    "glu": functions("glu", 3, 4, 2, dim=1),
    "normalize": functions("normalize", 3, 7),
    "normalize with p": functions("normalize", 3, 7, p=3.0, dim=0),
    "pad": functions("pad", 2, 3, 4, pad=(1, 2, -1, 1), value=0.5),
    "pad reflect": functions("pad", 2, 3, 4, pad=(2, 1), mode="reflect"),
    "pad replicate": functions("pad", 2, 3, 4, pad=(2, 1), mode="replicate"),
    "pad circular": functions("pad", 2, 3, 4, pad=(2, 1), mode="circular"),
    "nearest": functions("interpolate", 1, 2, 3, 4, scale_factor=2),
    "nearest to a size": functions("interpolate", 1, 2, 5, 4, size=(3, 7)),
    "bilinear images": functions("interpolate", 1, 2, 3, 4, size=(5, 6), mode="bilinear"),
    "bilinear aligned": functions("interpolate", 1, 2, 3, 4, scale_factor=2.0, mode="bilinear", align_corners=True),
    "pixel_shuffle": functions("pixel_shuffle", 1, 8, 2, 3, upscale_factor=2),
    "max_pool1d": functions("max_pool1d", 2, 3, 7, kernel_size=2),
    "avg_pool1d": functions("avg_pool1d", 2, 3, 7, kernel_size=3, stride=2, padding=1),
    "avg_pool2d": functions("avg_pool2d", 2, 3, 6, 6, kernel_size=3, stride=2, padding=1, count_include_pad=False),
    "avg_pool2d divided": functions("avg_pool2d", 3, 6, 6, kernel_size=2, divisor_override=3),
    "adaptive_avg_pool1d": functions("adaptive_avg_pool1d", 2, 3, 7, output_size=3),
    "cosine_similarity": pairs("cosine_similarity"),
    "pairwise_distance": pairs("pairwise_distance", p=1.0),
    "Linear": layer("Linear", 4, 3, shape=(2, 5, 4)),
    "Linear without bias": layer("Linear", 4, 3, bias=False, shape=(5, 4)),
    "Bilinear": bilinear,
    "Conv1d": layer("Conv1d", 4, 6, 3, stride=2, padding=1, groups=2, shape=(2, 4, 7)),
    "Conv2d": layer("Conv2d", 4, 3, 3, padding=1, stride=2),
    "Conv2d same": layer("Conv2d", 4, 4, (2, 3), padding="same", dilation=(1, 2), groups=4),
    "Conv2d of one image": layer("Conv2d", 4, 3, 3, shape=(4, 6, 6)),
    "ConvTranspose2d": layer("ConvTranspose2d", 4, 3, 3, stride=2, padding=1, output_padding=1, shape=(2, 4, 3, 3)),
    "MaxPool2d": layer("MaxPool2d", 3, 2, 1),
    "AdaptiveAvgPool2d": layer("AdaptiveAvgPool2d", (4, 1)),
    "AdaptiveAvgPool2d divided": layer("AdaptiveAvgPool2d", 3),
    "AdaptiveMaxPool2d": layer("AdaptiveMaxPool2d", (3, None)),
    "LayerNorm": layer("LayerNorm", 6),
    "LayerNorm of images": layer("LayerNorm", (4, 6, 6), eps=1e-3),
    "RMSNorm": layer("RMSNorm", 6),
    "GroupNorm": layer("GroupNorm", 2, 4),
    "InstanceNorm2d": layer("InstanceNorm2d", 4, affine=True),
    "BatchNorm1d": layer("BatchNorm1d", 4, track_running_stats=False, shape=(5, 4)),
    "BatchNorm2d": batch_norm_of_two,
    "BatchNorm2d with the mean of all": lambda lib: batch_norm_of_two(lib, None),
    "PReLU": layer("PReLU", 4),
    "PReLU of one": layer("PReLU"),
    "Flatten": layer("Flatten", 1, 2),
    "Unflatten": layer("Unflatten", 1, (2, 2)),
    "Embedding": embedding,
    "EmbeddingBag": embedding_bag("mean", 1),
    "EmbeddingBag of sums": embedding_bag("sum", None, weighted=True),
    "EmbeddingBag of maxima": embedding_bag("max", None),
    "ReLU in place": in_place,
    "attention": attention,
    "attention without weights": lambda lib: attention(lib, need_weights=False)[0],
    "attention to another sequence": cross_attention,
    "attention with more keys": extended_attention,
    "attention with masks": padded_attention,
    "scaled_dot_product_attention": causal_attention,
    "scaled_dot_product_attention with a mask": masked_attention,
    "scaled_dot_product_attention with scores added": float_masked_attention,
    "TransformerEncoder": transformer,
    "TransformerEncoder normalized first": lambda lib: transformer(lib, norm_first=True, activation="gelu"),
    "TransformerDecoder": decoder,
    "Transformer": whole_transformer,
    "CrossEntropyLoss": loss("CrossEntropyLoss", 4, 3, kind="class", label_smoothing=0.1),
    "CrossEntropyLoss with weights": loss(
        "CrossEntropyLoss", 2, 3, 4, kind="class", weight=np.array([0.2, 1.5, 0.7]), ignore_index=1
    ),
    "CrossEntropyLoss of shares": loss("CrossEntropyLoss", 4, 3, kind="shares"),
    "NLLLoss": loss("NLLLoss", 4, 3, kind="class", weight=np.array([0.2, 1.5, 0.7])),
    "NLLLoss of images": loss("NLLLoss", 2, 3, 2, 2, kind="class", ignore_index=2, reduction="sum"),
    "BCELoss": loss("BCELoss", 4, 3, kind="unit", weight=np.array([0.2, 1.5, 0.7])),
    "BCEWithLogitsLoss": loss("BCEWithLogitsLoss", 4, 3, kind="unit"),
    "BCEWithLogitsLoss with weights": loss(
        "BCEWithLogitsLoss", 4, 3, kind="unit", pos_weight=np.array([2.0, 1.5, 0.7])
    ),
    "MSELoss": loss("MSELoss", 4, 3, kind="float"),
    "L1Loss": loss("L1Loss", 4, 3, kind="float", reduction="none"),
    "SmoothL1Loss": loss("SmoothL1Loss", 4, 3, kind="float", beta=0.7),
    "HuberLoss": loss("HuberLoss", 4, 3, kind="float", delta=0.7, reduction="sum"),
    "mse_loss with weights": weighted("mse_loss"),
    "l1_loss with weights": weighted("l1_loss"),
    "huber_loss with weights": weighted("huber_loss", delta=0.7),
    "MultiMarginLoss": loss("MultiMarginLoss", 4, 3, kind="class"),
    "MultiMarginLoss squared": loss(
        "MultiMarginLoss", 4, 3, kind="class", p=2, margin=0.7, weight=np.array([0.2, 1.5, 0.7])
    ),
    "MultiLabelMarginLoss": labels,
    "MultiLabelSoftMarginLoss": loss("MultiLabelSoftMarginLoss", 4, 3, kind="unit", weight=np.array([0.2, 1.5, 0.7])),
    "TripletMarginWithDistanceLoss": distances,
    "NLLLoss with weights and ignored labels": loss(
        "NLLLoss", 5, 3, kind="class", weight=np.array([0.2, 1.5, 0.7]), ignore_index=2
    ),
    "KLDivLoss of logarithms": loss("KLDivLoss", 4, 3, kind="float", log_target=True),
    "KLDivLoss": loss("KLDivLoss", 4, 3, kind="shares", reduction="batchmean"),
    "PoissonNLLLoss": loss("PoissonNLLLoss", 4, 3, kind="count", full=True),
    "GaussianNLLLoss": gaussian,
    "HingeEmbeddingLoss": loss("HingeEmbeddingLoss", 4, 3),
    "SoftMarginLoss": loss("SoftMarginLoss", 4, 3),
    "cosine_embedding_loss": triplets("cosine_embedding_loss", margin=0.1),
    "margin_ranking_loss": triplets("margin_ranking_loss", margin=0.5),
    "triplet_margin_loss": triplets("triplet_margin_loss", target=False, swap=True),
}


def leaves(module):
    return [p for _, p in module.named_parameters()]


class Torch:
    """PyTorch, as a library for the cases."""

    def __init__(self, torch):
        self.torch, self.nn, self.F, self.entered = torch, torch.nn, torch.nn.functional, []

    def x(self, *shape):
        made = self.constant(numbers(shape, len(self.entered))).requires_grad_()
        self.entered.append(made)
        return made

    def constant(self, array):
        return self.torch.tensor(array)

    def filled(self, module):
        module.double()
        with self.torch.no_grad():
            for n, p in enumerate(leaves(module)):
                p.copy_(self.torch.tensor(numbers(p.shape, 0.1 * n) / 2))
        self.entered += leaves(module)
        return module

    def score(self, tensors):
        return sum((t * self.torch.tensor(weights(t.shape, n))).sum() for n, t in enumerate(tensors) if t is not None)

    def numbers(self, case):
        self.entered = []
        found = case(self)
        total = self.score(found if isinstance(found, tuple) else (found,))
        total.backward()
        return total.item(), float(self.score([t.grad for t in self.entered]))


if __name__ == "__main__":
    import torch

    print(f'"""What PyTorch {torch.__version__} computes for `tests/nn/torch_cases.py`: results and gradients."""\n')
    print("NUMBERS = {")
    library = Torch(torch)
    for name, case in CASES.items():
        print(f'    "{name}": ({", ".join(f"{n:.14g}" for n in library.numbers(case))}),')
    print("}")
