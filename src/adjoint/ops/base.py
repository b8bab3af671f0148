"""The contract of an operator: one class contains everything that adjoint knows about it.

::

    class Softplus(Elementwise):
        name = "softplus"                      # the name in graph text
        beta: float = 1.0                      # dataclass fields are attributes
        def infer(self, x): ...                # the type rule
        def reference(self, x): ...            # the specification, in NumPy
        def vjp(self, ct, out, x): ...         # takes and returns graph values
        def scalar(self, k, x): ...            # lowering of one element
        def vectorize(self, mapped, x): ...    # along a mapped axis; elementwise operators inherit this
        @classmethod
        def samples(cls): ...                  # test inputs, and invalid ones with the errors they raise

Lowering is *demand-driven*: `lower` computes one element of the result, at an index, and requests the elements that it
needs from its operands. Composing these calls yields fusion and index maps; `k.reduce` marks an element that is a
reduction. `k` (a `Builder`) is the only part of the compiler that an operator can access.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from adjoint.errors import CompileError, TypeRuleError
from adjoint.ir.types import TensorType, TupleType, dtype_name
from adjoint.ir.value import Op, Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.vectorizing import all_mapped

__all__ = ["Builder", "Dot", "Elementwise", "Index", "Operand", "Operator", "Sample", "Scalar", "same_types"]

#: The value of one element inside a kernel under construction. Opaque to operators.
Scalar = Any

#: One coordinate: an int, or an integer expression over loop variables with ``+ - *`` by integers, ``// int``, ``%
#: int``.
Coordinate = Any

#: A position in a tensor, one coordinate per axis.
Index = tuple[Coordinate, ...]


class Operand(Protocol):
    """An operand of the op being lowered: maps an index to the element there."""

    @property
    def type(self) -> TensorType:
        """Its shape and dtype."""

    def __call__(self, index: Index) -> Scalar:
        """The element at `index`."""


@dataclass(frozen=True, slots=True)
class Dot:
    """A dot product in the weights of `Builder.fused_attention`: ``sum over d < depth of row(d) * step(n, d)``.

    Parameters
    ----------
    depth : int
        Number of products.
    row : callable
        Maps d to the factor that belongs to the row of the result and is the same for all its columns.
    step : callable
        Maps n and d to the factor that belongs to step n and is the same for all rows and columns.
    """

    depth: int
    row: Callable[[Coordinate], Scalar]
    step: Callable[[Coordinate, Coordinate], Scalar]


class Builder(Protocol):
    """What an operator can use to compute one element of its result. Implemented by the compiler."""

    def const(self, value: float | int | bool, dtype: np.dtype) -> Scalar:
        """A constant."""

    def constant_data(self, data: bytes, shape: tuple[int, ...], dtype: np.dtype, index: Index) -> Scalar:
        """The element at `index` of a literal array given as `data`, in C order and little-endian."""

    def call(self, function: str, *args: Scalar) -> Scalar:
        """A call of a scalar function of `adjoint.kernel.scalars`: ``add``, ``fma``, ``exp``, ``less``, ..."""

    def select(self, condition: Scalar, then: Scalar, other: Scalar) -> Scalar:
        """`then` if the bool `condition` holds, otherwise `other`; both are evaluated."""

    def cast(self, x: Scalar, dtype: np.dtype) -> Scalar:
        """`x` converted: to bool by ``!= 0``; from float to int by truncation, saturating, with NaN as 0."""

    def dtype(self, x: Scalar) -> np.dtype:
        """The dtype of an element."""

    def coordinate(self, i: Coordinate, dtype: np.dtype) -> Scalar:
        """A coordinate as a number."""

    def position(self, x: Scalar, size: int) -> Coordinate:
        """An integer element as a coordinate, clamped to an axis of `size` so that nothing is read out of bounds."""

    def inside(self, i: Coordinate, start: int, stop: int) -> Scalar:
        """Whether ``start <= i < stop``, as a bool element."""

    def choose(self, condition: Scalar, then: Callable[[], Scalar], other: Callable[[], Scalar]) -> Scalar:
        """Like `select`, but `then` reads its operands only if `condition` holds, and `other` only if it does not."""

    def reduce(self, kind: str, extents: Sequence[int], body: Callable[[Index], Scalar]) -> Scalar:
        """Combine `body` over an index space: ``add``, ``max``, ``min``, ``mul``, or ``argmax`` (over one axis).

        An empty space gives 0 for ``add`` and 1 for ``mul``. ``max`` and ``min`` are NaN if any element is. 16-bit
        floats are combined in f32. ``argmax`` is the i64 coordinate of the first maximum, where NaN is greater than any
        number.
        """

    def scatter_add(
        self,
        rows: int,
        count: int,
        ids: Callable[[Coordinate], Scalar],
        updates: Callable[[Coordinate], Scalar],
    ) -> Scalar:
        """One element of a scatter-add of rows: ``sum of updates(n) for n < count where ids(n) == row``.

            An operator's `lower` returns this as its entire element; the row is the first coordinate of the requested
            index. The description lets the compiler iterate over the updates once, ``result[ids(n)] += updates(n)`` in
            the order of n starting from zeros, instead of searching all of them for each row.

        Parameters
        ----------
        rows : int
            Size of the result's first axis. An id outside ``[0, rows)`` adds nothing and causes no write.
        count : int
            Number of updates.
        ids : callable
            Maps n to the row of update n, an integer element.
        updates : callable
            Maps n to the element of update n at the remaining coordinates of the index.
        """

    def prefix_scan(
        self,
        axis: int,
        size: int,
        start: Scalar,
        step: Callable[[Coordinate, Scalar], Scalar],
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Scalar:
        """One element of a prefix scan: ``carry = step(n, carry)`` for one position after the other.

        An operator's `lower` returns this as its entire element. It is the carry after the step of its own position, in
        the dtype of `start`; 16-bit floats are carried in f32. The compiler runs the steps once for all positions.

        Parameters
        ----------
        axis : int
            The axis of the result that the scan runs along.
        size : int
            The size of that axis.
        start : Scalar
            The carry before the first step, a constant.
        step : callable
            Maps a position and the carry to the next carry. It replaces the requested coordinate on the axis by the
            position.
        exclusive : bool, default False
            Whether an element is the carry before the step of its position instead.
        reverse : bool, default False
            Whether the steps run from the last position to the first.
        """

    def fused_attention(
        self,
        kind: str,
        count: int,
        dots: Sequence[Dot],
        weight: Callable[[Coordinate, Sequence[Scalar]], Scalar],
        values: Callable[[Coordinate], Scalar] | None = None,
        span: tuple[Coordinate, Coordinate] | None = None,
        factor: Callable[[Coordinate], Scalar] | None = None,
    ) -> Scalar:
        """One element of a matrix product whose left factor is computed from dot products and never stored.

        An operator's `lower` returns this as its entire element. The requested index ends with a row and a column, or
        with a row if there are no `values`. The compiler keeps some rows in fast memory and streams the steps block by
        block; memory grows with the number of rows plus that of steps, not with their product.

        Parameters
        ----------
        kind : {"sum", "softmax", "log_sum_exp"}
            ``sum of weight(n) * values(n)``; the same with ``exp(weight(n))``, divided by the sum of those; or the
            logarithm of that sum, which needs no values.
        count : int
            Number of steps, at least 1.
        dots : sequence of Dot
            The dot products that a weight depends on, at least one.
        weight : callable
            Maps n and the dot products of step n to the weight; other elements are read at n or at the row only.
        values : callable, optional
            Maps n to the value at the column of the index.
        span : pair of coordinates, optional
            The first step that counts and the first after it that does not, as functions of the row that never
            decrease. Except for ``sum``, every row has at least one such step. Default: all steps count.
        factor : callable, optional
            For ``softmax``: maps n to what the exponential is multiplied by in the product, but not in the sum of
            exponentials, as for dropout.
        """

    def row_algorithm(
        self,
        name: str,
        rank: int,
        operands: Sequence[tuple[tuple[int, ...], Callable[[Index], Scalar]]],
        options: tuple[str, ...] = (),
    ) -> Scalar:
        """One element of a result whose rows, or matrices, are each computed by a sequential algorithm.

        An operator's `lower` returns this as its entire element. Rows are distributed to threads, and each of them is
        computed by one of the algorithms of `adjoint.lower.rows` in the memory of its thread.

        Parameters
        ----------
        name : str
            The algorithm: argsort, scatter, cholesky, solve_triangular, solve, determinant, qr, symmetric_eigen or
            singular_values.
        rank : int
            Number of last axes of the result that are a row (1) or a matrix (2), or 0 for one number.
        operands : sequence of (shape, callable)
            The rows or matrices that the algorithm reads: their shapes, and what maps an index in one to the element.
        options : tuple of str, optional
            What the algorithm is told besides.
        """


@dataclass(frozen=True, slots=True)
class Sample:
    """Inputs for the contract tests of an operator.

    Parameters
    ----------
    op : Operator
        The operator with its attributes.
    inputs : tuple of numpy.ndarray
        Its operands. Float operands are perturbed by the gradient check, so keep them away from kinks and ties.
    error : str, optional
        For invalid inputs: a part of the message that `infer` must raise.
    gradient : bool, default True
        Whether to compare `vjp` with finite differences (False at a kink, where the derivative is a convention).
    """

    op: "Operator"
    inputs: tuple[np.ndarray, ...]
    error: str = ""
    gradient: bool = True


@dataclass(frozen=True, slots=True)
class Operator(Op):
    """Base class of every operator in CATALOGUE.

    The operands are typed Any here, so that subclasses can name and count them: they are TensorType in `infer`,
    numpy.ndarray in `reference`, Value in `vjp`, and Operand in `lower`.
    """

    name: ClassVar[str]
    #: Floating-point operations per element of the result, for the cost model.
    flops: ClassVar[float] = 1.0

    def infer(self, *inputs: Any) -> TensorType | TupleType:
        """The result's type; raises a TypeRuleError with the rule, the operands' types and the fix."""
        return Op.infer(self, *inputs)

    def reference(self, *inputs: Any) -> np.ndarray:
        """The specification, in NumPy; returns an array of the dtype and shape that `infer` gives."""
        raise _undefined(self, f"reference(self, {_names(inputs)}), which computes the result with NumPy")

    def vjp(self, ct: Value, out: Value, *inputs: Any) -> tuple[Value | None, ...]:  # noqa: ARG002
        """Cotangents of the inputs given the result's, `ct`; None for inputs without one (integers, conditions)."""
        raise _undefined(self, f"vjp(self, ct, out, {_names(inputs)}), which returns a tuple of cotangents")

    def lower(self, k: Builder, index: Index, *inputs: Any) -> Scalar:  # noqa: ARG002
        """The element of the result at `index`."""
        raise _undefined(self, f"lower(self, k, index, {_names(inputs)}), which returns the element at an index")

    def neutral(self, *inputs: Any) -> tuple[Value | float | None, ...]:
        """For each input, what to replace elements by so that they contribute nothing to the results that combine them.

        A Value has the type of the input. None for an input whose elements cannot be left out like this.
        """
        return (None,) * len(inputs)

    def index_sizes(self, *inputs: TensorType) -> tuple[int | None, ...]:
        """For each operand that holds indices, the size of the axis that they index; None for the other operands.

        Where such an operand is an argument of a compiled function, its indices are checked before anything runs.
        """
        return (None,) * len(inputs)

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Any) -> Value:  # noqa: ARG002
        """The operator applied along a mapped axis, as a graph value that has it as axis 0.

        Parameters
        ----------
        mapped : tuple of bool
            For each operand whether it has the mapped axis, at least one. That axis is axis 0 of all operands that
            have it; the others are the same at every position along it.
        *inputs : Value
            The operands.
        """
        raise _undefined(self, f"vectorize(self, mapped, {_names(inputs)}), which applies it along a mapped axis")

    @classmethod
    def samples(cls) -> list[Sample]:
        """Test inputs: at least one valid sample and, if `infer` can fail, an invalid one."""
        raise CompileError(f"{cls.__name__}: an operator must define samples(), which its tests need; add it")


@dataclass(frozen=True, slots=True)
class Elementwise(Operator):
    """An operator whose element at an index depends only on its operands' elements at that index."""

    def infer(self, *inputs: TensorType) -> TensorType:
        """Operands of equal type, which is also the result's. Operators with another rule override this."""
        return same_types(self, *inputs)

    def scalar(self, k: Builder, *inputs: Any) -> Scalar:  # noqa: ARG002
        """The element of the result, given the elements of the operands."""
        raise _undefined(
            self, f"scalar(self, k, {_names(inputs)}), which returns an element given those of the operands"
        )

    def lower(self, k: Builder, index: Index, *inputs: Operand) -> Scalar:
        """Read every operand at the same index."""
        return self.scalar(k, *(operand(index) for operand in inputs))

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:
        """The same operator, on operands that all have the mapped axis."""
        return apply(self, *all_mapped(mapped, inputs))


def _undefined(op: Operator, method: str) -> CompileError:
    return CompileError(f"{op.name}: the operator must define {method}; add it to {type(op).__name__}")


def _names(inputs: Sequence[object]) -> str:
    """Names for operands, as in the signatures of operators: ``x``, or ``x0, x1``."""
    return "x" if len(inputs) == 1 else ", ".join(f"x{n}" for n in range(len(inputs)))


def same_types(op: Op, *inputs: TensorType) -> TensorType:
    """The common type of the operands; raises if they differ."""
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
