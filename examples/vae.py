"""Train a variational autoencoder on Fashion-MNIST: Kingma and Welling, "Auto-encoding variational Bayes", 2014.

This is a PyTorch script of which only the imports have been changed. They were
import torch, from torch import nn, and import torch.nn.functional as F.
"""

import adjoint as torch
import adjoint.nn.functional as F
from adjoint import nn
from adjoint.data import fashion_mnist

HIDDEN, CODE, BATCH, EPOCHS, RATE = 400, 20, 128, 2, 1e-3


class VAE(nn.Module):
    """Images to the mean and log-variance of a code, and codes to images."""

    def __init__(self, pixels: int = 784) -> None:
        super().__init__()
        self.fc1 = nn.Linear(pixels, HIDDEN)
        self.fc21 = nn.Linear(HIDDEN, CODE)
        self.fc22 = nn.Linear(HIDDEN, CODE)
        self.fc3 = nn.Linear(CODE, HIDDEN)
        self.fc4 = nn.Linear(HIDDEN, pixels)

    def encode(self, x):
        h = F.relu(self.fc1(x))
        return self.fc21(h), self.fc22(h)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 784))
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(image, x, mu, logvar):
    """Reconstruction error plus the divergence of the code's distribution from the normal one, in nats."""
    error = F.binary_cross_entropy(image, x.view(-1, 784), reduction="sum")
    divergence = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return error + divergence


def main() -> None:
    """Train, and report the loss per image."""
    torch.manual_seed(1)
    images = torch.tensor(fashion_mnist().train_images).float().unsqueeze(1) / 255
    loader = torch.utils.data.DataLoader(images, batch_size=BATCH, shuffle=True)
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    for epoch in range(1, EPOCHS + 1):
        model.train()
        total = 0.0
        for x in loader:
            optimizer.zero_grad()
            image, mu, logvar = model(x)
            loss = loss_function(image, x, mu, logvar)
            loss.backward()
            total += loss.item()
            optimizer.step()
        print(f"epoch {epoch}  loss per image {total / len(images):.2f}")


if __name__ == "__main__":
    main()
