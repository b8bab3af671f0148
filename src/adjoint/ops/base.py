"""The contract of an operator: everything adjoint knows about it, in its one class.

::

    class Softplus(Elementwise):
        name = "softplus"                      # in the text form
        beta: float = 1.0                      # a dataclass field is an attribute
        def infer(self, x): ...                # type rule
        def reference(self, x): ...            # NumPy: the specification
        def vjp(self, ct, out, x): ...         # graph values in, graph values out
        def scalar(self, k, x): ...            # lowering: one element
        @classmethod
        def samples(cls): ...                  # inputs to test with, bad ones with the error they get

Lowering is *by pull*: `lower` is asked for one element of the result, at an index, and asks its operands for
theirs. Composing these gives fusion and index maps for free; `k.reduce` marks where an element is a sum over
many. `k` (a `Builder`) is all that an operator sees of the compiler.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir.types import TensorType, TupleType, dtype_name
from adjoint.ir.value import Op, Value

__all__ = ["Builder", "Elementwise", "Index", "Operand", "Operator", "Sample", "Scalar", "same_types"]

#: One element's value inside a kernel being built. Opaque to operators.
Scalar = Any

#: One coordinate: an integer expression over loop variables with ``+ - *`` by integers, ``// int``, ``% int``.
Coordinate = Any

#: A position in a tensor, one coordinate an axis.
Index = tuple[Coordinate, ...]

#: An operand of the op being lowered: give it an index, get its element there.
Operand = Callable[[Index], Scalar]


class Builder(Protocol):
    """What an operator may say about one element of its result. Implemented by the compiler."""

    def const(self, value: float | int | bool, dtype: np.dtype) -> Scalar:
        """A constant."""

    def call(self, function: str, *args: Scalar) -> Scalar:
        """A scalar function of `adjoint.kernel.scalars`: ``add``, ``fma``, ``exp``, ``less``, ..."""

    def select(self, condition: Scalar, then: Scalar, other: Scalar) -> Scalar:
        """`then` where the bool `condition` holds, else `other`; both are computed."""

    def cast(self, x: Scalar, dtype: np.dtype) -> Scalar:
        """`x` converted: to bool by ``!= 0``, float to int towards zero and saturating, NaN to 0."""

    def dtype(self, x: Scalar) -> np.dtype:
        """The dtype of an element."""

    def coordinate(self, i: Coordinate, dtype: np.dtype) -> Scalar:
        """A coordinate as a number."""

    def position(self, x: Scalar, size: int) -> Coordinate:
        """An integer element as a coordinate of an axis of `size`; out of range reads as an element of 0."""

    def inside(self, i: Coordinate, start: int, stop: int) -> Scalar:
        """Whether ``start <= i < stop``, as a bool element."""

    def choose(self, condition: Scalar, then: Callable[[], Scalar], other: Callable[[], Scalar]) -> Scalar:
        """Like `select`, but operands read by `then` are only read where `condition` holds, and `other` where not."""

    def reduce(self, kind: str, extents: Sequence[int], body: Callable[[Index], Scalar]) -> Scalar:
        """Combine `body` over an index space: ``add``, ``max``, ``min``, ``mul``, or ``argmax`` (over one axis)."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Inputs that a contract test runs an operator with.

    Parameters
    ----------
    op : Operator
        The operator with its attributes.
    inputs : tuple of numpy.ndarray
        Its operands. Float operands are perturbed for the gradient check, so keep them off kinks and ties.
    error : str, optional
        For bad inputs: a part of the message that `infer` must give.
    gradient : bool, default True
        Whether to compare `vjp` with finite differences (False at a kink, where a convention rules).
    """

    op: "Operator"
    inputs: tuple[np.ndarray, ...]
    error: str = ""
    gradient: bool = True


@dataclass(frozen=True, slots=True)
class Operator(Op):
    """Base of every operator in CATALOGUE."""

    name: ClassVar[str]
    #: Floating-point operations an element of the result costs, for the cost model.
    flops: ClassVar[float] = 1.0

    def infer(self, *inputs: TensorType) -> TensorType | TupleType:
        """The result's type, or a TypeRuleError that says the rule, what was given and the fix."""
        raise NotImplementedError

    def reference(self, *inputs: np.ndarray) -> np.ndarray:
        """The specification, in NumPy: the dtype and shape are those that `infer` says."""
        raise NotImplementedError

    def vjp(self, ct: Value, out: Value, *inputs: Value) -> tuple[Value | None, ...]:
        """Cotangents of the inputs given the result's, `ct`; None where there is none (integers, conditions)."""
        raise NotImplementedError

    def lower(self, k: Builder, index: Index, *inputs: Operand) -> Scalar:
        """The element of the result at `index`."""
        raise NotImplementedError

    @classmethod
    def samples(cls) -> list[Sample]:
        """Inputs to test with; at least one good and, where `infer` can refuse, one bad."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Elementwise(Operator):
    """An operator whose element at an index depends on its operands at that index only."""

    def infer(self, *inputs: TensorType) -> TensorType:
        """Equal types in, the same type out. Operators with another rule override it."""
        return same_types(self, *inputs)

    def scalar(self, k: Builder, *inputs: Scalar) -> Scalar:
        """The element of the result from the elements of the operands."""
        raise NotImplementedError

    def lower(self, k: Builder, index: Index, *inputs: Operand) -> Scalar:
        """Ask every operand for its element at the same index."""
        return self.scalar(k, *(operand(index) for operand in inputs))


def same_types(op: Op, *inputs: TensorType) -> TensorType:
    """The common type of the operands, or the refusal."""
    first = inputs[0]
    for other in inputs[1:]:
        if other.dtype != first.dtype:
            raise TypeRuleError(
                f"{op.name}: operands need one dtype, got {first} and {other}; "
                f"cast one to {dtype_name(first.dtype)}"
            )
        if other.shape != first.shape:
            raise TypeRuleError(
                f"{op.name}: operands need one shape, got {first} and {other}; broadcast_to one of them"
            )
    return first
