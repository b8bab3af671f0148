"""Built-in models and those of files, prepared for training."""

from collections.abc import Callable

import click

from adjoint.cli.files import load_file
from adjoint.ir import DTYPES, IRModule, TensorType
from adjoint.lazy_dataclass import dataclass
from adjoint.losses import CrossEntropyLoss, L1Loss, Loss, MSELoss
from adjoint.models import gpt, lenet, linreg, mlp, resnet20
from adjoint.optim import SGD, Adam, AdamW, Optimizer
from adjoint.training import SetupTrainer

__all__ = ["BUILTIN", "DEFAULT_OPTIMIZER", "LOSSES", "OPTIMIZERS", "Builtin", "load_model", "training_module"]

#: Optimizers by name, with the settings that `show` and `profile` use.
OPTIMIZERS: dict[str, Optimizer] = {"sgd": SGD(0.01), "adam": Adam(0.001), "adamw": AdamW(0.001)}
DEFAULT_OPTIMIZER = "sgd"

#: Losses by name, for models from files.
LOSSES: dict[str, Loss] = {"cross-entropy": CrossEntropyLoss(), "l1": L1Loss(), "mse": MSELoss()}


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
    """

    build: Callable[[int], IRModule]
    batch_size: int
    loss: Loss


BUILTIN = {
    "mlp": Builtin(lambda rows: mlp(batch_size=rows), 64, CrossEntropyLoss()),
    "linreg": Builtin(lambda rows: linreg(batch_size=rows), 4, MSELoss()),
    "lenet": Builtin(lambda rows: lenet(batch_size=rows), 32, CrossEntropyLoss()),
    "resnet20": Builtin(lambda rows: resnet20(batch_size=rows), 64, CrossEntropyLoss()),
    "gpt": Builtin(lambda rows: gpt(batch_size=rows), 12, CrossEntropyLoss()),
}


def load_model(name: str, batch_size: int | None) -> IRModule:
    """The module of a built-in model, or the one of a file (`load_file`).

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
    module = load_file(name, BUILTIN)
    if batch_size is not None:
        raise click.UsageError(
            f"--batch-size applies to built-in models only, but {name} specifies its own shapes; omit it"
        )
    return module


def training_module(
    name: str, module: IRModule, optimizer: Optimizer | None = None, loss: str | None = None, use: str = "training"
) -> IRModule:
    """The module with its loss, gradients, optimizer and step.

    Parameters
    ----------
    name : str
        What the module was loaded from: a built-in model or a file.
    module : IRModule
        Returned unchanged if it contains a ``step``.
    optimizer : Optimizer, optional
        Default: SGD.
    loss : str, optional
        Key of `LOSSES`; default: the loss of a built-in model.
    use : str, default "training"
        What needs the step, for errors.

    Raises
    ------
    click.UsageError
        If there is neither ``step`` nor ``backbone``, a backbone from a file has no loss, or a loss or optimizer is
        given although there is a step.
    """
    if "step" in module:
        given = [f"--{option}" for option, value in (("loss", loss), ("optimizer", optimizer)) if value is not None]
        if given:
            raise click.UsageError(
                f"{' and '.join(given)} would build a step, but {name} contains one, which is used as it is; omit "
                f"{'it' if len(given) == 1 else 'them'}"
            )
        return module
    if "backbone" not in module:
        raise click.UsageError(
            f"{name} must contain a function 'backbone' or 'step', got "
            f"{', '.join(f.name for f in module) or 'none'}; rename the model's function, or choose the stage graph"
        )
    builtin = BUILTIN.get(name)
    if loss is None and builtin is None:
        raise click.UsageError(
            f"{use} needs a loss, but {name} contains a backbone without a step; choose one with --loss "
            f"{', '.join(LOSSES)}"
        )
    output = module["backbone"].results[0].type
    chosen = LOSSES[loss] if loss is not None else builtin.loss if builtin is not None else None
    assert chosen is not None  # refused above
    shape = output.shape
    # Cross entropy is for class indices, one for each row; its classes are on axis 1.
    indices = TensorType((*shape[:1], *shape[2:]) if len(shape) > 1 else (), DTYPES["i64"])
    targets = indices if isinstance(chosen, CrossEntropyLoss) else output
    return SetupTrainer(chosen, optimizer or OPTIMIZERS[DEFAULT_OPTIMIZER], (output, targets))(module)
