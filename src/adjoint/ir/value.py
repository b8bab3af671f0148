"""The two building blocks of graphs: `Op`, an operation, and `Value`, the result of applying one.

Both are frozen. A graph is everything that its results reach through `Value.inputs`; there is no builder, trace context
or hidden state. Values, as nodes, compare by identity; `Function` compares by structure.
"""

import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import fields
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np

from adjoint.errors import TypeRuleError, described, kind_of, value_line
from adjoint.ir.literals import exact
from adjoint.ir.methods import Methods
from adjoint.ir.missing import Missing
from adjoint.ir.types import TensorType, TupleType
from adjoint.lazy_dataclass import dataclass

__all__ = ["Immutable", "Op", "Param", "Value", "apply", "infer_type", "param", "toposort"]


def _attribute_names(cls: Any) -> tuple[str, ...]:
    return _field_names(cls)


@cache
def _field_names(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cls))


@dataclass(frozen=True, slots=True)
class Op:
    """An operation. A subclass is a frozen dataclass whose fields are its attributes.

    The IR needs only `name` and `infer`; `adjoint.ops.base.Operator` adds the rest of an operator's contract
    (reference, gradient, lowering, samples).
    """

    name: ClassVar[str]

    def infer(self, *inputs: Any) -> TensorType | TupleType:
        """The type of the result, or a TypeRuleError with the rule, the operands' types and the fix."""
        given = ", ".join(map(str, inputs)) or "no operands"
        raise TypeRuleError(
            f"{type(self).__name__}: an operator must define infer(self, ...), which returns the type of the result, "
            f"got none for {given}; add it"
        )

    def attributes(self) -> dict[str, Any]:
        """Attribute values by name, in declaration order."""
        return {name: getattr(self, name) for name in _attribute_names(type(self))}

    def key(self, symbol: Callable[[Any], Hashable] | None = None) -> Hashable:
        """A key shared by ops that compute the same: 0.0 differs from -0.0, NaN equals NaN.

        Parameters
        ----------
        symbol : callable, optional
            Maps a Function among the attributes to its key; default: the Function itself.
        """
        return (type(self), *(exact(getattr(self, name), symbol) for name in _attribute_names(type(self))))


@dataclass(frozen=True, slots=True)
class Param(Op):
    """The op of a function parameter: a value without inputs that the caller supplies."""

    name: ClassVar[str] = "param"
    type: TensorType

    def infer(self) -> TensorType:
        """The declared type."""
        return self.type


class Immutable:
    """What never changes and is therefore its own copy."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Value(Immutable, Methods, Missing):
    """One tensor (or tuple) in a graph: an op applied to inputs.

    Python's operators, indexing and the usual methods build graphs: ``x * 2 + b``, ``x[:, 1:]``, ``x.sum(0)``. ``==``
    and ``!=`` compare objects, because values are keys of dictionaries; `adjoint.ops.equal` compares elements.

    Parameters
    ----------
    op : Op
        The operation that computes it.
    inputs : tuple of Value
        The operands.
    type : TensorType or TupleType
        The type that `op.infer` returned.
    label : str, default ""
        A hint for the printed name, without meaning.
    number : int, optional
        The number that a value without a label prints under; default: printing chooses one.
    line : str, default ""
        The line of code that created it, or created what it was derived from, as ``file:line``; "" if unknown.

    Label, number and line do not count when graphs are compared.
    """

    op: Op
    inputs: tuple["Value", ...]
    type: Any  # TensorType, except for a call with several results, which has a TupleType
    label: str = ""
    number: int | None = None
    line: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        shape: tuple[int, ...] = self.type.shape
        return shape

    @property
    def dtype(self) -> np.dtype:
        """Dtype of the tensor."""
        dtype: np.dtype = self.type.dtype
        return dtype

    def named(self, label: str) -> "Value":
        """The same value with another label (a new node)."""
        return Value(self.op, self.inputs, self.type, label, None, self.line)

    def with_inputs(self, inputs: tuple["Value", ...]) -> "Value":
        """The same operation on other inputs of the same types, under the same name; itself if they are its inputs."""
        if all(a is b for a, b in zip(inputs, self.inputs, strict=True)):
            return self
        return Value(self.op, inputs, self.type, self.label, self.number, self.line)

    def in_place_of(self, other: "Value") -> "Value":
        """The same value under the name and the line of an equal one, which it replaces."""
        return Value(self.op, self.inputs, self.type, other.label, other.number, other.line)

    def __repr__(self) -> str:
        return f"<Value {self.label or '_'}: {self.type} = {self.op.name}>"


def infer_type(op: Op, types: tuple[TensorType | TupleType, ...]) -> TensorType | TupleType:
    """The result type of `op` for operands of these types.

    Raises
    ------
    TypeRuleError
        If the op's own rule is violated, the number of operands is wrong, or an operand is a tuple.
    """
    try:
        found: Any = op.infer(*types)
        if not isinstance(found, TensorType | TupleType):
            raise TypeRuleError(
                f"{type(op).__name__}.infer must return a TensorType, got {described(found)}; return the type of the "
                "result"
            )
        return found
    except TypeRuleError:
        raise
    except (AttributeError, TypeError) as error:
        given = ", ".join(map(str, types)) or "none"
        try:
            inspect.signature(op.infer).bind(*types)
        except TypeError:
            raise TypeRuleError(f"{op.name}: wrong number of operands, got {given}") from error
        if any(isinstance(type_, TupleType) for type_ in types):
            raise TypeRuleError(
                f"{op.name}: operands must be tensors, got {given}; extract the items of the tuple with tuple_get"
            ) from error
        raise


def apply(op: Op, *inputs: Value, label: str = "") -> Value:
    """Apply `op` to `inputs`: infer the type and create the value, with the line of code that does so."""
    types = []
    for value in inputs:
        if not isinstance(value, Value):
            raise TypeRuleError(f"{op.name}: operands must be graph values, got {type(value).__name__}")
        types.append(value.type)
    return Value(op, inputs, infer_type(op, tuple(types)), label, None, value_line())


def param(name: str, shape: int | Iterable[int], dtype: object = "f32") -> Value:
    """A function parameter.

    Parameters
    ----------
    name : str
        Its name, which is part of the function's interface and must be unique in it: letters, digits and underscores,
        in parts that may be separated by dots, such as ``conv0.weight`` or ``layers.0.bias``.
    shape : int or iterable of int
        Its shape; a number is the size of the only axis.
    dtype : str or numpy dtype, default "f32"
        Its dtype.

    Raises
    ------
    TypeRuleError
        If the name, the shape or the dtype is not one.
    """
    if not isinstance(name, str):
        raise TypeRuleError(
            f"param takes a name, then a shape, got {kind_of(name)} as the name; write param('x', (4, 3))"
        )
    if not all(part and f"_{part}".isidentifier() for part in name.split(".")):
        raise TypeRuleError(
            "a parameter name must be letters, digits and underscores, in parts separated by dots as in "
            f"layers.0.weight, got {name!r}; rename it"
        )
    if isinstance(shape, str) or not isinstance(shape, int | np.integer | Iterable):
        raise TypeRuleError(
            f"param: the shape of {name} must be a tuple of sizes, got {kind_of(shape)}; write param({name!r}, (4, 3))"
        )
    sizes = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    type_ = TensorType(sizes, dtype)  # type: ignore[arg-type]
    return Value(Param(type_), (), type_, name, None, value_line())


def toposort(results: Iterable[Value]) -> list[Value]:
    """Every value reachable from `results`, inputs before users, in a deterministic order.

    Iterative and linear, because graphs are deeper than Python's recursion limit.
    """
    order: list[Value] = []
    seen: set[Value] = set()
    for root in results:
        if root in seen:
            continue
        seen.add(root)
        stack: list[tuple[Value, Iterator[Value]]] = [(root, iter(root.inputs))]
        while stack:
            value, pending = stack[-1]
            for operand in pending:
                if operand not in seen:
                    seen.add(operand)
                    stack.append((operand, iter(operand.inputs)))
                    break
            else:
                order.append(value)
                stack.pop()
    return order
