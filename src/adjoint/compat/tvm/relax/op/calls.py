"""How an operator of Relax becomes a call of one of adjoint."""

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.compat.tvm.relax.expr import Call, Constant, Expr, as_expr
from adjoint.compat.uncovered import uncovered
from adjoint.errors import InvalidValueError

__all__: list[str] = []
__getattr__ = uncovered(__name__, {}, "adjoint.ops")

Operator = Callable[..., Expr]


def same(name: str, native: Callable[..., Any]) -> Operator:
    """An operator whose operands are those of adjoint's function, tensors alone."""

    def operator(*operands: Any) -> Expr:
        return Call(name, native, [x if isinstance(x, int | float) else as_expr(x) for x in operands], {})

    operator.__name__ = operator.__qualname__ = name.rpartition(".")[2]
    operator.__doc__ = f"As `adjoint.ops.{native.__name__}`."
    operator.__module__ = f"adjoint.compat.tvm.relax.op{'.nn' if name.startswith('nn.') else ''}"
    return operator


def reduction(name: str, native: Callable[..., Any]) -> Operator:
    """A reduction: ``(x, axis=None, keepdims=False)``."""

    def operator(x: Any, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Expr:
        return Call(name, native, (as_expr(x),), {"axis": axes(axis), "keepdims": keepdims})

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"As `adjoint.ops.{native.__name__}`."
    operator.__module__ = "adjoint.compat.tvm.relax.op"
    return operator


def axes(axis: int | Sequence[int] | None) -> int | tuple[int, ...] | None:
    """One axis or several, as adjoint takes them."""
    return axis if axis is None or isinstance(axis, int) else tuple(int(one) for one in axis)


def number(given: Any, what: str) -> float:
    """A number, or a constant of one element."""
    if isinstance(given, Constant):
        given = given.array.item()
    if not isinstance(given, int | float):
        raise InvalidValueError(f"{what} must be a number that is known when the program is compiled, got {given!r}")
    return given


def pads(padding: int | Sequence[int], count: int) -> Any:
    """Paddings of `count` axes, as adjoint takes them: TVM lists all those before the axes, then those after them."""
    given = [padding] if isinstance(padding, int) else list(padding)
    if len(given) == 2 * count:
        return tuple(zip(given[:count], given[count:], strict=True))
    if len(given) not in (1, count):
        raise InvalidValueError(f"padding must be 1, {count} or {2 * count} numbers, got {padding!r}")
    return tuple(given * count if len(given) == 1 else given)


def only(what: str, given: Any, *covered: Any) -> None:
    """Raise unless a setting has a covered value."""
    if given not in covered:
        raise InvalidValueError(
            f"{what} must be {' or '.join(map(repr, covered))}, got {given!r}; transpose the operands"
        )
