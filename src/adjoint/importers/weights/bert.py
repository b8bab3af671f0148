"""BERT in transformers' files."""

from adjoint.importers.weights.architecture import Architecture, Head, Key, Weight, linear, norm
from adjoint.nn.networks import BERT

__all__ = ["ARCHITECTURE"]

_POOLER = linear("pooler.dense", "pooler.dense", "width", "width")

ARCHITECTURE = Architecture(
    kind="bert",
    network=BERT,
    prefix="bert.",
    keys=(
        Key("vocab_size", "vocabulary", 30522),
        Key("max_position_embeddings", "tokens", 512),
        Key("num_hidden_layers", "layers", 12),
        Key("num_attention_heads", "heads", 12),
        Key("hidden_size", "width", 768),
        Key("intermediate_size", "hidden", 3072),
        Key("type_vocab_size", "types", 2),
        Key("hidden_dropout_prob", "dropout", 0.1),
        Key("attention_probs_dropout_prob", "attention_dropout", 0.1),
        Key("classifier_dropout", "head_dropout", 0.0, optional=True),
        Key("layer_norm_eps", "eps", 1e-12),
        Key("hidden_act", "activation", "gelu"),
        Key("pad_token_id", "pad", 0, optional=True),
        Key("tie_word_embeddings", "tied", True),
    ),
    fixed={"add_cross_attention": False, "is_decoder": False, "position_embedding_type": "absolute"},
    weights=(
        Weight("embeddings.word_embeddings.weight", "tokens.weight", "vocabulary width"),
        Weight("embeddings.position_embeddings.weight", "places.weight", "tokens width"),
        Weight("embeddings.token_type_embeddings.weight", "types.weight", "types width"),
        *norm("embeddings.LayerNorm", "norm"),
        *linear("encoder.layer.{n}.attention.self.query", "layers.{n}.attention.query", "width", "width"),
        *linear("encoder.layer.{n}.attention.self.key", "layers.{n}.attention.key", "width", "width"),
        *linear("encoder.layer.{n}.attention.self.value", "layers.{n}.attention.value", "width", "width"),
        *linear("encoder.layer.{n}.attention.output.dense", "layers.{n}.attention.output", "width", "width"),
        *norm("encoder.layer.{n}.attention.output.LayerNorm", "layers.{n}.attention_norm"),
        *linear("encoder.layer.{n}.intermediate.dense", "layers.{n}.mlp.up", "hidden", "width"),
        *linear("encoder.layer.{n}.output.dense", "layers.{n}.mlp.down", "width", "hidden"),
        *norm("encoder.layer.{n}.output.LayerNorm", "layers.{n}.mlp_norm"),
    ),
    heads={
        "lm": Head(
            ("BertForMaskedLM", "BertForPreTraining"),
            (
                *linear("cls.predictions.transform.dense", "lm.dense", "width", "width"),
                *norm("cls.predictions.transform.LayerNorm", "lm.norm"),
                Weight("cls.predictions.bias", "lm.bias", "vocabulary"),
                *linear("cls.predictions.decoder", "lm.decoder", "vocabulary", "width", bias="never", when="not tied"),
            ),
            tied=(("cls.predictions.decoder.weight", "embeddings.word_embeddings.weight"),),
            # Two names of one bias, of which transformers uses the second.
            twice=(("cls.predictions.bias", "cls.predictions.decoder.bias"),),
        ),
        "classification": Head(
            ("BertForSequenceClassification",),
            linear("classifier", "classifier", "classes", "width"),
            inner=_POOLER,
        ),
        None: Head(("BertModel",), inner=_POOLER),
    },
    # Positions, which old versions saved, and the head that says whether one sentence follows another.
    ignored=(r"embeddings\.(position_ids|token_type_ids)", r"cls\.seq_relationship\..*"),
    renamed={"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"},
)
