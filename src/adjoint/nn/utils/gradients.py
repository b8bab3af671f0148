"""Clipping of gradients, and parameters as one vector."""

from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.nn.functional.recording import recorded
from adjoint.tensor.assign import assign
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.making import from_array
from adjoint.tensor.record import entry_of, operation, rebind, record_in_place
from adjoint.tensor.tensor import Tensor

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "get_total_norm",
    "parameters_to_vector",
    "vector_to_parameters",
]


def _listed(parameters: Any) -> list[Any]:
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)


def _norm(tensors: Iterable[Any], norm_type: float) -> Any:
    """The norm of all elements of graph values, added in f32 at least."""
    wide = [ops.cast(x, "f32") if x.dtype.itemsize < 4 else x for x in tensors]
    if norm_type == float("inf"):
        parts = [ops.max(ops.abs(x)) for x in wide]
        return _folded(ops.maximum, parts)
    if norm_type == 2:
        return ops.sqrt(_folded(ops.add, [ops.sum(ops.square(x)) for x in wide]))
    total = _folded(ops.add, [ops.sum(ops.power(ops.abs(x), float(norm_type))) for x in wide])
    return ops.power(total, 1.0 / norm_type)


def _folded(function: Any, parts: list[Any]) -> Any:
    dtype = max((x.dtype for x in parts), key=lambda d: d.itemsize)
    total, *others = [ops.cast(x, dtype) for x in parts]
    for one in others:
        total = function(total, one)
    return total


@recorded
def _total_norm(tensors: tuple[Any, ...], norm_type: float) -> Any:
    return _norm(tensors, norm_type)


@operation
def _clipped(max_norm: Any, norm_type: str, *tensors: Any) -> tuple[Any, ...]:
    """The norm, and the tensors times ``max_norm / (norm + 1e-6)``, if that is less than 1."""
    norm = _norm(tensors, float(norm_type))
    factor = ops.minimum(ops.divide(max_norm, ops.add(norm, 1e-6)), 1.0)
    return (norm, *(ops.multiply(x, ops.cast(factor, x.dtype)) for x in tensors))


def get_total_norm(tensors: Any, norm_type: float = 2.0) -> Tensor:
    """The norm of all elements of some tensors, as a scalar tensor.

    Parameters
    ----------
    tensors : Tensor or iterable of Tensor
        The tensors.
    norm_type : float, default 2.0
        The exponent; ``inf`` for the greatest absolute value.
    """
    given = tuple(_listed(tensors))
    if not given:
        return from_array(np.zeros((), np.float32))
    found: Tensor = _total_norm(given, float(norm_type))
    return found


def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,  # noqa: ARG001
) -> Tensor:
    """Scale the gradients of parameters so that their norm, together, is at most `max_norm`.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        The parameters; those without a gradient are left out.
    max_norm : float
        The greatest norm.
    norm_type : float, default 2.0
        The exponent; ``inf`` for the greatest absolute value.
    error_if_nonfinite : bool, default False
        Whether a norm that is infinite or NaN is an error. This reads the norm, and so runs what is pending.
    foreach : bool, optional
        No effect.

    Returns
    -------
    Tensor
        The norm before, as a scalar. It is recorded, not read: clipping becomes part of the compiled step.

    Raises
    ------
    InvalidValueError
        If the norm is not finite and `error_if_nonfinite` is True.
    """
    owners = [p for p in _listed(parameters) if p.grad is not None]
    if not owners:
        return from_array(np.zeros((), np.float32))
    grads = [p.grad for p in owners]
    if any(grad.requires_grad for grad in grads):
        with no_grad():
            return _clip(grads, max_norm, norm_type, error_if_nonfinite)
    return _clip(grads, max_norm, norm_type, error_if_nonfinite)


def _clip(grads: list[Any], max_norm: float, norm_type: float, error_if_nonfinite: bool) -> Tensor:
    if error_if_nonfinite and not np.isfinite(get_total_norm(grads, norm_type).item()):
        raise InvalidValueError(
            "clip_grad_norm_: the norm of the gradients must be finite, got NaN or infinity; pass "
            "error_if_nonfinite=False to go on"
        )
    norm, *clipped = _clipped(float(max_norm), str(float(norm_type)), *grads)  # a string: not a number that may vary
    for grad, new in zip(grads, clipped, strict=True):
        rebind(grad, new)
    return norm  # type: ignore[no-any-return]


@operation
def _bounded(x: Any, bound: Any) -> Any:
    return ops.minimum(ops.maximum(x, -bound), bound)


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:  # noqa: ARG001
    """Clip the elements of the gradients of parameters to ``[-clip_value, clip_value]``.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        The parameters; those without a gradient are left out.
    clip_value : float
        The bound.
    foreach : bool, optional
        No effect.
    """
    with no_grad():
        for parameter in _listed(parameters):
            if parameter.grad is not None:
                record_in_place(entry_of(_bounded), parameter.grad, float(clip_value))


@recorded
def _joined(tensors: tuple[Any, ...]) -> Any:
    return ops.concat(*(ops.reshape(x, (prod(x.shape),)) for x in tensors))


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The elements of all parameters, one after the other, as one vector, which can be differentiated."""
    found: Tensor = _joined(tuple(parameters))
    return found


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy the elements of a vector into parameters, in the order of `parameters_to_vector`.

    Raises
    ------
    InvalidValueError
        If the vector has another number of elements.
    """
    owners = list(parameters)
    shapes = tuple(tuple(p.shape) for p in owners)
    count = sum(map(prod, shapes))
    if tuple(vec.shape) != (count,):
        raise InvalidValueError(
            f"vector_to_parameters: the vector must have {count} elements, got {vec._spec.type}; pass all of them"
        )
    array, start = vec.elements().array, 0
    for owner, shape in zip(owners, shapes, strict=True):
        assign(owner, array[start : start + prod(shape)].reshape(shape).astype(owner.dtype, copy=False))
        start += prod(shape)
