"""A transformer encoder with a causal mask as a language model."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn import TransformerEncoder, TransformerEncoderLayer


class PositionalEncoding(nn.Module):
    def __init__(self, width, dropout=0.0, longest=32):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(longest).unsqueeze(1)
        rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table = torch.zeros(longest, 1, width)
        table[:, 0, 0::2] = torch.sin(position * rates)
        table[:, 0, 1::2] = torch.cos(position * rates)
        self.register_buffer("table", table)

    def forward(self, x):
        return self.dropout(x + self.table[: x.size(0)])


class LanguageModel(nn.Module):
    def __init__(self, tokens, width, heads, hidden, layers):
        super().__init__()
        self.width = width
        self.positions = PositionalEncoding(width)
        layer = TransformerEncoderLayer(width, heads, hidden, 0.0)
        self.encoder = TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.embedding = nn.Embedding(tokens, width)
        self.linear = nn.Linear(width, tokens)
        self.embedding.weight.data.uniform_(-0.1, 0.1)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(len(x))
        x = self.positions(self.embedding(x) * math.sqrt(self.width))
        return self.linear(self.encoder(x, mask=mask, is_causal=True))


def main():
    torch.manual_seed(2)
    tokens = 11
    data = (torch.arange(9).unsqueeze(1) * 3 + torch.arange(4)) % tokens
    model = LanguageModel(tokens, 16, 2, 16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.97)
    losses = []
    model.train()
    for _ in range(15):
        output = model(data[:-1])
        loss = F.cross_entropy(output.reshape(-1, tokens), data[1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return {"losses": losses, "rate": scheduler.get_last_lr()[0]}


if __name__ == "__main__":
    print(main())
