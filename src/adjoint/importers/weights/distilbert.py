"""DistilBERT in transformers' files."""

from adjoint.importers.weights.architecture import Architecture, Head, Key, Weight, linear, norm
from adjoint.nn.networks import DistilBERT

__all__ = ["ARCHITECTURE"]

ARCHITECTURE = Architecture(
    kind="distilbert",
    network=DistilBERT,
    prefix="distilbert.",
    keys=(
        Key("vocab_size", "vocabulary", 30522),
        Key("max_position_embeddings", "tokens", 512),
        Key("n_layers", "layers", 6),
        Key("n_heads", "heads", 12),
        Key("dim", "width", 768),
        Key("hidden_dim", "hidden", 3072),
        Key("dropout", "dropout", 0.1),
        Key("attention_dropout", "attention_dropout", 0.1),
        Key("seq_classif_dropout", "head_dropout", 0.2),
        Key("activation", "activation", "gelu"),
        Key("pad_token_id", "pad", 0, optional=True),
        Key("tie_word_embeddings", "tied", True),
    ),
    weights=(
        Weight("embeddings.word_embeddings.weight", "tokens.weight", "vocabulary width"),
        Weight("embeddings.position_embeddings.weight", "places.weight", "tokens width"),
        *norm("embeddings.LayerNorm", "norm"),
        *linear("transformer.layer.{n}.attention.q_lin", "layers.{n}.attention.query", "width", "width"),
        *linear("transformer.layer.{n}.attention.k_lin", "layers.{n}.attention.key", "width", "width"),
        *linear("transformer.layer.{n}.attention.v_lin", "layers.{n}.attention.value", "width", "width"),
        *linear("transformer.layer.{n}.attention.out_lin", "layers.{n}.attention.output", "width", "width"),
        *norm("transformer.layer.{n}.sa_layer_norm", "layers.{n}.attention_norm"),
        *linear("transformer.layer.{n}.ffn.lin1", "layers.{n}.mlp.up", "hidden", "width"),
        *linear("transformer.layer.{n}.ffn.lin2", "layers.{n}.mlp.down", "width", "hidden"),
        *norm("transformer.layer.{n}.output_layer_norm", "layers.{n}.mlp_norm"),
    ),
    heads={
        "lm": Head(
            ("DistilBertForMaskedLM",),
            (
                *linear("vocab_transform", "lm.dense", "width", "width"),
                *norm("vocab_layer_norm", "lm.norm"),
                *linear("vocab_projector", "lm.decoder", "vocabulary", "width", bias="never", when="not tied"),
                Weight("vocab_projector.bias", "lm.bias", "vocabulary"),
            ),
            tied=(("vocab_projector.weight", "embeddings.word_embeddings.weight"),),
        ),
        "classification": Head(
            ("DistilBertForSequenceClassification",),
            (
                *linear("pre_classifier", "features", "width", "width"),
                *linear("classifier", "classifier", "classes", "width"),
            ),
        ),
        None: Head(("DistilBertModel",)),
    },
    ignored=(r"embeddings\.position_ids",),
)
