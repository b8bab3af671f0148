"""Train an LSTM or a GRU on the words of Python's help pages: python examples/word_language_model.py GRU.

Batches follow each other in the text, so the hidden state of one is where the next one starts. Loop and numbers are
those of PyTorch's example of the same name. This is a PyTorch script of which only the imports have been changed. They
were import torch, from torch import nn, and import torch.nn.functional as F.
"""

import re
import sys
from collections import Counter
from math import exp
from pydoc_data.topics import topics

import adjoint as torch
import adjoint.nn.functional as F
from adjoint import nn

CELL, WIDTH, LAYERS, DROPOUT = "LSTM", 128, 2, 0.2
BATCH, TOKENS, EPOCHS, RATE, CLIP, RARE, WORDS = 20, 35, 6, 10.0, 0.25, 3, 60


class RNNModel(nn.Module):
    """Embeddings of words, recurrent layers, and scores of the words that may follow."""

    def __init__(self, cell: str, words: int) -> None:
        super().__init__()
        self.words = words
        self.drop = nn.Dropout(DROPOUT)
        self.encoder = nn.Embedding(words, WIDTH)
        self.rnn = getattr(nn, cell)(WIDTH, WIDTH, LAYERS, dropout=DROPOUT)
        self.decoder = nn.Linear(WIDTH, words)
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, x, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(x)), hidden)
        decoded = self.decoder(self.drop(output)).view(-1, self.words)
        return F.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, batch: int):
        weight = next(self.parameters())
        zeros = weight.new_zeros(LAYERS, batch, WIDTH)
        return (zeros, zeros.clone()) if isinstance(self.rnn, nn.LSTM) else zeros


def repackage_hidden(h):
    """The hidden state without the graph that computed it."""
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


def train_step(model, hidden, x, y, rate: float):
    """One step of stochastic gradient descent; the loss, and the hidden state after the batch."""
    hidden = repackage_hidden(hidden)
    model.zero_grad()
    output, hidden = model(x, hidden)
    loss = F.nll_loss(output, y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    for p in model.parameters():
        p.data.add_(p.grad, alpha=-rate)
    return loss, hidden


def text() -> tuple[torch.Tensor, list[str]]:
    """The help pages as numbers of words, and the words; rare ones are all the same word."""
    pages = re.findall(r"\w+|[^\w\s]", "\n".join(topics[name] for name in sorted(topics)).lower())
    words = ["<unk>", *sorted(word for word, count in Counter(pages).items() if count >= RARE)]
    numbers = {word: n for n, word in enumerate(words)}
    return torch.tensor([numbers.get(word, 0) for word in pages]), words


def batches(data: torch.Tensor):
    """`BATCH` places of the text, one per column, read side by side: words, and the words that follow them."""
    rows = len(data) // BATCH
    data = data[: rows * BATCH].view(BATCH, rows).t().contiguous()
    for n in range(0, rows - TOKENS, TOKENS):
        yield data[n : n + TOKENS], data[n + 1 : n + 1 + TOKENS].view(-1)


@torch.no_grad()
def perplexity(model, data: torch.Tensor) -> float:
    """The exponential of the mean loss."""
    model.eval()
    hidden, total, count = model.init_hidden(BATCH), 0.0, 0
    for x, y in batches(data):
        output, hidden = model(x, hidden)
        total, count = total + F.nll_loss(output, y).item(), count + 1
    return exp(total / count)


@torch.no_grad()
def write(model, words: list[str]) -> str:
    """Draw words, one after the other."""
    model.eval()
    hidden, x, written = model.init_hidden(1), torch.randint(len(words), (1, 1)), []
    for _ in range(WORDS):
        output, hidden = model(x, hidden)
        x = torch.multinomial(output.exp(), 1)
        written.append(words[x.item()])
    return " ".join(written)


def main(cell: str = CELL) -> None:
    """Train, report the perplexity of text that was not trained on, and write."""
    torch.manual_seed(1111)
    data, words = text()
    held = len(data) // 10
    model, rate, best = RNNModel(cell, len(words)), RATE, float("inf")
    for epoch in range(1, EPOCHS + 1):
        model.train()
        hidden, total, count = model.init_hidden(BATCH), 0.0, 0
        for x, y in batches(data[held:]):
            loss, hidden = train_step(model, hidden, x, y, rate)
            total, count = total + loss.item(), count + 1
        found = perplexity(model, data[:held])
        print(f"epoch {epoch}  rate {rate:g}  loss {total / count:.4f}  perplexity of other text {found:.1f}")
        best, rate = (found, rate) if found < best else (best, rate / 4)
    print(write(model, words))


if __name__ == "__main__":
    main(*sys.argv[1:])
