"""Train ResNet-18 on generated textures of 224 x 224 pixels: He et al., "Deep Residual Learning", 2016.

This is a PyTorch script of which only the imports have been changed. They were
import torch, from torch import nn, and import torch.nn.functional as F.
"""

import adjoint as torch
import adjoint.nn.functional as F
from adjoint import nn

#: Channels and first stride of each stage of two blocks.
STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))
WIDTH, CLASSES, SIZE, BATCH, STEPS, RATE = 64, 4, 224, 8, 80, 0.01


class BasicBlock(nn.Module):
    """Two convolutions, added to the input."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class ResNet18(nn.Module):
    """A ResNet for large images: a convolution with pooling, and four stages of two blocks."""

    def __init__(self, classes: int = CLASSES) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, WIDTH, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(WIDTH)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        layers, width = [], WIDTH
        for outputs, stride in STAGES:
            layers += [BasicBlock(width, outputs, stride), BasicBlock(outputs, outputs, 1)]
            width = outputs
        self.layers = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(width, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        return self.fc(torch.flatten(self.avgpool(self.layers(x)), 1))


def textures(count: int):
    """Noisy images in two random colours: 0 has horizontal stripes, 1 vertical ones, 2 checks and 3 rings."""
    labels = torch.randint(0, CLASSES, (count,))
    y = torch.linspace(-1, 1, SIZE).view(1, SIZE, 1)
    x = torch.linspace(-1, 1, SIZE).view(1, 1, SIZE)
    frequency = 10 + 20 * torch.rand(count, 1, 1)
    across, down = (torch.sin(frequency * (z + torch.rand(count, 1, 1))) for z in (x, y))
    rings = torch.sin(frequency * torch.sqrt((x - torch.rand(count, 1, 1)) ** 2 + y**2))
    patterns = torch.stack([down.expand(-1, -1, SIZE), across.expand(-1, SIZE, -1), across * down, rings], 1)
    chosen = (patterns * F.one_hot(labels, CLASSES)[:, :, None, None]).sum(1, keepdim=True)
    images = torch.where(chosen > 0, torch.randn(count, 3, 1, 1), torch.randn(count, 3, 1, 1))
    return images + 0.2 * torch.randn(count, 3, SIZE, SIZE), labels


def main() -> None:
    """Train, then count how many of 64 new images are recognized."""
    torch.manual_seed(0)
    model = ResNet18()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9, weight_decay=1e-4)
    model.train()
    for step in range(STEPS + 1):
        images, labels = textures(BATCH)
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        if step % (STEPS // 8) == 0:
            print(f"step {step}  loss {loss.item():.4f}")
    model.eval()
    correct = 0
    with torch.no_grad():
        for _ in range(64 // BATCH):
            images, labels = textures(BATCH)
            correct += (model(images).argmax(1) == labels).sum().item()
    print(f"test accuracy {correct / 64:.2%}")


if __name__ == "__main__":
    main()
