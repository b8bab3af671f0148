"""Train ViT-Tiny on Fashion-MNIST: Dosovitskiy et al., "An image is worth 16x16 words", 2021.

This is a PyTorch script of which only the imports have been changed. They were
import torch, from torch import nn, and import torch.nn.functional as F.
"""

import adjoint as torch
import adjoint.nn.functional as F
from adjoint import nn
from adjoint.data import fashion_mnist

LAYERS, HEADS, WIDTH, PATCH, BATCH, STEPS, RATE = 12, 3, 192, 4, 64, 150, 5e-4


class Attention(nn.Module):
    """Attention of all patches to all others, in several heads."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, tokens, _ = x.shape
        q, k, v = self.qkv(x).reshape(batch, tokens, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        x = F.scaled_dot_product_attention(q, k, v)
        return self.proj(x.transpose(1, 2).reshape(batch, tokens, WIDTH))


class Block(nn.Module):
    """Attention and a perceptron, each added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.attn = Attention()
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    """A transformer over patches of an image, whose class is read from a token of its own."""

    def __init__(self, channels: int = 1, size: int = 28, classes: int = 10) -> None:
        super().__init__()
        self.patch_embed = nn.Conv2d(channels, WIDTH, PATCH, stride=PATCH)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.pos_embed = nn.Parameter(torch.randn(1, (size // PATCH) ** 2 + 1, WIDTH) * 0.02)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, classes)
        self.apply(self.init_weights)

    @staticmethod
    def init_weights(module):
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.02)
            nn.init.zeros_(module.bias)

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


def main() -> None:
    """Train, then count how many test images are recognized."""
    torch.manual_seed(0)
    clothes = fashion_mnist()
    images = torch.tensor(clothes.train_images).float().unsqueeze(1) / 255
    labels = torch.tensor(clothes.train_labels).long()
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(images, labels), batch_size=BATCH, shuffle=True, drop_last=True
    )
    model = ViT()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.05)
    model.train()
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        if step % (STEPS // 6) == 0:
            print(f"step {step}  loss {loss.item():.4f}")
        if step == STEPS:
            break
    model.eval()
    correct = 0
    with torch.no_grad():
        for start in range(0, 1000, 100):
            x = torch.from_numpy(clothes.test_images[start : start + 100]).float().unsqueeze(1) / 255
            y = torch.from_numpy(clothes.test_labels[start : start + 100]).long()
            correct += (model(x).argmax(1) == y).sum().item()
    print(f"test accuracy {correct / 1000:.2%}")


if __name__ == "__main__":
    main()
