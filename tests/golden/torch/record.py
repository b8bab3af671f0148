"""Record what PyTorch computes: ``python tests/golden/torch/record.py [FILE...]`` with torch installed.

Writes ``losses.json``, ``optimizers.json``, ``training.json``, ``operators.json`` and ``models.json`` beside itself, or
those that are named. All but the long runs is in float64, so that the tests can ask for more digits than a formula
with a wrong constant would give.
"""

import json
import sys
from itertools import product
from pathlib import Path

import numpy as np
import torch
from formulas import long_gradients, mlp_batches, mlp_start
from network_cases import operators
from network_curves import curves
from torch.nn import functional

HERE = Path(__file__).parent
STEPS = 12
#: Optimizer and settings; every combination of what SGD, Adam and AdamW have.
SGD = [
    {"lr": 0.05, "momentum": momentum, "dampening": dampening, "weight_decay": decay, "nesterov": nesterov}
    for momentum, dampening, decay, nesterov in product((0.0, 0.9), (0.0, 0.3), (0.0, 0.1), (False, True))
    if not nesterov or (momentum and not dampening)
]
ADAM = [
    {"lr": 0.02, "betas": betas, "eps": eps, "weight_decay": decay}
    for betas, eps, decay in product(((0.9, 0.999), (0.5, 0.8)), (1e-8, 1e-2), (0.0, 0.1))
]
OPTIMIZERS = [("SGD", s) for s in SGD] + [(name, s) for name in ("Adam", "AdamW") for s in ADAM]


def listed(tensor: torch.Tensor) -> list:
    """Nested lists of numbers with all their digits."""
    return tensor.detach().tolist()


def loss_case(name: str, predictions: np.ndarray, targets: np.ndarray, **settings: object) -> dict:
    """One loss, with the gradient of its sum."""
    x = torch.tensor(predictions, requires_grad=True)
    y = torch.tensor(targets)
    known = dict(settings)
    if known.get("weight") is not None:
        known["weight"] = torch.tensor(known["weight"], dtype=x.dtype)
    loss = getattr(functional, name)(x, y, **known)
    loss.sum().backward()
    return {
        "name": name,
        "predictions": predictions.tolist(),
        "targets": targets.tolist(),
        "settings": settings,
        "loss": listed(loss),
        "gradient": listed(x.grad),
    }


def losses() -> list[dict]:
    """Cross-entropy over indices and probabilities, mean squared and absolute error."""
    rng = np.random.default_rng(7)
    shapes = [((5, 4), (5,)), ((4,), ()), ((2, 3, 2, 2), (2, 2, 2))]
    cases = []
    for (shape, rows), reduction in product(shapes, ("mean", "sum", "none")):
        x = rng.standard_normal(shape).round(3)
        classes = shape[min(len(shape) - 1, 1)]
        weights = (0.5 + rng.random(classes)).round(3).tolist()
        indices = np.asarray(rng.integers(0, classes, rows))
        some = indices.copy()
        if some.ndim:
            some.flat[1] = -100
        for weight, smoothing in product((None, weights), (0.0, 0.2)):
            settings = {"weight": weight, "label_smoothing": smoothing, "reduction": reduction}
            cases.append(loss_case("cross_entropy", x, some, **settings))
            probabilities = rng.dirichlet(np.ones(classes), rows).reshape(*rows, classes)
            if len(shape) > 1:
                probabilities = np.moveaxis(probabilities, -1, 1)
            cases.append(loss_case("cross_entropy", x, probabilities.round(3), **settings))
        ignored = {"weight": weights, "ignore_index": int(indices.flat[0]), "reduction": reduction}
        if len(shape) > 1:
            cases.append(loss_case("cross_entropy", x, indices, **ignored))
    for name, reduction in product(("mse_loss", "l1_loss"), ("mean", "sum", "none")):
        x, y = rng.standard_normal((2, 3, 2)).round(3)
        y[0, 0] = x[0, 0]  # the kink of the absolute value
        cases.append(loss_case(name, x, y, reduction=reduction))
    return cases


def run(name: str, settings: dict, start: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """The parameter after every step."""
    p = torch.tensor(start, requires_grad=True)
    optimizer = getattr(torch.optim, name)([p], **settings)
    path = []
    for gradient in gradients:
        p.grad = torch.tensor(gradient)
        optimizer.step()
        path.append(p.detach().numpy().copy())
    return np.stack(path)


def optimizers() -> dict:
    """Short float64 runs of every combination, and the ends of float32 runs of 1000 steps."""
    rng = np.random.default_rng(11)
    start = rng.standard_normal(3).round(3)
    gradients = rng.standard_normal((STEPS, 3)).round(3)
    runs = [
        {"optimizer": name, "settings": settings, "path": run(name, settings, start, gradients).tolist()}
        for name, settings in OPTIMIZERS
    ]
    long_start = np.linspace(-1, 1, 16, dtype=np.float32)
    long_settings = [
        ("SGD", {"lr": 0.01, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01}),
        ("Adam", {"lr": 0.001}),
        ("Adam", {"lr": 0.01, "weight_decay": 0.1}),
        ("AdamW", {"lr": 0.01, "weight_decay": 0.1}),
    ]
    long = []
    for name, settings in long_settings:
        path = run(name, settings, long_start, long_gradients(16))
        long.append(
            {
                "optimizer": name,
                "settings": settings,
                "at": [10, 100, 1000],
                "path": [[float(v) for v in path[k - 1]] for k in (10, 100, 1000)],
            }
        )
    return {"start": start.tolist(), "gradients": gradients.tolist(), "runs": runs, "long": long}


def mlp_curve(name: str, settings: dict, reduction: str, steps: int) -> dict:
    """Losses of the tutorial's MLP, trained in float32."""
    params = {n: torch.tensor(a, requires_grad=True) for n, a in mlp_start().items()}
    optimizer = getattr(torch.optim, name)(list(params.values()), **settings)
    losses = []
    for x, y in mlp_batches(steps):
        hidden = torch.tensor(x)
        for i in range(3):
            hidden = hidden @ params[f"w{i}"] + params[f"b{i}"]
            hidden = torch.relu(hidden) if i < 2 else hidden
        loss = functional.cross_entropy(hidden, torch.tensor(y), reduction=reduction)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"optimizer": name, "settings": settings, "reduction": reduction, "losses": losses}


def training() -> dict:
    """The tutorial's setting, and one with momentum and one with Adam."""
    return {
        "runs": [
            mlp_curve("SGD", {"lr": 0.01, "weight_decay": 0.01}, "sum", 60),
            mlp_curve("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True}, "mean", 60),
            mlp_curve("AdamW", {"lr": 0.001}, "mean", 60),
        ]
    }


def main() -> None:
    """Write the files."""
    torch.set_num_threads(1)
    version = torch.__version__
    files = {
        "losses": lambda: {"cases": losses()},
        "optimizers": optimizers,
        "training": training,
        "operators": lambda: {"cases": operators()},
        "models": lambda: {"runs": curves()},
    }
    for file in sys.argv[1:] or files:
        text = json.dumps({"torch": version, **files[file]()})
        (HERE / f"{file}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
