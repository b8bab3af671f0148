"""A classifier of small images: dataset, loader, schedule, checkpoint and evaluation."""

import os
import tempfile

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Dataset, random_split


class Stripes(Dataset):
    """Images of 6x6 with a bright row, column or diagonal."""

    def __init__(self, count):
        generator = torch.Generator().manual_seed(3)
        self.images = 0.3 * torch.rand(count, 1, 6, 6, generator=generator)
        self.labels = torch.arange(count) % 3
        for n in range(count):
            place = n % 6
            if n % 3 == 0:
                self.images[n, 0, place] += 1
            elif n % 3 == 1:
                self.images[n, 0, :, place] += 1
            else:
                self.images[n, 0] += torch.eye(6)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.layers = nn.Sequential(nn.Linear(36, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))

    def forward(self, x):
        return self.layers(self.flatten(x))


def train(loader, model, loss_function, optimizer, device):
    model.train()
    total = 0.0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        loss = loss_function(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(labels)
    return total / len(loader.dataset)


def test(loader, model, device):
    model.eval()
    correct, loss = 0, 0.0
    with torch.no_grad():
        for images, labels in loader:
            output = model(images.to(device))
            loss += F.cross_entropy(output, labels.to(device), reduction="sum").item()
            correct += (output.argmax(1) == labels.to(device)).type(torch.float).sum().item()
    return loss / len(loader.dataset), correct / len(loader.dataset)


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(1)
    training, testing = random_split(Stripes(96), [64, 32], generator=torch.Generator().manual_seed(0))
    loader = DataLoader(training, batch_size=16, shuffle=True)
    test_loader = DataLoader(testing, batch_size=16)
    model = Network().to(device)
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    scheduler = StepLR(optimizer, step_size=6, gamma=0.5)
    losses = []
    for _ in range(12):
        losses.append(train(loader, model, nn.CrossEntropyLoss(), optimizer, device))
        scheduler.step()
    loss, accuracy = test(test_loader, model, device)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "checkpoint.pt")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
        checkpoint = torch.load(path, map_location=device, weights_only=True)
    again = Network().to(device)
    again.load_state_dict(checkpoint["model"])
    optimizer = optim.Adam(again.parameters(), lr=0.01)
    optimizer.load_state_dict(checkpoint["optimizer"])
    return {
        "losses": losses,
        "accuracy": accuracy,
        "difference": abs(test(test_loader, again, device)[0] - loss),
        "rate": optimizer.param_groups[0]["lr"],
    }


if __name__ == "__main__":
    print(main())
