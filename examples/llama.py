"""Train a small Llama on the bytes of Python's help pages: Touvron et al., "LLaMA", 2023, with grouped-query heads.

This is a PyTorch script of which only the imports have been changed. They were
import torch, from torch import nn, and import torch.nn.functional as F.
"""

from pydoc_data.topics import topics

import adjoint as torch
import adjoint.nn.functional as F
from adjoint import nn

LAYERS, HEADS, GROUPS, WIDTH, HIDDEN, TOKENS = 2, 8, 2, 128, 352, 64
BATCH, STEPS, RATE, CLIP, LETTERS = 16, 400, 2e-3, 1.0, 200


def rotate(x, cos, sin):
    """Rotary positions: the halves of each head are the coordinates of points, which are turned by an angle."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Attention(nn.Module):
    """Causal self-attention in which several heads share keys and values."""

    def __init__(self) -> None:
        super().__init__()
        size = WIDTH // HEADS
        self.wq = nn.Linear(WIDTH, HEADS * size, bias=False)
        self.wk = nn.Linear(WIDTH, GROUPS * size, bias=False)
        self.wv = nn.Linear(WIDTH, GROUPS * size, bias=False)
        self.wo = nn.Linear(HEADS * size, WIDTH, bias=False)

    def forward(self, x, cos, sin):
        batch, tokens, _ = x.shape
        q = self.wq(x).view(batch, tokens, HEADS, -1).transpose(1, 2)
        k = self.wk(x).view(batch, tokens, GROUPS, -1).transpose(1, 2)
        v = self.wv(x).view(batch, tokens, GROUPS, -1).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.wo(y.transpose(1, 2).reshape(batch, tokens, -1))


class FeedForward(nn.Module):
    """SwiGLU: Shazeer, "GLU variants improve transformer", 2020."""

    def __init__(self) -> None:
        super().__init__()
        self.w1 = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.w2 = nn.Linear(HIDDEN, WIDTH, bias=False)
        self.w3 = nn.Linear(WIDTH, HIDDEN, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    """Attention and a feed-forward network, each added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm, self.attention = nn.RMSNorm(WIDTH, eps=1e-5), Attention()
        self.ffn_norm, self.feed_forward = nn.RMSNorm(WIDTH, eps=1e-5), FeedForward()

    def forward(self, x, cos, sin):
        x = x + self.attention(self.attention_norm(x), cos, sin)
        return x + self.feed_forward(self.ffn_norm(x))


class Llama(nn.Module):
    """Bytes to scores of the bytes that follow."""

    def __init__(self, vocabulary: int = 256) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocabulary, WIDTH)
        self.layers = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.norm = nn.RMSNorm(WIDTH, eps=1e-5)
        self.output = nn.Linear(WIDTH, vocabulary, bias=False)
        size = WIDTH // HEADS
        frequencies = 1.0 / 10000 ** (torch.arange(0, size, 2).float() / size)
        angles = torch.outer(torch.arange(TOKENS).float(), frequencies).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, ids):
        tokens = ids.size(1)
        x = self.tok_embeddings(ids)
        for layer in self.layers:
            x = layer(x, self.cos[:tokens], self.sin[:tokens])
        return self.output(self.norm(x))


@torch.no_grad()
def generate(model, ids, count: int) -> str:
    """Write the bytes that are most likely to follow, one by one."""
    written = []
    for _ in range(count):
        following = model(ids)[:, -1].argmax(-1, keepdim=True)
        written.append(following.item())
        ids = torch.cat((ids[:, 1:], following), dim=1)
    return bytes(written).decode(errors="replace")


def main() -> None:
    """Train, and write."""
    torch.manual_seed(0)
    pages = "\n".join(topics[name] for name in sorted(topics)).encode()
    data = torch.tensor(list(pages), dtype=torch.long)
    model = Llama()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=0.1)
    for step in range(STEPS):
        starts = torch.randint(len(data) - TOKENS, (BATCH, 1))
        batch = data[starts + torch.arange(TOKENS + 1)]
        logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        if step % (STEPS // 8) == 0:
            print(f"step {step}  loss {loss.item():.4f}")
    print(generate(model, data[:TOKENS].unsqueeze(0), LETTERS))


if __name__ == "__main__":
    main()
