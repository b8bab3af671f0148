"""Python's own syntax on graph values: arithmetic, comparisons, indexing and iteration, and what it cannot mean.

Graphs are independent of operators, so nothing here imports `adjoint.ops`: an expression such as ``x * 2`` loads it by
name when it is first evaluated.
"""

from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from types import EllipsisType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir.numpy_calls import called_by_numpy, refused_by_numpy

if TYPE_CHECKING:  # value.py imports this module, because `Value` derives from its class
    from adjoint.ir.value import Value

__all__ = ["Index", "Operand", "Syntax", "operation"]

#: What may stand beside a graph value; `adjoint.ops.promotion` says what it becomes.
Operand: TypeAlias = "Value | float | np.generic | np.ndarray"

#: What may stand in brackets after a graph value, also several separated by commas: see `adjoint.ops.getitem`.
Index: TypeAlias = "int | slice | EllipsisType | Value | np.ndarray | list[int] | None"


@cache
def operation(name: str) -> Callable[..., "Value"]:
    """The function of `adjoint.ops` of that name."""
    found: Callable[..., Value] = getattr(import_module("adjoint.ops"), name)
    return found


class Syntax:
    """The part of `Value` that gives meaning to Python's operators, brackets and loops.

    Operators build graphs: ``x + y`` is ``ops.add(x, y)``. The exceptions are ``==`` and ``!=``, which compare objects,
    because values are keys of dictionaries; `adjoint.ops.equal` compares elements.
    """

    __slots__ = ()
    type: Any

    def __add__(self, other: Operand) -> "Value":
        """``self + other``: `adjoint.ops.add`."""
        return operation("add")(self, other)

    def __radd__(self, other: Operand) -> "Value":
        return operation("add")(other, self)

    def __sub__(self, other: Operand) -> "Value":
        """``self - other``: `adjoint.ops.subtract`."""
        return operation("subtract")(self, other)

    def __rsub__(self, other: Operand) -> "Value":
        return operation("subtract")(other, self)

    def __mul__(self, other: Operand) -> "Value":
        """``self * other``: `adjoint.ops.multiply`."""
        return operation("multiply")(self, other)

    def __rmul__(self, other: Operand) -> "Value":
        return operation("multiply")(other, self)

    def __truediv__(self, other: Operand) -> "Value":
        """``self / other``, of which at least one is float: `adjoint.ops.true_divide`."""
        return operation("true_divide")(self, other)

    def __rtruediv__(self, other: Operand) -> "Value":
        return operation("true_divide")(other, self)

    def __floordiv__(self, other: Operand) -> "Value":
        """``self // other`` of integers: `adjoint.ops.floor_divide`."""
        return operation("floor_divide")(self, other)

    def __rfloordiv__(self, other: Operand) -> "Value":
        return operation("floor_divide")(other, self)

    def __pow__(self, other: Operand) -> "Value":
        """``self ** other``: `adjoint.ops.power`."""
        return operation("power")(self, other)

    def __rpow__(self, other: Operand) -> "Value":
        return operation("power")(other, self)

    def __matmul__(self, other: Operand) -> "Value":
        """``self @ other``: `adjoint.ops.matmul`."""
        return operation("matmul")(self, other)

    def __rmatmul__(self, other: Operand) -> "Value":
        return operation("matmul")(other, self)

    def __and__(self, other: Operand) -> "Value":
        """``self & other`` of bools: `adjoint.ops.logical_and`."""
        return operation("logical_and")(self, other)

    def __rand__(self, other: Operand) -> "Value":
        return operation("logical_and")(other, self)

    def __or__(self, other: Operand) -> "Value":
        """``self | other`` of bools: `adjoint.ops.logical_or`."""
        return operation("logical_or")(self, other)

    def __ror__(self, other: Operand) -> "Value":
        return operation("logical_or")(other, self)

    def __xor__(self, other: Operand) -> "Value":
        """``self ^ other`` of bools: `adjoint.ops.logical_xor`."""
        return operation("logical_xor")(self, other)

    def __rxor__(self, other: Operand) -> "Value":
        return operation("logical_xor")(other, self)

    def __lt__(self, other: Operand) -> "Value":
        """``self < other``, element by element: `adjoint.ops.less`."""
        return operation("less")(self, other)

    def __le__(self, other: Operand) -> "Value":
        """``self <= other``, element by element: `adjoint.ops.less_equal`."""
        return operation("less_equal")(self, other)

    def __gt__(self, other: Operand) -> "Value":
        """``self > other``, element by element: `adjoint.ops.greater`."""
        return operation("greater")(self, other)

    def __ge__(self, other: Operand) -> "Value":
        """``self >= other``, element by element: `adjoint.ops.greater_equal`."""
        return operation("greater_equal")(self, other)

    def __neg__(self) -> "Value":
        """``-self``: `adjoint.ops.negative`."""
        return operation("negative")(self)

    def __abs__(self) -> "Value":
        """``abs(self)``: `adjoint.ops.abs`."""
        return operation("abs")(self)

    def __invert__(self) -> "Value":
        """``~self`` of bools: `adjoint.ops.logical_not`."""
        return operation("logical_not")(self)

    def __pos__(self) -> "Value":
        """``+self``, which is the value itself."""
        return self  # type: ignore[return-value]

    def __getitem__(self, key: "Index | tuple[Index, ...]") -> "Value":
        """``self[key]`` with NumPy's meaning: `adjoint.ops.getitem`."""
        return operation("getitem")(self, key)

    def __len__(self) -> int:
        """Size of the first axis."""
        if not getattr(self.type, "shape", ()):
            raise TypeRuleError(f"only a tensor with an axis has a length, got {self.type}; use its size or reshape it")
        size: int = self.type.shape[0]
        return size

    def __iter__(self) -> "Iterator[Value]":
        """The parts along the first axis, each a value of its own: the loop is part of building the graph."""
        if not getattr(self.type, "shape", ()):
            raise TypeRuleError(f"only a tensor with an axis can be iterated over, got {self.type}; reshape it")
        return (self[n] for n in range(len(self)))

    def __bool__(self) -> NoReturn:
        raise TypeRuleError(
            f"a graph value is neither true nor false until it is compiled and run, got {self.type}; select elements "
            "with ops.where"
        )

    # Hidden from type checkers, which would otherwise accept float(x) or take a value for an array.
    if not TYPE_CHECKING:

        def __float__(self) -> NoReturn:
            raise _no_number("float()", self.type)

        def __int__(self) -> NoReturn:
            raise _no_number("int()", self.type)

        def __complex__(self) -> NoReturn:
            raise _no_number("complex()", self.type)

        def __index__(self) -> NoReturn:
            raise _no_number("Python", self.type)

        def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
            raise TypeRuleError(
                f"a graph value has no elements for NumPy until it is compiled and run, got {self.type}; use the "
                "functions of adjoint.ops"
            )

        def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **settings: Any) -> Any:
            return called_by_numpy(self, function, method, inputs, settings)

        def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> NoReturn:
            raise refused_by_numpy(self, function.__name__)

        def __contains__(self, item: object) -> NoReturn:
            raise TypeRuleError(
                f"a graph value has no elements to search until it is compiled and run, got {self.type}; compare with "
                "ops.equal"
            )

        def __setitem__(self, key: object, item: object) -> NoReturn:
            raise TypeRuleError(
                f"a graph value cannot be changed, got an assignment to elements of {self.type}; build a new one with "
                "ops.where, ops.concat or ops.scatter_add"
            )


def _no_number(function: str, type_: object) -> TypeRuleError:
    return TypeRuleError(
        f"a graph value has no number until it is compiled and run, got {type_} where {function} needs one; convert "
        "with ops.cast, or compile the function and read its result"
    )
