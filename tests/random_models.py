"""Random models of many kinds of layers and short training loops, to be run with adjoint or with PyTorch.

A seed determines the layers, their options, the optimizer and the loop. Weights and data are numbers from a formula, so
that both libraries start from the same ones, in float64.
"""

import numpy as np

from tests.loops import numbers

__all__ = ["Plan", "figures"]

#: Sizes at the beginning: a batch of images, of sequences of vectors, or of vectors.
STARTS = {"image": (2, 4, 6, 5), "sequence": (2, 5, 4), "vector": (4, 6)}
STEPS = 3


#: What a batch with so many axes is.
KINDS = {4: "image", 3: "sequence", 2: "vector"}


def applied(torch, module, call, x):
    """The result of a layer that is called in one of several ways."""
    if call == "recurrent":
        return module(x)[0]
    if call in ("attention", "causal"):
        rows = x.shape[1]
        hidden = torch.ones(rows, rows, dtype=torch.bool).triu(1) if call == "causal" else None
        return module(x, x, x, attn_mask=hidden)[0]
    if call == "channels":
        return module(x.transpose(1, 2)).transpose(1, 2)
    return x[:, -1] if call == "last" else module(x)


def built(torch, layers):
    """The modules of a list of layers."""
    return [getattr(torch.nn, name)(*args, **options).to(torch.float64) for name, args, options, _ in layers]


class Plan:
    """A choice of layers: the name of each, its arguments, and how it is called.

    Layers are tried with a library, which computes the shapes; what does not fit is left out.
    """

    def __init__(self, seed, torch):
        self.torch = torch
        self.rng = np.random.default_rng([seed, 7])
        self.shape = self.start = STARTS[self.pick(*STARTS)]
        self.layers = []
        for _ in range(self.rng.integers(3, 6)):
            if len(self.shape) in KINDS:
                getattr(self, f"add_{KINDS[len(self.shape)]}")()

    def pick(self, *options):
        return options[self.rng.integers(len(options))]

    def flag(self):
        return bool(self.rng.random() < 0.5)

    def layer(self, name, *args, call="plain", **options):
        layer = (name, args, options, call)
        try:
            (module,) = built(self.torch, [layer])
            shape = tuple(
                applied(self.torch, module, call, self.torch.ones(self.shape, dtype=self.torch.float64)).shape
            )
        except (RuntimeError, ValueError):
            return
        if 0 not in shape:
            self.shape = shape
            self.layers.append(layer)

    def add_image(self):
        _, channels, *size = self.shape
        which = self.pick(
            "conv", "conv", "transposed", "transposed", "norm", "norm", "pool", "act", "resize", "flatten"
        )
        if which == "conv":
            groups, out = self.pick(1, 1, 2, channels), 4
            mode = self.pick("zeros", "zeros", "reflect", "circular", "replicate")
            options = {"stride": self.pick(1, 1, 2), "padding": self.pick(0, 1), "dilation": self.pick(1, 1, 2)}
            groups = groups if channels % groups == 0 and out % groups == 0 else 1
            kernel = self.pick(1, 2, 3) if min(size) >= 5 else 1
            self.layer("Conv2d", channels, out, kernel, groups=groups, bias=self.flag(), padding_mode=mode, **options)
        elif which == "transposed" and max(size) < 12:
            stride = self.pick(1, 2, 3)
            extra = self.pick(0, stride - 1)
            groups = self.pick(1, 2) if channels % 2 == 0 else 1
            self.layer("ConvTranspose2d", channels, 4, self.pick(2, 3), stride, self.pick(0, 1), extra, groups)
        elif which == "norm":
            name = self.pick("BatchNorm2d", "GroupNorm", "InstanceNorm2d", "LocalResponseNorm")
            if name == "GroupNorm":
                self.layer(name, self.pick(1, channels), channels)
            elif name == "InstanceNorm2d" and min(size) > 1:
                self.layer(name, channels, affine=self.flag(), track_running_stats=self.flag())
            elif name == "LocalResponseNorm":
                self.layer(name, self.pick(2, 3))
            else:
                self.layer("BatchNorm2d", channels, momentum=self.pick(0.1, 0.3, None), affine=self.flag())
        elif which == "pool" and min(size) >= 3:
            if self.flag():
                self.layer("MaxPool2d", self.pick(2, 3), self.pick(1, 2), self.pick(0, 1), ceil_mode=self.flag())
            else:
                self.layer("AvgPool2d", 2, self.pick(1, 2), self.pick(0, 1), self.flag(), self.flag())
        elif which == "resize" and max(size) < 9:
            mode = self.pick("nearest", "bilinear", "bicubic")
            corners = {} if mode == "nearest" else {"align_corners": self.flag()}
            self.layer("Upsample", size=(int(self.rng.integers(3, 9)), 5), mode=mode, **corners)
        elif which == "flatten":
            self.layer("AdaptiveAvgPool2d", (2, self.pick(1, 3)))
            self.layer("Flatten", self.pick(1, 2))
        else:
            self.activation(channels)

    def add_sequence(self):
        _, _, width = self.shape
        which = self.pick("recurrent", "recurrent", "attention", "encoder", "norm", "linear", "conv", "last")
        if which == "recurrent":
            both, hidden = self.flag(), self.pick(3, 4)
            options = {"num_layers": self.pick(1, 2), "bidirectional": both, "batch_first": self.flag()}
            self.layer(self.pick("LSTM", "GRU", "RNN"), width, hidden, call="recurrent", **options)
        elif which == "attention" and width % 2 == 0:
            options = {"batch_first": True, "bias": self.flag()}
            self.layer("MultiheadAttention", width, 2, call=self.pick("attention", "causal"), **options)
        elif which == "encoder" and width % 2 == 0:
            options = {"dropout": 0.0, "batch_first": True, "norm_first": self.flag()}
            options["activation"] = self.pick("relu", "gelu")
            self.layer("TransformerEncoderLayer", width, 2, 5, **options)
        elif which == "norm":
            self.layer(self.pick("LayerNorm", "RMSNorm"), width)
        elif which == "conv":
            name = self.pick("Conv1d", "ConvTranspose1d")
            self.layer(name, width, self.pick(4, 6), 3, padding=1, call="channels")
        elif which == "last":
            self.layer("Flatten", call="last")
        else:
            self.layer("Linear", width, self.pick(4, 6), bias=self.flag())
            self.activation(width)

    def add_vector(self):
        width = self.shape[-1]
        which = self.pick("linear", "linear", "norm", "gate", "act")
        if which == "norm":
            self.layer(self.pick("BatchNorm1d", "LayerNorm"), width)
        elif which == "gate" and width % 2 == 0:
            self.layer("GLU", -1)
        elif which == "act":
            self.activation(width)
        else:
            self.layer("Linear", width, self.pick(4, 6), bias=self.flag())

    def activation(self, channels):
        name = self.pick(
            "ReLU", "GELU", "SiLU", "ELU", "Tanh", "Hardswish", "Softplus", "LeakyReLU", "PReLU", "Softmax"
        )
        if name == "PReLU" and len(self.shape) == 4:
            self.layer(name, self.pick(1, channels))
        elif name == "Softmax":
            self.layer(name, -1)
        elif name != "PReLU":
            self.layer(name)


def begin(model, torch):
    """Give a model weights from a formula."""
    state = model.state_dict()
    for n, (name, tensor) in enumerate(state.items()):
        if name.endswith(("running_mean", "running_var", "num_batches_tracked")):
            continue
        shape = tuple(tensor.shape)
        made = 0.4 * numbers(*shape, start=n) + (len(shape) == 1 and "weight" in name)
        state[name] = torch.tensor(made, dtype=torch.float64)
    model.load_state_dict(state)


def figures(seed, torch, plan):
    """What the loop of a seed reads: losses, and the parameters and buffers at the end."""
    rng = np.random.default_rng([seed, 8])
    model = torch.nn.ModuleList(built(torch, plan.layers))
    begin(model, torch)

    def predicted(x):
        for module, (*_, call) in zip(model, plan.layers, strict=True):
            x = applied(torch, module, call, x)
        return x

    parameters = [p for p in model.parameters() if rng.random() < 0.9]
    # With a small epsilon, an adaptive optimizer would follow the rounding errors of a gradient that is 0.
    kinds = ("SGD", {"momentum": 0.9}), ("Adam", {"eps": 1e-3}), ("AdamW", {"eps": 1e-3}), ("RMSprop", {"eps": 1e-3})
    name, options = kinds[rng.integers(len(kinds))]
    optimizer = getattr(torch.optim, name)(parameters, lr=0.01, **options) if parameters else None
    clip, entropy, read = rng.random() < 0.3, rng.random() < 0.5, rng.random() < 0.5
    seen = []
    for n in range(STEPS):
        x = torch.tensor(numbers(*plan.start, start=n), dtype=torch.float64)
        y = predicted(x)
        target = torch.tensor(numbers(*y.shape, start=2 * n), dtype=torch.float64)
        if entropy:
            logits = y.reshape(-1, y.shape[-1])
            loss = torch.nn.functional.cross_entropy(logits, target.reshape(-1, y.shape[-1]).argmax(1))
        else:
            loss = torch.nn.functional.mse_loss(y, target)
        model.zero_grad()
        if optimizer is not None:
            loss.backward()
            if clip:
                torch.nn.utils.clip_grad_norm_(parameters, 0.5)
            optimizer.step()
        seen.append(loss.item() if read else loss)
    model.eval()
    with torch.no_grad():
        seen.append(predicted(torch.tensor(numbers(*plan.start), dtype=torch.float64)))
    seen += model.state_dict().values()
    return [np.array(one.detach().tolist() if hasattr(one, "detach") else one, float) for one in seen]
