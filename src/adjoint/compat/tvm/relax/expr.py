"""Expressions of Relax: graph values, tuples of them, and variables with their struct infos."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.compat.tvm.runtime import Tensor
from adjoint.compat.uncovered import uncovered
from adjoint.errors import TypeRuleError, kind_of
from adjoint.ir import TensorType, Value, as_dtype, param
from adjoint.lazy_dataclass import dataclass

__all__ = ["Call", "Constant", "Expr", "TensorStructInfo", "Tuple", "TupleStructInfo", "Var", "const"]
__getattr__ = uncovered(__name__, {}, "adjoint.ir")


@dataclass(frozen=True, slots=True)
class TensorStructInfo:
    """The shape and dtype of a tensor: ``TensorStructInfo((64, 10), "float32")``."""

    shape: tuple[int, ...]
    dtype: str

    def __init__(self, shape: Sequence[int] | int = (), dtype: Any = "float32") -> None:
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        if not all(isinstance(size, int | np.integer) for size in sizes):
            raise TypeRuleError(f"TensorStructInfo: sizes must be integers, got {sizes}; compile for one size each")
        object.__setattr__(self, "shape", tuple(int(size) for size in sizes))
        object.__setattr__(self, "dtype", str(np.dtype(as_dtype(dtype))))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def native(self) -> TensorType:
        """The type in adjoint."""
        return TensorType(self.shape, as_dtype(self.dtype))

    def __str__(self) -> str:
        return f'R.Tensor({self.shape}, dtype="{self.dtype}")'


@dataclass(frozen=True, slots=True)
class TupleStructInfo:
    """The struct infos of the items of a tuple."""

    fields: tuple[Any, ...]

    def __init__(self, fields: Sequence[Any]) -> None:
        object.__setattr__(self, "fields", tuple(fields))

    def __str__(self) -> str:
        return f"R.Tuple({', '.join(map(str, self.fields))})"


def info_of(type_: TensorType) -> TensorStructInfo:
    """The struct info of a type of adjoint."""
    return TensorStructInfo(type_.shape, type_.dtype)


class Expr:
    """An expression: a graph value or a tuple, and how it was computed.

    How it was computed is kept, because inference computes some operators otherwise than training.

    Parameters
    ----------
    value : Value or tuple of Expr
        The result.
    """

    def __init__(self, value: "Value | tuple[Expr, ...]") -> None:
        self.value = value

    @property
    def struct_info(self) -> Any:
        """Shape and dtype, or those of the items."""
        if isinstance(self.value, tuple):
            return TupleStructInfo([item.struct_info for item in self.value])
        return info_of(self.value.type)

    def operands(self) -> tuple["Expr", ...]:
        """The expressions that it is computed from."""
        return self.value if isinstance(self.value, tuple) else ()

    def again(self, known: "dict[Expr, Expr]") -> "Expr":
        """The expression of other operands: `known` has what is in their place."""
        if isinstance(self.value, tuple):
            return Tuple([known[item] for item in self.value])
        return self

    def __getitem__(self, index: int) -> "Expr":
        if not isinstance(self.value, tuple):
            raise TypeRuleError(f"an item is taken of a tuple, got {self.struct_info}; use R.take or R.strided_slice")
        return Item(self, index)

    def __len__(self) -> int:
        if not isinstance(self.value, tuple):
            raise TypeRuleError(f"a tuple has a length, got {self.struct_info}; read struct_info.shape")
        return len(self.value)

    def __iter__(self) -> Iterator["Expr"]:
        return (self[index] for index in range(len(self)))

    def __neg__(self) -> "Expr":
        return Call("negative", ops.negative, (self,), {})

    def __add__(self, other: Any) -> "Expr":
        return Call("add", ops.add, (self, other), {})

    def __radd__(self, other: Any) -> "Expr":
        return Call("add", ops.add, (other, self), {})

    def __sub__(self, other: Any) -> "Expr":
        return Call("subtract", ops.subtract, (self, other), {})

    def __rsub__(self, other: Any) -> "Expr":
        return Call("subtract", ops.subtract, (other, self), {})

    def __mul__(self, other: Any) -> "Expr":
        return Call("multiply", ops.multiply, (self, other), {})

    def __rmul__(self, other: Any) -> "Expr":
        return Call("multiply", ops.multiply, (other, self), {})

    def __truediv__(self, other: Any) -> "Expr":
        return Call("divide", ops.divide, (self, other), {})

    def __rtruediv__(self, other: Any) -> "Expr":
        return Call("divide", ops.divide, (other, self), {})

    def __pow__(self, other: Any) -> "Expr":
        return Call("power", ops.power, (self, other), {})

    def __repr__(self) -> str:
        return f"<Expr of {self.struct_info}>"


class Var(Expr):
    """A parameter of a function: ``Var("x", TensorStructInfo((64, 784), "float32"))``, or a tuple of them."""

    def __init__(self, name_hint: str, struct_info: Any = None) -> None:
        self.name_hint = name_hint
        if isinstance(struct_info, TupleStructInfo):
            super().__init__(tuple(Var(f"{name_hint}_{i}", one) for i, one in enumerate(struct_info.fields)))
            return
        if not isinstance(struct_info, TensorStructInfo):
            raise TypeRuleError(
                f"Var takes a struct info, got {kind_of(struct_info)} for {name_hint}; write "
                "relax.TensorStructInfo(shape, dtype)"
            )
        super().__init__(param(name_hint, struct_info.shape, struct_info.native.dtype))

    def again(self, known: dict[Expr, Expr]) -> Expr:  # noqa: ARG002
        """Itself."""
        return self

    @property
    def leaves(self) -> tuple[Value, ...]:
        """The parameters of the graph."""
        if isinstance(self.value, tuple):
            return tuple(leaf for item in self.value if isinstance(item, Var) for leaf in item.leaves)
        return (self.value,)

    def __repr__(self) -> str:
        return f"{self.name_hint}: {self.struct_info}"


class Tuple(Expr):
    """A tuple of expressions."""

    def __init__(self, fields: Sequence[Expr]) -> None:
        super().__init__(tuple(as_expr(field) for field in fields))


class Item(Expr):
    """An item of a tuple."""

    def __init__(self, of: Expr, index: int) -> None:
        assert isinstance(of.value, tuple)
        if not -len(of.value) <= index < len(of.value):
            raise TypeRuleError(f"the index must be below the number of items, {len(of.value)}, got {index}")
        super().__init__(of.value[index].value)
        self.of, self.index = of, index

    def operands(self) -> tuple[Expr, ...]:
        """The tuple."""
        return (self.of,)

    def again(self, known: dict[Expr, Expr]) -> Expr:
        """The item of another tuple."""
        return known[self.of][self.index]


class Constant(Expr):
    """A tensor that is part of the program."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        super().__init__(ops.constant(array))


def const(value: Any, dtype: Any = None) -> Constant:
    """A constant; Python numbers become int32 or float32, as in TVM."""
    if isinstance(value, Tensor):
        value = value.numpy()
    if dtype is None and not isinstance(value, np.ndarray):
        kind = np.asarray(value).dtype.kind
        dtype = {"i": "int32", "f": "float32"}.get(kind)
    return Constant(np.asarray(value, None if dtype is None else as_dtype(dtype)))


class Call(Expr):
    """The application of an operator.

    Parameters
    ----------
    name : str
        The operator as Relax calls it.
    made : callable
        What computes it of graph values: one, or a tuple of them.
    args, settings
        Its arguments, expressions among them.
    inference : callable, optional
        What computes it in inference; default: as in training.
    """

    def __init__(
        self,
        name: str,
        made: Callable[..., Any],
        args: Sequence[Any],
        settings: dict[str, Any],
        inference: Callable[..., Any] | None = None,
    ) -> None:
        self.name, self.made, self.args, self.settings, self.inference = name, made, tuple(args), settings, inference
        super().__init__(_wrapped(made(*map(unwrapped, self.args), **settings)))

    def operands(self) -> tuple[Expr, ...]:
        """The expressions among its arguments."""
        lists = [arg if isinstance(arg, list | tuple) else (arg,) for arg in self.args]
        return tuple(item for items in lists for item in items if isinstance(item, Expr))

    def again(self, known: dict[Expr, Expr]) -> Expr:
        """The operator in inference, of other operands."""

        def of(arg: Any) -> Any:
            if isinstance(arg, list | tuple):
                return type(arg)(map(of, arg))
            return known[arg] if isinstance(arg, Expr) else arg

        return Call(self.name, self.inference or self.made, [of(arg) for arg in self.args], self.settings)


def as_expr(given: Any) -> Expr:
    """An expression; numbers and arrays become constants."""
    if isinstance(given, Expr):
        return given
    if isinstance(given, tuple | list):
        return Tuple(given)
    if isinstance(given, int | float | np.ndarray | np.generic | Tensor):
        return const(given)
    raise TypeRuleError(f"an expression is expected, got {kind_of(given)}; use relax.Var, relax.const or an operator")


def unwrapped(arg: Any) -> Any:
    """What operators of adjoint take in place of an argument."""
    if isinstance(arg, Expr):
        return tuple(map(unwrapped, arg.value)) if isinstance(arg.value, tuple) else arg.value
    if isinstance(arg, list | tuple):
        return type(arg)(map(unwrapped, arg))
    return arg


def _wrapped(found: Any) -> Any:
    if isinstance(found, tuple | list):
        return tuple(Expr(_wrapped(item)) for item in found)
    return found
