"""Train MobileNetV2 on Fashion-MNIST: Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks", 2018.

This is a PyTorch script of which only the imports have been changed. They were
import torch, from torch import nn, and import torch.nn.functional as F.
"""

import adjoint as torch
import adjoint.nn.functional as F
from adjoint import nn
from adjoint.data import fashion_mnist

#: Expansion, channels, blocks and first stride of each stage: the paper's, with smaller strides for small images.
STAGES = ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
STEM, LAST, BATCH, STEPS, RATE = 32, 1280, 32, 120, 0.02


def conv_bn_relu(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """A convolution that keeps the size of images, except for its stride, normalized and clipped."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(inplace=True),
    )


class InvertedResidual(nn.Module):
    """More channels, a depthwise convolution over them, and few channels again."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        self.use_residual = stride == 1 and inputs == outputs
        layers = [] if expansion == 1 else [conv_bn_relu(inputs, hidden, kernel=1)]
        layers += [
            conv_bn_relu(hidden, hidden, stride=stride, groups=hidden),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        ]
        self.conv = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.conv(x) if self.use_residual else self.conv(x)


class MobileNetV2(nn.Module):
    """Stages of inverted residuals between two plain convolutions."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        layers, channels = [conv_bn_relu(3, STEM)], STEM
        for expansion, outputs, blocks, first in STAGES:
            for n in range(blocks):
                layers.append(InvertedResidual(channels, outputs, first if n == 0 else 1, expansion))
                channels = outputs
        layers.append(conv_bn_relu(channels, LAST, kernel=1))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(LAST, classes)

    def forward(self, x):
        return self.classifier(self.features(x).mean([2, 3]))


def prepared(images):
    """Grey images of 28 x 28 pixels as colour images of 32 x 32."""
    x = torch.tensor(images).float().unsqueeze(1) / 255
    return F.interpolate(x, size=32, mode="bilinear").expand(-1, 3, -1, -1)


def main() -> None:
    """Train, then count how many test images are recognized."""
    torch.manual_seed(0)
    clothes = fashion_mnist()
    labels = torch.tensor(clothes.train_labels).long()
    model = MobileNetV2()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9, weight_decay=4e-5)
    model.train()
    for step in range(STEPS + 1):
        chosen = torch.randint(0, len(labels), (BATCH,))
        x, y = prepared(clothes.train_images[chosen.numpy()]), labels[chosen]
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        if step % (STEPS // 6) == 0:
            print(f"step {step}  loss {loss.item():.4f}")
    model.eval()
    correct = 0
    with torch.no_grad():
        for start in range(0, 1000, 100):
            y = torch.from_numpy(clothes.test_labels[start : start + 100]).long()
            correct += (model(prepared(clothes.test_images[start : start + 100])).argmax(1) == y).sum().item()
    print(f"test accuracy {correct / 1000:.2%}")


if __name__ == "__main__":
    main()
