"""The training loops of the examples on small data, to be run with adjoint or with PyTorch.

`model_of` executes an example with the imports of either library. The weights and the data are numbers from a formula,
dropout is off, and the noise of the autoencoder is given. The argument `begin` of the loops gives models other weights.
"""

from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np

EXAMPLES = Path(__file__).parent.parent / "examples"

#: Settings of the examples that make them small.
SMALL = {
    "char_gpt": {"LAYERS": 1, "HEADS": 2, "WIDTH": 8, "TOKENS": 6, "BATCH": 3},
    "resnet": {"BLOCKS": 1, "WIDTH": 4},
    "vae": {"HIDDEN": 12, "CODE": 3},
    "two_heads": {"WIDTH": 2},
}


def numbers(*shape, start=0.0):
    """Numbers between -1 and 1 without order or symmetry."""
    n = np.arange(int(np.prod(shape)))
    return np.sin(start + 1.7 * n + 0.03 * n**2).reshape(shape)


class WithNoise:
    """A library whose `randn_like` returns given arrays."""

    def __init__(self, torch, arrays):
        self.torch, self.arrays = torch, iter(arrays)

    def __getattr__(self, name):
        return getattr(self.torch, name)

    def randn_like(self, like):
        return self.torch.tensor(next(self.arrays), dtype=like.dtype)


def example(name, torch, **settings):
    """The names of an example that uses a library, with other settings."""
    source = (EXAMPLES / f"{name}.py").read_text()
    for adjoint, other in (
        ("import adjoint as torch", "import torch"),
        ("import adjoint.nn.functional as F", "import torch.nn.functional as F"),
        ("from adjoint import nn", "from torch import nn"),
    ):
        assert adjoint in source
        if torch.__name__ == "torch":
            source = source.replace(adjoint, other)
    module = ModuleType(name)
    exec(compile(source, f"examples/{name}.py", "exec"), vars(module))
    vars(module).update(SMALL[name], **settings)
    return module


def fill(model, torch, dtype):
    """Give a model the weights of the formula, of the size of PyTorch's at the beginning, in a dtype."""
    model.to(dtype)
    state = {}
    for n, (name, tensor) in enumerate(model.state_dict().items()):
        shape = tuple(tensor.shape)
        if not name.endswith(("weight", "bias")):  # running statistics
            state[name] = tensor
        elif len(shape) == 1:
            state[name] = torch.tensor(name.endswith("weight") + 0.1 * numbers(*shape, start=n), dtype=dtype)
        else:
            state[name] = torch.tensor(numbers(*shape, start=n) / np.sqrt(np.prod(shape[1:])), dtype=dtype)
    if "head.weight" in state:  # tied weights
        state["head.weight"] = state["wte.weight"]
    model.load_state_dict(state)
    for tensor in model.state_dict().values():
        tensor.tolist()  # so that the first step is the same program as the others
    return model


def char_gpt(torch, dtype, steps, begin=fill):
    """The losses of the GPT: tied weights, clipping, AdamW and a schedule of the learning rate."""
    module = example("char_gpt", torch)
    model = begin(module.GPT(11, dropout=0.0), torch, dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, betas=(0.9, 0.99), weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
    data = np.abs(numbers(400) * 37).astype(np.int64) % 11
    losses = []
    for step in range(steps):
        starts = [(step * 17 + n * 31) % 390 for n in range(module.BATCH)]
        x = np.stack([data[n : n + module.TOKENS] for n in starts])
        y = np.stack([data[n + 1 : n + 1 + module.TOKENS] for n in starts])
        _, loss = model(torch.tensor(x), torch.tensor(y))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    return SimpleNamespace(losses=losses, model=model)


def resnet(torch, dtype, steps, begin=fill):
    """The losses of the ResNet: batch normalization, SGD with momentum and decay; then the predictions."""
    module = example("resnet", torch)
    model = begin(module.ResNet(channels=2, classes=4), torch, dtype)
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    model.train()
    losses = []
    for step in range(steps):
        x = torch.tensor(numbers(6, 2, 8, 8, start=step % 3), dtype=dtype)
        y = torch.tensor((np.arange(6) + step) % 3)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        predicted = model(torch.tensor(numbers(5, 2, 8, 8, start=0.5), dtype=dtype))
    return SimpleNamespace(losses=losses, model=model, predicted=predicted.tolist())


def vae(torch, dtype, steps, begin=fill):
    """The losses of the autoencoder, with Adam."""
    module = example("vae", torch)
    model = begin(module.VAE(), torch, dtype)
    module.torch = WithNoise(torch, [numbers(4, module.CODE, start=n) for n in range(steps)])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for step in range(steps):
        x = torch.tensor((1 + numbers(4, 1, 28, 28, start=step % 3)) / 2, dtype=dtype)
        optimizer.zero_grad()
        image, mu, logvar = model(x)
        loss = module.loss_function(image, x, mu, logvar)
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    return SimpleNamespace(losses=losses, model=model)


def two_heads(torch, dtype, steps, begin=fill):
    """The losses of both heads, by turns, with an optimizer each."""
    module = example("two_heads", torch)
    model = begin(module.TwoHeads(), torch, dtype)
    first = torch.optim.Adam([*model.body.parameters(), *model.classes.parameters()], lr=0.01)
    second = torch.optim.SGD(model.brightness.parameters(), lr=0.01, momentum=0.9)
    losses = []
    for step in range(steps):
        x = torch.tensor((1 + numbers(4, 1, 28, 28, start=step % 3)) / 2 * (1 + step % 2), dtype=dtype)
        logits, brightness = model(x)
        class_loss = torch.nn.functional.cross_entropy(logits, torch.tensor((np.arange(4) + step) % 3))
        first.zero_grad()
        class_loss.backward()
        first.step()
        brightness_loss = torch.nn.functional.mse_loss(brightness, x.mean((1, 2, 3)))
        second.zero_grad()
        brightness_loss.backward()
        second.step()
        losses += [class_loss.item(), brightness_loss.item()]
    return SimpleNamespace(losses=losses, model=model)


LOOPS = {"char_gpt": char_gpt, "resnet": resnet, "vae": vae, "two_heads": two_heads}


def figures(ran):
    """The losses, then the predictions, and the sums of the weights and of what the model has observed, if any."""
    state = ran.model.state_dict()
    trained = sum(float(tensor.sum()) for name, tensor in state.items() if name.endswith(("weight", "bias")))
    observed = sum(float(tensor.sum()) for name, tensor in state.items() if not name.endswith(("weight", "bias")))
    return [*ran.losses, *np.ravel(getattr(ran, "predicted", [])).tolist(), trained, observed]
