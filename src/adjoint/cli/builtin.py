"""Built-in models and graph text from files, prepared for training."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from adjoint.cli.options import closest
from adjoint.errors import InvalidValueError
from adjoint.ir import DTYPES, IRModule, TensorType
from adjoint.losses import CrossEntropyLoss, Loss, MSELoss
from adjoint.models import gpt, lenet, linreg, mlp, resnet20
from adjoint.ops import parse
from adjoint.optim import SGD, Adam, AdamW, Optimizer
from adjoint.training import SetupTrainer

__all__ = ["BUILTIN", "OPTIMIZERS", "Builtin", "load_model", "training_module"]

#: Optimizers by name, with the settings that `show` and `profile` use.
OPTIMIZERS: dict[str, Optimizer] = {"sgd": SGD(0.01), "adam": Adam(0.001), "adamw": AdamW(0.001)}


@dataclass(frozen=True, slots=True)
class Builtin:
    """A built-in model.

    Parameters
    ----------
    build : callable
        Builds the module for a batch size.
    batch_size : int
        Default batch size.
    loss : Loss
        The loss for training.
    indices : bool
        Whether the targets are class indices; otherwise they have the type of the output.
    """

    build: Callable[[int], IRModule]
    batch_size: int
    loss: Loss
    indices: bool


BUILTIN = {
    "mlp": Builtin(lambda rows: mlp(batch_size=rows), 64, CrossEntropyLoss(), indices=True),
    "linreg": Builtin(lambda rows: linreg(batch_size=rows), 4, MSELoss(), indices=False),
    "lenet": Builtin(lambda rows: lenet(batch_size=rows), 32, CrossEntropyLoss(), indices=True),
    "resnet20": Builtin(lambda rows: resnet20(batch_size=rows), 64, CrossEntropyLoss(), indices=True),
    "gpt": Builtin(lambda rows: gpt(batch_size=rows), 12, CrossEntropyLoss(), indices=True),
}


def load_model(name: str, batch_size: int | None) -> IRModule:
    """The module of a built-in model, or the one in a file of graph text.

    Raises
    ------
    click.UsageError
        If there is no such model or file, or a batch size is given for a file.
    ParseError
        If the file is not graph text.
    """
    if name in BUILTIN:
        builtin = BUILTIN[name]
        return builtin.build(builtin.batch_size if batch_size is None else batch_size)
    path = Path(name)
    if not path.is_file():
        known = closest(name, BUILTIN)
        files = [str(p) for p in path.parent.iterdir()] if path.parent.is_dir() else []
        near = difflib.get_close_matches(name, files, n=1, cutoff=0.8)
        hint = f"did you mean {near[0]}?" if near else known
        raise click.UsageError(f"no model or file {name!r}; {hint}")
    if batch_size is not None:
        raise click.UsageError(
            f"--batch-size applies to built-in models only, but {path} specifies its own shapes; omit it"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path} cannot be read as text ({error}); give a file of graph text") from error
    return parse(text)


def training_module(name: str, module: IRModule, optimizer: Optimizer) -> IRModule:
    """The module with its loss, gradients, optimizer and step.

    A module from a file that contains a ``step`` is returned unchanged; one that contains a ``backbone`` is trained
    with `MSELoss`, with targets of its output's type.

    Raises
    ------
    InvalidValueError
        If a file contains neither.
    """
    if "step" in module:
        return module
    if "backbone" not in module:
        raise InvalidValueError(
            f"{name} must contain a function 'backbone' or 'step', got "
            f"{', '.join(f.name for f in module) or 'none'}; rename the model's function, or choose the stage graph"
        )
    builtin = BUILTIN.get(name, Builtin(lambda _: module, 0, MSELoss(), indices=False))
    output = module["backbone"].results[0].type
    targets = TensorType(output.shape[:1], DTYPES["i64"]) if builtin.indices else output
    return SetupTrainer(builtin.loss, optimizer, (output, targets))(module)
