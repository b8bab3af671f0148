"""Train a small GPT on the text of Python's help pages and let it write some: python examples/char_gpt.py.

This is a PyTorch script of which only the imports have been changed. They were
import torch, from torch import nn, and import torch.nn.functional as F.
"""

from pydoc_data.topics import topics

import adjoint as torch
import adjoint.nn.functional as F
from adjoint import nn

LAYERS, HEADS, WIDTH, TOKENS, DROPOUT = 4, 4, 128, 64, 0.1
BATCH, STEPS, RATE, CLIP, LETTERS = 12, 300, 1e-3, 1.0, 200


class Attention(nn.Module):
    """Causal self-attention with several heads."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        batch, tokens, _ = x.size()
        q, k, v = self.qkv(x).split(WIDTH, dim=2)
        q, k, v = (t.view(batch, tokens, HEADS, WIDTH // HEADS).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.dropout(self.proj(y.transpose(1, 2).contiguous().view(batch, tokens, WIDTH)))


class Block(nn.Module):
    """Attention and a perceptron, each added to its input."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH, bias=False)
        self.attn = Attention(dropout)
        self.ln_2 = nn.LayerNorm(WIDTH, bias=False)
        wide, narrow = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)
        self.mlp = nn.Sequential(wide, nn.GELU(), narrow, nn.Dropout(dropout))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    """A GPT whose output weights are the token embeddings."""

    def __init__(self, vocabulary: int, dropout: float = DROPOUT) -> None:
        super().__init__()
        self.wte = nn.Embedding(vocabulary, WIDTH)
        self.wpe = nn.Embedding(TOKENS, WIDTH)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList([Block(dropout) for _ in range(LAYERS)])
        self.ln_f = nn.LayerNorm(WIDTH, bias=False)
        self.head = nn.Linear(WIDTH, vocabulary, bias=False)
        self.head.weight = self.wte.weight
        self.apply(self.init_weights)

    def init_weights(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)

    def forward(self, ids, targets=None):
        positions = torch.arange(ids.size(1), dtype=torch.long, device=ids.device)
        x = self.drop(self.wte(ids) + self.wpe(positions))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln_f(x))
        loss = None if targets is None else F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss

    @torch.no_grad()
    def generate(self, ids: torch.Tensor, count: int, temperature: float = 0.8) -> list[int]:
        """Draw the characters that follow, one by one."""
        written = []
        for _ in range(count):
            logits, _ = self(ids)
            probabilities = F.softmax(logits[:, -1, :] / temperature, dim=-1)
            following = torch.multinomial(probabilities, num_samples=1)
            written.append(following.item())
            ids = torch.cat((ids[:, 1:], following), dim=1)
        return written


def text() -> tuple[torch.Tensor, list[str]]:
    """The help pages as numbers of characters, and the characters."""
    pages = "\n".join(topics[name] for name in sorted(topics))
    letters = sorted(set(pages))
    numbers = {letter: n for n, letter in enumerate(letters)}
    return torch.tensor([numbers[letter] for letter in pages], dtype=torch.long), letters


def batch(data: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences from random places, and the same shifted by one character."""
    starts = torch.randint(len(data) - TOKENS, (BATCH,)).tolist()
    x = torch.stack([data[n : n + TOKENS] for n in starts])
    y = torch.stack([data[n + 1 : n + 1 + TOKENS] for n in starts])
    return x, y


def main() -> None:
    """Train, and let it write a few lines."""
    torch.manual_seed(1337)
    data, letters = text()
    model = GPT(len(letters))
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.99), weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for step in range(STEPS):
        x, y = batch(data)
        _, loss = model(x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad(set_to_none=True)
        if step % (STEPS // 6) == 0:
            print(f"step {step}  loss {loss.item():.4f}")
    model.eval()
    start = data[:TOKENS].unsqueeze(0)
    print("".join(letters[n] for n in model.generate(start, LETTERS)))


if __name__ == "__main__":
    main()
