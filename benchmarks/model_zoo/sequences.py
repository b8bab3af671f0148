"""Networks for sequences, and for a graph."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.model_zoo.entry import BATCHES, Begin, Compiled, Network, Training, supervised

__all__ = ["NETWORKS"]

Batches = list[tuple[np.ndarray, ...]]


def _text(rng: np.random.Generator, rows: int, tokens: int, words: int) -> np.ndarray:
    """Sequences in which nine of ten tokens are determined by the previous one, and one more token."""
    text = rng.integers(0, words, (rows, tokens + 1))
    for t in range(1, tokens + 1):
        text[:, t] = np.where(rng.random(rows) < 0.1, text[:, t], (5 * text[:, t - 1] + 3) % words)
    return text


def _next_tokens(rows: int, tokens: int, words: int) -> Callable[[np.random.Generator], Batches]:
    def batches(rng: np.random.Generator) -> Batches:
        texts = [_text(rng, rows, tokens, words) for _ in range(BATCHES)]
        return [(text[:, :-1].copy(), text[:, 1:].reshape(-1)) for text in texts]

    return batches


def _cross_entropy(example: Any, logits: Any, labels: Any) -> Any:
    return example.F.cross_entropy(logits.flatten(0, -2), labels.flatten())


# ---- recurrent language models

ROWS, TOKENS, WORDS = 20, 35, 1000


def _recurrent(cell: str) -> Begin:
    """The training step of the example, whose hidden state is carried over batches."""

    def begin(example: Any, compiled: Compiled) -> Training:
        model = example.RNNModel(cell, WORDS)
        forward = compiled(model)
        hidden = model.init_hidden(ROWS)

        def step(x: Any, y: Any) -> Any:
            nonlocal hidden
            loss, hidden = example.train_step(forward, hidden, x, y, 5.0)
            return loss.detach()

        return {"model": model}, step

    return begin


def _columns(rng: np.random.Generator) -> Batches:
    """Parts of a text that follow each other, with a column for each of `ROWS` places."""
    text = _text(rng, ROWS, BATCHES * TOKENS, WORDS).T.copy()
    starts = range(0, BATCHES * TOKENS, TOKENS)
    return [(text[n : n + TOKENS], text[n + 1 : n + 1 + TOKENS].reshape(-1)) for n in starts]


# ---- transformers


def _gpt(example: Any, compiled: Compiled) -> Training:
    model = example.GPT(65, dropout=0.0)
    optimizer = example.torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)
    forward, update = compiled(model), compiled(optimizer.step)

    def step(x: Any, y: Any) -> Any:
        _, loss = forward(x, y)
        loss.backward()
        example.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        update()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return {"model": model}, step


def _masked(rng: np.random.Generator) -> Batches:
    """Sequences of different lengths in which a seventh of the tokens is masked, their padding, and those tokens."""
    made = []
    for _ in range(BATCHES):
        ids = 3 + _text(rng, 32, 31, WORDS - 3)
        there = np.arange(32) < rng.integers(8, 33, (32, 1))
        chosen = there & (rng.random(ids.shape) < 0.15)
        made.append((np.where(there, np.where(chosen, 1, ids), 0), there, np.where(chosen, ids, -100)))
    return made


# ---- a graph


def _graph(rng: np.random.Generator) -> Batches:
    """One graph with communities, in which the labels of other nodes are known in every batch."""
    nodes, classes, edges = 2000, 6, 8000
    labels = rng.integers(0, classes, nodes)
    x = (rng.standard_normal((classes, 32))[labels] + 2 * rng.standard_normal((nodes, 32))).astype(np.float32)
    source, target = rng.integers(0, nodes, (2, edges))
    target = np.where(rng.random(edges) < 0.8, rng.permutation(nodes)[np.argsort(labels)][target], target)
    ends = np.concatenate((source, target, np.arange(nodes))), np.concatenate((target, source, np.arange(nodes)))
    scale = 1 / np.sqrt(np.bincount(ends[1], minlength=nodes))
    weight = (scale[ends[0]] * scale[ends[1]]).astype(np.float32)
    return [(x, *ends, weight, np.where(rng.random(nodes) < 0.1, labels, -100)) for _ in range(BATCHES)]


NETWORKS = (
    Network("lstm", "word_language_model", _recurrent("LSTM"), _columns, {"DROPOUT": 0.0}),
    Network("gru", "word_language_model", _recurrent("GRU"), _columns, {"DROPOUT": 0.0}),
    Network("nanogpt", "char_gpt", _gpt, _next_tokens(12, 64, 65)),
    Network(
        "llama",
        "llama",
        supervised(
            lambda m: m.Llama(),
            lambda m, parameters: m.torch.optim.AdamW(parameters, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1),
            _cross_entropy,
        ),
        _next_tokens(16, 64, 256),
    ),
    Network(
        "bert",
        "bert",
        supervised(
            lambda m: m.BERT(WORDS),
            lambda m, parameters: m.torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01),
            _cross_entropy,
        ),
        _masked,
        {"DROPOUT": 0.0},
    ),
    Network(
        "gcn",
        "graph_network",
        supervised(
            lambda m: m.GCN(32, 6),
            lambda m, parameters: m.torch.optim.Adam(parameters, lr=0.01, weight_decay=5e-4),
            _cross_entropy,
        ),
        _graph,
        {"DROPOUT": 0.0},
    ),
)
