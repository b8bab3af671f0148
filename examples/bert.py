"""Train a small BERT to guess masked words of Python's help pages: Devlin et al., "BERT", 2019.

This is a PyTorch script of which only the imports have been changed. They were
import torch, from torch import nn, and import torch.nn.functional as F.
"""

import re
from collections import Counter
from pydoc_data.topics import topics

import adjoint as torch
import adjoint.nn.functional as F
from adjoint import nn

LAYERS, HEADS, WIDTH, TOKENS, DROPOUT = 2, 2, 128, 32, 0.1
BATCH, STEPS, RATE, RARE = 32, 600, 1e-3, 5
PAD, MASK, UNKNOWN = 0, 1, 2


class Layer(nn.Module):
    """Self-attention and a perceptron, each added to its input and normalized."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.dense = nn.Linear(WIDTH, WIDTH)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH, eps=1e-12), nn.LayerNorm(WIDTH, eps=1e-12)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.drop = nn.Dropout(DROPOUT)

    def forward(self, x, mask):
        batch, tokens, _ = x.shape
        q, k, v = (
            part(x).view(batch, tokens, HEADS, -1).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        y = self.dense(y.transpose(1, 2).reshape(batch, tokens, WIDTH))
        x = self.norm1(x + self.drop(y))
        return self.norm2(x + self.drop(self.mlp(x)))


class BERT(nn.Module):
    """Words, of which some are masked, to scores of the words that were there."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.word = nn.Embedding(words, WIDTH, padding_idx=PAD)
        self.position = nn.Embedding(TOKENS, WIDTH)
        self.norm, self.drop = nn.LayerNorm(WIDTH, eps=1e-12), nn.Dropout(DROPOUT)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.transform = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH, eps=1e-12))
        self.decoder = nn.Linear(WIDTH, words)
        self.apply(self.init_weights)

    def init_weights(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids, attention_mask):
        x = self.word(ids) + self.position(torch.arange(ids.size(1)))
        x = self.drop(self.norm(x))
        mask = attention_mask[:, None, None, :]  # no token attends to padding
        for layer in self.layers:
            x = layer(x, mask)
        return self.decoder(self.transform(x))


def masked(ids, words: int):
    """Mask 15 % of the words: 80 % of them by a mark, 10 % by another word. The others get the label -100."""
    chosen = (torch.rand(ids.shape) < 0.15) & (ids != PAD)
    labels = ids.masked_fill(~chosen, -100)
    how = torch.rand(ids.shape)
    ids = ids.masked_fill(chosen & (how < 0.8), MASK)
    ids = torch.where(chosen & (how >= 0.9), torch.randint(3, words, ids.shape), ids)
    return ids, labels


def sentences() -> tuple[torch.Tensor, list[str]]:
    """The sentences of the help pages as numbers of words, padded at their ends, and the words."""
    pages = "\n\n".join(topics[name] for name in sorted(topics)).lower()
    parts = [re.findall(r"\w+|[^\w\s]", part) for part in re.split(r"(?<=[.!?:])\s+|\n\n", pages)]
    parts = [part[:TOKENS] for part in parts if len(part) > 4]
    counts = Counter(word for part in parts for word in part)
    words = ["<pad>", "<mask>", "<unk>", *sorted(word for word, count in counts.items() if count >= RARE)]
    numbers = {word: n for n, word in enumerate(words)}
    rows = [[numbers.get(word, UNKNOWN) for word in part] + [PAD] * (TOKENS - len(part)) for part in parts]
    return torch.tensor(rows, dtype=torch.long), words


def main() -> None:
    """Train, and report which part of the masked words is guessed."""
    torch.manual_seed(0)
    data, words = sentences()
    model = BERT(len(words))
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    warm = STEPS // 10
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda n: min((n + 1) / warm, (STEPS - n) / (STEPS - warm))
    )
    for step in range(STEPS):
        batch = data[torch.randint(len(data), (BATCH,))]
        ids, labels = masked(batch, len(words))
        logits = model(ids, attention_mask=ids != PAD)
        loss = F.cross_entropy(logits.view(-1, len(words)), labels.view(-1), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if step % (STEPS // 6) == 0 or step == STEPS - 1:
            guessed = (logits.argmax(-1) == labels).sum() / (labels != -100).sum()
            print(f"step {step}  loss {loss.item():.4f}  guessed {guessed.item():.1%}")


if __name__ == "__main__":
    main()
