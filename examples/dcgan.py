"""Train a DCGAN on Fashion-MNIST in 32 x 32 pixels: Radford et al., "Unsupervised representation learning", 2016.

This is a PyTorch script of which only the imports have been changed. They were
import torch, from torch import nn, and import torch.nn.functional as F.
"""

import adjoint as torch
import adjoint.nn.functional as F
from adjoint import nn
from adjoint.data import fashion_mnist

NZ, NGF, NDF, BATCH, STEPS, RATE, BETA1 = 100, 32, 32, 64, 150, 0.0002, 0.5


def weights_init(module):
    """The paper's initial weights."""
    name = module.__class__.__name__
    if name.find("Conv") != -1:
        nn.init.normal_(module.weight.data, 0.0, 0.02)
    elif name.find("BatchNorm") != -1:
        nn.init.normal_(module.weight.data, 1.0, 0.02)
        nn.init.constant_(module.bias.data, 0)


class Generator(nn.Module):
    """Codes of shape (N, NZ, 1, 1) to images with pixels from -1 to 1."""

    def __init__(self) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(NZ, NGF * 4, 4, 1, 0, bias=False),
            nn.BatchNorm2d(NGF * 4),
            nn.ReLU(True),
            nn.ConvTranspose2d(NGF * 4, NGF * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(NGF * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(NGF * 2, NGF, 4, 2, 1, bias=False),
            nn.BatchNorm2d(NGF),
            nn.ReLU(True),
            nn.ConvTranspose2d(NGF, 1, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, x):
        return self.main(x)


class Discriminator(nn.Module):
    """Images to the probability that they are real."""

    def __init__(self) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, NDF, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(NDF, NDF * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(NDF * 2),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(NDF * 2, NDF * 4, 4, 2, 1, bias=False),
            nn.BatchNorm2d(NDF * 4),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(NDF * 4, 1, 4, 1, 0, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return self.main(x)


def train_step(netD, netG, optimizerD, optimizerG, criterion, real, noise):
    """Update both networks; returns their losses and the discriminator's means of real and of generated images."""
    netD.zero_grad()
    label = torch.full((real.size(0),), 1.0, dtype=torch.float)
    output = netD(real).view(-1)
    errD_real = criterion(output, label)
    errD_real.backward()
    D_x = output.mean()
    fake = netG(noise)
    label.fill_(0.0)
    output = netD(fake.detach()).view(-1)
    errD_fake = criterion(output, label)
    errD_fake.backward()
    optimizerD.step()

    netG.zero_grad()
    label.fill_(1.0)  # fake images should pass for real ones
    output = netD(fake).view(-1)
    errG = criterion(output, label)
    errG.backward()
    optimizerG.step()
    return errD_real + errD_fake, errG, D_x, output.mean()


def main() -> None:
    """Train, and compare the mean of generated images with that of real ones."""
    torch.manual_seed(0)
    images = torch.tensor(fashion_mnist().train_images[:20000]).float().unsqueeze(1)
    images = F.interpolate(images, size=32, mode="bilinear") / 127.5 - 1
    netG, netD = Generator(), Discriminator()
    netG.apply(weights_init)
    netD.apply(weights_init)
    criterion = nn.BCELoss()
    fixed_noise = torch.randn(BATCH, NZ, 1, 1)
    optimizerD = torch.optim.Adam(netD.parameters(), lr=RATE, betas=(BETA1, 0.999))
    optimizerG = torch.optim.Adam(netG.parameters(), lr=RATE, betas=(BETA1, 0.999))
    for step in range(STEPS + 1):
        real = images[torch.randint(0, len(images), (BATCH,))]
        noise = torch.randn(BATCH, NZ, 1, 1)
        errD, errG, D_x, D_G_z = train_step(netD, netG, optimizerD, optimizerG, criterion, real, noise)
        if step % (STEPS // 6) == 0:
            with torch.no_grad():
                distance = (netG(fixed_noise).mean(0) - images.mean(0)).abs().mean()
            print(
                f"step {step}  Loss_D {errD.item():.4f}  Loss_G {errG.item():.4f}  "
                f"D(x) {D_x.item():.4f}  D(G(z)) {D_G_z.item():.4f}  distance {distance.item():.4f}"
            )


if __name__ == "__main__":
    main()
