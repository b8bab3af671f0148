"""`BlockBuilder`: functions built by calls."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from adjoint.compat.tvm.relax.expr import Expr, Tuple, Var, as_expr
from adjoint.compat.tvm.relax.function import Function
from adjoint.compat.tvm.relax.module import GlobalVar, IRModule
from adjoint.compat.uncovered import uncovered
from adjoint.errors import InvalidValueError

__all__ = ["BlockBuilder"]
__getattr__ = uncovered(__name__, {}, "adjoint.ir.Function")


class BlockBuilder:
    """Builds a module function by function.

    Parameters
    ----------
    mod : IRModule, optional
        The module to add to.
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        self._module = IRModule() if mod is None else IRModule(mod.functions, mod.attrs)
        self._name, self._attrs = "", dict[str, Any]()
        self._params: Sequence[Var] | Var | None = None
        self._result: Expr | None = None

    @contextmanager
    def function(
        self, name: str, params: Sequence[Var] | Var | None = None, attrs: Mapping[str, Any] | None = None,
        private: bool = False,
    ) -> Iterator[None]:  # fmt: skip
        """A function, whose result `emit_func_output` says within the block."""
        del private
        self._name, self._attrs, self._result = name, dict(attrs or {}), None
        self._params = params
        yield
        if self._result is None:
            raise InvalidValueError(f"BlockBuilder: {name} must have a result, got none; call emit_func_output")
        given = [self._params] if isinstance(self._params, Var) else list(self._params or ())
        self._module[name] = Function(given, self._result, name, self._attrs)

    @contextmanager
    def dataflow(self) -> Iterator[None]:
        """A block without side effects, as all of adjoint's graphs are."""
        yield

    def emit(self, expr: Any, name_hint: str = "") -> Expr:
        """A value of the function."""
        del name_hint
        return as_expr(expr)

    def emit_output(self, expr: Any, name_hint: str = "") -> Expr:
        """A value that leaves the block."""
        return self.emit(expr, name_hint)

    def normalize(self, expr: Any) -> Expr:
        """The expression itself."""
        return as_expr(expr)

    def emit_func_output(self, output: Any, params: Sequence[Var] | Var | None = None) -> GlobalVar:
        """What the function returns, and its parameters, if they have not been given yet."""
        if params is not None:
            self._params = params
        self._result = Tuple(output) if isinstance(output, tuple | list) else as_expr(output)
        return GlobalVar(self._name)

    def add_func(self, func: Function, func_name: str) -> GlobalVar:
        """Add a function."""
        self._module[func_name] = func
        return GlobalVar(func_name)

    def get(self) -> IRModule:
        """The module so far."""
        return self._module

    finalize = get
