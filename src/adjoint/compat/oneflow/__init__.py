"""OneFlow's names: ``import adjoint.compat.oneflow as flow``.

OneFlow has PyTorch's names and meaning almost everywhere, so they are those of `adjoint.compat.torch`; `nn.Graph` is
OneFlow's own.
"""

from importlib import import_module
from typing import Any

from adjoint.compat import torch
from adjoint.compat.uncovered import uncovered

#: What OneFlow does not have.
_TORCH_ONLY = {
    "compile",
    "newaxis",
    "set_default_device",
    "set_float32_matmul_precision",
    "set_num_interop_threads",
} | {
    "get_default_device",
    "vmap",
}

_MODULES = ("amp", "autograd", "cuda", "distributions", "linalg", "nn", "optim", "utils")

__all__ = [name for name in torch.__all__ if name not in _TORCH_ONLY]

_INSTEAD = {
    "placement": "because training runs on the cores of one machine; leave it out",
    "sbp": "because training runs on the cores of one machine; leave it out",
    "env": "because training runs on the cores of one machine; leave it out",
    "comm": "because training runs on the cores of one machine; leave it out",
    "compile": "use nn.Graph, or adjoint.jit",
    "jit": "use nn.Graph",
    "onnx": "save the state_dict",
}

_missing = uncovered(__name__, _INSTEAD, "adjoint")


def __getattr__(name: str) -> Any:
    """Load a name, or a module, on first access."""
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    found = getattr(torch, name) if name in __all__ else _missing(name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """All names, loaded or not."""
    return sorted({*globals(), *__all__, *_MODULES})
