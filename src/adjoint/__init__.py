"""adjoint: a training compiler. Forward, loss, gradients and optimizer become one native function.

The most frequently used names, each loaded from its own module on first use, so that ``import adjoint`` is fast.
Everything else is imported from the module that defines it, such as ``adjoint.ir.parse``.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from adjoint.version import __version__

if TYPE_CHECKING:
    from adjoint import data, errors, ir, losses, models, ops, optim, training, transforms, utils
    from adjoint.compiler import CompileOptions, Executable, compile
    from adjoint.errors import AdjointError
    from adjoint.ir import Function, IRModule, TensorType, Value, param
    from adjoint.tensor.generator import Generator, default_generator, manual_seed
    from adjoint.training import SetupTrainer, Trainer
else:
    _HOMES = {
        "adjoint": ("data", "errors", "ir", "losses", "models", "ops", "optim", "training", "transforms", "utils"),
        "adjoint.compiler": ("CompileOptions", "Executable", "compile"),
        "adjoint.errors": ("AdjointError",),
        "adjoint.ir": ("Function", "IRModule", "TensorType", "Value", "param"),
        "adjoint.tensor.generator": ("Generator", "default_generator", "manual_seed"),
        "adjoint.training": ("SetupTrainer", "Trainer"),
    }
    _HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

    def __getattr__(name):
        """Load a public name from its module on first access (PEP 562) and cache it."""
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module 'adjoint' has no attribute {name!r}")
        found = import_module(f"adjoint.{name}") if home == "adjoint" else getattr(import_module(home), name)
        globals()[name] = found
        return found

    def __dir__():
        """All public names, loaded or not."""
        return sorted({*globals(), *__all__})


__all__ = [
    "AdjointError",
    "CompileOptions",
    "Executable",
    "Function",
    "Generator",
    "IRModule",
    "SetupTrainer",
    "TensorType",
    "Trainer",
    "Value",
    "__version__",
    "compile",
    "data",
    "default_generator",
    "errors",
    "ir",
    "losses",
    "manual_seed",
    "models",
    "ops",
    "optim",
    "param",
    "training",
    "transforms",
    "utils",
]
