"""GPT-2 in transformers' files. Its layers `Conv1D` have weights with the inputs first."""

from adjoint.importers.weights.architecture import Architecture, Head, Key, Weight, linear, norm
from adjoint.nn.networks import GPT2

__all__ = ["ARCHITECTURE"]

ARCHITECTURE = Architecture(
    kind="gpt2",
    network=GPT2,
    prefix="transformer.",
    keys=(
        Key("vocab_size", "vocabulary", 50257),
        Key("n_positions", "tokens", 1024),
        Key("n_layer", "layers", 12),
        Key("n_head", "heads", 12),
        Key("n_embd", "width", 768),
        Key("n_inner", "hidden", 0, optional=True),
        Key("resid_pdrop", "dropout", 0.1),
        Key("attn_pdrop", "attention_dropout", 0.1),
        Key("layer_norm_epsilon", "eps", 1e-5),
        Key("activation_function", "activation", "gelu_new"),
        Key("pad_token_id", "pad", 0, optional=True),
        Key("tie_word_embeddings", "tied", True),
    ),
    fixed={
        "add_cross_attention": False,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
    },
    weights=(
        Weight("wte.weight", "tokens.weight", "vocabulary width"),
        Weight("wpe.weight", "places.weight", "tokens width"),
        *norm("h.{n}.ln_1", "layers.{n}.attention_norm"),
        *linear("h.{n}.attn.c_attn", "layers.{n}.attention.qkv", "3*width", "width", transposed=True),
        *linear("h.{n}.attn.c_proj", "layers.{n}.attention.output", "width", "width", transposed=True),
        *norm("h.{n}.ln_2", "layers.{n}.mlp_norm"),
        *linear("h.{n}.mlp.c_fc", "layers.{n}.mlp.up", "hidden", "width", transposed=True),
        *linear("h.{n}.mlp.c_proj", "layers.{n}.mlp.down", "width", "hidden", transposed=True),
        *norm("ln_f", "norm"),
    ),
    heads={
        "lm": Head(
            ("GPT2LMHeadModel",),
            linear("lm_head", "lm", "vocabulary", "width", bias="never", when="not tied"),
            tied=(("lm_head.weight", "wte.weight"),),
        ),
        "classification": Head(
            ("GPT2ForSequenceClassification",), linear("score", "classifier", "classes", "width", bias="never")
        ),
        None: Head(("GPT2Model",)),
    },
    # Masks, which old versions saved.
    ignored=(r"h\.\d+\.attn\.(bias|masked_bias)",),
)
