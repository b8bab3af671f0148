"""Train a network with two heads and two optimizers on Fashion-MNIST: the class of an image and its brightness.

The classifier's gradients train the body too; the other head reads its features without changing them.
This is a PyTorch script of which only the imports have been changed. They were
import torch, from torch import nn, and import torch.nn.functional as F.
"""

import adjoint as torch
import adjoint.nn.functional as F
from adjoint import nn
from adjoint.data import fashion_mnist

WIDTH, BATCH, STEPS = 16, 64, 600


class TwoHeads(nn.Module):
    """A convolutional body, a classifier, and a regressor on its features."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(1, WIDTH, 5), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(WIDTH, 2 * WIDTH, 3), nn.ReLU(), nn.MaxPool2d(2)),
            nn.Flatten(),
        )
        self.classes = nn.Linear(50 * WIDTH, 10)
        self.brightness = nn.Sequential(nn.Linear(50 * WIDTH, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, x):
        features = self.body(x)
        return self.classes(features), self.brightness(features.detach()).squeeze(1)


def main() -> None:
    """Train both heads in turn."""
    torch.manual_seed(0)
    clothes = fashion_mnist()
    images = torch.tensor(clothes.train_images).float().unsqueeze(1) / 255
    labels = torch.tensor(clothes.train_labels).long()
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(images, labels), batch_size=BATCH, shuffle=True, drop_last=True
    )
    model = TwoHeads()
    first = torch.optim.Adam([*model.body.parameters(), *model.classes.parameters()], lr=1e-3)
    second = torch.optim.SGD(model.brightness.parameters(), lr=0.1, momentum=0.9)
    for step, (x, y) in enumerate(loader):
        logits, brightness = model(x)
        class_loss = F.cross_entropy(logits, y)
        first.zero_grad()
        class_loss.backward()
        first.step()
        brightness_loss = F.mse_loss(brightness, x.mean((1, 2, 3)))
        second.zero_grad()
        brightness_loss.backward()
        second.step()
        if step % (STEPS // 3) == 0:
            print(f"step {step}  class {class_loss.item():.4f}  brightness {brightness_loss.item():.5f}")
        if step == STEPS:
            break


if __name__ == "__main__":
    main()
