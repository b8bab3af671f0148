"""PyTorch's names: ``import adjoint.compat.torch as torch``.

Almost all are the very objects of `adjoint`, which has PyTorch's tensors, modules and optimizers. Each is loaded on
first use, as in `adjoint` itself.
"""

import math
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from adjoint.compat.uncovered import uncovered
from adjoint.missing import INSTEAD
from adjoint.names import TENSOR_NAMES

#: Names of tensor functions that PyTorch does not have, or has as modules.
_OURS = {"accelerator", "backends", "cast", "cuda", "expand", "explain_recompiles", "mps", "repeat"} | {
    *TENSOR_NAMES["adjoint.tensor.segments"]
}

#: The module of each name.
_HOME_OF = {name: home for home, names in TENSOR_NAMES.items() for name in names if name not in _OURS} | {
    "Generator": "adjoint.tensor.generator",
    "autocast": "adjoint.amp",
    "compile": "adjoint.compat.torch._compile",
    "default_generator": "adjoint.tensor.generator",
    "get_default_device": "adjoint.compat.torch._settings",
    "get_rng_state": "adjoint.tensor.generator",
    "initial_seed": "adjoint.tensor.generator",
    "load": "adjoint.saving",
    "manual_seed": "adjoint.tensor.generator",
    "save": "adjoint.saving",
    "seed": "adjoint.tensor.generator",
    "set_default_device": "adjoint.compat.torch._settings",
    "set_float32_matmul_precision": "adjoint.compat.torch._settings",
    "set_num_interop_threads": "adjoint.compat.torch._settings",
    "set_rng_state": "adjoint.tensor.generator",
    "use_deterministic_algorithms": "adjoint.compat.torch._settings",
    "vmap": "adjoint.func.batching",
}

#: The version of PyTorch whose names these are, for scripts that print or compare it.
__version__ = "2.13.0"

_CONSTANTS = {"e": math.e, "inf": math.inf, "nan": math.nan, "newaxis": None, "pi": math.pi}

_MODULES = {one.name for one in iter_modules([str(Path(__file__).parent)]) if not one.name.startswith("_")}

_INSTEAD = INSTEAD["adjoint"] | {
    "jit": "use torch.compile(function)",
    "export": "use adjoint.from_torch with PyTorch's own module",
    "cond": "use adjoint.cond",
    "while_loop": "use adjoint.while_loop",
}

__all__ = sorted([*_HOME_OF, *_CONSTANTS, "tensor"])

_missing = uncovered(__name__, _INSTEAD, "adjoint")


def __getattr__(name: str) -> Any:
    """Load a name, or a module, on first access."""
    found: Any
    if name in _CONSTANTS:
        found = _CONSTANTS[name]
    elif name == "tensor":
        found = import_module("adjoint.tensor")
    elif name in _HOME_OF:
        found = getattr(import_module(_HOME_OF[name]), name)
    elif name in _MODULES:
        found = import_module(f"{__name__}.{name}")
    else:
        _missing(name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """All names, loaded or not."""
    return sorted({*globals(), *__all__, *_MODULES})
