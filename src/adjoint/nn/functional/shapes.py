"""Padding, one-hot vectors, and distances between vectors."""

from collections.abc import Sequence

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import DTYPES
from adjoint.nn.functional.recording import Array, recorded
from adjoint.tensor.scalar_axes import accepts_scalars
from adjoint.tensor.tensor import Tensor

__all__ = ["cosine_similarity", "one_hot", "pad", "pairwise_distance"]


@recorded
def pad(input: Array, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Array:
    """`input` with elements added at the ends of its last axes.

    Parameters
    ----------
    input : Tensor
        Any dtype.
    pad : sequence of int
        For the last axis, then for the one before, and so on: how many elements before and after. Negative numbers
        remove elements.
    mode : {"constant", "reflect", "replicate", "circular"}, default "constant"
        What is added: a value, or elements of the input.
    value : float, optional
        The value; default: 0.

    Raises
    ------
    InvalidValueError
        If the mode is unknown, or the numbers are not pairs of at most as many axes as there are.
    """
    rank = len(input.shape)
    if len(pad) % 2 or len(pad) > 2 * rank:
        raise InvalidValueError(
            f"pad: the numbers must be pairs for at most {rank} axes of {input.type}, got {list(pad)}; pass two each"
        )
    axes = [(rank - 1 - n, pad[2 * n], pad[2 * n + 1]) for n in range(len(pad) // 2)]
    low, high = [0] * rank, [0] * rank
    for axis, before, after in axes:
        low[axis], high[axis] = max(before, 0), max(after, 0)
    if mode == "constant":
        filler = 0.0 if value is None else value
        return ops.pad(_cropped(input, axes), low, high, bool(filler) if input.dtype.kind == "b" else filler)
    if mode == "circular":
        input = _cropped(input, axes)
    padded = ops.pad_mode(input, low, high, mode)
    return padded if mode == "circular" else _cropped(padded, axes)


def _cropped(x: Array, axes: Sequence[tuple[int, int, int]]) -> Array:
    """The elements that negative numbers leave."""
    for axis, before, after in axes:
        if before < 0 or after < 0:
            x = ops.slice_axis(x, axis, max(-before, 0), x.shape[axis] - max(-after, 0))
    return x


@recorded
def _one_hot(ids: Array, num_classes: int) -> Array:
    return ops.one_hot(ids, num_classes, DTYPES["i64"])


def one_hot(tensor: Array, num_classes: int = -1) -> Array:
    """A row of zeros per id, with a one at the id, i64.

    Parameters
    ----------
    tensor : Tensor
        Integers from 0 to ``num_classes - 1``.
    num_classes : int, default -1
        Length of the rows; -1 reads the ids, and takes the greatest one plus one.
    """
    if num_classes == -1 and isinstance(tensor, Tensor):
        num_classes = int(tensor.elements().array.max()) + 1
    return _one_hot(tensor, num_classes)


@recorded
@accepts_scalars("x2")
def cosine_similarity(x1: Array, x2: Array, dim: int = 1, eps: float = 1e-8) -> Array:
    """``sum(x1 * x2) / (norm(x1) * norm(x2))`` along an axis, with norms of at least `eps`."""
    first, second = ops.broadcast(x1, x2)
    norms = [ops.maximum(ops.norm(x, 2.0, dim), eps) for x in (first, second)]
    return ops.divide(ops.sum(ops.multiply(first, second), dim), ops.multiply(*norms))


@recorded
def pairwise_distance(x1: Array, x2: Array, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Array:
    """The norm ``sum(abs(x1 - x2 + eps)**p)**(1/p)`` along the last axis."""
    return ops.norm(ops.add(ops.subtract(*ops.broadcast(x1, x2)), eps), p, -1, keepdim)
