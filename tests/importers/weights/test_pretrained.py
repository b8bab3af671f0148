"""Networks from folders of transformers: their results are those of transformers, and files are written as read."""

import json

import numpy as np
import pytest

import adjoint
from adjoint.importers.weights import load_pretrained, save_pretrained
from adjoint.interop import write_torch
from adjoint.nn.lora import add_lora
from adjoint.nn.networks import BERT, GPT2, DistilBERT, Llama, ViT
from adjoint.training.tensors import read_arrays, write_file
from tests.importers.weights.folders import MODELS, PIXELS, TOKENS, write_model
from tests.tensor.comparing import message

# Results of transformers 5.23.0 with PyTorch 2.13.0, in float32, for the files that `write_model` writes:
#     network = getattr(transformers, name).from_pretrained(folder).eval()
#     network(torch.tensor(PIXELS)).logits, or network(**TOKENS).logits with what the network takes of them,
# or the last hidden states of networks without a head. Of results [2, ...] of sequences, the elements of `PLACES`.
PLACES = ((0, 0, 0), (0, -1, -1), (0, 2, 3), (1, 1, 1), (1, 0, 5))
EXPECTED = {
    "gpt2 lm": [-0.807994, 1.468096, -0.038336, 0.758041, -0.150724],
    "bert classification": [-1.046745, -0.190291, 0.717061, -1.049858, -0.186588, 0.721805],
    "bert lm, untied": [-0.036036, 0.784573, -0.070692, -2.018185, 0.872683],
    "distilbert lm": [-0.733835, 0.11943, -0.324928, 0.086499, 1.103576],
    "distilbert classification": [-0.391554, 0.908355, -0.133814, -0.462301, 0.984764, -0.136711],
    "vit classification": [0.240599, -0.501394, 0.592777, 0.227081, -0.518745, 0.623018],
    "llama lm, tied": [2.295306, -2.514056, -1.468066, 1.8736, 0.229491],
    "llama classification": [-2.299261, 2.43797, 1.571667, -1.630464],
}
NETWORKS = {"gpt2": GPT2, "bert": BERT, "distilbert": DistilBERT, "vit": ViT, "llama": Llama}


def results(network, model):
    """What a network makes of the texts or images, at the places of `EXPECTED`."""
    if model.startswith("vit"):
        made = network(adjoint.tensor(PIXELS))
    else:
        names = list(TOKENS) if model.startswith("bert") else list(TOKENS)[:2]
        made = network(**{name: adjoint.tensor(TOKENS[name]) for name in names})
    array = made.detach().numpy()
    return array.ravel() if array.ndim == 2 else np.array([array[place] for place in PLACES])


@pytest.mark.parametrize("model", MODELS)
def test_results_are_those_of_transformers_and_files_are_written_as_read(model, tmp_path):
    arrays = write_model(tmp_path / "in", model)
    network = load_pretrained(tmp_path / "in")
    assert type(network) is NETWORKS[model.split()[0]]
    assert not network.training
    if model in EXPECTED:  # float32 sums of at most 16 terms in two layers; elements are up to 3
        np.testing.assert_allclose(results(network, model), EXPECTED[model], rtol=0, atol=1e-5)
    save_pretrained(network, tmp_path / "out")
    written = read_arrays(tmp_path / "out" / "model.safetensors")
    assert written.keys() == arrays.keys()
    changed = {name for name in arrays if not np.array_equal(written[name], arrays[name])}
    # Two names of one bias, of which transformers uses the second.
    assert changed <= {"cls.predictions.bias"}
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    name, before, *_ = MODELS[model]
    assert config["architectures"] == [name]
    assert {key: config[key] for key in before} == before


def test_files_of_pytorch_and_of_several_parts_are_read(tmp_path):
    arrays = write_model(tmp_path, "gpt2 lm")
    (tmp_path / "model.safetensors").unlink()
    # Old versions saved masks, and the output weights although they are the embeddings.
    old = {"transformer.h.0.attn.bias": np.ones((1, 1, 8, 8), bool), "lm_head.weight": arrays["transformer.wte.weight"]}
    write_torch(tmp_path / "pytorch_model.bin", {**arrays, **old})
    first = load_pretrained(tmp_path).state_dict()
    names = sorted(arrays)
    parts = {"a-00001-of-00002.safetensors": names[:9], "a-00002-of-00002.safetensors": names[9:]}
    for file, own in parts.items():
        write_file(tmp_path / file, {name: arrays[name] for name in own}, {}, "test")
    index = {"weight_map": {name: file for file, own in parts.items() for name in own}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    second = load_pretrained(tmp_path).state_dict()
    assert len(first) == len(arrays)
    assert np.array_equal(first["layers.1.mlp.up.weight"].numpy(), arrays["transformer.h.1.mlp.c_fc.weight"].T)
    for name, tensor in first.items():
        assert np.array_equal(tensor.numpy(), second[name].numpy())


def test_only_the_tied_tensor_need_be_there(tmp_path):
    arrays = write_model(tmp_path, "llama lm, tied")
    table = arrays.pop("model.embed_tokens.weight")
    write_file(tmp_path / "model.safetensors", {**arrays, "lm_head.weight": table}, {}, "test")
    assert np.array_equal(load_pretrained(tmp_path).tokens.weight.detach().numpy(), table)


def test_keys_of_old_configurations_are_known(tmp_path):
    write_model(tmp_path, "llama lm")
    path = tmp_path / "config.json"
    old = {"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 4.0}, "pad_token_id": -1}
    path.write_text(json.dumps(json.loads(path.read_text()) | old))
    network = load_pretrained(tmp_path)
    assert (network.settings["theta"], network.settings["pad"]) == (500.0, None)
    # Four features of a head are two angles; the second one of a position is 1 / sqrt(theta), a quarter of it here.
    np.testing.assert_allclose(network.frequencies.numpy(), [0.25, 0.25 / np.sqrt(500)], rtol=1e-6)
    save_pretrained(network, tmp_path)
    written = json.loads(path.read_text())
    assert written["rope_parameters"] == {"rope_theta": 500.0, "rope_type": "linear", "factor": 4.0}
    assert "rope_scaling" not in written


def test_names_of_old_norms_are_known(tmp_path):
    arrays = write_model(tmp_path, "bert classification")
    old = {name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): a for name, a in arrays.items()}
    assert old.keys() != arrays.keys()
    write_file(tmp_path / "model.safetensors", old, {}, "test")
    found = load_pretrained(tmp_path, dtype="auto").norm.weight.detach().numpy()
    assert np.array_equal(found, arrays["bert.embeddings.LayerNorm.weight"])


def test_names_that_modules_have_in_memory_are_known(tmp_path):
    arrays = write_model(tmp_path, "vit")
    parts = {"encoder.layer.": "layers.", "attention.attention.query": "attention.q_proj"}
    parts |= {"intermediate.dense": "mlp.fc1"}
    renamed = arrays
    for before, after in parts.items():
        renamed = {name.replace(before, after): array for name, array in renamed.items()}
    assert "layers.1.mlp.fc1.bias" in renamed
    write_file(tmp_path / "model.safetensors", renamed, {}, "test")
    found = load_pretrained(tmp_path).layers[1].attention.query.weight.detach().numpy()
    assert np.array_equal(found, arrays["encoder.layer.1.attention.attention.query.weight"])


def test_another_head_is_drawn_anew(tmp_path):
    arrays = write_model(tmp_path, "distilbert lm")
    network = load_pretrained(tmp_path, head="classification", classes=4, head_dropout=0.0)
    assert network.classifier.weight.shape == (4, 8)
    assert 0.005 < network.classifier.weight.std().item() < 0.05  # drawn around 0 with 0.02
    assert not network.classifier.bias.detach().numpy().any()
    assert network.head_drop.p == 0
    table = network.tokens.weight.detach().numpy()
    assert np.array_equal(table, arrays["distilbert.embeddings.word_embeddings.weight"])
    write_model(tmp_path / "classes", "bert classification")
    resized = load_pretrained(tmp_path / "classes", classes=5)
    kept = load_pretrained(tmp_path / "classes")
    assert resized.classifier.weight.shape == (5, 8)
    assert np.array_equal(resized.pooler.dense.weight.detach().numpy(), kept.pooler.dense.weight.detach().numpy())
    save_pretrained(resized, tmp_path / "five")
    assert load_pretrained(tmp_path / "five").settings["classes"] == 5


def test_dtypes_are_converted(tmp_path):
    write_model(tmp_path, "vit")
    network = load_pretrained(tmp_path, dtype="bf16")
    save_pretrained(network, tmp_path / "half")
    stored = read_arrays(tmp_path / "half" / "model.safetensors")
    assert {str(array.dtype) for array in stored.values()} == {"bfloat16"}
    assert load_pretrained(tmp_path / "half").norm.weight.dtype == np.float32
    assert load_pretrained(tmp_path / "half", dtype="auto").norm.weight.dtype == network.norm.weight.dtype
    save_pretrained(network, tmp_path / "wide", dtype="f64")
    assert json.loads((tmp_path / "wide" / "config.json").read_text())["dtype"] == "float64"


def test_a_network_that_was_not_loaded_is_written(tmp_path):
    adjoint.manual_seed(0)
    network = Llama(11, 8, 1, 2, 8, 12, tied=True).eval()
    save_pretrained(network, tmp_path)
    again = load_pretrained(tmp_path)
    assert again.settings == network.settings
    for name, tensor in network.state_dict().items():
        assert np.array_equal(again.state_dict()[name].numpy(), tensor.numpy())


def changed(tmp_path, model="gpt2 lm", **config):
    """The message for a model whose configuration has been changed."""
    write_model(tmp_path, model)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    return message(lambda: load_pretrained(tmp_path))


def test_differences_are_listed_in_one_error(tmp_path):
    arrays = write_model(tmp_path, "gpt2 lm")
    del arrays["transformer.wpe.weight"]
    arrays["transformer.ln_f.bias"] = np.zeros(9, np.float32)
    arrays["transformer.h.0.attn.c_attn.weight"] = arrays["transformer.h.0.attn.c_attn.weight"].T
    arrays["transformer.ln_f.weight"] = np.zeros(8, np.int32)
    write_file(tmp_path / "model.safetensors", {**arrays, "adapter.weight": np.zeros(1)}, {}, "test")
    assert message(lambda: load_pretrained(tmp_path)) == (
        "load_pretrained: the tensors must be those of config.json, got no wpe.weight and the unknown adapter.weight "
        "and h.0.attn.c_attn.weight of shape [24, 8] instead of [8, 24], ln_f.bias of shape [9] instead of [8], "
        "ln_f.weight of dtype int32; is it the configuration of this file?"
    )


def test_networks_that_are_not_there_are_refused(tmp_path):
    assert changed(tmp_path, model_type="t5") == (
        "load_pretrained: model_type in config.json must be one of gpt2, bert, distilbert, vit, llama, got t5; write "
        "the network with adjoint.nn, and find out where its weights belong with adjoint.interop.map_names"
    )
    assert changed(tmp_path, scale_attn_by_inverse_layer_idx=True) == (
        "load_pretrained: gpt2 networks have scale_attn_by_inverse_layer_idx = False here, and config.json says true; "
        "such a network is not there"
    )
    assert changed(tmp_path, architectures=["GPT2DoubleHeadsModel"]) == (
        "load_pretrained: architectures in config.json must be a list with one of GPT2LMHeadModel, "
        "GPT2ForSequenceClassification, GPT2Model, got another; pass head='lm' or 'classification' or None"
    )
    assert changed(tmp_path, "llama lm", rope_scaling={"type": "yarn", "factor": 2.0}) == (
        'load_pretrained: rope_type in config.json must be one of "default", "linear", "llama3", got "yarn"; correct it'
    )


def test_arguments_that_do_not_fit_are_refused(tmp_path):
    write_model(tmp_path, "gpt2")
    assert message(lambda: load_pretrained(tmp_path, head="masked")) == (
        "load_pretrained: the head of a gpt2 network must be 'lm', 'classification', None, got 'masked'"
    )
    assert message(lambda: load_pretrained(tmp_path, types=2)) == (
        "load_pretrained: the settings of a gpt2 network are vocabulary, tokens, layers, heads, width, hidden, "
        "dropout, attention_dropout, eps, activation, pad, tied, classes, got 'types'; leave it out"
    )
    assert message(lambda: load_pretrained(tmp_path, classes="3")) == (
        "load_pretrained: classes must be an integer, got '3'; correct it"
    )
    assert message(lambda: load_pretrained(tmp_path, dtype="i32")) == (
        "load_pretrained: dtype must be a float or 'auto', got i32; use f32"
    )
    assert message(lambda: save_pretrained(adjoint.nn.Linear(1, 1), tmp_path)) == (
        "save_pretrained takes a GPT2, BERT, DistilBERT, ViT, Llama of adjoint.nn.networks, got a Linear; pass "
        "one of them"
    )
    network = add_lora(GPT2(11, 8, 1, 2, 8), ["qkv"])
    assert message(lambda: save_pretrained(network, tmp_path)) == (
        "save_pretrained: the weights must be without low-rank updates, got a network with some; call "
        "merge_lora(network) first, or write the updates with save_adapter"
    )


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: GPT2(11, heads=3, width=8), "GPT2: width must be a multiple of heads, got 8 and 3"),
        (
            lambda: BERT(11, 8, 1, 2, 8, activation="tanh"),
            "BERT: activation must be one of gelu, gelu_tanh, relu, silu, got 'tanh'; choose one of them",
        ),
        (
            lambda: DistilBERT(11, 8, 1, 2, 8, head="span"),
            "DistilBERT: head must be 'lm', 'classification' or None, got 'span'; choose one of them",
        ),
        (
            lambda: BERT(11, 4, 1, 2, 8)(adjoint.zeros(1, 5, dtype="i64")),
            "BERT: a sequence may have up to 4 tokens, got 5; shorten it",
        ),
        (lambda: ViT(5, 2), "ViT: size must be a multiple of patch, got 5 and 2"),
        (
            lambda: ViT(4, 2, 1, 1, 2, 8)(adjoint.zeros(1, 1, 4, 6)),
            "ViT: images must have 4 times 4 pixels, got the shape [1, 1, 4, 6]; resize them",
        ),
        (
            lambda: Llama(11, 8, 1, 4, 8, 12, groups=3),
            "Llama: heads must be a multiple of groups, and the size of a head even, got 4, 3 and 2; change one",
        ),
        (
            lambda: Llama(11, 8, 1, 4, 8, 12, scaling={"rope_type": "linear"}),
            "Llama: scaling must have a rope_type 'default', 'linear' or 'llama3' and its numbers above 0, got "
            "{'rope_type': 'linear'}; other kinds are not there",
        ),
    ],
)
def test_sizes_out_of_range_are_refused(call, sentence):
    assert message(call) == sentence
