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

Lowering is *demand-driven*: `lower` is asked for one element of the result, at an index, and asks its operands for
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

__all__ = ["Builder", "Dot", "Elementwise", "Index", "Operand", "Operator", "Sample", "Scalar", "same_types"]

#: One element's value inside a kernel being built. Opaque to operators.
Scalar = Any

#: One coordinate: an integer expression over loop variables with ``+ - *`` by integers, ``// int``, ``% int``.
#: A plain int is one too.
Coordinate = Any

#: A position in a tensor, one coordinate an axis.
Index = tuple[Coordinate, ...]


class Operand(Protocol):
    """An operand of the op being lowered: give it an index, get its element there."""

    @property
    def type(self) -> TensorType:
        """Its shape and dtype."""

    def __call__(self, index: Index) -> Scalar:
        """The element at `index`."""


@dataclass(frozen=True, slots=True)
class Dot:
    """What the weights of `Builder.fused_attention` are made of: ``sum over d < depth of row(d) * step(n, d)``.

    Parameters
    ----------
    depth : int
        Number of products.
    row : callable
        From d to the factor that belongs to the result's row, the same for all its columns.
    step : callable
        From n and d to the factor that belongs to step n, the same for all rows and columns.
    """

    depth: int
    row: Callable[[Coordinate], Scalar]
    step: Callable[[Coordinate, Coordinate], Scalar]


class Builder(Protocol):
    """What an operator may say about one element of its result. Implemented by the compiler."""

    def const(self, value: float | int | bool, dtype: np.dtype) -> Scalar:
        """A constant."""

    def constant_data(self, data: bytes, shape: tuple[int, ...], dtype: np.dtype, index: Index) -> Scalar:
        """The element at `index` of a literal array: `data` in C order, little-endian."""

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
        """Combine `body` over an index space: ``add``, ``max``, ``min``, ``mul``, or ``argmax`` (over one axis).

        An empty space gives 0 for ``add`` and 1 for ``mul``. ``max`` and ``min`` are NaN where an element is.
        16-bit floats are combined in f32.
        ``argmax`` is the i64 coordinate of the first greatest element, where NaN is greater than any number.
        """

    def scatter_add(
        self,
        rows: int,
        count: int,
        ids: Callable[[Coordinate], Scalar],
        updates: Callable[[Coordinate], Scalar],
    ) -> Scalar:
        """One element of a sum of rows into places: ``sum of updates(n) for n < count where ids(n) == row``.

        An operator's `lower` returns this as its whole element, and the row is the first coordinate of the index
        that it was asked for. The description lets the compiler walk the updates once, ``result[ids(n)] +=
        updates(n)`` in the order of n from a result of zeros, instead of searching all of them for each row.

        Parameters
        ----------
        rows : int
            Size of the result's first axis. An id outside ``[0, rows)`` adds nothing and is never written.
        count : int
            Number of updates.
        ids : callable
            From n to the row, an integer element, of update n.
        updates : callable
            From n to the element of update n at the other coordinates of the index.
        """

    def fused_attention(
        self,
        kind: str,
        count: int,
        dots: Sequence[Dot],
        weight: Callable[[Coordinate, Sequence[Scalar]], Scalar],
        values: Callable[[Coordinate], Scalar] | None = None,
        span: tuple[Coordinate, Coordinate] | None = None,
    ) -> Scalar:
        """One element of a product whose left factor is never stored: its elements are made of dot products.

        An operator's `lower` returns this as its whole element. The index that it was asked for ends in a row and a
        column, or in a row where there are no `values`. The compiler keeps some rows at hand while steps pass by
        block by block; memory grows with rows and with steps, not with their product.

        Parameters
        ----------
        kind : {"sum", "softmax", "log_sum_exp"}
            ``sum of weight(n) * values(n)``; the same with ``exp(weight(n))``, divided by the sum of those; or the
            logarithm of that sum, which needs no values.
        count : int
            Number of steps, 1 or more.
        dots : sequence of Dot
            The sums of products that a weight depends on, one or more.
        weight : callable
            From n and the dot products of step n to the weight, an element: whatever else it reads is read at n or
            at the row.
        values : callable, optional
            From n to the value at the column of the index.
        span : pair of coordinates, optional
            The first step that counts and the first behind it that does not, depending on the row: neither falls
            from one row to the next. Every row counts one step at least, but for ``sum``. Default: all steps count.
        """


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
    """Base of every operator in CATALOGUE.

    The operands are typed Any here, so that a subclass may name and count its own: TensorType in `infer`,
    numpy.ndarray in `reference`, Value in `vjp`, Operand in `lower`.
    """

    name: ClassVar[str]
    #: Floating-point operations an element of the result costs, for the cost model.
    flops: ClassVar[float] = 1.0

    def infer(self, *inputs: Any) -> TensorType | TupleType:
        """The result's type, or a TypeRuleError that says the rule, what was given and the fix."""
        raise NotImplementedError

    def reference(self, *inputs: Any) -> np.ndarray:
        """The specification, in NumPy: the dtype and shape are those that `infer` says."""
        raise NotImplementedError

    def vjp(self, ct: Value, out: Value, *inputs: Any) -> tuple[Value | None, ...]:
        """Cotangents of the inputs given the result's, `ct`; None where there is none (integers, conditions)."""
        raise NotImplementedError

    def lower(self, k: Builder, index: Index, *inputs: Any) -> Scalar:
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

    def scalar(self, k: Builder, *inputs: Any) -> Scalar:
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
                f"{op.name}: operands must have the same dtype, got {first} and {other}; cast one to "
                f"{dtype_name(first.dtype)}"
            )
        if other.shape != first.shape:
            raise TypeRuleError(
                f"{op.name}: operands must have the same shape, got {first} and {other}; apply broadcast_to to one "
                "of them"
            )
    return first
