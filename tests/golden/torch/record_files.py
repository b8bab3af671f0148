"""Record files of ``torch.save``: ``python tests/golden/torch/record_files.py`` with torch 2.13 installed.

Writes ``checkpoint.pt`` and ``checkpoint_1_5.pt``, in the format before PyTorch 1.6, beside itself. Each is a
checkpoint as a training loop saves it: the state dict of a small network, which shares one weight and has a buffer,
that of Adam after one step, and a scheduler's; then tensors of every dtype and layout. Numbers are simple, so that the
tests know them: the parameter number p has elements (10 p + i) / 8, and its gradient is 1.
"""

from collections import OrderedDict
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).parent
DTYPES = (
    *("float64", "float32", "float16", "bfloat16", "bool", "complex64", "float8_e4m3fn", "float8_e5m2"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)


def network() -> torch.nn.Module:
    """Two linear layers with one weight, and batch norm between them."""
    layers = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 3, bias=False))
    layers[2].weight = layers[0].weight
    with torch.no_grad():
        for p, parameter in enumerate(layers.parameters()):
            parameter.copy_((10 * p + torch.arange(parameter.numel()).reshape(parameter.shape)) / 8)
    return layers


def checkpoint() -> dict[str, object]:
    """What the files contain."""
    net = network()
    weights = OrderedDict((name, tensor.clone()) for name, tensor in net.state_dict().items())
    weights["2.weight"] = weights["0.weight"].detach()
    weights._metadata = net.state_dict()._metadata
    optimizer = torch.optim.Adam(net.parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 2, 5])
    for parameter in net.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    scheduler.step()
    base = torch.arange(12.0)
    return {
        "model": weights,
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "dtypes": {name: torch.tensor([0, 1, 1]).to(getattr(torch, name)) for name in DTYPES},
        "layouts": {
            "matrix": base.reshape(3, 4),
            "transposed": base.reshape(3, 4).T,
            "part": base[3::4],
            "expanded": base[2:3].expand(2, 3),
            "scalar": torch.tensor(2.5, dtype=torch.float64),
            "empty": torch.zeros(0, 3),
        },
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "requires_grad": torch.ones(2, requires_grad=True),
        "python": [1, -1, 300, 2**40, 1.5, True, None, "é", (1, (2,)), b"\0\xff", bytearray(b"b"), 1 + 2j, {3}],
        "torch": (torch.Size([2, 3]), torch.float32, torch.device("cpu"), torch.device("cuda", 1)),
        "numpy": [np.float32(1.5), np.arange(6, dtype=np.int16).reshape(2, 3).T],
    }


if __name__ == "__main__":
    torch.save(checkpoint(), HERE / "checkpoint.pt")
    torch.save(checkpoint(), HERE / "checkpoint_1_5.pt", _use_new_zipfile_serialization=False)
