"""ViT in transformers' files."""

from adjoint.importers.weights.architecture import Architecture, Head, Key, Weight, linear, norm
from adjoint.nn.networks import ViT

__all__ = ["ARCHITECTURE"]

ARCHITECTURE = Architecture(
    kind="vit",
    network=ViT,
    prefix="vit.",
    keys=(
        Key("image_size", "size", 224),
        Key("patch_size", "patch", 16),
        Key("num_channels", "channels", 3),
        Key("num_hidden_layers", "layers", 12),
        Key("num_attention_heads", "heads", 12),
        Key("hidden_size", "width", 768),
        Key("intermediate_size", "hidden", 3072),
        Key("hidden_dropout_prob", "dropout", 0.0),
        Key("attention_probs_dropout_prob", "attention_dropout", 0.0),
        Key("layer_norm_eps", "eps", 1e-12),
        Key("hidden_act", "activation", "gelu"),
        Key("qkv_bias", "qkv_bias", True),
    ),
    fixed={"pooler_act": "tanh"},
    weights=(
        Weight("embeddings.cls_token", "first", "1 1 width"),
        Weight("embeddings.position_embeddings", "places", "1 places width"),
        Weight("embeddings.patch_embeddings.projection.weight", "patches.weight", "width channels patch patch"),
        Weight("embeddings.patch_embeddings.projection.bias", "patches.bias", "width"),
        *norm("encoder.layer.{n}.layernorm_before", "layers.{n}.attention_norm"),
        *linear(
            "encoder.layer.{n}.attention.attention.query",
            "layers.{n}.attention.query",
            "width",
            "width",
            bias="qkv_bias",
        ),
        *linear(
            "encoder.layer.{n}.attention.attention.key", "layers.{n}.attention.key", "width", "width", bias="qkv_bias"
        ),
        *linear(
            "encoder.layer.{n}.attention.attention.value",
            "layers.{n}.attention.value",
            "width",
            "width",
            bias="qkv_bias",
        ),
        *linear("encoder.layer.{n}.attention.output.dense", "layers.{n}.attention.output", "width", "width"),
        *norm("encoder.layer.{n}.layernorm_after", "layers.{n}.mlp_norm"),
        *linear("encoder.layer.{n}.intermediate.dense", "layers.{n}.mlp.up", "hidden", "width"),
        *linear("encoder.layer.{n}.output.dense", "layers.{n}.mlp.down", "width", "hidden"),
        *norm("layernorm", "norm"),
    ),
    heads={
        "classification": Head(("ViTForImageClassification",), linear("classifier", "classifier", "classes", "width")),
        None: Head(("ViTModel",), linear("pooler.dense", "pooler.dense", "width", "width")),
    },
    # Names of transformers 5; those of older versions are the same in files and in memory.
    modules=(
        ("attention.q_proj", "attention.attention.query"),
        ("attention.k_proj", "attention.attention.key"),
        ("attention.v_proj", "attention.attention.value"),
        ("attention.o_proj", "attention.output.dense"),
        ("mlp.fc1", "intermediate.dense"),
        ("mlp.fc2", "output.dense"),
        ("layers.", "encoder.layer."),
    ),
)
