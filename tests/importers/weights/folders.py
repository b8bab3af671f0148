"""Folders of tiny models as transformers writes them, with weights that follow a formula.

The names and shapes are those that transformers 5.23 gave models of these configurations.
"""

import json

import numpy as np

from adjoint.training.tensors import write_file

__all__ = ["ADAPTER", "MODELS", "PIXELS", "TOKENS", "by_formula", "write_adapter", "write_model"]

#: Two texts, of which the second one is shorter, the mask that says so, token types; and two images.
TOKENS = {
    "input_ids": np.array([[1, 5, 3, 9, 2], [7, 4, 0, 0, 0]]),
    "attention_mask": np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]]),
    "token_type_ids": np.array([[0, 0, 1, 1, 1], [0, 1, 0, 0, 0]]),
}
PIXELS = np.sin(np.arange(96, dtype=np.float32)).reshape(2, 3, 4, 4)

_GPT2 = """
wte.weight 11 8, wpe.weight 8 8, ln_f.weight 8, ln_f.bias 8, h.N.ln_1.weight 8, h.N.ln_1.bias 8, h.N.ln_2.weight 8,
h.N.ln_2.bias 8, h.N.attn.c_attn.weight 8 24, h.N.attn.c_attn.bias 24, h.N.attn.c_proj.weight 8 8,
h.N.attn.c_proj.bias 8, h.N.mlp.c_fc.weight 8 12, h.N.mlp.c_fc.bias 12, h.N.mlp.c_proj.weight 12 8,
h.N.mlp.c_proj.bias 8"""

_BERT = """
embeddings.word_embeddings.weight 11 8, embeddings.position_embeddings.weight 8 8,
embeddings.token_type_embeddings.weight 2 8, embeddings.LayerNorm.weight 8, embeddings.LayerNorm.bias 8,
encoder.layer.N.attention.self.query.weight 8 8, encoder.layer.N.attention.self.query.bias 8,
encoder.layer.N.attention.self.key.weight 8 8, encoder.layer.N.attention.self.key.bias 8,
encoder.layer.N.attention.self.value.weight 8 8, encoder.layer.N.attention.self.value.bias 8,
encoder.layer.N.attention.output.dense.weight 8 8, encoder.layer.N.attention.output.dense.bias 8,
encoder.layer.N.attention.output.LayerNorm.weight 8, encoder.layer.N.attention.output.LayerNorm.bias 8,
encoder.layer.N.intermediate.dense.weight 12 8, encoder.layer.N.intermediate.dense.bias 12,
encoder.layer.N.output.dense.weight 8 12, encoder.layer.N.output.dense.bias 8,
encoder.layer.N.output.LayerNorm.weight 8, encoder.layer.N.output.LayerNorm.bias 8"""

_DISTILBERT = """
embeddings.word_embeddings.weight 11 8, embeddings.position_embeddings.weight 8 8, embeddings.LayerNorm.weight 8,
embeddings.LayerNorm.bias 8, transformer.layer.N.attention.q_lin.weight 8 8, transformer.layer.N.attention.q_lin.bias 8,
transformer.layer.N.attention.k_lin.weight 8 8, transformer.layer.N.attention.k_lin.bias 8,
transformer.layer.N.attention.v_lin.weight 8 8, transformer.layer.N.attention.v_lin.bias 8,
transformer.layer.N.attention.out_lin.weight 8 8, transformer.layer.N.attention.out_lin.bias 8,
transformer.layer.N.sa_layer_norm.weight 8, transformer.layer.N.sa_layer_norm.bias 8,
transformer.layer.N.ffn.lin1.weight 12 8, transformer.layer.N.ffn.lin1.bias 12,
transformer.layer.N.ffn.lin2.weight 8 12, transformer.layer.N.ffn.lin2.bias 8,
transformer.layer.N.output_layer_norm.weight 8, transformer.layer.N.output_layer_norm.bias 8"""

_VIT = """
embeddings.cls_token 1 1 8, embeddings.position_embeddings 1 5 8, embeddings.patch_embeddings.projection.weight 8 3 2 2,
embeddings.patch_embeddings.projection.bias 8, layernorm.weight 8, layernorm.bias 8,
encoder.layer.N.layernorm_before.weight 8, encoder.layer.N.layernorm_before.bias 8,
encoder.layer.N.layernorm_after.weight 8, encoder.layer.N.layernorm_after.bias 8,
encoder.layer.N.attention.attention.query.weight 8 8, encoder.layer.N.attention.attention.key.weight 8 8,
encoder.layer.N.attention.attention.value.weight 8 8, encoder.layer.N.attention.output.dense.weight 8 8,
encoder.layer.N.attention.output.dense.bias 8, encoder.layer.N.intermediate.dense.weight 12 8,
encoder.layer.N.intermediate.dense.bias 12, encoder.layer.N.output.dense.weight 8 12,
encoder.layer.N.output.dense.bias 8"""

_VIT_BIASES = ", ".join(f"encoder.layer.N.attention.attention.{name}.bias 8" for name in ("query", "key", "value"))

_LLAMA = """
embed_tokens.weight 11 8, norm.weight 8, layers.N.input_layernorm.weight 8, layers.N.post_attention_layernorm.weight 8,
layers.N.self_attn.q_proj.weight 16 8, layers.N.self_attn.k_proj.weight 8 8, layers.N.self_attn.v_proj.weight 8 8,
layers.N.self_attn.o_proj.weight 8 16, layers.N.mlp.gate_proj.weight 12 8, layers.N.mlp.up_proj.weight 12 8,
layers.N.mlp.down_proj.weight 8 12"""

_LLAMA_BIASES = """
layers.N.self_attn.q_proj.bias 16, layers.N.self_attn.k_proj.bias 8, layers.N.self_attn.v_proj.bias 8,
layers.N.self_attn.o_proj.bias 8, layers.N.mlp.gate_proj.bias 12, layers.N.mlp.up_proj.bias 12,
layers.N.mlp.down_proj.bias 8"""

_GPT2_CONFIG = {
    "model_type": "gpt2",
    "vocab_size": 11,
    "n_positions": 8,
    "n_embd": 8,
    "n_layer": 2,
    "n_head": 2,
    "n_inner": 12,
    "pad_token_id": 0,
}
_SIZES = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}
_BERT_CONFIG = {"model_type": "bert", "vocab_size": 11, "max_position_embeddings": 8, **_SIZES}
_DISTILBERT_CONFIG = {
    "model_type": "distilbert",
    "vocab_size": 11,
    "max_position_embeddings": 8,
    "dim": 8,
    "n_layers": 2,
    "n_heads": 2,
    "hidden_dim": 12,
}
_VIT_CONFIG = {"model_type": "vit", "image_size": 4, "patch_size": 2, **_SIZES}
_LLAMA_CONFIG = {
    **_BERT_CONFIG,
    "model_type": "llama",
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
}
_THREE = {"id2label": {"0": "a", "1": "b", "2": "c"}}
_CLASSIFIER = "classifier.weight 3 8, classifier.bias 3"

#: For each model: transformers' class, the configuration, the prefix and the names of tensors, and those of the head.
MODELS = {
    "gpt2 lm": ("GPT2LMHeadModel", _GPT2_CONFIG, "transformer.", _GPT2, ""),
    "gpt2 classification": ("GPT2ForSequenceClassification", _GPT2_CONFIG, "transformer.", _GPT2, "score.weight 2 8"),
    "gpt2": ("GPT2Model", _GPT2_CONFIG, "", _GPT2, ""),
    "bert classification": (
        "BertForSequenceClassification",
        {**_BERT_CONFIG, **_THREE},
        "bert.",
        _BERT,
        f"bert.pooler.dense.weight 8 8, bert.pooler.dense.bias 8, {_CLASSIFIER}",
    ),
    "bert lm, untied": (
        "BertForMaskedLM",
        {**_BERT_CONFIG, "tie_word_embeddings": False},
        "bert.",
        _BERT,
        "cls.predictions.transform.dense.weight 8 8, cls.predictions.transform.dense.bias 8, "
        "cls.predictions.transform.LayerNorm.weight 8, cls.predictions.transform.LayerNorm.bias 8, "
        "cls.predictions.bias 11, cls.predictions.decoder.weight 11 8, cls.predictions.decoder.bias 11",
    ),
    "distilbert lm": (
        "DistilBertForMaskedLM",
        _DISTILBERT_CONFIG,
        "distilbert.",
        _DISTILBERT,
        "vocab_transform.weight 8 8, vocab_transform.bias 8, vocab_layer_norm.weight 8, vocab_layer_norm.bias 8, "
        "vocab_projector.bias 11",
    ),
    "distilbert classification": (
        "DistilBertForSequenceClassification",
        {**_DISTILBERT_CONFIG, **_THREE},
        "distilbert.",
        _DISTILBERT,
        f"pre_classifier.weight 8 8, pre_classifier.bias 8, {_CLASSIFIER}",
    ),
    "vit classification": (
        "ViTForImageClassification",
        {**_VIT_CONFIG, **_THREE},
        "vit.",
        f"{_VIT}, {_VIT_BIASES}",
        _CLASSIFIER,
    ),
    "vit": (
        "ViTModel",
        {**_VIT_CONFIG, "qkv_bias": False},
        "",
        _VIT,
        "pooler.dense.weight 8 8, pooler.dense.bias 8",
    ),
    "llama lm": ("LlamaForCausalLM", _LLAMA_CONFIG, "model.", _LLAMA, "lm_head.weight 11 8"),
    "llama lm, tied": (
        "LlamaForCausalLM",
        {
            **_LLAMA_CONFIG,
            "tie_word_embeddings": True,
            "attention_bias": True,
            "mlp_bias": True,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 500.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 16,
            },
        },
        "model.",
        f"{_LLAMA}, {_LLAMA_BIASES}",
        "",
    ),
    "llama classification": (
        "LlamaForSequenceClassification",
        {**_LLAMA_CONFIG, "pad_token_id": 0},
        "model.",
        _LLAMA,
        "score.weight 2 8",
    ),
}

ADAPTER = {"peft_type": "LORA", "r": 2, "lora_alpha": 3, "lora_dropout": 0.1, "bias": "none", "use_dora": False}


def by_formula(shapes, spread=0.5):
    """Arrays of these shapes by name: sines, around 1 for the weights of norms."""
    found = {}
    for k, name in enumerate(sorted(shapes)):
        shape = shapes[name]
        waves = np.sin(np.arange(np.prod(shape)) * (1.7 + 0.13 * k) + 0.3 * k) * spread
        centre = 1.0 if len(shape) == 1 and name.endswith("weight") else 0.0
        found[name] = (waves + centre).reshape(shape).astype(np.float32)
    return found


def shapes_of(text, prefix=""):
    """Shapes by name; a name with N stands for one of each of two layers."""
    found = {}
    for entry in filter(None, (part.split() for part in text.split(","))):
        for layer in (0, 1) if ".N." in entry[0] else (0,):
            found[prefix + entry[0].replace(".N.", f".{layer}.")] = tuple(map(int, entry[1:]))
    return found


def write_model(folder, model):
    """Write a model, and return its tensors by name."""
    name, config, prefix, weights, head = MODELS[model]
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"architectures": [name], **config}))
    arrays = by_formula(shapes_of(weights, prefix) | shapes_of(head))
    write_file(folder / "model.safetensors", arrays, {"format": "pt"}, "test")
    return arrays


def write_adapter(folder, text, **config):
    """Write an adapter, and return its tensors by name."""
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(ADAPTER | config))
    arrays = by_formula(shapes_of(text, "base_model.model."), 0.3)
    write_file(folder / "adapter_model.safetensors", arrays, {"format": "pt"}, "test")
    return arrays
