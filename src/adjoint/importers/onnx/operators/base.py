"""What the table of an operator family consists of, and what its functions share."""

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.importers.onnx.graph import Node
from adjoint.lazy_dataclass import dataclass
from adjoint.nn.functional.recording import recorded
from adjoint.tensor.creation import tensor

__all__ = [
    "Array",
    "Rule",
    "Table",
    "as_tensor",
    "axes_of",
    "axis_of",
    "ints",
    "permuted",
    "plain",
    "refuse",
    "reshaped",
    "room",
]

#: A tensor, or an array of elements that are known when the graph is prepared for the sizes of its inputs.
Array: TypeAlias = Any


#: Most elements of an array that is computed while a graph is prepared, 1 GB of i64; masks of long sequences have
#: fewer.
_MOST_KNOWN = 1 << 27


@dataclass(frozen=True)
class Rule:
    """How an operator is computed.

    Parameters
    ----------
    function : callable
        ``function(node, *inputs)`` returns a result, or a tuple of results. An input that is left out is None.
    known : frozenset of int
        The numbers of inputs that must be known without the values of the graph's inputs, such as a shape. They are
        passed as NumPy arrays.
    scalars : bool
        Whether other inputs that are known are passed as numbers if they are scalars; otherwise, as tensors.
    mode : bool
        Whether the function differs between training and evaluation; ``training=`` is passed then.
    fold : callable, optional
        The function for arrays only, ``fold(node, *arrays)``.
    states : frozenset of int
        The numbers of inputs that are statistics, which training updates and does not differentiate.
    """

    function: Callable[..., Any]
    known: frozenset[int] = frozenset()
    scalars: bool = False
    mode: bool = False
    fold: Callable[..., Any] | None = None
    states: frozenset[int] = frozenset()


#: The rules of a family by the names of their operators.
Table: TypeAlias = dict[str, Rule]


def plain(function: Callable[..., Any], fold: Callable[..., Any] | None = None, scalars: bool = False) -> Rule:
    """The rule of an operator without attributes, given the function of its inputs, and that of arrays."""
    return Rule(
        lambda _node, *inputs: function(*inputs),
        scalars=scalars,
        fold=None if fold is None else lambda _node, *inputs: fold(*inputs),
    )


def as_tensor(given: Any) -> Any:
    """An input as a tensor."""
    return tensor(given) if isinstance(given, np.ndarray) else given


def refuse(node: Node, rule: str, found: object, fix: str = "export the model without it") -> InvalidValueError:
    """The error that a node breaks a rule."""
    return InvalidValueError(f"from_onnx: {node} {rule}, got {found}; {fix}")


def ints(node: Node, given: Any, what: str) -> tuple[int, ...]:
    """The integers of a known input."""
    array = np.asarray(given)
    if array.dtype.kind not in "iu" or array.ndim > 1:
        raise TypeRuleError(
            f"from_onnx: {node} must have integers in one axis as its {what}, got {array.dtype}{list(array.shape)}; "
            "export the model again"
        )
    return tuple(int(n) for n in array.reshape(-1))


def axis_of(node: Node, axis: int, rank: int) -> int:
    """An axis, which may be counted from the end, as a number from 0."""
    if not -rank <= axis < rank:
        raise refuse(node, f"must have an axis of its input, which has {rank}", axis, "export the model again")
    return axis % rank


def axes_of(node: Node, given: Iterable[int], rank: int) -> tuple[int, ...]:
    """Axes as numbers from 0, each once."""
    axes = tuple(axis_of(node, axis, rank) for axis in given)
    if len(set(axes)) != len(axes):
        raise refuse(node, "must have each axis once", list(axes), "export the model again")
    return axes


@recorded
def permuted(x: Array, axes: Sequence[int]) -> Array:
    """The axes in another order. As values of ONNX never change, it is no view, which would be kept track of."""
    return ops.permute(x, tuple(axes))


@recorded
def reshaped(x: Array, shape: Sequence[int]) -> Array:
    """The elements in another shape; no view, see `permuted`."""
    return ops.reshape(x, tuple(shape))


def room(node: Node, shape: Sequence[int]) -> tuple[int, ...]:
    """A shape that an array may get while a graph is prepared."""
    if any(size < 0 for size in shape) or prod(shape) > _MOST_KNOWN:
        raise refuse(node, f"must make an array of at most {_MOST_KNOWN} elements", list(shape), "do not use this file")
    return tuple(shape)
