"""Adapters of peft: results are those of peft, and what is written is what was read."""

import json

import numpy as np
import pytest

import adjoint
from adjoint.importers.weights import load_adapter, load_pretrained, save_adapter
from adjoint.nn.lora import LoRALinear, add_lora, merge_lora
from adjoint.nn.networks import GPT2
from adjoint.training.tensors import read_arrays
from tests.importers.weights.folders import write_adapter, write_model
from tests.importers.weights.test_pretrained import results
from tests.tensor.comparing import message

_C_ATTN = "transformer.h.N.attn.c_attn.lora_A.weight 2 8, transformer.h.N.attn.c_attn.lora_B.weight 24 2"

# For each model: the tensors of an adapter, its configuration, and the results of peft 0.21.2 with transformers 5.23.0:
#     PeftModel.from_pretrained(network, folder).eval(), called as in `test_pretrained.py`.
CASES = {
    "gpt2 lm": (
        _C_ATTN,
        {"target_modules": ["c_attn"], "fan_in_fan_out": True},
        [-0.462164, 0.46955, 0.087652, 0.786302, -0.327891],
    ),
    "bert classification": (
        "bert.encoder.layer.N.attention.self.query.lora_A.weight 2 8, "
        "bert.encoder.layer.N.attention.self.query.lora_B.weight 8 2, classifier.weight 3 8, classifier.bias 3",
        {"target_modules": ["query"], "modules_to_save": ["classifier"], "use_rslora": True},
        [0.345932, -0.056483, -0.194379, 0.36774, -0.035599, -0.174472],
    ),
    "vit classification": (
        "vit.layers.N.attention.q_proj.lora_A.weight 2 8, vit.layers.N.attention.q_proj.lora_B.weight 8 2, "
        "vit.layers.N.mlp.fc1.lora_A.weight 3 8, vit.layers.N.mlp.fc1.lora_B.weight 12 3",
        {"target_modules": ["q_proj", "fc1"], "rank_pattern": {"fc1": 3}, "alpha_pattern": {"mlp.fc1": 7}},
        [0.31258, -0.528666, 0.547081, 0.303069, -0.541086, 0.568563],
    ),
}


@pytest.mark.parametrize("model", CASES)
def test_results_are_those_of_peft_and_adapters_are_written_as_read(model, tmp_path):
    text, config, expected = CASES[model]
    write_model(tmp_path / "model", model)
    arrays = write_adapter(tmp_path / "adapter", text, **config)
    network = load_adapter(load_pretrained(tmp_path / "model"), tmp_path / "adapter")
    np.testing.assert_allclose(results(network, model), expected, rtol=0, atol=1e-5)
    trained = {name.rpartition(".")[2] for name, p in network.named_parameters() if p.requires_grad}
    assert trained == {"lora_a", "lora_b"} | ({"weight", "bias"} if "modules_to_save" in config else set())
    save_adapter(network, tmp_path / "out", base="model")
    written = read_arrays(tmp_path / "out" / "adapter_model.safetensors")
    assert written.keys() == arrays.keys()
    assert all(np.array_equal(written[name], array) for name, array in arrays.items())
    # What is written in other words means the same.
    again = load_adapter(load_pretrained(tmp_path / "model"), tmp_path / "out")
    scales = [[m.scale for m in one.modules() if isinstance(m, LoRALinear)] for one in (network, again)]
    np.testing.assert_allclose(*scales, rtol=1e-15)
    if model == "gpt2 lm":
        np.testing.assert_allclose(results(merge_lora(network), model), expected, rtol=0, atol=1e-5)
        assert not any(isinstance(module, LoRALinear) for module in network.modules())
        assert all(parameter.requires_grad for parameter in network.parameters())


def test_the_configuration_says_what_peft_needs(tmp_path):
    network = add_lora(GPT2(11, 8, 2, 2, 8), ["qkv", "layers.1.mlp.up"], rank=2, alpha=3, dropout=0.25)
    add_lora_again = network.get_submodule("layers.1.mlp.up")
    add_lora_again.scale = 5.0
    save_adapter(network, tmp_path, base="gpt2")
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    up = "transformer.h.1.mlp.c_fc"
    expected = {
        "peft_type": "LORA",
        "base_model_name_or_path": "gpt2",
        "r": 2,
        "lora_alpha": 3.0,
        "lora_dropout": 0.25,
        "alpha_pattern": {up: 10.0},
        "rank_pattern": {},
        "target_modules": ["transformer.h.0.attn.c_attn", "transformer.h.1.attn.c_attn", up],
        "modules_to_save": None,
        "fan_in_fan_out": True,
    }
    assert {key: config[key] for key in expected} == expected


def refused(tmp_path, text=_C_ATTN, **config):
    """The message for an adapter of a GPT-2."""
    write_adapter(tmp_path, text, **config)
    adjoint.manual_seed(0)
    return message(lambda: load_adapter(GPT2(11, 8, 2, 2, 8), tmp_path))


@pytest.mark.parametrize(
    ("text", "config", "sentence"),
    [
        (_C_ATTN, {"peft_type": "LOHA"}, 'peft_type in adapter_config.json must be "LORA", got "LOHA"; correct it'),
        (_C_ATTN, {"bias": "all"}, 'bias in adapter_config.json must be "none", got "all"; correct it'),
        (
            _C_ATTN,
            {"init_lora_weights": "pissa"},
            'init_lora_weights in adapter_config.json must be true, false or "gaussian", got "pissa"; correct it',
        ),
        (
            _C_ATTN,
            {"use_dora": True},
            "an adapter must be of plain LoRA, got use_dora in adapter_config.json; merge it with peft instead",
        ),
        (
            _C_ATTN,
            {"alpha_pattern": {"(a+)+b": 3}},
            "alpha_pattern in adapter_config.json must be numbers by names of modules, not by expressions, got "
            '{"(a+)+b": 3}; correct it',
        ),
        (
            "transformer.h.0.attn.query.lora_A.weight 2 8",
            {},
            "the tensors must be updates of linear layers of this GPT2, or whole layers, got "
            "base_model.model.transformer.h.0.attn.query.lora_A.weight; is it an adapter of another network?",
        ),
        (
            "transformer.h.0.attn.c_attn.lora_A.weight 2 8, transformer.h.0.attn.c_attn.lora_B.weight 8 2",
            {},
            "updates must be pairs of matrices [rank, inputs] and [outputs, rank], and whole layers have the network's "
            "shapes, got others for layers.0.attention.qkv; is it an adapter of another network?",
        ),
    ],
)
def test_other_adapters_are_refused(text, config, sentence, tmp_path):
    assert refused(tmp_path, text, **config) == f"load_adapter: {sentence}"


def test_networks_without_updates_and_with_some_are_refused(tmp_path):
    network = GPT2(11, 8, 1, 2, 8)
    assert message(lambda: save_adapter(network, tmp_path)) == (
        "save_adapter: the network must have low-rank updates, got none; call add_lora first"
    )
    add_lora(network, ["qkv"])
    assert message(lambda: load_adapter(network, tmp_path)) == (
        "load_adapter: the network must be without low-rank updates, got one with some; call merge_lora(network) first"
    )
    assert message(lambda: load_adapter(GPT2(11, 8, 1, 2, 8), tmp_path)).startswith(
        f"load_adapter: there is no file {tmp_path / 'adapter_config.json'}"
    )
