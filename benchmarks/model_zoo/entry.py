"""The entries of the model zoo, and how an example is loaded for either framework."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.workload import BATCHES

__all__ = ["BATCHES", "Begin", "Compiled", "Network", "Training", "load_example", "supervised"]

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"

#: What the imports of an example become for PyTorch. The data come from the benchmark, so that import is left out.
IMPORTS = {
    "import adjoint as torch": "import torch",
    "import adjoint.nn.functional as F": "import torch.nn.functional as F",
    "from adjoint import nn": "from torch import nn",
    "from adjoint.data import fashion_mnist": "",
}

#: The models by name, and the training step: tensors of a batch to the loss.
Training = tuple[dict[str, Any], Callable[..., Any]]

#: What PyTorch's mode "compile" wraps models and the optimizer's step in; returns its argument for everyone else.
Compiled = Callable[[Any], Any]

Begin = Callable[[Any, Compiled], Training]


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """A network of `examples/` as a workload.

    Parameters
    ----------
    name : str
        Its name on the command line.
    example : str
        The file in `examples/` that has it, without ``.py``.
    begin : callable
        ``begin(example, compiled)`` makes the models and the optimizers with the classes of the example's module, and
        returns the models by name and ``step(*tensors)``, which trains on a batch and returns the loss, detached.
        ``compiled`` is `torch.compile` in that mode and the identity otherwise.
    batches : callable
        ``batches(rng)`` makes `BATCHES` tuples of arrays, f32 or integers.
    settings : mapping, optional
        Constants of the example with other values.
    tolerance : float, default 1e-4
        Maximum relative difference of the first losses.
    """

    name: str
    example: str
    begin: Begin
    batches: Callable[[np.random.Generator], Sequence[tuple[np.ndarray, ...]]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float = 1e-4

    def start(self, framework: str, compiled: Compiled) -> Training:
        """The models and the step of this network, with the example's own initial weights."""
        return self.begin(load_example(self.example, framework, self.settings), compiled)


def load_example(name: str, framework: str, settings: Mapping[str, Any] | None = None) -> Any:
    """The module of an example, whose imports are those of ``adjoint`` or of ``torch``.

    Parameters
    ----------
    name : str
        A file in `examples/`, without ``.py``.
    framework : str
        "adjoint" or "torch".
    settings : mapping, optional
        Constants of the module with other values.
    """
    path = EXAMPLES / f"{name}.py"
    lines = path.read_text().splitlines()
    if framework == "torch":
        lines = [IMPORTS.get(line, line) for line in lines]
    module = ModuleType(f"example_{name}_{framework}")
    sys.modules[module.__name__] = module  # where torch.compile looks for a function's globals
    exec(compile("\n".join(lines), path, "exec"), module.__dict__)
    for constant, value in (settings or {}).items():
        if not hasattr(module, constant):
            raise AttributeError(f"examples/{name}.py has no constant {constant}")
        setattr(module, constant, value)
    return module


def supervised(
    build: Callable[[Any], Any], optimizer: Callable[[Any, Any], Any], loss: Callable[[Any, Any, Any], Any]
) -> Begin:
    """The usual step: the model takes all tensors of a batch but the last, which is the target.

    Parameters
    ----------
    build : callable
        ``build(example)`` makes the model.
    optimizer : callable
        ``optimizer(example, parameters)`` makes the optimizer.
    loss : callable
        ``loss(example, output, target)`` is the loss.
    """

    def begin(example: Any, compiled: Compiled) -> Training:
        model = build(example)
        updates = optimizer(example, model.parameters())
        forward, update = compiled(model), compiled(updates.step)

        def step(*batch: Any) -> Any:
            *inputs, target = batch
            updates.zero_grad()
            value = loss(example, forward(*inputs), target)
            value.backward()
            update()
            return value.detach()

        return {"model": model}, step

    return begin
