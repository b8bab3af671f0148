"""Train a U-Net to segment generated shapes: Ronneberger et al., "U-Net", 2015.

This is a PyTorch script of which only the imports have been changed. They were
import torch, from torch import nn, and import torch.nn.functional as F.
"""

import adjoint as torch
import adjoint.nn.functional as F
from adjoint import nn

WIDTH, SIZE, BATCH, STEPS, RATE = 16, 64, 8, 300, 3e-3


class DoubleConv(nn.Module):
    """Two normalized convolutions that keep the size of images."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.layers(x)


class Up(nn.Module):
    """An image of twice the size, joined with the one of that size on the way down."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(inputs, outputs, 2, stride=2)
        self.conv = DoubleConv(2 * outputs, outputs)

    def forward(self, x, skip):
        return self.conv(torch.cat([skip, self.up(x)], dim=1))


class UNet(nn.Module):
    """Three times to half the size and back; the result has a logit for each pixel."""

    def __init__(self, channels: int = 1, classes: int = 1) -> None:
        super().__init__()
        self.conv1 = DoubleConv(channels, WIDTH)
        self.conv2 = DoubleConv(WIDTH, 2 * WIDTH)
        self.conv3 = DoubleConv(2 * WIDTH, 4 * WIDTH)
        self.conv4 = DoubleConv(4 * WIDTH, 8 * WIDTH)
        self.pool = nn.MaxPool2d(2)
        self.up3 = Up(8 * WIDTH, 4 * WIDTH)
        self.up2 = Up(4 * WIDTH, 2 * WIDTH)
        self.up1 = Up(2 * WIDTH, WIDTH)
        self.out = nn.Conv2d(WIDTH, classes, 1)

    def forward(self, x):
        x1 = self.conv1(x)
        x2 = self.conv2(self.pool(x1))
        x3 = self.conv3(self.pool(x2))
        x4 = self.conv4(self.pool(x3))
        return self.out(self.up1(self.up2(self.up3(x4, x3), x2), x1))


def shapes(count: int):
    """Noisy images of a disc and a square of random brightness, and masks of the disc."""

    def number(low, high):
        return low + (high - low) * torch.rand(count, 1, 1)

    y = torch.arange(SIZE).float().view(1, SIZE, 1) / SIZE
    x = torch.arange(SIZE).float().view(1, 1, SIZE) / SIZE
    disc = (x - number(0.2, 0.8)) ** 2 + (y - number(0.2, 0.8)) ** 2 < number(0.1, 0.25) ** 2
    side = number(0.1, 0.25)
    square = ((x - number(0.2, 0.8)).abs() < side) & ((y - number(0.2, 0.8)).abs() < side)
    images = torch.where(disc, number(0.5, 1.0), square * number(0.5, 1.0)) + 0.3 * torch.randn(count, SIZE, SIZE)
    return images.unsqueeze(1), disc.float().unsqueeze(1)


def main() -> None:
    """Train, then compare masks of new images: the size of the intersection over that of the union."""
    torch.manual_seed(0)
    model = UNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    model.train()
    for step in range(STEPS + 1):
        images, masks = shapes(BATCH)
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(model(images), masks)
        loss.backward()
        optimizer.step()
        if step % (STEPS // 6) == 0:
            print(f"step {step}  loss {loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        images, masks = shapes(100)
        found, masks = model(images) > 0, masks > 0
        print(f"intersection over union {(found & masks).sum().item() / (found | masks).sum().item():.2%}")


if __name__ == "__main__":
    main()
