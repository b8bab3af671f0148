"""The PyTorch side of loss_curve.py, as a PyTorch user would write it: python loss_curve_torch.py IN.npz OUT.npz."""

import sys

import numpy as np
import torch
from torch import nn


def model(arrays: dict[str, np.ndarray]) -> nn.Sequential:
    """Linear layers with relu between them, from weights [in, out]."""
    layers: list[nn.Module] = []
    for i in range(sum(name.startswith("w") for name in arrays)):
        weight, bias = torch.tensor(arrays[f"w{i}"]), torch.tensor(arrays[f"b{i}"])
        linear = nn.Linear(*weight.shape)
        with torch.no_grad():
            linear.weight.copy_(weight.T)
            linear.bias.copy_(bias)
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def main(source: str, result: str) -> None:
    """Train on the batches of `source`, and write losses and test accuracy to `result`."""
    with np.load(source) as file:
        arrays = {key: file[key] for key in file.files}
    net = model(arrays)
    loss_of = nn.CrossEntropyLoss(reduction="sum")
    optimizer = torch.optim.SGD(net.parameters(), lr=float(arrays["rate"]), weight_decay=float(arrays["decay"]))
    losses = []
    for x, y in zip(arrays["x"], arrays["y"], strict=True):
        optimizer.zero_grad()
        loss = loss_of(net(torch.tensor(x).float() / 255), torch.tensor(y))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        predicted = net(torch.tensor(arrays["test_x"]).float() / 255).argmax(1).numpy()
    np.savez(result, losses=np.array(losses), accuracy=(predicted == arrays["test_y"]).mean())


if __name__ == "__main__":
    main(*sys.argv[1:])
