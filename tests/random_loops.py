"""Random training loops: `script` makes one, `ByLibrary` runs it with adjoint or PyTorch, and `ByHand` with NumPy.

The model is a small perceptron whose second layer is applied several times, with a head beside its result. A script is
a list of calls of methods that both classes have. Its iterations are alike, with random exceptions, so that programs
are found again. Everything that is read, and the parameters and gradients at the end, are compared.
"""

import numpy as np

SHAPES = {"w1": (3, 4), "b1": (4,), "w2": (4, 4), "w3": (4, 2), "w4": (4, 1)}

#: The parameters of each optimizer: SGD with momentum and decay, and Adam.
GROUPS = {"sgd": ("w1", "b1", "w2"), "adam": ("w3", "w4")}
MOMENTUM, DECAY = 0.9, 0.01


def start(seed):
    """The parameters at the beginning."""
    rng = np.random.default_rng([seed, 1])
    return {name: rng.standard_normal(shape) * 0.5 for name, shape in SHAPES.items()}


def script(seed, iterations=4):
    """The calls of a random loop."""
    rng = np.random.default_rng([seed, 2])
    body = _body(rng)
    calls = []
    for n in range(iterations):
        for when, name, *args in body:
            if when(n):
                calls.append((name, [arg(n, rng) if callable(arg) else arg for arg in args]))
    return [*calls, ("finish", [])]


def _body(rng):
    """The calls of one iteration, each after a function of the iteration that says whether it is made."""

    def maybe(chance):
        return bool(rng.random() < chance)

    def pick(*options):
        return options[rng.integers(len(options))]

    def when():
        return pick(*[lambda n: True] * 6, lambda n: n % 2 == 0, lambda n: n % 2 == 1, lambda n: n != 2)  # noqa: ARG005

    def always(_):
        return True

    def rows():
        sizes = [2] if maybe(0.6) else [2, 3, 5]
        return lambda n, rng: rng.standard_normal((sizes[n % len(sizes)], 3))

    def number(vary=0.5):
        base = float(rng.uniform(0.5, 1.5))
        return (lambda n, _: base / (n + 1)) if maybe(vary) else base

    body = []

    def add(chance, name, *args, at=None):
        if maybe(chance):
            body.append((at or when(), name, *args))

    def zero():
        add(1, "zero", pick("sgd", "adam", "both", "both"), pick(True, False))

    def touch_gradients():
        add(0.15, "share_gradient", pick(*SHAPES))
        add(0.4, "read_gradient", pick(*SHAPES))
        add(0.4, "change_gradient", pick(*SHAPES), pick("scaled", "replaced", "added", "none", "zero", "assigned"))
        add(0.4, "clip", float(rng.uniform(0.05, 2.0)), pick("read", "hold", "forget"))

    add(0.3, "freeze", pick("w1", "b1", "w2"), pick(True, False))
    zero_first = maybe(0.4)
    if zero_first:
        zero()
    slots = [f"loss{n}" for n in range(pick(1, 1, 2, 3))]
    waiting = []
    for slot in slots:
        heads = pick("main", "main", "detached", "both", "none")
        body.append((always, "forward", slot, rows(), pick(0, 1, 2), heads, maybe(0.5), number()))
        add(0.3, "observe")
        add(0.35, "read", slot)
        add(0.2, "hold", slot)
        add(0.2, "evaluate", rows(), pick("read", "hold"))
        add(0.2, "gradient", slot, pick("w3"), pick("read", "hold"))
        if maybe(0.6):
            again = maybe(0.2)
            if maybe(0.3):
                body.append((always, "fork", "fork", number()))
                body.append((always, "backward", "fork", True))
                add(0.3, "read", "fork")
            body.append((always, "backward", slot, again))
            add(0.3, "read", slot)
            if maybe(0.15):
                touch_gradients()
            if again:
                body.append((always, "backward", slot, False))
        else:
            waiting.append(slot)
    if waiting:
        body.append((always, "combine", "sum", waiting))
        add(0.3, "read", "sum")
        if maybe(0.5):
            zero()
        body.append((always, "backward", "sum", False))
    touch_gradients()
    add(0.3, "set_rate", pick("sgd", "adam"), lambda n, _: 0.05 / (n + 1))
    if maybe(0.3):
        add(1, "read", pick(*slots))
    which = pick("sgd", "adam", "both", "both", "both")
    for name in ("sgd", "adam") if which == "both" else (which,):
        add(1, "step", name)
        add(0.15, "read", pick(*slots))
    add(0.4, "read", pick(*slots))
    add(0.3, "accumulate", pick(*slots), pick("tensor", "number"))
    add(0.3, "change", pick(*SHAPES), pick("mul", "data", "copy", "view", "average"))
    if not zero_first or maybe(0.2):
        zero()
    add(0.3, "evaluate", rows(), pick("read", "hold"))
    add(0.3, "freeze", pick("w1", "b1", "w2"), pick(True, False))
    add(0.2, "read_parameter", pick(*SHAPES))
    add(0.1, "share_parameter", pick(*SHAPES))
    add(0.1, "reopen", pick("sgd", "adam"))
    add(0.15, "save", pick(*SHAPES))
    add(0.15, "restore", pick(*SHAPES))
    return body


class ByLibrary:
    """Runs calls with a library of PyTorch's names."""

    def __init__(self, torch, seed):
        self.torch = torch
        self.params = {name: torch.nn.Parameter(torch.tensor(array)) for name, array in start(seed).items()}
        self.optimizers = {name: self._optimizer(name) for name in GROUPS}
        self.mean = torch.zeros(4, dtype=torch.float64)
        self.losses, self.seen, self.held, self.saved = {}, [], [], {}
        self.total = 0.0

    def _optimizer(self, name):
        params = [self.params[one] for one in GROUPS[name]]
        if name == "adam":
            return self.torch.optim.Adam(params, lr=0.05)
        return self.torch.optim.SGD(params, lr=0.1, momentum=MOMENTUM, weight_decay=DECAY)

    def predict(self, rows, repeats):
        h = self.torch.tanh(rows @ self.params["w1"] + self.params["b1"])
        for _ in range(repeats):
            h = self.torch.tanh(h @ self.params["w2"])
        return h - self.mean

    def forward(self, slot, rows, repeats, heads, mean, scale):
        h = self.h = self.predict(self.torch.tensor(rows), repeats)
        target = self.torch.tensor(np.cos(rows[:, :2]))
        error = (
            ((h @ self.params["w3"] - target) ** 2).mean() if mean else ((h @ self.params["w3"] - target) ** 2).sum()
        )
        if heads == "none":
            error = (h @ self.params["w3"]).abs().mean()
        if heads in ("detached", "both"):
            features = h.detach() if heads == "detached" else h
            error = error + self.torch.nn.functional.mse_loss(features @ self.params["w4"], target[:, :1])
        self.losses[slot] = error * scale

    def observe(self):
        with self.torch.no_grad():
            self.mean.mul_(0.9).add_(self.h.mean(0), alpha=0.1)

    def fork(self, other, scale):
        self.losses[other] = (self.h @ self.params["w3"]).square().mean() * scale

    def hold(self, slot):
        self.held.append(self.losses[slot])

    def share_gradient(self, name):
        if self.params[name].grad is not None:
            self.held.append(self.params[name].grad)

    def share_parameter(self, name):
        self.held.append(self.params[name].detach())

    def reopen(self, name):
        made = self._optimizer(name)
        made.load_state_dict(self.optimizers[name].state_dict())
        self.optimizers[name] = made

    def save(self, name):
        self.saved[name] = self.params[name].detach().clone()

    def restore(self, name):
        if name in self.saved:
            with self.torch.no_grad():
                self.params[name].copy_(self.saved[name])

    def combine(self, slot, slots):
        self.losses[slot] = sum(self.losses[one] for one in slots)

    def read(self, slot):
        self.seen.append(self.losses[slot].item())

    def _note(self, tensor, how):
        if how == "read":
            self.seen.append(np.array(tensor.detach().tolist()))
        elif how == "hold":
            self.held.append(tensor)

    def evaluate(self, rows, how):
        with self.torch.no_grad():
            self._note((self.predict(self.torch.tensor(rows), 1) @ self.params["w3"]).sum(0), how)

    def gradient(self, slot, name, how):
        (found,) = self.torch.autograd.grad(self.losses[slot], [self.params[name]], retain_graph=True)
        self._note(found, how)

    def backward(self, slot, retain_graph):
        self.losses[slot].backward(retain_graph=retain_graph)

    def change_gradient(self, name, how):
        p = self.params[name]
        if p.grad is None:
            return
        if how == "scaled":
            p.grad *= 0.5
        elif how == "replaced":
            p.grad = p.grad * 2
        elif how == "added":
            p.grad.add_(p.detach(), alpha=0.1)
        elif how == "none":
            p.grad = None
        elif how == "zero":
            p.grad.zero_()
        else:
            p.grad[0] = 1.0

    def read_gradient(self, name):
        if self.params[name].grad is not None:
            self._note(self.params[name].grad, "read")

    def clip(self, most, how):
        self._note(self.torch.nn.utils.clip_grad_norm_(self.params.values(), most), how)

    def set_rate(self, optimizer, rate):
        self.optimizers[optimizer].param_groups[0]["lr"] = rate

    def step(self, optimizer):
        self.optimizers[optimizer].step()

    def zero(self, which, set_to_none):
        for name, optimizer in self.optimizers.items():
            if which in (name, "both"):
                optimizer.zero_grad(set_to_none=set_to_none)

    def freeze(self, name, trained):
        self.params[name].requires_grad_(trained)

    def change(self, name, how):
        p = self.params[name]
        with self.torch.no_grad():
            if how == "mul":
                p.mul_(0.9)
            elif how == "copy":
                p.copy_(self.torch.full(SHAPES[name], 0.25, dtype=self.torch.float64))
            elif how == "view":
                p[0] += 0.5
            elif how == "average":
                p.lerp_(self.torch.ones_like(p), 0.25)
        if how == "data":
            p.data -= 0.01

    def accumulate(self, slot, how):
        self.total = self.total + (self.losses[slot].item() if how == "number" else self.losses[slot].detach())

    def read_parameter(self, name):
        self._note(self.params[name], "read")

    def finish(self):
        self.seen += [np.array(tensor.detach().tolist()) for tensor in self.held]
        self.seen.append(float(self.total))
        for p in self.params.values():
            self.seen.append(np.array(p.detach().tolist()))
            self.seen.append(np.nan if p.grad is None else np.array(p.grad.tolist()))


class ByHand:
    """Runs calls with NumPy; the derivatives and the updates are written by hand.

    Arrays are changed in place where PyTorch changes tensors in place, because what has been held shows it.
    """

    def __init__(self, seed):
        self.params = start(seed)
        self.grads = dict.fromkeys(SHAPES)
        self.trained = dict.fromkeys(SHAPES, True)
        self.rates = {"sgd": 0.1, "adam": 0.05}
        self.state = {}
        self.mean = np.zeros(4)
        self.losses, self.seen, self.held, self.saved = {}, [], [], {}
        self.total = 0.0

    def activations(self, rows, repeats):
        found = [np.tanh(rows @ self.params["w1"] + self.params["b1"])]
        for _ in range(repeats):
            found.append(np.tanh(found[-1] @ self.params["w2"]))
        return found

    def forward(self, slot, rows, repeats, heads, mean, scale):
        p = {name: array.copy() for name, array in self.params.items()}
        hs = self.activations(rows, repeats)
        h, target = hs[-1] - self.mean, np.cos(rows[:, :2])
        out = h @ p["w3"]
        error = out - target
        factor = 1 / error.size if mean else 1.0
        value, d_out = (error**2).sum() * factor, 2 * error * factor
        if heads == "none":
            value, d_out = np.abs(out).mean(), np.sign(out) / out.size
        grads = {"w3": h.T @ d_out}
        d_h = d_out @ p["w3"].T
        self.last = p, hs, h, rows
        if heads in ("detached", "both"):
            side = h @ p["w4"] - target[:, :1]
            d_side = 2 * side / side.size
            value += (side**2).mean()
            grads["w4"] = h.T @ d_side
            if heads == "both":
                d_h = d_h + d_side @ p["w4"].T
        grads |= self.backpropagated(p, hs, rows, d_h)
        self.losses[slot] = value * scale, {k: g * scale for k, g in grads.items() if self.trained[k]}

    def backpropagated(self, p, hs, rows, d_h):
        """The gradients of the first two layers."""
        grads = {}
        for n in range(len(hs) - 1, 0, -1):
            d_z = d_h * (1 - hs[n] ** 2)
            grads["w2"] = grads.get("w2", 0) + hs[n - 1].T @ d_z
            d_h = d_z @ p["w2"].T
        d_z = d_h * (1 - hs[0] ** 2)
        return grads | {"w1": rows.T @ d_z, "b1": d_z.sum(0)}

    def observe(self):
        self.mean = 0.9 * self.mean + 0.1 * self.last[2].mean(0)

    def fork(self, other, scale):
        p, hs, h, rows = self.last
        out = h @ p["w3"]
        d_out = 2 * out / out.size
        grads = {"w3": h.T @ d_out} | self.backpropagated(p, hs, rows, d_out @ p["w3"].T)
        self.losses[other] = (out**2).mean() * scale, {k: g * scale for k, g in grads.items() if self.trained[k]}

    def hold(self, slot):
        self.held.append(self.losses[slot][0])

    def share_gradient(self, name):
        if self.grads[name] is not None:
            self.held.append(self.grads[name])

    def share_parameter(self, name):
        self.held.append(self.params[name])

    def reopen(self, name):
        """Nothing changes."""

    def save(self, name):
        self.saved[name] = self.params[name].copy()

    def restore(self, name):
        if name in self.saved:
            self.params[name][...] = self.saved[name]

    def combine(self, slot, slots):
        value, grads = 0.0, {}
        for one in slots:
            value += self.losses[one][0]
            for name, grad in self.losses[one][1].items():
                grads[name] = grads.get(name, 0) + grad
        self.losses[slot] = value, grads

    def read(self, slot):
        self.seen.append(self.losses[slot][0])

    def _note(self, array, how):
        if how == "read":
            self.seen.append(np.array(array))
        elif how == "hold":
            self.held.append(np.array(array))

    def evaluate(self, rows, how):
        self._note(((self.activations(rows, 1)[-1] - self.mean) @ self.params["w3"]).sum(0), how)

    def gradient(self, slot, name, how):
        self._note(self.losses[slot][1][name], how)

    def backward(self, slot, retain_graph):  # noqa: ARG002
        for name, grad in self.losses[slot][1].items():
            if self.grads[name] is None:
                self.grads[name] = grad.copy()
            else:
                self.grads[name] += grad

    def change_gradient(self, name, how):
        grad = self.grads[name]
        if grad is None:
            return
        if how == "scaled":
            grad *= 0.5
        elif how == "replaced":
            self.grads[name] = grad * 2
        elif how == "added":
            grad += 0.1 * self.params[name]
        elif how == "none":
            self.grads[name] = None
        elif how == "zero":
            grad *= 0
        else:
            grad[0] = 1.0

    def read_gradient(self, name):
        if self.grads[name] is not None:
            self._note(self.grads[name], "read")

    def clip(self, most, how):
        norm = np.sqrt(sum((grad**2).sum() for grad in self.grads.values() if grad is not None))
        for grad in self.grads.values():
            if grad is not None:
                grad *= min(1.0, most / (norm + 1e-6))
        self._note(norm, how)

    def set_rate(self, optimizer, rate):
        self.rates[optimizer] = rate

    def step(self, optimizer):
        rate = self.rates[optimizer]
        for name in GROUPS[optimizer]:
            grad = self.grads[name]
            if grad is None:
                continue
            if optimizer == "sgd":
                grad = grad + DECAY * self.params[name]
                old = self.state.get(name)
                new = self.state[name] = grad if old is None else MOMENTUM * old + grad
                self.params[name] -= rate * new
            else:
                count, m, v = self.state.get(name, (0, 0.0, 0.0))
                count, m, v = count + 1, 0.9 * m + 0.1 * grad, 0.999 * v + 0.001 * grad**2
                self.state[name] = count, m, v
                change = m / (1 - 0.9**count) / (np.sqrt(v / (1 - 0.999**count)) + 1e-8)
                self.params[name] -= rate * change

    def zero(self, which, set_to_none):
        for name in (name for key, names in GROUPS.items() if which in (key, "both") for name in names):
            if self.grads[name] is not None:
                if set_to_none:
                    self.grads[name] = None
                else:
                    self.grads[name] *= 0

    def freeze(self, name, trained):
        self.trained[name] = trained

    def change(self, name, how):
        array = self.params[name]
        if how == "mul":
            array *= 0.9
        elif how == "data":
            array -= 0.01
        elif how == "copy":
            array[...] = 0.25
        elif how == "view":
            array[0] += 0.5
        else:
            array += 0.25 * (1 - array)

    def accumulate(self, slot, how):  # noqa: ARG002
        self.total += self.losses[slot][0]

    def read_parameter(self, name):
        self._note(self.params[name], "read")

    def finish(self):
        self.seen += [*self.held, self.total]
        for name in SHAPES:
            self.seen.append(self.params[name])
            self.seen.append(np.nan if self.grads[name] is None else self.grads[name])


def run(runner, calls):
    """What a loop reads."""
    for name, args in calls:
        getattr(runner, name)(*args)
    return runner.seen


def disagreement(found, expected):
    """Where two loops have read other numbers: the position and the numbers; None if they agree."""
    assert len(found) == len(expected)
    for n, (one, other) in enumerate(zip(found, expected, strict=True)):
        if np.shape(one) != np.shape(other) or not np.allclose(one, other, rtol=1e-7, atol=1e-9, equal_nan=True):
            return n, one, other
    return None
