"""Llama in transformers' files."""

from adjoint.importers.weights.architecture import Architecture, Head, Key, Weight, linear, norm
from adjoint.nn.networks import Llama

__all__ = ["ARCHITECTURE"]

_ATTENTION, _MLP = "attention_bias", "mlp_bias"

ARCHITECTURE = Architecture(
    kind="llama",
    network=Llama,
    prefix="model.",
    keys=(
        Key("vocab_size", "vocabulary", 32000),
        Key("max_position_embeddings", "tokens", 2048),
        Key("num_hidden_layers", "layers", 32),
        Key("num_attention_heads", "heads", 32),
        Key("hidden_size", "width", 4096),
        Key("intermediate_size", "hidden", 11008),
        Key("num_key_value_heads", "groups", 0, optional=True),
        Key("head_dim", "head_size", 0, optional=True),
        Key("attention_dropout", "attention_dropout", 0.0),
        Key("rms_norm_eps", "eps", 1e-6),
        Key("hidden_act", "activation", "silu"),
        Key("attention_bias", "attention_bias", False),
        Key("mlp_bias", "mlp_bias", False),
        Key("pad_token_id", "pad", 0, optional=True),
        Key("tie_word_embeddings", "tied", False),
    ),
    fixed={"pretraining_tp": 1},
    weights=(
        Weight("embed_tokens.weight", "tokens.weight", "vocabulary width"),
        *norm("layers.{n}.input_layernorm", "layers.{n}.attention_norm", bias=False),
        *linear(
            "layers.{n}.self_attn.q_proj", "layers.{n}.attention.query", "heads*head_size", "width", bias=_ATTENTION
        ),
        *linear(
            "layers.{n}.self_attn.k_proj", "layers.{n}.attention.key", "groups*head_size", "width", bias=_ATTENTION
        ),
        *linear(
            "layers.{n}.self_attn.v_proj", "layers.{n}.attention.value", "groups*head_size", "width", bias=_ATTENTION
        ),
        *linear(
            "layers.{n}.self_attn.o_proj", "layers.{n}.attention.output", "width", "heads*head_size", bias=_ATTENTION
        ),
        *norm("layers.{n}.post_attention_layernorm", "layers.{n}.mlp_norm", bias=False),
        *linear("layers.{n}.mlp.gate_proj", "layers.{n}.mlp.gate", "hidden", "width", bias=_MLP),
        *linear("layers.{n}.mlp.up_proj", "layers.{n}.mlp.up", "hidden", "width", bias=_MLP),
        *linear("layers.{n}.mlp.down_proj", "layers.{n}.mlp.down", "width", "hidden", bias=_MLP),
        *norm("norm", "norm", bias=False),
    ),
    heads={
        "lm": Head(
            ("LlamaForCausalLM",),
            linear("lm_head", "lm", "vocabulary", "width", bias="never", when="not tied"),
            tied=(("lm_head.weight", "embed_tokens.weight"),),
        ),
        "classification": Head(
            ("LlamaForSequenceClassification",), linear("score", "classifier", "classes", "width", bias="never")
        ),
        None: Head(("LlamaModel",)),
    },
    # The angles of positions, which old versions saved.
    ignored=(r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq",),
)
