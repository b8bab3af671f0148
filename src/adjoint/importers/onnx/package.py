"""The package `onnx`, which is optional: imported when it is first needed."""

from importlib import import_module
from typing import Any

from adjoint.errors import CheckpointError

__all__ = ["require_onnx"]


def require_onnx(caller: str) -> Any:
    """The package `onnx`.

    Raises
    ------
    CheckpointError
        If it is not installed.
    """
    try:
        for part in ("onnx.checker", "onnx.defs", "onnx.helper", "onnx.inliner"):
            import_module(part)
        return import_module("onnx")
    except ImportError as error:
        raise CheckpointError(
            f"{caller}: ONNX models need the package onnx, which is not installed; install adjoint[onnx]"
        ) from error
