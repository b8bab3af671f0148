"""``R``: functions, struct infos and operators."""

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.compat.tvm.relax import op
from adjoint.compat.tvm.relax.expr import Call, Expr, TensorStructInfo, TupleStructInfo, as_expr, const
from adjoint.compat.tvm.relax.op import *  # noqa: F403
from adjoint.compat.tvm.script.ir import names_around
from adjoint.compat.tvm.script.parser import parse_function
from adjoint.compat.uncovered import uncovered
from adjoint.ir import apply, as_dtype
from adjoint.ops.catalogue import OPERATORS

__all__ = ["Tensor", "Tuple", "adjoint", "const", "dataflow", "func_attr", "function", "output", "tuple", *op.__all__]
__getattr__ = uncovered(__name__, {}, "adjoint.ops")


def function(func: Callable[..., Any] | None = None, *, private: bool = False, pure: bool = True) -> Any:
    """A function, read from its source; in a class with `ir_module`, the class reads it."""
    del private, pure
    if func is None:
        return function
    if func.__qualname__.rpartition(".")[0].rpartition(".")[2] not in ("", "<locals>"):
        return func  # a method
    return parse_function(func, names_around(1))


def Tensor(shape: Sequence[int] = (), dtype: Any = "float32", ndim: int | None = None) -> TensorStructInfo:  # noqa: N802
    """The struct info of a tensor."""
    del ndim
    return TensorStructInfo(shape, dtype)


def Tuple(*fields: Any) -> TupleStructInfo:  # noqa: N802
    """The struct info of a tuple."""
    return TupleStructInfo(fields[0] if len(fields) == 1 and isinstance(fields[0], list) else fields)


def tuple(*fields: Any) -> Expr:
    """A tuple."""
    return as_expr(list(fields))


def dataflow() -> None:
    """A block of a function; read, not executed."""


def output(*values: Any) -> None:
    """What leaves a block; read, not executed."""


def func_attr(attrs: dict[str, Any]) -> None:
    """Attributes of a function; read, not executed."""


def adjoint(name: str, *operands: Any, **attributes: Any) -> Expr:
    """An operator of adjoint's catalogue that Relax does not have."""
    given = {k: as_dtype(v) if isinstance(v, str) and k.endswith("dtype") else v for k, v in attributes.items()}
    return Call(name, lambda *values: apply(OPERATORS[name](**given), *values), [as_expr(x) for x in operands], {})
