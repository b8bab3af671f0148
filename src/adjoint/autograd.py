"""Derivatives of recorded programs, as ``torch.autograd``: `grad`, `backward`, and `Function` with its own rule."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from adjoint.errors import InvalidValueError
from adjoint.func.autograd_function import Function
from adjoint.missing import missing_name
from adjoint.tensor.autograd import backward as differentiate
from adjoint.tensor.autograd import enable_grad, grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from adjoint.tensor.trace import Recorded

__all__ = [
    "Function",
    "backward",
    "enable_grad",
    "grad",
    "inference_mode",
    "is_grad_enabled",
    "no_grad",
    "set_grad_enabled",
]


def backward(
    tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None, create_graph: bool = False
) -> None:
    """Add the derivatives of the sum of tensors to the ``grad`` of all leaves that they depend on.

    Parameters
    ----------
    tensors : Tensor or sequence of Tensor
        What to differentiate; scalars, unless `grad_tensors` are given.
    grad_tensors : Tensor or sequence of Tensor or None, optional
        The cotangents of the tensors.
    retain_graph : bool, optional
        Whether the graph will be differentiated again; default: no.
    create_graph : bool, default False
        Not supported here: use `grad`, whose results can be differentiated.

    Raises
    ------
    InvalidValueError
        With `create_graph`, and for the reasons of ``Tensor.backward``.
    """
    if create_graph:
        raise InvalidValueError(
            "autograd.backward: derivatives in grad cannot be differentiated again, got create_graph=True; use "
            "autograd.grad(..., create_graph=True)"
        )
    given: Sequence[Any] = (tensors,) if isinstance(tensors, Recorded) else tuple(tensors)
    seeds: Sequence[Any] = (
        (grad_tensors,) if grad_tensors is None or isinstance(grad_tensors, Recorded) else grad_tensors
    )
    if len(seeds) != len(given):
        seeds = (None,) * len(given)
    for n, (tensor, seed) in enumerate(zip(given, seeds, strict=True)):
        differentiate(tensor, seed, bool(retain_graph) or n < len(given) - 1)


if not TYPE_CHECKING:  # so that type checkers report names that do not exist

    def __getattr__(name):
        """Say what to use instead of a name of PyTorch that is not here."""
        raise missing_name(__name__, name, __all__)
