"""Train ResNet-20 on Fashion-MNIST for some hundred steps: He et al., "Deep Residual Learning", 2016.

This is a PyTorch script of which only the imports have been changed. They were
import torch, from torch import nn, and import torch.nn.functional as F.
"""

import adjoint as torch
import adjoint.nn.functional as F
from adjoint import nn
from adjoint.data import fashion_mnist

BLOCKS, WIDTH, BATCH, STEPS, RATE = 3, 16, 64, 300, 0.05


class Block(nn.Module):
    """Two convolutions, added to the input."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + self.shortcut(x))


class ResNet(nn.Module):
    """A ResNet for small images: three stages of blocks."""

    def __init__(self, channels: int = 1, classes: int = 10) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, WIDTH, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(WIDTH)
        layers, width = [], WIDTH
        for outputs, first in ((WIDTH, 1), (2 * WIDTH, 2), (4 * WIDTH, 2)):
            for n in range(BLOCKS):
                layers.append(Block(width, outputs, first if n == 0 else 1))
                width = outputs
        self.layers = nn.Sequential(*layers)
        self.linear = nn.Linear(4 * WIDTH, classes)

    def forward(self, x):
        x = self.layers(F.relu(self.bn(self.conv(x))))
        return self.linear(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


def main() -> None:
    """Train, then count how many test images are recognized."""
    torch.manual_seed(0)
    clothes = fashion_mnist()
    images = torch.tensor(clothes.train_images).float().unsqueeze(1) / 255
    labels = torch.tensor(clothes.train_labels).long()
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(images, labels), batch_size=BATCH, shuffle=True, drop_last=True
    )
    model = ResNet()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9, weight_decay=1e-4)
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
        for start in range(0, 2000, 500):
            x = torch.from_numpy(clothes.test_images[start : start + 500]).float().unsqueeze(1) / 255
            y = torch.from_numpy(clothes.test_labels[start : start + 500]).long()
            correct += (model(x).argmax(1) == y).sum().item()
    print(f"test accuracy {correct / 2000:.2%}")


if __name__ == "__main__":
    main()
