"""Train LeNet-5 on Fashion-MNIST: LeCun et al., "Gradient-based learning applied to document recognition", 1998.

This is a PyTorch script of which only the imports have been changed. They were
import torch, from torch import nn, and import torch.nn.functional as F.
"""

import adjoint as torch
import adjoint.nn.functional as F
from adjoint import nn
from adjoint.data import fashion_mnist

BATCH, EPOCHS, RATE = 64, 3, 0.05


class LeNet(nn.Module):
    """Two convolutions with pooling and three linear layers, for images of 28 x 28 pixels."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


def main() -> None:
    """Train, and count after each epoch how many test images are recognized."""
    torch.manual_seed(0)
    clothes = fashion_mnist()
    images = torch.tensor(clothes.train_images).float().unsqueeze(1) / 255
    labels = torch.tensor(clothes.train_labels).long()
    test_images = torch.tensor(clothes.test_images).float().unsqueeze(1) / 255
    test_labels = torch.tensor(clothes.test_labels).long()
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(images, labels), batch_size=BATCH, shuffle=True, drop_last=True
    )
    model = LeNet()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    for epoch in range(1, EPOCHS + 1):
        model.train()
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            accuracy = (model(test_images).argmax(1) == test_labels).float().mean().item()
        print(f"epoch {epoch}  loss {total / len(loader):.4f}  test accuracy {accuracy:.2%}")


if __name__ == "__main__":
    main()
