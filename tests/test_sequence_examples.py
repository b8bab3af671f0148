"""The examples of networks for sequences and graphs: PyTorch's losses, what is compiled when, and `main`."""

import re

import numpy as np
import pytest

import adjoint
from benchmarks.model_zoo.entry import EXAMPLES, IMPORTS, load_example

NAMES = ("word_language_model", "llama", "bert", "graph_network")
DATA = "from adjoint.data import fashion_mnist"
WORDS = "the cat sat on the mat. the dog lay by the door. " * 12


def filled(model, torch):
    """A model whose parameters are given by a formula, so that PyTorch's losses can be written down."""
    with torch.no_grad():
        for n, p in enumerate(model.parameters()):
            values = np.sin(0.7 * np.arange(p.numel()) + n) / np.sqrt(p.shape[-1])
            values = values + (p.ndim == 1)  # for the weights of normalizations
            p.copy_(torch.tensor(values.reshape(tuple(p.shape)).astype(np.float32)))
    return model


def recurrent_losses(cell, example):
    torch, steps = example.torch, []
    rng = np.random.default_rng(0)
    model = filled(example.RNNModel(cell, 7), torch)
    hidden = model.init_hidden(2)
    for _ in range(6):
        x, y = torch.tensor(rng.integers(0, 7, (3, 2))), torch.tensor(rng.integers(0, 7, 6))
        loss, hidden = example.train_step(model, hidden, x, y, 0.5)
        steps.append(loss.item())
    return steps


def transformer_losses(model, example, bert):
    torch, steps = example.torch, []
    rng = np.random.default_rng(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    for _ in range(3):
        x, y = rng.integers(3, 9, (2, 2, 6))
        there = np.arange(6) < [[6], [4]]
        ids = torch.tensor(np.where(there, x, 0))
        logits = model(ids, torch.tensor(there)) if bert else model(ids)
        loss = example.F.cross_entropy(logits.flatten(0, 1), torch.tensor(np.where(there, y, -100)).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps.append(loss.item())
    return steps


def graph_losses(example):
    torch, steps = example.torch, []
    rng = np.random.default_rng(0)
    ends = [torch.tensor(e) for e in rng.integers(0, 8, (2, 12))]
    source, target, weight = example.normalized(*ends, 8)
    x = torch.tensor(rng.standard_normal((8, 5)).astype(np.float32))
    labels = torch.tensor(rng.integers(0, 3, 8))
    model = filled(example.GCN(5, 3), torch)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(3):
        loss = example.F.cross_entropy(model(x, source, target, weight), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps.append(loss.item())
    return steps


TINY = {"WIDTH": 8, "LAYERS": 1, "HEADS": 4, "TOKENS": 6}
SETTINGS = {
    "word_language_model": {"WIDTH": 4, "DROPOUT": 0.0},
    "llama": TINY | {"GROUPS": 2, "HIDDEN": 12},
    "bert": TINY | {"DROPOUT": 0.0},
    "graph_network": {"HIDDEN": 4, "DROPOUT": 0.0},
}


def measured(name, framework, cell="LSTM"):
    example = load_example(name, framework, SETTINGS[name])
    if name == "word_language_model":
        return recurrent_losses(cell, example)
    if name == "graph_network":
        return graph_losses(example)
    model = example.BERT(9) if name == "bert" else example.Llama(9)
    return transformer_losses(filled(model, example.torch), example, name == "bert")


#: What PyTorch 2.13 has: `measured(name, "torch", cell)`.
EXPECTED = {
    ("word_language_model", "LSTM"): (2.183531, 2.159541, 2.292967, 2.147936, 1.700556, 2.274721),
    ("word_language_model", "GRU"): (1.938321, 2.143790, 2.363413, 2.216242, 1.703327, 2.376798),
    ("llama", ""): (2.443052, 2.281645, 2.029914),
    ("bert", ""): (3.860749, 2.420878, 2.064691),
    ("graph_network", ""): (1.894363, 1.688047, 1.509639),
}


@pytest.mark.parametrize(("name", "cell"), EXPECTED)
def test_the_losses_are_those_of_pytorch(name, cell):
    before = adjoint.explain_recompiles()
    np.testing.assert_allclose(measured(name, "adjoint", cell), EXPECTED[name, cell], rtol=1e-5)
    if cell:  # three steps until the state and all parameters are results of steps; the other steps find the program
        made = [one for one in list(adjoint.explain_recompiles())[len(before) :] if one.operations > 40]
        assert len(made) <= 3


def printed(name, capsys, *args, **settings):
    example = load_example(name, "adjoint", settings | ({"topics": {"cats": WORDS}} if name != "graph_network" else {}))
    example.main(*args)
    return capsys.readouterr().out


def numbers(out, label):
    return [float(found) for found in re.findall(rf"{label} ([\d.]+)", out)]


def test_the_language_model_learns_and_writes(capsys):
    out = printed(
        "word_language_model", capsys, "GRU", WIDTH=16, LAYERS=1, DROPOUT=0.0, BATCH=2, TOKENS=4, EPOCHS=2, WORDS=2
    )
    first, *_, last = numbers(out, "loss")
    assert last < 0.8 * first
    assert set(out.splitlines()[-1].split()) <= {"<unk>", ".", *WORDS.replace(".", "").split()}


def test_the_llama_learns_and_writes(capsys):
    small = TINY | {"WIDTH": 16, "GROUPS": 2, "HIDDEN": 16, "TOKENS": 8}
    out = printed("llama", capsys, **small, BATCH=8, STEPS=15, RATE=3e-2, LETTERS=2)
    first, *_, last = numbers(out, "loss")
    assert last < 0.7 * first
    assert len(out.splitlines()[-1]) == 2


def test_the_bert_learns(capsys):
    out = printed("bert", capsys, **TINY, DROPOUT=0.0, RARE=1, BATCH=16, STEPS=11, RATE=2e-2)
    first, *_, last = numbers(out, "loss")
    assert last < 0.9 * first


def test_the_graph_network_finds_the_communities(capsys):
    out = printed("graph_network", capsys, NODES=120, COMMUNITIES=3, NOISE=1.0, HIDDEN=16, STEPS=9, RATE=0.05)
    assert numbers(out, "others")[-1] > 80


def test_the_examples_differ_from_pytorch_in_their_imports_only():
    for name in NAMES:
        source = (EXAMPLES / f"{name}.py").read_text()
        assert len(source.splitlines()) < 130
        assert {line for line in source.splitlines() if "adjoint" in line} == set(IMPORTS) - {DATA}
