"""Steps of a DCGAN on 8x8 images."""

import torch
from torch import nn, optim


def weights_init(module):
    name = module.__class__.__name__
    if name.find("Conv") != -1:
        nn.init.normal_(module.weight.data, 0.0, 0.02)
    elif name.find("BatchNorm") != -1:
        nn.init.normal_(module.weight.data, 1.0, 0.02)
        nn.init.constant_(module.bias.data, 0)


class Generator(nn.Module):
    def __init__(self, latent, features):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(latent, features * 2, 4, 1, 0, bias=False),
            nn.BatchNorm2d(features * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(features * 2, 1, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, x):
        return self.main(x)


class Discriminator(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, features, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(features, 1, 4, 1, 0, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return self.main(x)


def main():
    torch.manual_seed(999)
    latent, batch = 5, 4
    generator, discriminator = Generator(latent, 4), Discriminator(4)
    generator.apply(weights_init)
    discriminator.apply(weights_init)
    criterion = nn.BCELoss()
    for_discriminator = optim.Adam(discriminator.parameters(), lr=0.002, betas=(0.5, 0.999))
    for_generator = optim.Adam(generator.parameters(), lr=0.002, betas=(0.5, 0.999))
    real = torch.sign(torch.randn(batch, 1, 8, 8))
    discriminator_losses, generator_losses = [], []
    for _ in range(3):
        discriminator.zero_grad()
        label = torch.full((batch,), 1.0, dtype=torch.float)
        on_real = criterion(discriminator(real).view(-1), label)
        on_real.backward()
        fake = generator(torch.randn(batch, latent, 1, 1))
        label.fill_(0.0)
        on_fake = criterion(discriminator(fake.detach()).view(-1), label)
        on_fake.backward()
        for_discriminator.step()
        generator.zero_grad()
        label.fill_(1.0)
        loss = criterion(discriminator(fake).view(-1), label)
        loss.backward()
        for_generator.step()
        discriminator_losses.append((on_real + on_fake).item())
        generator_losses.append(loss.item())
    return {"discriminator": discriminator_losses, "generator": generator_losses}


if __name__ == "__main__":
    print(main())
